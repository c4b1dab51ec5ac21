//! Floor 4: finding what no webhook ever told.
//!
//! One turn, each part following an index over what is due:
//! 1. leases that ran out are freed, and sends that were cut off;
//! 2. operations whose next look is due get a work item (the worker is the only one to ask the API);
//! 3. operations that are pending for too long are flagged, once, with an alert;
//! 4. endings that are old enough are counted: told by a webhook, rescued (which alerts), or without an
//!    event;
//! 5. settled operations whose effects are missing get them planned;
//! 6. dead work items raise one alert, which ends when there are none.
//!
//! Each part is harmless to repeat, so a turn that is cut off is simply made again.
//!
//! [`upkeep`] prunes, [`subscription`] looks after the provider's record, and [`watch`] watches the loops
//! and the disk, on loops of their own.

mod reenable;
pub mod rescued;
pub mod rotation;
pub mod standing;
pub mod subscription;
pub mod upkeep;
pub mod wanted;
pub mod watch;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::clock::{Clock, Timestamp};
use crate::base::failpoint::failpoint;
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::config::Settings;
use crate::domain::effect::AmbiguousPolicy;
use crate::domain::ledger::PlanEffects;
use crate::store::{Store, StoreError, Told};
use crate::telemetry::metrics;

/// The subject of the alert about dead work items.
pub const DEAD_ALERT: &str = "queue/dead";

/// What one turn did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// Leases freed.
    pub leases_freed: u64,
    /// Sends freed as ambiguous.
    pub sends_freed: u64,
    /// Looks queued.
    pub looks_queued: u64,
    /// Operations flagged overdue.
    pub overdue: u64,
    /// Endings decided, of which…
    pub decided: u64,
    /// …no webhook told.
    pub rescued: u64,
    /// Operations whose missing effects were planned.
    pub repaired: u64,
}

/// Longest pause before a look at a pending operation. A look that is put off for much longer was
/// planned by a clock that has been set back since.
pub fn longest_pause(settings: &Settings) -> Duration {
    let reconcile = &settings.reconcile;
    let after_an_event = Duration::from_mins(1);
    reconcile.check_max.max(reconcile.grace).max(after_an_event)
}

/// Where the audit of the outbox goes on.
type AuditCursor = Option<(Timestamp, String)>;

/// Sweeps the ledger.
#[derive(Debug)]
pub struct Reconciler {
    store: Store,
    planner: Arc<dyn PlanEffects>,
    policies: Vec<(String, AmbiguousPolicy)>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    check_min: Duration,
    check_max: Duration,
    longest_pause: Duration,
    batch_size: u32,
    give_up_after: Duration,
    max_attempts: u32,
    audit: Mutex<AuditCursor>,
    last_rescued: rescued::LastRescued,
}

impl Reconciler {
    /// A reconciler as configured. `policies`: the effects and what an unknown end means for each.
    pub fn new(
        store: Store,
        planner: Arc<dyn PlanEffects>,
        policies: Vec<(String, AmbiguousPolicy)>,
        clock: Arc<dyn Clock>,
        settings: &Settings,
    ) -> Self {
        Self {
            store,
            planner,
            policies,
            last_rescued: rescued::LastRescued::new(&*clock),
            clock,
            interval: settings.reconcile.interval,
            check_min: settings.reconcile.check_min,
            check_max: settings.reconcile.check_max,
            longest_pause: longest_pause(settings),
            batch_size: settings.reconcile.batch_size,
            give_up_after: settings.delivery.give_up_after,
            max_attempts: settings.worker.max_attempts,
            audit: Mutex::default(),
        }
    }

    /// At start-up: every lease and every send of the process before is void.
    pub async fn recover(&self) -> Result<Turn, StoreError> {
        self.free(true).await
    }

    /// One turn.
    pub async fn step(&self) -> Result<Turn, StoreError> {
        let planner = || Arc::clone(&self.planner);
        let mut turn = self.free(false).await?;
        failpoint!("fp-r2");
        turn.looks_queued = self
            .store
            .queue_due_looks(self.batch_size, self.check_max, self.longest_pause)
            .await?;
        turn.overdue = self
            .store
            .flag_overdue(self.give_up_after, planner())
            .await?;
        let endings = self
            .store
            .decide_told(rescued::RESCUED_ALERT, rescued::summary, planner())
            .await?;
        for decided in &endings {
            turn.decided += 1;
            match decided.told {
                Told::Rescued => {
                    turn.rescued += 1;
                    metrics::webhook_rescued();
                    tracing::warn!(
                        operation = %decided.name,
                        "no webhook told this ending; reconciliation found it"
                    );
                }
                Told::NoEvent => metrics::no_event_expected(),
                Told::Undecided | Told::Webhook | Told::Late => {}
            }
        }
        self.last_rescued
            .judge(&endings, &self.store, &*self.clock, planner())
            .await?;
        let page = self.audit_cursor().clone();
        let (repaired, next) = self
            .store
            .repair_effects(page, self.give_up_after, planner())
            .await?;
        *self.audit_cursor() = next;
        turn.repaired = repaired;
        self.watch_dead().await?;
        Ok(turn)
    }

    async fn free(&self, all: bool) -> Result<Turn, StoreError> {
        let leases_freed = self.store.rescue_leases(self.max_attempts, all).await?;
        let planner = Arc::clone(&self.planner);
        let sends_freed = self
            .store
            .free_sends(all, self.policies.clone(), planner)
            .await?;
        Ok(Turn {
            leases_freed,
            sends_freed,
            ..Turn::default()
        })
    }

    async fn watch_dead(&self) -> Result<(), StoreError> {
        let dead = self.store.dead_items().await?;
        let planner = Arc::clone(&self.planner);
        if dead > 0 {
            let were = match dead {
                1 => "1 work item was".to_owned(),
                more => format!("{more} work items were"),
            };
            let summary = format!("{were} given up; see `hookledger queue list --state dead`");
            self.store
                .open_alert(DEAD_ALERT.to_owned(), summary, planner)
                .await?;
        } else {
            self.store
                .recover_alert(DEAD_ALERT.to_owned(), planner)
                .await?;
        }
        Ok(())
    }

    fn audit_cursor(&self) -> std::sync::MutexGuard<'_, AuditCursor> {
        self.audit
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Sweeps until `group` stops: every interval, and earlier when something is due before that.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        loop {
            heart.beat();
            metrics::loop_turn("reconcile");
            match self.step().await {
                Ok(turn) if turn != Turn::default() => {
                    tracing::info!(?turn, "reconciled");
                }
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "a reconcile turn failed"),
            }
            let wait = self.next_wait().await;
            tokio::select! {
                () = group.stopping() => return,
                () = self.clock.sleep(wait) => {}
            }
        }
    }

    /// The interval, or less when a look is due before it ends: after an event the next looks come
    /// closer together than turns do.
    async fn next_wait(&self) -> Duration {
        let shortest = self
            .check_min
            .min(Duration::from_secs(1))
            .min(self.interval);
        match self.store.next_sweep_due().await {
            Ok(Some(due)) => due.since(self.clock.now()).clamp(shortest, self.interval),
            Ok(None) | Err(_) => self.interval,
        }
    }
}
