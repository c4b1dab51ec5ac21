//! Looking after the provider's record of where deliveries go.
//!
//! Problem: an endpoint that failed for too long is disabled by the provider, and from then on there
//! is silence, which looks like nothing to do.
//!
//! Design: four things, each at its own pace, one after the other in a step:
//! - the record is looked at: drift, a record that is disabled and one that is missing alert, each
//!   once; a disabled one is enabled again when that is allowed, ever more rarely if it does not last;
//! - after that every operation that was open by then is due for a look, a batch at a time, at the
//!   pace of the reconciler; the alert recovers when the last batch is pulled;
//! - a canary: a ping must come back as a captured delivery within its bound;
//! - a rotation that is open goes on.
//!
//! Races: that a gap is being closed is written nowhere but in the open alert. A process that dies in
//! between finds it open beside an enabled record and closes the gap from its beginning; looking
//! twice is harmless.

mod canary;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use uuid::Uuid;

pub use self::canary::CANARY_ALERT;
use self::canary::Canary;
use super::reenable::Reenable;
use super::rotation::{Progress, Rotation};
use super::standing::Standing;
use super::wanted::Wanted;
use crate::base::clock::{Clock, Timestamp};
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::base::swap::Swap;
use crate::config::Settings;
use crate::domain::ledger::PlanEffects;
use crate::gemini::webhooks::{Webhook, WebhookApi, WebhookId, WebhookPatch};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics;

/// The subject of the alert about a record that does not deliver.
pub const STATE_ALERT: &str = "subscription/state";
/// The subject of the alert about a record that is not as configured.
pub const DRIFT_ALERT: &str = "subscription/drift";
/// The subject of the alert about a rotation that does not end.
pub const ROTATION_ALERT: &str = "subscription/rotation";

/// The source that the provider delivers to.
pub const SOURCE: &str = "gemini";

/// Time between two looks for a ping that is under way, and between two batches of a gap.
const SHORT: Duration = Duration::from_secs(1);
/// Time between two steps of an open rotation.
const ROTATION_STEP: Duration = Duration::from_secs(15);
/// An open rotation alerts after so long.
const ROTATION_LATE: Duration = Duration::from_mins(10);

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// What a look at the record found: `matching`, `drift`, `disabled`, `missing` or `failed`.
    pub found: Option<&'static str>,
    /// The record was enabled again.
    pub reenabled: bool,
    /// Operations whose next look was pulled to now.
    pub pulled: u64,
    /// What became of the canary: `sent`, `arrived`, `missed` or `failed`.
    pub canary: Option<&'static str>,
    /// Where the rotation is.
    pub rotation: Option<Progress>,
}

/// Looks after the subscription.
#[derive(Debug)]
pub struct Subscription {
    store: Store,
    api: Arc<dyn WebhookApi>,
    planner: Arc<dyn PlanEffects>,
    clock: Arc<dyn Clock>,
    wanted: Swap<Wanted>,
    rotation: Option<Rotation>,
    poll_interval: Duration,
    ping_interval: Option<Duration>,
    ping_bound: Duration,
    reenable: bool,
    batch_size: u32,
    memory: Mutex<Memory>,
    standing: Swap<Standing>,
}

/// What is known between steps. Times are monotonic where nothing is compared with a record.
#[derive(Debug, Default)]
struct Memory {
    next_poll: Duration,
    /// The record, while it delivers.
    delivers: Option<WebhookId>,
    gap: Option<Gap>,
    canary: Canary,
    next_rotation_step: Duration,
    reenable: Reenable,
}

/// Operations being pulled after a time without deliveries.
#[derive(Debug)]
struct Gap {
    before: Timestamp,
    after: Option<Uuid>,
}

impl Subscription {
    /// Looks after what `settings` describe; `None` when they do not say where deliveries go.
    pub fn new(
        store: Store,
        api: Arc<dyn WebhookApi>,
        planner: Arc<dyn PlanEffects>,
        clock: Arc<dyn Clock>,
        rotation: Option<Rotation>,
        settings: &Settings,
    ) -> Option<Self> {
        let wanted = Swap::new(Wanted::new(settings)?);
        let subscription = &settings.subscription;
        Some(Self {
            store,
            api,
            planner,
            clock,
            wanted,
            rotation,
            poll_interval: subscription.poll_interval,
            ping_interval: subscription.ping_interval,
            ping_bound: subscription.ping_bound,
            reenable: subscription.reenable,
            batch_size: settings.reconcile.batch_size,
            memory: Mutex::default(),
            standing: Swap::new(Standing {
                pings: subscription.ping_interval.is_some(),
                ..Standing::default()
            }),
        })
    }

