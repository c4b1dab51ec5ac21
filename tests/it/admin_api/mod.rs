//! The operator's API over its router, with a real store behind it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod errors;
mod health;
mod lists;
mod records;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use hookledger::base::clock::Clock;
use hookledger::base::shutdown::Shutdown;
use hookledger::config::{self, Inputs, Purpose, Settings};
use hookledger::domain::ledger::PlanEffects;
use hookledger::domain::operation::OperationRef;
use hookledger::effects::plan::Planner;
use hookledger::http::admin::admin_router;
use hookledger::http::health::{Health, Watched, public_health_router};
use hookledger::http::layers::{Common, wrap};
use hookledger::http::peers::Peers;
use hookledger::http::state::AdminState;
use hookledger::receive::Receiver;
use hookledger::store::{NewDelivery, Received};
use hookledger::telemetry::metrics::Metrics;
use hookledger::work::{Policy, Registrar};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;
use uuid::Uuid;

use crate::support::TestStore;

const TOKEN: &str = "canary-admin-token-0123456789abcdef";
const PATH_TOKEN: &str = "canary-path-token-0123456789abcdef";
const SETTINGS: &str = r#"
[server]
public_url = "https://hooks.example.com"

[[effects]]
name = "notify"
kind = "http"
url = "https://app.example.com/hooks"

[alerts]
to = ["notify"]
"#;

fn settings(token: Option<&str>) -> Settings {
    let secrets = [
        ("HOOK_PATH_TOKEN", PATH_TOKEN),
        ("HOOK_SHARED_SECRET", "canary-shared-secret-0123456789abc"),
    ];
    let token = token.map(|t| ("HOOKLEDGER_ADMIN_TOKEN", t));
    let inputs = Inputs::new()
        .with_text(SETTINGS)
        .with_environment(secrets.into_iter().chain(token));
    config::load(&inputs, Purpose::Serve).unwrap().settings
}

struct Api {
    base: TestStore,
    planner: Arc<dyn PlanEffects>,
    loops: Shutdown,
    paused: Arc<AtomicBool>,
    admin: Router,
    public: Router,
}

impl Api {
    async fn new() -> Self {
        Self::with(settings(Some(TOKEN))).await
    }

    async fn with(settings: Settings) -> Self {
        Self::counting_in(Metrics::local().1, settings).await
    }

    async fn counting_in(metrics: Metrics, settings: Settings) -> Self {
        let base = TestStore::open().await;
        let clock: Arc<dyn Clock> = base.clock.clone();
        let rules = settings.effects.iter().map(|e| e.rule.clone()).collect();
        let planner: Arc<dyn PlanEffects> =
            Arc::new(Planner::new(rules, settings.alerts.to.clone()));
        let registrar = Registrar::new(
            base.store.clone(),
            Arc::clone(&planner),
            Arc::clone(&clock),
            Arc::clone(&base.ids),
            Policy::new(&settings),
        );
        let receiver = Receiver::new(
            base.store.clone(),
            Arc::clone(&clock),
            Arc::clone(&base.ids),
            settings.hooks.dedupe_ttl,
        );
        let loops = Shutdown::new(Arc::clone(&clock));
        let paused = Arc::new(AtomicBool::new(false));
        let is_paused = Arc::clone(&paused);
        let health = Arc::new(Health::new(Watched {
            store: base.store.clone(),
            clock: Arc::clone(&clock),
            groups: vec![loops.clone()],
            loop_intervals: vec![("slow", Duration::from_mins(5))],
            min_free_disk: settings.store.min_free_disk,
            fetching_paused: Arc::new(move || is_paused.load(Ordering::Relaxed)),
        }));
        let state = AdminState::new(
            &settings,
            base.store.clone(),
            registrar,
            receiver,
            Arc::clone(&health),
            metrics,
        );
        let common = Common {
            clock,
            ids: Arc::clone(&base.ids),
            peers: Peers::default(),
        };
        Self {
            admin: wrap(admin_router(state), common.clone()),
            public: wrap(public_health_router(health), common),
            base,
            planner,
            loops,
            paused,
        }
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.admin.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        read(self.send(request(Method::GET, path, None)).await).await
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        read(self.send(request(Method::POST, path, Some(body))).await).await
    }

    async fn register(&self, name: &str) -> Value {
        let body = json!({"name": name, "job_kind": "nightly"});
        let (status, answer) = self.post("/api/v1/operations", body).await;
        assert_eq!(status, 201, "{answer}");
        answer
    }

    /// A delivery that was accepted, as the receiver writes it.
    async fn deliver(&self, key: &str, operation: Option<&str>, body: &[u8]) -> Received {
        let now = self.base.clock.now();
        self.base
            .store
            .deliver(NewDelivery {
                id: self.base.ids.uuid(now),
                source: "gemini".to_owned(),
                received_at: now,
                event_type: Some("batch.succeeded".to_owned()),
                operation: operation.map(|o| OperationRef::parse(o, None).unwrap()),
                dedupe_key: Some(key.to_owned()),
                dedupe_until: now.after(Duration::from_hours(1)),
                ignored_because: None,
                webhook_id: Some("msg_1".to_owned()),
                proof: "hmac",
                reservation: None,
                replay_of: None,
                user_metadata: None,
                headers: vec![
                    (
                        "content-type".to_owned(),
                        Bytes::from_static(b"application/json"),
                    ),
                    ("x-odd".to_owned(), Bytes::from_static(b"\xff\x00")),
                ],
                body: Bytes::copy_from_slice(body),
            })
            .await
            .unwrap()
    }

    /// An open alert, whose delivery is the one effect there is.
    async fn alert(&self) -> Uuid {
        let planner = Arc::clone(&self.planner);
        let subject = "queue/dead".to_owned();
        let summary = "2 work item(s) were given up".to_owned();
        let opened = self.base.store.open_alert(subject, summary, planner).await;
        assert!(opened.unwrap());
        self.base.store.effects(None, None, 1).await.unwrap().items[0].id
    }
}

fn request(method: Method, path: &str, body: Option<Value>) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {TOKEN}"));
    match body {
        Some(body) => request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

async fn read(response: Response<Body>) -> (StatusCode, Value) {
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 22).await;
    let body = body.unwrap();
    let value = serde_json::from_slice(&body)
        .unwrap_or_else(|_| panic!("{status}: {:?}", String::from_utf8_lossy(&body)));
    (status, value)
}
