//! The outbox's sender and its loop.
//!
//! The intent is committed before an effect runs and the receipt after. What lies between may be cut
//! off at any instant; the row then says `sending`, and is freed as ambiguous at start-up or when its
//! lease runs out. A running send renews its lease, so a live sender keeps it however long a download
//! takes; one that stalls past it loses the row, and its receipt is refused.
//!
//! Each effect has slots of its own: a receiver that hangs, or downloads that take an hour, keep no
//! other effect and no alert waiting.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;

use super::slots::{Slot, Slots, count};
use super::trace::{self, When};
use super::turns::{AGAIN, TakesTurns, Turn, until_stopped};
use super::{SAFETY_POLL, WRITE_AGAIN};
use crate::base::backoff::Backoff;
use crate::base::clock::Clock;
use crate::base::failpoint::failpoint;
use crate::base::ids::Ids;
use crate::base::shutdown::{Heartbeat, Shutdown, panic_text};
use crate::config::settings;
use crate::domain::effect::{AmbiguousPolicy, Delivery, EffectState};
use crate::domain::ledger::{EffectEnd, EffectRecord, LeasedEffect, PlanEffects};
use crate::effects::{Message, Registry};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics;
use crate::telemetry::traces::Traces;

/// Sends what the outbox holds.
#[derive(Debug)]
pub struct Sender {
    store: Store,
    registry: Arc<Registry>,
    planner: Arc<dyn PlanEffects>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    backoff: Backoff,
    lease: Duration,
    concurrency: usize,
    slots: Mutex<BTreeMap<String, Arc<Slots>>>,
    traces: Traces,
}

impl Sender {
    /// A sender with these limits.
    pub fn new(
        store: Store,
        registry: Arc<Registry>,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        settings: &settings::Delivery,
    ) -> Self {
        Self {
            store,
            registry,
            planner,
            clock,
            ids,
            backoff: Backoff {
                first: settings.retry_first,
                cap: settings.retry_cap,
            },
            lease: settings.lease,
            concurrency: settings.concurrency,
            slots: Mutex::default(),
            traces: Traces::default(),
        }
    }

    /// With spans that go there.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        self.traces = traces;
        self
    }

    /// Sends what is due and waits for all of it. Answers the states the effects are in now.
    pub async fn step(&self) -> Result<Vec<EffectState>, StoreError> {
        let due = self.claim().await?;
        let ends = join_all(due.into_iter().map(|effect| {
            let slot = self.slots_of(&effect.record.effect).take(false);
            self.send(effect, slot, || ())
        }));
        Ok(ends.await.into_iter().flatten().collect())
    }

    async fn claim(&self) -> Result<Vec<LeasedEffect>, StoreError> {
        let now = self.clock.now();
        let due = self
            .store
            .effects_due()
            .await?
            .into_iter()
            .filter(|(_, at)| *at <= now);
        let rooms: Vec<_> = due
            .map(|(name, _)| {
                let slots = self.slots_of(&name);
                (name, slots)
            })
            .filter(|(_, slots)| slots.free() > 0)
            .collect();
        // A claim that can take nothing would be a commit, and every commit wakes this loop.
        if rooms.is_empty() {
            return Ok(Vec::new());
        }
        // Counted when the claim runs: it waits for its commit, and more slots are free by then.
        let quotas = move || {
            let room = |(name, slots): (String, Arc<Slots>)| (name, count(slots.free()));
            rooms.into_iter().map(room).collect()
        };
        self.store.begin_sends_into(quotas, self.lease).await
    }

    fn slots_of(&self, effect: &str) -> Arc<Slots> {
        let mut all = self
            .slots
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let slots = all
            .entry(effect.to_owned())
            .or_insert_with(|| Slots::new(self.concurrency, 0));
        Arc::clone(slots)
    }

    /// Sends one effect and writes its receipt. `None` when the receipt could not be written: the
    /// row stays `sending` and is freed later. `sent` is called when its slot is free for another.
    async fn send(
        &self,
        effect: LeasedEffect,
        mut slot: Slot,
        sent: impl Fn(),
    ) -> Option<EffectState> {
        let _coming = self.store.write_coming();
        let record = &effect.record;
        let (at, began) = (self.clock.now(), self.clock.monotonic());
        let delivery = match self.registry.get(&record.effect) {
            Some(sink) => {
                let message = Message {
                    key: record.idempotency_key.clone(),
                    effect: record.effect.clone(),
                    operation: record.operation_name.clone(),
                    payload: effect.payload.clone().into(),
                    attempt: record.attempts,
                    now: at,
                    traceparent: self.traces.traceparent(&trace::attempt_at(record).0),
                };
                let answer = tokio::select! {
                    answer = AssertUnwindSafe(sink.deliver(&message)).catch_unwind() => answer,
                    () = self.keep(&effect) => return None,
                };
                match answer {
                    Ok(delivery) => delivery,
                    Err(panic) => {
                        tracing::error!(
                            effect = record.effect,
                            panic = panic_text(&*panic),
                            "an effect panicked"
                        );
                        Delivery::Ambiguous {
                            why: "it panicked".to_owned(),
                        }
                    }
                }
            }
            None => Delivery::Retry {
                after: None,
                why: format!("no effect named {} is configured any more", record.effect),
            },
        };
        failpoint!("fp-w6");
        let (outcome, took) = (outcome_of(&delivery), self.since(began));
        metrics::effect_attempt(&record.effect, outcome, took);
        let when = When { began: at, took };
        self.traces.record(|| trace::attempt(record, when, outcome));
        slot.asked();
        sent();
        let why = why_of(&delivery).map(ToOwned::to_owned);
        let end = self.end_of(delivery, record.attempts, &record.effect);
        match self.receipt(&effect, end).await {
            Ok(state) => {
                failpoint!("fp-w7");
                metrics::effect_ended(&record.effect, state.as_str());
                tell(record, state, why.as_deref());
                Some(state)
            }
            Err(error) => {
                tracing::error!(effect = record.effect, %error, "could not write an effect's receipt");
                None
            }
        }
    }

    /// Writes the receipt, again and again while the disk is full or somebody else holds the file:
    /// without it what is known to be done would be ambiguous, and sent or held for nothing.
    async fn receipt(
        &self,
        effect: &LeasedEffect,
        end: EffectEnd,
    ) -> Result<EffectState, StoreError> {
        loop {
            let planner = Arc::clone(&self.planner);
            match self.store.end_send(effect, end.clone(), planner).await {
                Err(error) if error.is_passing() => {
                    tracing::warn!(effect = effect.record.effect, %error, "could not write an effect's receipt yet");
                }
                end => return end,
            }
            self.clock.sleep(WRITE_AGAIN).await;
            // As good as it goes: the next write is fenced all the same.
            drop(self.store.renew_send(effect, self.lease).await);
        }
    }

    /// Renews the lease until it is lost.
    async fn keep(&self, effect: &LeasedEffect) {
        loop {
            self.clock.sleep(self.lease / 3).await;
            match self.store.renew_send(effect, self.lease).await {
                Ok(()) => {}
                Err(StoreError::Fenced { .. }) => {
                    tracing::warn!(
                        effect = effect.record.effect,
                        "the lease of a send was lost; what it does now is ambiguous"
                    );
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "could not renew a send's lease; trying again");
                }
            }
        }
    }

    fn since(&self, began: Duration) -> Duration {
        self.clock.monotonic().saturating_sub(began)
    }

    fn end_of(&self, delivery: Delivery, attempts: u32, effect: &str) -> EffectEnd {
        let again = |asked: Option<Duration>| {
            let delay = self
                .backoff
                .delay_at_least(attempts.max(1), self.ids.unit(), asked);
            self.clock.now().after(delay)
        };
        match delivery {
            Delivery::Done => EffectEnd::Done,
            Delivery::Refused { why } => EffectEnd::Dead { why },
            Delivery::Retry { after, why } => EffectEnd::Again {
                at: again(after),
                why,
            },
            Delivery::Ambiguous { why } => {
                let rule = self.registry.rules().iter().find(|r| r.name == effect);
                let policy = rule.map_or(AmbiguousPolicy::Hold, |r| r.ambiguous);
                EffectEnd::Unknown {
                    policy,
                    at: again(None),
                    why,
                }
            }
        }
    }

    /// Sends until `group` stops. What is being sent then is waited for.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        until_stopped(self, group, heart).await;
    }
}

