//! The use cases around a scripted API and recording effects, on a real store and a manual clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hookledger::base::clock::Clock;
use hookledger::base::clock::Timestamp;
use hookledger::config::Settings;
use hookledger::domain::effect::{AmbiguousPolicy, Delivery, EffectRule, EffectState, Trigger};
use hookledger::domain::fault::Fault;
use hookledger::domain::ledger::{Operation, PlanEffects};
use hookledger::domain::operation::{OperationName, OperationState};
use hookledger::effects::plan::Planner;
use hookledger::effects::{Effect, Message, Registry};
use hookledger::gemini::{Download, FetchedBody, FileName, GeminiApi, wire};
use hookledger::receive::{Receiver, Replayed, parse};
use hookledger::reconcile::{Reconciler, Turn};
use hookledger::store::{NewDelivery, Received, Registered};
use hookledger::work::{ItemEnd, Policy, Registrar, Sender, Worker};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{TestStore, settings};

/// What the scripted API says about a name.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    Body(Value),
    Fault(Fault),
    Panic,
    /// Never answers.
    Hang,
    /// Answers once it is told to.
    Held(Arc<tokio::sync::Notify>, Value),
}

/// An API that says what it was told to say, and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct ScriptedApi {
    answers: Mutex<BTreeMap<String, Says>>,
    asked: Mutex<Vec<String>>,
    probe: Mutex<Option<Fault>>,
    pub(crate) held: Held,
}

/// Something that can be made to keep everybody waiting, as at the instant of a crash.
#[derive(Debug, Default)]
pub(crate) struct Held {
    on: AtomicBool,
    reached: tokio::sync::Notify,
}