    /// How secrets are rotated, when there is a file for them.
    pub const fn rotation(&self) -> Option<&Rotation> {
        self.rotation.as_ref()
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        *self.standing.get()
    }

    /// Looks after what `settings` describe from now on: the address holds the path token.
    pub fn wants(&self, settings: &Settings) {
        if let Some(wanted) = Wanted::new(settings) {
            self.wanted.set(wanted);
        }
    }

    /// The record it looks after, asked for now.
    ///
    /// # Errors
    /// The provider cannot be asked.
    pub async fn webhook(&self) -> Result<Option<Webhook>, crate::domain::fault::Fault> {
        self.wanted.get().find(&*self.api).await
    }

    /// Does what is due.
    ///
    /// # Errors
    /// The store fails. What the provider says is in the answer.
    pub async fn step(&self) -> Result<Turn, StoreError> {
        let mut memory = self.memory.lock().await;
        let mut turn = Turn::default();
        if self.clock.monotonic() >= memory.next_poll {
            self.look(&mut memory, &mut turn).await?;
            memory.next_poll = self.clock.monotonic() + self.poll_interval;
            self.saw(&turn, None);
        }
        self.close_gap(&mut memory, &mut turn).await?;
        self.fly(&mut memory, &mut turn).await?;
        self.rotate(&mut memory, &mut turn).await?;
        Ok(turn)
    }

    /// Remembers what a turn saw.
    fn saw(&self, turn: &Turn, took: Option<Duration>) {
        let (now, before) = (self.clock.now(), self.standing());
        let canary = turn.canary.filter(|word| *word != "sent");
        self.standing.set(Standing {
            look: turn.found.map(|word| (now, word)).or(before.look),
            canary: canary.map(|word| (now, word)).or(before.canary),
            canary_took: took.or(before.canary_took),
            pings: before.pings,
        });
    }

    async fn look(&self, memory: &mut Memory, turn: &mut Turn) -> Result<(), StoreError> {
        let record = match self.webhook().await {
            Ok(record) => record,
            Err(fault) => {
                tracing::warn!(%fault, "could not look at the subscription");
                found("failed", turn);
                return Ok(());
            }
        };
        let Some(webhook) = record else {
            memory.delivers = None;
            metrics::subscription_enabled(false);
            let summary = "the provider has no webhook for this service; \
                           `hookledger webhooks sync` makes it";
            self.open(STATE_ALERT, summary.to_owned()).await?;
            found("missing", turn);
            return Ok(());
        };
        let id = webhook.id.clone();
        let differences = self.wanted.get().differences(&webhook);
        if differences.is_empty() {
            self.recover(DRIFT_ALERT).await?;
        } else {
            let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
            let summary = format!(
                "webhook {id} is not as configured ({}); see `hookledger webhooks sync --dry-run`",
                told.join("; ")
            );
            self.open(DRIFT_ALERT, summary).await?;
        }
        if webhook.delivers() {
            self.delivers(id, memory).await?;
            let word = if differences.is_empty() {
                "matching"
            } else {
                "drift"
            };
            found(word, turn);
            return Ok(());
        }
        memory.delivers = None;
        metrics::subscription_enabled(false);
        let state = webhook.state.unwrap_or_default();
        let now = self.clock.monotonic();
        let may = self.reenable && memory.reenable.may(now);
        let mut summary = format!("webhook {id} is {state}: nothing is delivered");
        if self.reenable && memory.reenable.in_a_row() > 0 {
            _ = write!(
                summary,
                "; it was disabled again soon after it was enabled, {} time(s) in a row, so it is \
                 enabled no sooner than {} after the last time: mend why deliveries fail, then \
                 `hookledger webhooks sync`",
                memory.reenable.in_a_row(),
                humantime::format_duration(memory.reenable.pause())
            );
        }
        self.open(STATE_ALERT, summary).await?;
        found("disabled", turn);
        if may && self.enable(&id, &mut memory.reenable).await {
            turn.reenabled = true;
            self.delivers(id, memory).await?;
        }
        Ok(())
    }

