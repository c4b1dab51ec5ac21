//! Which tasks stop together.

use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::shutdown::Shutdown;

/// Tasks by the stage in which they stop.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// Loops and what they started.
    pub(super) work: Shutdown,
    /// Listeners and their connections.
    pub(super) doors: Shutdown,
    /// Deliveries on their way to disk.
    pub(super) commits: Shutdown,
    /// The store's writer.
    pub(super) store: Shutdown,
    /// Who exports traces.
    pub(super) traces: Shutdown,
}

impl Groups {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let group = || Shutdown::new(Arc::clone(clock));
        Self {
            work: group(),
            doors: group(),
            commits: group(),
            store: group(),
            traces: group(),
        }
    }
}
