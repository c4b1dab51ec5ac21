//! A bounded number of things at once, with a gauge that follows it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::telemetry::metrics;

/// Permits for deliveries being handled.
#[derive(Debug)]
pub(super) struct Permits {
    free: Arc<Semaphore>,
    all: usize,
}

/// One delivery being handled.
#[derive(Debug)]
pub(super) struct Permit {
    held: Option<OwnedSemaphorePermit>,
    free: Arc<Semaphore>,
    all: usize,
}

impl Permits {
    pub(super) fn new(all: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(all)),
            all,
        }
    }

    /// A permit, if one is free right now.
    pub(super) fn take(&self) -> Option<Permit> {
        let held = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let permit = Permit {
            held: Some(held),
            free: Arc::clone(&self.free),
            all: self.all,
        };
        permit.tell();
        Some(permit)
    }
}

impl Permit {
    fn tell(&self) {
        metrics::in_flight(self.all.saturating_sub(self.free.available_permits()) as u64);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.held = None;
        self.tell();
    }
}
