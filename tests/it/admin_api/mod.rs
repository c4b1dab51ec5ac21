//! The operator's API over its router, with a real store behind it.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

mod bulk;
mod documented;
mod errors;
mod health;
mod listener;
mod lists;
mod once;
mod records;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use hookledger::base::clock::Clock;
use hookledger::base::shutdown::Shutdown;
use hookledger::domain::operation::OperationRef;
use hookledger::http::admin::admin_router;
use hookledger::http::health::{Health, Watched, public_health_router};
use hookledger::http::layers::{Common, wrap};
use hookledger::http::peers::Peers;
use hookledger::http::state::AdminState;
use hookledger::reconcile::upkeep::Upkeep;
use hookledger::store::{EffectFilter, NewDelivery, Received};
use hookledger::telemetry::metrics::Metrics;
use hookledger::work::Fetching;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;
use uuid::Uuid;

use crate::openapi;
use crate::support::world::World;

const TOKEN: &str = "test-admin-token-0123456789abcdefgh";

/// Settings under which the API answers.
fn open() -> String {
    format!("[admin]\ntoken = \"{TOKEN}\"\n[server]\npublic_url = \"https://hooks.example.com\"\n")
}

struct Api {
    world: World,
    loops: Shutdown,
    paused: Arc<AtomicBool>,
    admin: Router,
    public: Router,
}

impl Api {
    async fn new() -> Self {
        Self::with(&open()).await
    }

    async fn with(toml: &str) -> Self {
        Self::counting_in(Metrics::local().1, toml).await
    }

    async fn counting_in(metrics: Metrics, toml: &str) -> Self {
        let world = World::with(toml).await;
        let clock: Arc<dyn Clock> = world.base.clock.clone();
        let loops = Shutdown::new(Arc::clone(&clock));
        let paused = Arc::new(AtomicBool::new(false));
        let is_paused = Arc::clone(&paused);
        let health = Arc::new(Health::new(Watched {
            store: world.base.store.clone(),
            clock: Arc::clone(&clock),
            groups: vec![loops.clone()],
            loop_intervals: vec![("slow", Duration::from_mins(5))],
            min_free_disk: world.settings.store.min_free_disk,
            fetching: Arc::new(move || {
                if is_paused.load(Ordering::Relaxed) {
                    Fetching::KeyRefused
                } else {
                    Fetching::Works
                }
            }),
        }));
        let state = AdminState::new(
            &world.settings,
            world.base.store.clone(),
            world.registrar.clone(),
            world.receiver.clone(),
            Arc::clone(&health),
            metrics,
        )
        .with_requests(loops.clone())
        .with_upkeep(Arc::new(Upkeep::new(
            world.base.store.clone(),
            world.planner.clone(),
            Arc::clone(&clock),
            &world.settings,
        )));
        let common = Common {
            clock,
            ids: world.base.ids.clone(),
            peers: Peers::default(),
        };
        Self {
            admin: wrap(admin_router(state), common.clone()),
            public: wrap(public_health_router(health), common),
            world,
            loops,
            paused,
        }
    }

    /// Every answer is what the OpenAPI document says.
    async fn send(&self, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.admin.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 22).await.unwrap();
        if method != Method::HEAD {
            let kind = head
                .headers
                .get("content-type")
                .map(|kind| kind.to_str().unwrap());
            let kind = kind.unwrap_or_default();
            let told = openapi::check(method.as_str(), &path, head.status.as_u16(), kind, &body);
            assert_eq!(told, Ok(()));
        }
        Response::from_parts(head, Body::from(body))
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
        let now = self.world.base.clock.now();
        self.world
            .base
            .store
            .deliver(NewDelivery {
                id: self.world.base.ids.uuid(now),
                source: "gemini".to_owned(),
                received_at: now,
                event_type: Some("batch.succeeded".to_owned()),
                operation: operation.map(|o| OperationRef::parse(o, None).unwrap()),
                dedupe_key: Some(key.to_owned()),
                dedupe_until: now.after(Duration::from_hours(1)),
                ignored_because: None,
                webhook_id: Some("msg_1".to_owned()),
                proof: "hmac".to_owned(),
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
        let planner = Arc::clone(&self.world.planner);
        let subject = "queue/dead".to_owned();
        let summary = "2 work items were given up".to_owned();
        let opened = self
            .world
            .base
            .store
            .open_alert(subject, summary, planner)
            .await;
        assert!(opened.unwrap());
        self.world
            .base
            .store
            .effects(&EffectFilter::default(), None, 1)
            .await
            .unwrap()
            .items[0]
            .id
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
