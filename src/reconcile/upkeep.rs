//! Pruning, on its own loop: batches until nothing is over, then free pages are given back, then a
//! long rest. The operator may ask for a turn in between; both only ever remove whole batches, so it
//! does not matter who comes first.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::config::Settings;
use crate::domain::ledger::PlanEffects;
use crate::store::{Over, Pruned, Retention, Store, StoreError};
use crate::telemetry::metrics;

/// Rest between prunings.
pub const REST: Duration = Duration::from_mins(10);
/// Pause between two batches, so that deliveries never queue behind pruning.
const BREATH: Duration = Duration::from_millis(50);
/// Finished work items are kept this long, for people to look at.
pub const FINISHED: Duration = Duration::from_hours(24 * 7);

/// Prunes what is over.
#[derive(Debug)]
pub struct Upkeep {
    store: Store,
    planner: Arc<dyn PlanEffects>,
    clock: Arc<dyn Clock>,
    retention: Retention,
}

impl Upkeep {
    /// The configured retention.
    pub const fn retention(settings: &Settings) -> Retention {
        Retention {
            operations: settings.ledger.retention,
            tombstones: settings.ledger.tombstone_retention,
            events: settings.store.event_retention,
            bodies: settings.store.body_retention,
            finished: FINISHED,
        }
    }

    /// Upkeep with the configured retention.
    pub fn new(
        store: Store,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        settings: &Settings,
    ) -> Self {
        Self {
            store,
            planner,
            clock,
            retention: Self::retention(settings),
        }
    }

    /// Removes one batch.
    pub async fn step(&self) -> Result<Pruned, StoreError> {
        let planner = Arc::clone(&self.planner);
        let pruned = self.store.prune(self.retention, planner).await?;
        metrics::pruned(pruned.operations);
        Ok(pruned)
    }

    /// What is over now, and would be removed.
    pub async fn over(&self) -> Result<Vec<Over>, StoreError> {
        self.store.over(self.retention, self.clock.now()).await
    }

    /// Removes what is over, batch by batch, for about `patience`. Answers what went, and whether
    /// there may be more.
    pub async fn prune_for(&self, patience: Duration) -> Result<(Pruned, bool), StoreError> {
        let until = self.clock.monotonic() + patience;
        let mut all = Pruned::default();
        while self.clock.monotonic() < until {
            let pruned = self.step().await?;
            if !pruned.any() {
                self.give_back(until).await?;
                return Ok((all, false));
            }
            all += pruned;
            self.clock.sleep(BREATH).await;
        }
        Ok((all, true))
    }

    /// Gives free pages back until there are none, or until then.
    async fn give_back(&self, until: Duration) -> Result<(), StoreError> {
        while self.store.tidy().await? > 0 && self.clock.monotonic() < until {
            self.clock.sleep(BREATH).await;
        }
        Ok(())
    }

    /// Prunes until `group` stops.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        loop {
            heart.beat();
            metrics::loop_turn("upkeep");
            let wait = match self.step().await {
                Ok(pruned) if pruned.any() => {
                    tracing::debug!(?pruned, "pruned");
                    BREATH
                }
                Ok(_) => match self.store.tidy().await {
                    Ok(0) => REST,
                    Ok(_) => BREATH,
                    Err(error) => {
                        tracing::warn!(%error, "could not give free pages back");
                        REST
                    }
                },
                Err(error) => {
                    tracing::error!(%error, "pruning failed");
                    REST
                }
            };
            tokio::select! {
                () = group.stopping() => return,
                () = self.clock.sleep(wait) => {}
            }
        }
    }
}