    async fn enable(&self, id: &WebhookId, reenable: &mut Reenable) -> bool {
        let patch = WebhookPatch {
            state: Some("enabled".to_owned()),
            ..WebhookPatch::default()
        };
        let answer = self.api.update(id, &patch).await;
        if answer.is_ok() {
            reenable.asked(self.clock.monotonic());
        }
        match answer {
            Ok(now) if now.delivers() => {
                metrics::subscription_reenabled();
                tracing::info!(webhook = %id, "enabled the webhook again");
                true
            }
            Ok(_) => {
                tracing::warn!(webhook = %id, "the webhook stays disabled");
                false
            }
            Err(fault) => {
                tracing::warn!(webhook = %id, %fault, "could not enable the webhook again");
                false
            }
        }
    }

    /// The record delivers. If it did not before, what was missed must be looked for.
    async fn delivers(&self, id: WebhookId, memory: &mut Memory) -> Result<(), StoreError> {
        metrics::subscription_enabled(true);
        memory.delivers = Some(id);
        if memory.gap.is_none() && self.store.is_alert_open(STATE_ALERT).await? {
            memory.gap = Some(Gap {
                before: self.clock.now(),
                after: None,
            });
        }
        Ok(())
    }

    async fn close_gap(&self, memory: &mut Memory, turn: &mut Turn) -> Result<(), StoreError> {
        let Some(gap) = &mut memory.gap else {
            return Ok(());
        };
        let (pulled, last) = self
            .store
            .pull_looks(gap.before, gap.after, self.batch_size)
            .await?;
        turn.pulled = pulled;
        if last.is_some() {
            gap.after = last;
            return Ok(());
        }
        memory.gap = None;
        // Disabled once more meanwhile: then it has not recovered.
        if memory.delivers.is_some() {
            self.recover(STATE_ALERT).await?;
        }
        Ok(())
    }

    async fn rotate(&self, memory: &mut Memory, turn: &mut Turn) -> Result<(), StoreError> {
        let Some(rotation) = &self.rotation else {
            return Ok(());
        };
        if self.clock.monotonic() < memory.next_rotation_step {
            return Ok(());
        }
        memory.next_rotation_step = self.clock.monotonic() + ROTATION_STEP;
        let progress = match rotation.step().await {
            Ok(progress) => progress,
            Err(error) => {
                let summary = format!("the signing secrets cannot be looked after: {error}");
                return self.open(ROTATION_ALERT, summary).await;
            }
        };
        match progress {
            Progress::None | Progress::Proven => self.recover(ROTATION_ALERT).await?,
            Progress::Unanswered { since } | Progress::Proving { since } => {
                if self.clock.now().since(since) >= ROTATION_LATE {
                    let summary = "a rotation of the signing secret does not come to its end: no \
                                   delivery was signed with the new one";
                    self.open(ROTATION_ALERT, summary.to_owned()).await?;
                }
            }
        }
        turn.rotation = Some(progress).filter(|p| *p != Progress::None);
        Ok(())
    }

    async fn open(&self, subject: &str, summary: String) -> Result<(), StoreError> {
        let planner = Arc::clone(&self.planner);
        let opened = self.store.open_alert(subject.to_owned(), summary, planner);
        opened.await.map(drop)
    }

    async fn recover(&self, subject: &str) -> Result<(), StoreError> {
        let planner = Arc::clone(&self.planner);
        let ended = self.store.recover_alert(subject.to_owned(), planner);
        ended.await.map(drop)
    }

    /// Steps until `group` stops.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        loop {
            heart.beat();
            metrics::loop_turn("subscription");
            match self.step().await {
                Ok(turn) if turn != Turn::default() => tracing::debug!(?turn, "looked after"),
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "a turn of the subscription failed"),
            }
            let wait = self.next_wait().await;
            tokio::select! {
                () = group.stopping() => return,
                () = self.clock.sleep(wait) => {}
            }
        }
    }

    async fn next_wait(&self) -> Duration {
        let memory = self.memory.lock().await;
        let now = self.clock.monotonic();
        let mut next = memory.next_poll;
        if self.rotation.is_some() {
            next = next.min(memory.next_rotation_step);
        }
        match (self.ping_interval, &memory.canary) {
            (Some(_), Canary::Flies { .. }) => next = now,
            (Some(_), Canary::Rests { until }) if memory.delivers.is_some() => {
                next = next.min(*until);
            }
            _ => {}
        }
        if memory.gap.is_some() {
            next = now;
        }
        let shortest = SHORT.min(self.poll_interval);
        next.saturating_sub(now).max(shortest)
    }
}

/// What a look found.
fn found(word: &'static str, turn: &mut Turn) {
    metrics::subscription_look(word);
    turn.found = Some(word);
}
