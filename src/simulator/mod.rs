//! Floor 5: a fake Gemini API, as a state model behind HTTP.
//!
//! Problem: nobody can make the real API lose a webhook, answer 404 for a job that exists or finish
//! a video in two seconds, and trying the service should need no key.
//!
//! Design: `state` is a pure model of jobs, files and webhooks; `routes` maps it to HTTP under `/v1`
//! and `/v1beta` and steers it under `/_sim/`; `webhooks` and `jwt` sign and post; `faults` spoils answers.
//! The wire types are its own, on purpose: shared ones would let a wrong type cancel itself out.
//! [`Simulator`] joins them and is also the handle for tests and the demo: what `/_sim/` can do, its
//! methods can do. It is a test tool: it keeps everything in memory and `/_sim/` asks for no key, so
//! it belongs on loopback.
//!
//! Time: the model's time is the clock's plus an offset that `advance` raises. [`Simulator::step`]
//! plays what is due and sends what is to be sent; [`Simulator::serve`] calls it whenever something
//! falls due. In a test with a manual clock nothing happens between two steps.

mod control;
mod faults;
mod jwt;
mod routes;
mod state;
mod subscriptions;
mod webhooks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

pub use self::control::RawWebhook;
pub use self::faults::{Fault, FaultKind, WebhookFault};
pub use self::jwt::{DynamicSigning, KeyRotation, TokenConfig};
pub use self::state::hooks::WebhookState;
pub use self::state::job::{BatchInput, Kind, NewJob, Outcome, Refused};
pub use self::state::outbox::DeliveryState;
pub use self::state::plan::{IdForm, Mode, WebhookPlan};

pub use self::subscriptions::WebhookReport;

use self::jwt::KeyRing;
use self::routes::requests::RequestLog;
pub use self::routes::requests::SeenRequest;
use self::state::Model;
use self::state::outbox::{Attempt, Delivery, To};
use self::webhooks::{Sender, Signer};
use crate::base::backoff::Backoff;
use crate::base::clock::{Clock, Timestamp};
use crate::base::ids::Ids;
use crate::base::secret::Secret;
use crate::base::shutdown::Shutdown;

/// Webhooks on their way at once.
const SENDERS: usize = 16;
/// How long the loop sleeps when nothing is due.
const IDLE: Duration = Duration::from_mins(1);

/// How a simulator behaves.
#[derive(Debug, Clone)]
pub struct SimulatorConfig {
    /// Where events go; without it only jobs with `webhook_config.uris` are told.
    pub webhook_url: Option<Url>,
    /// Signs events for that URL by Standard Webhooks, with or without `whsec_`; without it they are
    /// unsigned.
    pub webhook_secret: Option<Secret>,
    /// Sent as `X-Hook-Secret` with each event.
    pub shared_secret: Option<Secret>,
    /// The accepted API key; without it any key will do, but one must be there.
    pub api_key: Option<Secret>,
    /// From the start of a job to its end, unless its maker says otherwise.
    pub complete_after: Duration,
    /// How a webhook that met no 2xx is tried again.
    pub webhook_retry: Backoff,
    /// How often it is tried at most.
    pub webhook_attempts: u32,
    /// Failed attempts in a row that disable a registered webhook; 0 never does.
    pub disable_after: u32,
    /// How events of jobs with their own destinations are signed.
    pub dynamic_signing: DynamicSigning,
    /// What those tokens say.
    pub tokens: TokenConfig,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            webhook_url: None,
            webhook_secret: None,
            shared_secret: None,
            api_key: None,
            complete_after: Duration::from_secs(2),
            webhook_retry: Backoff {
                first: Duration::from_millis(500),
                cap: Duration::from_mins(1),
            },
            webhook_attempts: 12,
            disable_after: 20,
            dynamic_signing: DynamicSigning::default(),
            tokens: TokenConfig::default(),
        }
    }
}

/// What became of one webhook.
#[derive(Debug, Clone, Serialize)]
pub struct DeliveryReport {
    /// Its number, rising.
    pub seq: u64,
    /// The `webhook-id` it carries.
    pub id: String,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The job it speaks of.
    pub name: String,
    /// The registered webhook it goes to, if it goes to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Its destination. The last part of the path may be a token: print it with care.
    pub url: String,
    /// Where it stands.
    pub state: DeliveryState,
    /// The last answer, if there was one.
    pub status: Option<u16>,
    /// How often it was sent.
    pub attempt: u32,
    /// When it was last sent.
    pub sent_at: Option<Timestamp>,
}

impl DeliveryReport {
    fn of(delivery: &Delivery) -> Self {
        Self {
            seq: delivery.seq,
            id: delivery.webhook_id.clone(),
            event_type: delivery.event_type.clone(),
            name: delivery.name.clone(),
            webhook: match &delivery.to {
                To::Registered(id) => Some(id.clone()),
                To::Configured | To::Own => None,
            },
            url: delivery.url.clone(),
            state: delivery.state,
            status: delivery.status,
            attempt: delivery.attempts,
            sent_at: delivery.sent_at,
        }
    }
}

/// A running fake Gemini.
#[derive(Debug)]
pub struct Simulator {
    config: SimulatorConfig,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    offset_ms: AtomicU64,
    model: Mutex<Model>,
    seen: Mutex<RequestLog>,
    keys: Mutex<KeyRing>,
    sender: Sender,
    changed: Notify,
    /// Ends hanging answers.
    closing: CancellationToken,
}

