//! The worker: the one poller of the operations API, and its loop.
//!
//! [`Worker::step`] claims what is due and carries each item to its end; tests call it. The loop does
//! the same without waiting for the slowest: it sleeps until a commit or the next due time, claims as
//! many items as there are free slots, and spawns one task each.
//!
//! Of `concurrency` slots, `fresh_slots` can only be taken by items somebody waits for, so a thousand
//! due reconciliations cannot delay a webhook.
//!
//! Races: a lease is renewed while its item runs. If it is lost all the same (a stall longer than the
//! lease), the renewal or the final write is refused and nothing of that attempt is written. A panic
//! is caught, charged, and the item goes back. A stop lets running items end, and gives back those
//! that cannot, uncharged.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::Notify;

use super::SAFETY_POLL;
use super::gate::{Fetching, Gate, Pass};
use super::look::Looker;
use super::policy::Policy;
use super::slots::{Slot, Slots, count};
use super::turns::{AGAIN, TakesTurns, Turn, until_stopped};
use crate::base::clock::{Clock, Timestamp};
use crate::base::failpoint::failpoint;
use crate::base::ids::Ids;
use crate::base::shutdown::{Heartbeat, Shutdown, panic_text};
use crate::domain::fault::Fault;
use crate::domain::ledger::{Lease, PlanEffects};
use crate::domain::work::Outcome;
use crate::gemini::GeminiApi;
use crate::store::{Close, Room, Store, StoreError, WorkFailure};
use crate::telemetry::metrics;
use crate::telemetry::traces::Traces;

/// The subject of the alert about a refused key.
pub const KEY_ALERT: &str = "gemini/key";

/// How one item ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemEnd {
    /// Closed.
    Done(Outcome),
    /// Back in the queue (or dead, when its charges reached the cap).
    Again,
    /// Its lease was lost; somebody else has it.
    Lost,
    /// Nothing could be written; it will be rescued.
    Failed,
}

/// Claims work items and carries them to their end.
#[derive(Debug)]
pub struct Worker {
    pub(super) store: Store,
    api: Arc<dyn GeminiApi>,
    pub(super) planner: Arc<dyn PlanEffects>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    policy: Policy,
    pub(super) gate: Gate,
    /// Whether the gate knows what the process before knew of the key.
    remembered: AtomicBool,
    slots: Arc<Slots>,
    pub(super) lease: Duration,
    pub(super) traces: Traces,
}

impl Worker {
    /// A worker with these limits.
    pub fn new(
        store: Store,
        api: Arc<dyn GeminiApi>,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        settings: &crate::config::Settings,
    ) -> Self {
        let worker = &settings.worker;
        Self {
            store,
            api,
            planner,
            clock,
            ids,
            policy: Policy::new(settings),
            gate: Gate::default(),
            remembered: AtomicBool::new(false),
            slots: Slots::new(worker.concurrency, worker.fresh_slots),
            lease: worker.lease,
            traces: Traces::default(),
        }
    }

