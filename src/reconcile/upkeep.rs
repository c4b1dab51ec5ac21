//! Pruning, on its own loop: batches until nothing is over, then a long rest.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::config::Settings;
use crate::domain::ledger::PlanEffects;
use crate::store::{Pruned, Retention, Store, StoreError};
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
    /// Upkeep with the configured retention.
    pub fn new(
        store: Store,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        settings: &Settings,
    ) -> Self {
        let retention = Retention {
            operations: settings.ledger.retention,
            tombstones: settings.ledger.tombstone_retention,
            events: settings.store.event_retention,
            finished: FINISHED,
        };
        Self {
            store,
            planner,
            clock,
            retention,
        }
    }

    /// Removes one batch.
    pub async fn step(&self) -> Result<Pruned, StoreError> {
        let planner = Arc::clone(&self.planner);
        let pruned = self.store.prune(self.retention, planner).await?;
        metrics::pruned(pruned.operations);
        Ok(pruned)
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
                Ok(_) => {
                    if let Err(error) = self.store.tidy().await {
                        tracing::warn!(%error, "could not give free pages back");
                    }
                    REST
                }
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