impl Held {
    /// From now on nobody gets an answer.
    pub(crate) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Ends when somebody waits.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    async fn pass(&self) {
        if self.on.load(Ordering::Relaxed) {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl ScriptedApi {
    pub(crate) fn says(&self, name: &str, says: Says) {
        self.answers.lock().unwrap().insert(name.to_owned(), says);
    }

    pub(crate) fn probe_says(&self, fault: Option<Fault>) {
        *self.probe.lock().unwrap() = fault;
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl GeminiApi for ScriptedApi {
    async fn operation(&self, name: &OperationName) -> Result<FetchedBody, Fault> {
        self.asked.lock().unwrap().push(name.to_string());
        self.held.pass().await;
        let says = self.answers.lock().unwrap().get(name.as_str()).cloned();
        if let Some(Says::Held(told, _)) = &says {
            told.notified().await;
        }
        match says {
            Some(Says::Held(_, body) | Says::Body(body)) => {
                let bytes = Bytes::from(body.to_string());
                Ok(FetchedBody {
                    observation: wire::observe(name, &bytes)?,
                    bytes,
                })
            }
            Some(Says::Fault(fault)) => Err(fault),
            Some(Says::Panic) => panic!("as planned"),
            Some(Says::Hang) => std::future::pending().await,
            None => Err(Fault::NotFound),
        }
    }

    async fn probe(&self) -> Result<(), Fault> {
        self.probe.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    async fn download(&self, _file: &FileName) -> Result<Download, Fault> {
        Err(Fault::NotFound)
    }
}

/// An effect that remembers what it was sent and answers as told.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    sent: Mutex<Vec<Message>>,
    answers: Mutex<VecDeque<Delivery>>,
    down: AtomicBool,
    /// Before a message arrives.
    pub(crate) held_before: Held,
    /// After it arrived, before it is answered.
    pub(crate) held: Held,
}

impl Recorder {
    pub(crate) fn sent(&self) -> Vec<Message> {
        self.sent.lock().unwrap().clone()
    }

    pub(crate) fn answer_next(&self, with: Delivery) {
        self.answers.lock().unwrap().push_back(with);
    }

    /// Whether it surely takes nothing.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }
}

#[async_trait]
impl Effect for Recorder {
    async fn deliver(&self, message: &Message) -> Delivery {
        if self.down.load(Ordering::Relaxed) {
            let why = "down".to_owned();
            return Delivery::Retry { after: None, why };
        }
        self.held_before.pass().await;
        self.sent.lock().unwrap().push(message.clone());
        self.held.pass().await;
        self.answers
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Delivery::Done)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn kind(&self) -> &'static str {
        "recorder"
    }
}

/// What is outside the process, and outlives it.
#[derive(Debug, Default)]
struct Neighbours {
    api: Arc<ScriptedApi>,
    notify: Arc<Recorder>,
    pager: Arc<Recorder>,
}

pub(crate) struct World {
    pub(crate) base: TestStore,
    pub(crate) settings: Settings,
    pub(crate) api: Arc<ScriptedApi>,
    pub(crate) notify: Arc<Recorder>,
    pub(crate) pager: Arc<Recorder>,
    pub(crate) planner: Arc<dyn PlanEffects>,
    pub(crate) receiver: Receiver,
    pub(crate) registrar: Registrar,
    pub(crate) worker: Arc<Worker>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) reconciler: Reconciler,
    /// Each process has ids of its own.
    life: u64,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// A world under these settings, laid over the defaults.
    pub(crate) async fn with(toml: &str) -> Self {
        Self::on(TestStore::open().await, toml, AmbiguousPolicy::Retry)
    }

    pub(crate) fn on(base: TestStore, toml: &str, ambiguous: AmbiguousPolicy) -> Self {
        Self::among(base, toml, ambiguous, Neighbours::default())
    }

    fn among(
        base: TestStore,
        toml: &str,
        ambiguous: AmbiguousPolicy,
        Neighbours { api, notify, pager }: Neighbours,
    ) -> Self {
        let settings = settings(toml);
        let asked: Arc<dyn GeminiApi> = api.clone();
        let mut registry = Registry::build(&settings.effects, &asked).unwrap();
        let rule = |name: &str, on: Vec<Trigger>, ambiguous| EffectRule {
            name: name.to_owned(),
            job_kind: "*".to_owned(),
            on,
            ambiguous,
        };
        let on = [OperationState::Succeeded, OperationState::Failed].map(Trigger::State);
        registry
            .add(rule("notify", on.to_vec(), ambiguous), notify.clone())
            .unwrap();
        registry
            .add(
                rule("pager", Vec::new(), AmbiguousPolicy::Retry),
                pager.clone(),
            )
            .unwrap();
        let mut alerts_to = settings.alerts.to.clone();
        alerts_to.push("pager".to_owned());
        let planner = Planner::new(registry.rules().to_vec(), alerts_to);
        let policies = planner.policies();
        let planner: Arc<dyn PlanEffects> = Arc::new(planner);
        let (store, clock, ids) = (base.store.clone(), base.clock.clone(), base.ids.clone());
        let worker = Worker::new(
            store.clone(),
            api.clone(),
            planner.clone(),
            clock.clone(),
            ids.clone(),
            &settings,
        );
        let sender = Sender::new(
            store.clone(),
            Arc::new(registry),
            planner.clone(),
            clock.clone(),
            ids.clone(),
            &settings.delivery,
        );
        let policy = Policy::new(&settings);
        Self {
            receiver: Receiver::new(
                store.clone(),
                clock.clone(),
                ids.clone(),
                settings.hooks.dedupe_ttl,
            ),
            registrar: Registrar::new(
                store.clone(),
                planner.clone(),
                clock.clone(),
                ids.clone(),
                policy,
            ),
            worker: Arc::new(worker),
            sender: Arc::new(sender),
            reconciler: Reconciler::new(store, planner.clone(), policies, clock, &settings),
            base,
            settings,
            api,
            notify,
            pager,
            planner,
            life: 1,
        }
    }

    /// The process dies here: nothing in flight is finished. The next one opens the same file, and
    /// its neighbours remember what they saw.
    pub(crate) async fn restart(self) -> Self {
        let life = self.life + 1;
        let (dir, now) = self.base.close().await;
        let base = TestStore::open_in(dir, now, life).await;
        let neighbours = Neighbours {
            api: self.api,
            notify: self.notify,
            pager: self.pager,
        };
        let mut fresh = Self::among(base, "", AmbiguousPolicy::Retry, neighbours);
        fresh.life = life;
        fresh.reconciler.recover().await.unwrap();
        fresh
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.base.clock.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.base.clock.advance(by);
    }

    /// A verified delivery, past the door.
    pub(crate) async fn deliver(&self, id: &str, body: Value) -> Received {
        let facts = parse::read(body.to_string().as_bytes(), Some(id));
        let now = self.now();
        let delivery = NewDelivery {
            id: hookledger::base::ids::Ids::uuid(&*self.base.ids, now),
            source: "gemini".to_owned(),
            received_at: now,
            event_type: facts.event_type,
            operation: facts.operation,
            dedupe_key: facts.dedupe_key,
            dedupe_until: now.after(self.settings.hooks.dedupe_ttl),
            ignored_because: facts.ignored_because,
            webhook_id: Some(id.to_owned()),
            proof: "test".to_owned(),
            reservation: None,
            replay_of: None,
            user_metadata: None,
            headers: Vec::new(),
            body: Bytes::from(body.to_string()),
        };
        self.base.store.deliver(delivery).await.unwrap()
    }

    /// A captured delivery, once more.
    pub(crate) async fn replay(&self, event: uuid::Uuid) -> Received {
        match self.receiver.replay(event).await.unwrap() {
            Replayed::Received(received) => received,
            other => panic!("not replayed: {other:?}"),
        }
    }

    /// A delivery that says that an operation has ended.
    pub(crate) async fn tell(&self, id: &str, operation: &str) -> Received {
        self.deliver(
            id,
            json!({"type": "batch.succeeded", "data": {"id": operation}}),
        )
        .await
    }

    pub(crate) async fn register(&self, name: &str, job_kind: &str) -> Registered {
        let (name, kind) = (name.parse().unwrap(), job_kind.parse().unwrap());
        self.registrar.register(name, kind, None).await.unwrap()
    }

    pub(crate) async fn work(&self) -> Vec<ItemEnd> {
        self.worker.step().await.unwrap()
    }

    pub(crate) async fn send(&self) -> Vec<EffectState> {
        self.sender.step().await.unwrap()
    }

    pub(crate) async fn reconcile(&self) -> Turn {
        self.reconciler.step().await.unwrap()
    }

    pub(crate) async fn operation(&self, name: &str) -> Option<Operation> {
        self.base
            .store
            .operation_by_name(&name.parse().unwrap())
            .await
            .unwrap()
    }

    pub(crate) fn dir(&self) -> &TempDir {
        &self.base.dir
    }
}

/// A batch that goes on.
pub(crate) fn running(name: &str) -> Says {
    Says::Body(json!({"name": name, "metadata": {"state": "BATCH_STATE_RUNNING"}}))
}

/// A batch that succeeded, with its output in a file.
pub(crate) fn succeeded(name: &str) -> Says {
    Says::Body(json!({
        "name": name, "done": true,
        "metadata": {
            "state": "BATCH_STATE_SUCCEEDED",
            "batchStats": {"requestCount": "2", "successfulRequestCount": "2"},
            "output": {"responsesFile": "files/batch-x"},
        },
        "response": {"responsesFile": "files/batch-x"},
    }))
}

/// A batch that failed.
pub(crate) fn failed(name: &str) -> Says {
    Says::Body(json!({
        "name": name, "done": true, "metadata": {"state": "BATCH_STATE_FAILED"},
        "error": {"code": 8, "message": "quota"},
    }))
}
