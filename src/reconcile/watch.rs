//! Watching what holds the others up: the loops, and the disk.
//!
//! Problem: `/healthz` tells about a loop that is silent and about a full disk when somebody asks;
//! nobody may be asking.
//!
//! Design: a loop of its own that looks at the other loops and at the free space beside the file every
//! `INTERVAL`, and opens and ends an alert for each. A loop is dead when it is silent past its bound,
//! or has panicked or ended unasked; since it is started again at once, the alert about that ends only
//! when it has lived for `CALM`. The disk's alert ends when a quarter more than its threshold is free,
//! so that a disk at the threshold does not alert over and over.
//!
//! Who watches this loop: `/healthz` and the metric `hookledger_loop_age_seconds`. An alert from it that
//! cannot be written, because the disk has no room left at all, is written when there is room again.
//!
//! Races: none that last. What is known between turns is only when each loop died last; a process that
//! starts ends the alerts of the one before at its first turn if their cause is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytesize::ByteSize;

use crate::base::clock::Clock;
use crate::base::shutdown::{Heartbeat, LoopHealth, Shutdown, silent_after};
use crate::domain::ledger::PlanEffects;
use crate::store::{Store, StoreError};
use crate::telemetry::metrics;

/// Time between two turns.
pub const INTERVAL: Duration = Duration::from_secs(15);
/// The subject of the alert about the disk.
pub const DISK_ALERT: &str = "store/disk";

/// The loop's own name.
const NAME: &str = "watch";
/// A loop that was started again and has lived for so long is well.
const CALM: Duration = Duration::from_mins(5);

/// Tells how many bytes are free beside the file, if the system tells.
pub type TellFree = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// What is watched.
pub struct Watched {
    /// The group whose loops must turn.
    pub loops: Shutdown,
    /// How long each loop may rest between two turns, by its name.
    pub intervals: Vec<(&'static str, Duration)>,
    /// The free space.
    pub disk_free: TellFree,
    /// Free bytes below which the disk counts as nearly full.
    pub low_free_disk: u64,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("low_free_disk", &self.low_free_disk)
            .finish_non_exhaustive()
    }
}

/// The subjects whose alerts a turn changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// Alerts opened.
    pub opened: Vec<String>,
    /// Alerts that ended.
    pub recovered: Vec<String>,
}

/// Watches.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    planner: Arc<dyn PlanEffects>,
    clock: Arc<dyn Clock>,
    watched: Watched,
    deaths: Mutex<BTreeMap<&'static str, Deaths>>,
}

/// What is known of a loop's deaths.
#[derive(Debug, Clone, Copy, Default)]
struct Deaths {
    seen: u64,
    last: Option<Duration>,
}

impl Watch {
    /// Watches `watched`.
    pub fn new(
        store: Store,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        watched: Watched,
    ) -> Self {
        metrics::disk_low(watched.low_free_disk);
        Self {
            store,
            planner,
            clock,
            watched,
            deaths: Mutex::default(),
        }
    }

    /// One turn.
    pub async fn step(&self) -> Result<Turn, StoreError> {
        let mut turn = Turn::default();
        for one in self.watched.loops.loops() {
            if one.name != NAME {
                let cause = self.dead(&one);
                self.judge(format!("loop/{}", one.name), cause, &mut turn)
                    .await?;
            }
        }
        self.end_what_nobody_watches(&mut turn).await?;
        if let Some(free) = (self.watched.disk_free)() {
            let cause = self.nearly_full(free).await?;
            self.judge(DISK_ALERT.to_owned(), cause, &mut turn).await?;
        }
        Ok(turn)
    }

    /// An alert of a loop that this process does not start, by its settings, has nobody else to end it.
    async fn end_what_nobody_watches(&self, turn: &mut Turn) -> Result<(), StoreError> {
        let starts = |name: &str| self.watched.intervals.iter().any(|(one, _)| *one == name);
        for alert in self.store.open_alerts().await? {
            let orphan = match alert.subject.split_once('/') {
                Some(("loop", name)) => !starts(name),
                Some(("subscription", _)) => !starts("subscription"),
                _ => false,
            };
            if orphan {
                self.judge(alert.subject, None, turn).await?;
            }
        }
        Ok(())
    }

    /// Why a loop counts as dead. One that was asked to stop is silent by right.
    fn dead(&self, one: &LoopHealth) -> Option<String> {
        if self.watched.loops.is_stopping() {
            return None;
        }
        let now = self.clock.monotonic();
        let deaths = {
            let mut all = self
                .deaths
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let of = all.entry(one.name).or_default();
            if one.restarts > of.seen {
                *of = Deaths {
                    seen: one.restarts,
                    last: Some(now),
                };
            }
            *of
        };
        let intervals = self.watched.intervals.iter();
        let own = intervals.filter(|(name, _)| *name == one.name).map(|i| i.1);
        if one.age > silent_after(own.max().unwrap_or_default()) {
            let age = humantime::format_duration(Duration::from_secs(one.age.as_secs()));
            return Some(format!(
                "the loop {} has been silent for {age}; a restart of the service frees it",
                one.name
            ));
        }
        deaths.last.is_some_and(|last| now < last + CALM).then(|| {
            format!(
                "the loop {} died and was started again, {} time(s) since the service started; \
                     the log says why",
                one.name, deaths.seen
            )
        })
    }

    /// Why the disk counts as nearly full.
    async fn nearly_full(&self, free: u64) -> Result<Option<String>, StoreError> {
        let low = self.watched.low_free_disk;
        let is_open = self.store.is_alert_open(DISK_ALERT).await?;
        let enough = if is_open { low + low / 4 } else { low };
        Ok((free < enough).then(|| {
            format!(
                "only {} are free beside the ledger, and store.low_free_disk is {}; below \
                 store.min_free_disk the service says that it is not ready",
                ByteSize(free),
                ByteSize(low)
            )
        }))
    }

    /// Opens the alert if there is a cause and ends it if there is none. Reading is cheap, a write is
    /// a commit: it is made only for a change.
    async fn judge(
        &self,
        subject: String,
        cause: Option<String>,
        turn: &mut Turn,
    ) -> Result<(), StoreError> {
        let is_open = self.store.is_alert_open(&subject).await?;
        let planner = Arc::clone(&self.planner);
        match cause {
            Some(summary) if !is_open => {
                self.store
                    .open_alert(subject.clone(), summary, planner)
                    .await?;
                turn.opened.push(subject);
            }
            None if is_open => {
                self.store.recover_alert(subject.clone(), planner).await?;
                turn.recovered.push(subject);
            }
            _ => {}
        }
        Ok(())
    }

    /// Watches until `group` stops.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        loop {
            heart.beat();
            metrics::loop_turn(NAME);
            if let Err(error) = self.step().await {
                tracing::error!(%error, "a turn of the watch failed");
            }
            tokio::select! {
                () = group.stopping() => return,
                () = self.clock.sleep(INTERVAL) => {}
            }
        }
    }
}
