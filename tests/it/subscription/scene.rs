//! The simulator with one registered webhook, the real door, and what looks after the record, all on
//! one clock that a test moves. Webhooks go out only when the test says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::SystemClock;
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::config::settings;
use hookledger::gemini::client::HttpGemini;
use hookledger::gemini::webhooks::{WebhookApi, WebhookId, WebhookPatch};
use hookledger::http::hooks::{self, Door};
use hookledger::reconcile::rotation::Rotation;
use hookledger::reconcile::subscription::{Subscription, Turn};
use hookledger::reconcile::wanted::Wanted;
use hookledger::simulator::{Kind, NewJob, Outcome, Simulator, SimulatorConfig};
use hookledger::verify::{KeySource, NoKeys, SecretFile, SecretSet, Verifier};
use tokio::net::TcpListener;

use crate::support::PATH_TOKEN;
use crate::support::world::{World, succeeded};

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) fake: Arc<Simulator>,
    pub(crate) api: Arc<dyn WebhookApi>,
    pub(crate) id: WebhookId,
    pub(crate) hook: String,
    pub(crate) set: SecretSet,
    pub(crate) subscription: Subscription,
}

impl Scene {
    /// With these keys of `[subscription]` beside what the scene itself needs.
    pub(crate) async fn new(keys: &str, rest: &str) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hook = format!(
            "http://{}/hooks/gemini/{PATH_TOKEN}",
            door.local_addr().unwrap()
        );
        let toml = format!(
            "[subscription]\nenabled = true\nuri = '{hook}'\nsecrets_file = 'unused'\n{keys}\n{rest}"
        );
        let mut world = World::with(&toml).await;
        let clock = world.base.clock.clone();
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        let fake = Simulator::new(
            SimulatorConfig::default(),
            clock.clone(),
            world.base.ids.clone(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let fake_api = fake.router();
        tasks.spawn("simulator", async move {
            axum::serve(listener, fake_api).await.unwrap();
        });
        let gemini = settings::Gemini {
            base_url: base.parse().unwrap(),
            ..world.settings.gemini.clone()
        };
        let api: Arc<dyn WebhookApi> = Arc::new(HttpGemini::new(&gemini, clock.clone()).unwrap());
        let wanted = Wanted::new(&world.settings).unwrap();
        let made = api.create(&wanted.new_webhook()).await.unwrap();
        // Known by its id from now on: an address that changes is drift.
        world.settings.subscription.webhook_id = Some(made.id.to_string());
        let file = SecretFile::new(world.dir().path().join("secrets.json"));
        let secret = made.new_signing_secret.clone().unwrap();
        let now = world.now();
        let kept = file.update(|kept| kept.add(secret, made.id.as_str(), now));

        let sources = BTreeMap::from([(
            "gemini".to_owned(),
            settings::Source {
                shared_header: false,
                jwt: false,
                ..world.settings.sources["gemini"].clone()
            },
        )]);
        let keys: Arc<dyn KeySource> = Arc::new(NoKeys);
        let verifier = Verifier::new(&world.settings.hooks, &sources, &keys).unwrap();
        let set = verifier.kept_secrets("gemini").unwrap();
        set.replace(&kept.unwrap());
        let door_parts = Door::new(
            verifier,
            Arc::new(world.receiver.clone()),
            &world.settings.server,
            clock,
            tasks.clone(),
        );
        let routes = hooks::routes(Arc::new(door_parts));
        tasks.spawn("door", async move {
            axum::serve(door, routes).await.unwrap();
        });
        let mut scene = Self {
            subscription: subscription(&world, &api, &set),
            world,
            fake,
            api,
            id: made.id,
            hook,
            set,
        };
        scene.restart();
        scene
    }

    /// What looks after the record dies and begins anew: only the file and the store are left.
    pub(crate) fn restart(&mut self) {
        self.set.replace(&self.file().load().unwrap());
        self.subscription = subscription(&self.world, &self.api, &self.set);
    }

    pub(crate) fn file(&self) -> SecretFile {
        SecretFile::new(self.world.dir().path().join("secrets.json"))
    }

    pub(crate) async fn step(&self) -> Turn {
        self.subscription.step().await.unwrap()
    }

    /// A job that is registered and running.
    pub(crate) async fn job(&self) -> String {
        let name = self.fake.start(NewJob::new(Kind::Batch)).unwrap();
        self.world
            .api
            .says(&name, crate::support::world::running(&name));
        self.world.register(&name, "test").await;
        name
    }

    /// Ends a job and sends what there is to send.
    pub(crate) async fn end(&self, name: &str) -> usize {
        self.fake.finish(name, Outcome::Succeeded).unwrap();
        self.world.api.says(name, succeeded(name));
        self.fake.step().await
    }

    /// The answers that all deliveries so far got, by the last attempt.
    pub(crate) fn answers(&self) -> Vec<Option<u16>> {
        self.fake.deliveries().iter().map(|d| d.status).collect()
    }

    pub(crate) async fn point_to(&self, uri: &str) {
        let patch = WebhookPatch {
            uri: Some(uri.to_owned()),
            ..WebhookPatch::default()
        };
        self.api.update(&self.id, &patch).await.unwrap();
    }

    pub(crate) async fn open_alerts(&self) -> Vec<String> {
        let open = self.world.base.store.open_alerts().await.unwrap();
        open.into_iter().map(|alert| alert.subject).collect()
    }

    pub(crate) fn pass(&self, by: Duration) {
        self.world.advance(by);
    }

    /// A rotation by itself, over a set that no door knows.
    pub(crate) fn rotation(&self) -> Rotation {
        Rotation::new(
            self.file(),
            self.set.clone(),
            Arc::clone(&self.api),
            self.world.base.clock.clone(),
        )
    }

    /// Posts an event signed with a secret of the test's own; answers the status.
    pub(crate) async fn forge(&self, secret: &str) -> u16 {
        let body = r#"{"type":"batch.succeeded","data":{"id":"batches/forged"}}"#;
        let at = self.world.now().as_seconds();
        let key = standardwebhooks::Webhook::new(secret).unwrap();
        let signature = key.sign("msg_forged", at, body.as_bytes()).unwrap();
        let request = crate::simulator_support::client()
            .post(&self.hook)
            .header("webhook-id", "msg_forged")
            .header("webhook-timestamp", at.to_string())
            .header("webhook-signature", signature)
            .body(body);
        request.send().await.unwrap().status().as_u16()
    }

    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let kept = self.file().load().unwrap();
        kept.secrets.into_iter().map(|s| s.secret).collect()
    }
}

fn subscription(world: &World, api: &Arc<dyn WebhookApi>, set: &SecretSet) -> Subscription {
    let clock = world.base.clock.clone();
    let file = SecretFile::new(world.dir().path().join("secrets.json"));
    let rotation = Rotation::new(file, set.clone(), Arc::clone(api), clock.clone());
    Subscription::new(
        world.base.store.clone(),
        Arc::clone(api),
        world.planner.clone(),
        clock,
        Some(rotation),
        &world.settings,
    )
    .unwrap()
}