impl Simulator {
    /// A simulator without jobs.
    pub fn new(config: SimulatorConfig, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Arc<Self> {
        let mut model = Model::new(config.webhook_url.as_ref().map(ToString::to_string));
        model.hooks.disable_after = config.disable_after;
        Arc::new(Self {
            sender: Sender::new(config.shared_secret.clone()),
            config,
            clock,
            ids,
            offset_ms: AtomicU64::new(0),
            model: Mutex::new(model),
            seen: Mutex::default(),
            keys: Mutex::default(),
            changed: Notify::new(),
            closing: CancellationToken::new(),
        })
    }

    /// Every route of the API and the control API.
    pub fn router(self: &Arc<Self>) -> axum::Router {
        routes::router(Arc::clone(self))
    }

    /// Serves until `stop` is asked to stop, and sends what falls due meanwhile.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: Shutdown) {
        let (sending, asked) = (Arc::clone(&self), stop.clone());
        stop.spawn_loop("simulator-webhooks", move |heart| {
            let (sim, stop) = (Arc::clone(&sending), asked.clone());
            async move {
                while !stop.is_stopping() {
                    heart.beat();
                    tokio::select! {
                        _ = sim.step() => {}
                        () = stop.forced() => return,
                    }
                    let wait = sim.until_next();
                    tokio::select! {
                        () = sim.changed.notified() => {}
                        () = sim.clock.sleep(wait) => {}
                        () = stop.stopping() => {}
                    }
                }
            }
        });
        let (closing, asked) = (self.closing.clone(), stop.clone());
        let served = axum::serve(listener, self.router()).with_graceful_shutdown(async move {
            asked.stopping().await;
            closing.cancel();
        });
        tokio::select! {
            end = served => if let Err(error) = end {
                tracing::error!(%error, "the simulator's listener failed");
            },
            () = stop.forced() => {}
        }
    }

    /// Plays what is due and sends what is to be sent, until nothing more is due. Returns how many
    /// webhooks were posted.
    pub async fn step(&self) -> usize {
        let mut posted = 0;
        loop {
            let due = {
                let now = self.now();
                let mut model = self.model();
                model.advance(now, &*self.ids);
                model.outbox.take_due(now)
            };
            if due.is_empty() {
                return posted;
            }
            posted += stream::iter(due)
                .map(|delivery| self.deliver(delivery))
                .buffer_unordered(SENDERS)
                .filter(|sent| std::future::ready(*sent))
                .count()
                .await;
        }
    }

    /// What signs a delivery; `None` when it must not be sent any more.
    fn signer(&self, delivery: &Delivery, at: Timestamp) -> Option<Signer> {
        match &delivery.to {
            To::Own if self.config.dynamic_signing == DynamicSigning::Jwt => {
                let signer = self.keys().signer(&self.config.tokens);
                Some(signer.map_or(Signer::Secrets(Vec::new()), Signer::Token))
            }
            To::Configured | To::Own => {
                let secret = self.config.webhook_secret.iter().cloned();
                Some(Signer::Secrets(secret.collect()))
            }
            To::Registered(id) => {
                let model = self.model();
                let hook = model.hooks.get(id)?;
                let enabled = hook.state == WebhookState::Enabled;
                enabled.then(|| Signer::Secrets(hook.secrets(at)))
            }
        }
    }

    /// Sends a delivery; says whether it was posted.
    async fn deliver(&self, delivery: Delivery) -> bool {
        let at = self.now();
        let Some(signer) = self.signer(&delivery, at) else {
            self.model().outbox.abandon(delivery.seq);
            return false;
        };
        // Signed with the clock's own time: a receiver must find it fresh although the model's time
        // was moved.
        let stamp = self.clock.now();
        let sent = webhooks::seal(&delivery, &signer, stamp);
        let status = self.sender.post(&delivery, &sent).await;
        let attempt = Attempt { status, at, sent };
        let (retry, most) = (self.config.webhook_retry, self.config.webhook_attempts);
        let unit = self.ids.unit();
        let mut model = self.model();
        if let To::Registered(id) = &delivery.to {
            let arrived = status.is_some_and(|status| (200..300).contains(&status));
            model.hooks.note(id, arrived, at);
        }
        model
            .outbox
            .settle(delivery.seq, attempt, retry, most, unit);
        true
    }

    /// The model's time.
    pub fn now(&self) -> Timestamp {
        let offset = Duration::from_millis(self.offset_ms.load(Ordering::Relaxed));
        self.clock.now().after(offset)
    }

    /// Moves the model's time forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.offset_ms.fetch_add(by, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Every request the API has seen (bounded to the last 10,000), oldest first.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.seen().all()
    }

    /// How many requests the API has seen, those that are not remembered any more too.
    pub fn asked(&self) -> u64 {
        self.seen().count()
    }

    /// Every webhook there is or was (bounded to the last 10,000), oldest first.
    pub fn deliveries(&self) -> Vec<DeliveryReport> {
        let model = self.model();
        model
            .outbox
            .all()
            .into_iter()
            .map(DeliveryReport::of)
            .collect()
    }

    fn until_next(&self) -> Duration {
        let next = self.model().next_due();
        next.map_or(IDLE, |at| at.since(self.now()).min(IDLE))
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> MutexGuard<'_, KeyRing> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, RequestLog> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