#[async_trait]
impl TakesTurns for Sender {
    const NAME: &'static str = "sender";

    fn store(&self) -> &Store {
        &self.store
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn turn(self: &Arc<Self>, turn: &Turn<'_>) -> Result<Duration, StoreError> {
        let due = self.claim().await?;
        let claimed = !due.is_empty();
        for effect in due {
            let slot = self.slots_of(&effect.record.effect).take(false);
            let (sender, group, freed) =
                (Arc::clone(self), turn.group.clone(), Arc::clone(turn.freed));
            turn.group.spawn("effect", async move {
                tokio::select! {
                    _ = sender.send(effect, slot, || freed.notify_one()) => {}
                    // Cut off while sending: the next start finds it and its policy decides.
                    () = group.forced() => {}
                }
                freed.notify_one();
            });
        }
        if claimed {
            return Ok(AGAIN);
        }
        let now = self.clock.now();
        // What is overdue waits for a slot, and the end of a running send tells.
        let later = self
            .store
            .effects_due()
            .await?
            .into_iter()
            .map(|(_, at)| at)
            .filter(|at| *at > now);
        Ok(later
            .min()
            .map_or(SAFETY_POLL, |at| at.since(now).min(SAFETY_POLL)))
    }
}

/// Logs how an attempt ended, and why when it is not done.
fn tell(record: &EffectRecord, state: EffectState, why: Option<&str>) {
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                effect = record.effect,
                operation = record.operation_name.as_ref().map(ToString::to_string),
                key = record.idempotency_key,
                attempt = record.attempts,
                %state,
                why,
                "effect attempt ended"
            )
        };
    }
    if state == EffectState::Done {
        line!(info);
    } else {
        line!(warn);
    }
}

/// What went wrong, in chosen words.
fn why_of(delivery: &Delivery) -> Option<&str> {
    match delivery {
        Delivery::Done => None,
        Delivery::Retry { why, .. } | Delivery::Ambiguous { why } | Delivery::Refused { why } => {
            Some(why)
        }
    }
}

fn outcome_of(delivery: &Delivery) -> &'static str {
    match delivery {
        Delivery::Done => "done",
        Delivery::Retry { .. } => "retry",
        Delivery::Ambiguous { .. } => "ambiguous",
        Delivery::Refused { .. } => "refused",
    }
}