    /// With spans that go there.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        self.traces = traces;
        self
    }

    /// Whether the API can be asked.
    pub fn fetching(&self) -> Fetching {
        self.gate.fetching(self.clock.monotonic())
    }

    /// Claims what is due and carries all of it to its end.
    pub async fn step(self: &Arc<Self>) -> Result<Vec<ItemEnd>, StoreError> {
        if !matches!(self.pass().await, Pass::Open) {
            return Ok(Vec::new());
        }
        let leases = self.claim().await?;
        let work: Vec<_> = leases
            .into_iter()
            .map(|lease| {
                let slot = self.slots.take(is_old(&lease));
                self.run(lease, slot, || ())
            })
            .collect();
        Ok(join_all(work).await)
    }

    /// What may be done now; probes a refused key when its time has come.
    async fn pass(&self) -> Pass {
        self.remember().await;
        let pass = self.gate.pass(self.clock.monotonic());
        if pass != Pass::Probe {
            return pass;
        }
        // Silence says nothing about the key.
        if let Err(Fault::KeyRefused { .. } | Fault::Forbidden { .. } | Fault::Unavailable { .. }) =
            self.api.probe().await
        {
            self.gate.refuse(self.clock.monotonic(), self.ids.unit());
            return self.gate.pass(self.clock.monotonic());
        }
        // Any other answer is no longer about the key.
        if self.gate.accept() {
            tracing::info!("the API accepts the key again; fetching goes on");
            let planner = Arc::clone(&self.planner);
            if let Err(error) = self
                .store
                .recover_alert(KEY_ALERT.to_owned(), planner)
                .await
            {
                tracing::error!(%error, "could not end the alert about the key");
            }
        }
        Pass::Open
    }

    /// The alert about the key outlives the process, the gate does not: an open alert means that the
    /// key is probed first. Else nobody would ever end it, and the next refusal would be no news.
    async fn remember(&self) {
        if self.remembered.load(Ordering::Acquire) {
            return;
        }
        match self.store.is_alert_open(KEY_ALERT).await {
            Ok(open) => {
                if open {
                    self.gate.suspect(self.clock.monotonic());
                }
                self.remembered.store(true, Ordering::Release);
            }
            Err(error) => tracing::warn!(%error, "could not read the alert about the key"),
        }
    }

    async fn claim(&self) -> Result<Vec<Lease>, StoreError> {
        let free = self.slots.free();
        if free == 0 {
            return Ok(Vec::new());
        }
        let (fresh, old) = (self.slots.free_for_fresh(), self.slots.free_for_old());
        // Reading is cheap, a claim is a commit, and every commit wakes this loop again: a claim that
        // can take nothing would make it spin.
        let (fresh_due, old_due) = self.store.next_work_due_by_lane().await?;
        let now = self.clock.now();
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let claimable = (fresh > 0 && is_due(fresh_due)) || (old > 0 && is_due(old_due));
        if !claimable {
            return Ok(Vec::new());
        }
        // Counted when the claim runs: a claim waits for its commit, and more slots are free by then.
        let slots = Arc::clone(&self.slots);
        let room = move || Room {
            total: count(slots.free()),
            fresh: count(slots.free_for_fresh()),
            old: count(slots.free_for_old()),
        };
        let leases = self.store.claim_into(room, self.lease).await?;
        for lease in &leases {
            metrics::claimed(lease.reason.as_str(), self.clock.now().since(lease.due_at));
        }
        failpoint!("fp-w1", if !leases.is_empty());
        Ok(leases)
    }

    /// Carries one item to its end. `asked` is called when its slot is free for another.
    async fn run(&self, lease: Lease, slot: Slot, asked: impl Fn()) -> ItemEnd {
        let _coming = self.store.write_coming();
        let work = AssertUnwindSafe(self.attempt(&lease, slot, asked)).catch_unwind();
        let end = match work.await {
            Ok(end) => end,
            Err(panic) => {
                let panic = panic_text(&*panic).to_owned();
                tracing::error!(
                    operation = lease.raw,
                    panic,
                    "looking at an operation panicked"
                );
                let failure = WorkFailure {
                    again_at: self
                        .clock
                        .now()
                        .after(self.policy.retry.delay(lease.attempts, 0.5)),
                    why: "looking at it panicked".to_owned(),
                    charged: true,
                };
                let close = Close::Again(failure, self.policy.max_attempts);
                self.store
                    .close_lease(&lease, close)
                    .await
                    .map(|()| ItemEnd::Again)
            }
        };
        match end {
            Ok(end) => end,
            Err(StoreError::Fenced { .. }) => {
                tracing::warn!(
                    operation = lease.raw,
                    "a lease was lost; its result is dropped"
                );
                ItemEnd::Lost
            }
            Err(error) => {
                tracing::error!(operation = lease.raw, %error, "could not write down a look");
                ItemEnd::Failed
            }
        }
    }

    async fn attempt(
        &self,
        lease: &Lease,
        mut slot: Slot,
        asked: impl Fn(),
    ) -> Result<ItemEnd, StoreError> {
        let looker = self.looker();
        let plan = tokio::select! {
            plan = looker.look(lease) => plan?,
            lost = self.keep(lease) => return Err(lost),
        };
        failpoint!("fp-w3");
        slot.asked();
        asked();
        self.write_down(lease, plan).await
    }

    /// Renews the lease until it is lost.
    async fn keep(&self, lease: &Lease) -> StoreError {
        loop {
            self.clock.sleep(self.lease / 3).await;
            match self.store.renew(lease, self.lease).await {
                Ok(()) => {}
                Err(lost @ StoreError::Fenced { .. }) => return lost,
                // One failed renewal leaves two thirds of the lease.
                Err(error) => tracing::warn!(%error, "could not renew a lease; trying again"),
            }
        }
    }

    fn looker(&self) -> Looker<'_> {
        Looker {
            reader: self.store.reader(),
            api: &*self.api,
            clock: &*self.clock,
            ids: &*self.ids,
            policy: &self.policy,
            gate: &self.gate,
            traces: &self.traces,
        }
    }

    /// Works until `group` stops; items in hand then end or are given back.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        until_stopped(self, group, heart).await;
    }

    async fn run_or_release(&self, lease: Lease, slot: Slot, group: &Shutdown, freed: &Notify) {
        tokio::select! {
            _ = self.run(lease.clone(), slot, || freed.notify_one()) => {}
            () = group.forced() => {
                // Dropped half-way: nothing was written, so it can be given back uncharged.
                if let Err(error) = self.store.close_lease(&lease, Close::Release).await {
                    tracing::warn!(operation = lease.raw, %error, "could not give a lease back");
                }
            }
        }
    }
}

#[async_trait]
impl TakesTurns for Worker {
    const NAME: &'static str = "worker";

    fn store(&self) -> &Store {
        &self.store
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn turn(self: &Arc<Self>, turn: &Turn<'_>) -> Result<Duration, StoreError> {
        match self.pass().await {
            Pass::Wait(wait) => return Ok(wait.min(SAFETY_POLL)),
            Pass::Probe => return Ok(Duration::from_secs(1)),
            Pass::Open => {}
        }
        let leases = self.claim().await?;
        let claimed = !leases.is_empty();
        for lease in leases {
            // Taken here, not in the task, so that the next claim sees it.
            let slot = self.slots.take(is_old(&lease));
            let (worker, group, freed) =
                (Arc::clone(self), turn.group.clone(), Arc::clone(turn.freed));
            turn.group.spawn("work item", async move {
                worker.run_or_release(lease, slot, &group, &freed).await;
                freed.notify_one();
            });
        }
        if claimed {
            return Ok(AGAIN);
        }
        let now = self.clock.now();
        // What can be claimed: a suspect that waits for another must not hide what is due after it.
        let (fresh, old) = self.store.next_work_due_by_lane().await?;
        let next = fresh.into_iter().chain(old).min();
        let full = self.slots.free() == 0;
        Ok(match next {
            // Overdue but not claimed: no free slot, or only slots that are kept for fresh items.
            // The end of a running item tells.
            Some(due) if due <= now || full => SAFETY_POLL,
            Some(due) => due.since(now).min(SAFETY_POLL),
            None => SAFETY_POLL,
        })
    }
}

/// Whether nobody waits for this item: reconciliation, or a failure that comes back.
fn is_old(lease: &Lease) -> bool {
    !lease.reason.is_fresh() || lease.failures > 0
}
