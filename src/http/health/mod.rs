//! Whether the service works, for probes and for people.
//!
//! | path | question | 503 when |
//! |---|---|---|
//! | `/livez` | does the process turn? | never |
//! | `/readyz` | would a delivery be committed now? | a write or a read fails, or the disk is nearly full |
//! | `/healthz` | must somebody do something? | as above, or a loop is silent past its bound |
//!
//! What neither a restart nor a person here can mend (a paused key is told by an alert, a backlog by
//! its age) is 200 with `degraded`: a supervisor that restarts on it would only make it worse.
//! The public listener says the one word; the operator's says why.
//!
//! A probe writes, so it is made at most once a second: whoever comes while one runs waits for its
//! result, so that probing cannot slow the writer down.

mod cached;
mod probe;
mod report;
mod routes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use probe::{Answer, Figures, Probe};
pub use report::{LoopReport, Report, Status};
pub use routes::{detailed_router, public_health_router};

use crate::base::clock::{Clock, Timestamp};
use crate::base::shutdown::{LoopHealth, Shutdown, silent_after};
use crate::store::Store;
use crate::work::Fetching;
use cached::Cached;

/// Tells whether the API can be asked.
pub type TellFetching = Arc<dyn Fn() -> Fetching + Send + Sync>;

/// Due work older than this is late.
const LATE_AFTER: Duration = Duration::from_mins(10);

/// What health is told about the service.
pub struct Watched {
    /// The store that must commit.
    pub store: Store,
    /// For ages.
    pub clock: Arc<dyn Clock>,
    /// The groups whose loops must turn.
    pub groups: Vec<Shutdown>,
    /// Longest regular pause between two turns of a loop, by its name. A loop is silent after three
    /// of them, and never before two minutes.
    pub loop_intervals: Vec<(&'static str, Duration)>,
    /// Free bytes below which the disk counts as full.
    pub min_free_disk: u64,
    /// Whether the API can be asked.
    pub fetching: TellFetching,
}

/// Answers whether the service works.
pub struct Health {
    watched: Watched,
    probe: Cached<Probe>,
    figures: Cached<Option<Figures>>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("loops", &self.loops())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("min_free_disk", &self.min_free_disk)
            .finish_non_exhaustive()
    }
}

impl Health {
    /// Watches these parts.
    pub fn new(watched: Watched) -> Self {
        Self {
            watched,
            probe: Cached::default(),
            figures: Cached::default(),
        }
    }

    /// Whether a write and a read work, at most a second old.
    pub async fn probe(&self) -> Probe {
        let now = self.watched.clock.monotonic();
        self.probe
            .get(now, |before| probe::probe(&self.watched.store, before))
            .await
    }

    /// Figures about what is stored, at most a second old. `None` when they could not be read.
    pub async fn figures(&self) -> Option<Figures> {
        let now = self.watched.clock.monotonic();
        self.figures
            .get(now, |_| probe::figures(&self.watched.store))
            .await
    }

    /// Whether a delivery would be committed now.
    pub async fn is_ready(&self) -> bool {
        self.readiness(&self.probe().await)
    }

    /// Everything, with its judgement.
    pub async fn report(&self) -> Report {
        report::report(self, self.probe().await, self.figures().await)
    }

    /// Wall time.
    pub fn now(&self) -> Timestamp {
        self.watched.clock.now()
    }

    /// How every loop of every group is doing.
    pub fn loops(&self) -> Vec<LoopHealth> {
        self.watched
            .groups
            .iter()
            .flat_map(Shutdown::loops)
            .collect()
    }

    /// Whether the API can be asked.
    pub fn fetching(&self) -> Fetching {
        (self.watched.fetching)()
    }

    /// Whether all fetching is paused.
    pub fn is_fetching_paused(&self) -> bool {
        self.fetching() == Fetching::KeyRefused
    }

    /// Bytes of deliveries that wait for their commit.
    pub fn waiting_bytes(&self) -> u64 {
        self.watched.store.waiting_bytes()
    }

    fn readiness(&self, probe: &Probe) -> bool {
        probe.writer == Answer::Ok && probe.reader == Answer::Ok && !self.is_disk_low(probe)
    }

    fn is_disk_low(&self, probe: &Probe) -> bool {
        let min = self.watched.min_free_disk;
        probe.disk_free.is_some_and(|free| free < min)
    }

    /// After how much silence a loop counts as silent.
    pub fn bound(&self, name: &str) -> Duration {
        let intervals = self.watched.loop_intervals.iter();
        let own = intervals.filter(|(n, _)| *n == name).map(|(_, i)| *i);
        silent_after(own.max().unwrap_or_default())
    }
}
