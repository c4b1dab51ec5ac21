//! A simulator on loopback whose time stands still until a test moves it.

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{ManualClock, SystemClock, Timestamp};
use hookledger::base::ids::RandomIds;
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::simulator::{Simulator, SimulatorConfig};
use serde_json::Value;
use tokio::net::TcpListener;

pub(crate) const SECRET: &str = "whsec_azN5MG9mMHRoaXJ0eTJ0d28wYXNjaWkwYnl0ZXMwb2s=";
pub(crate) const SHARED: &str = "a-shared-secret-of-some-length";

/// A simulator, its address and its clock. Webhooks go out only in [`Sim::step`].
pub(crate) struct Sim {
    pub(crate) fake: Arc<Simulator>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap()
}

impl Sim {
    pub(crate) async fn plain() -> Self {
        Self::with(SimulatorConfig::default()).await
    }

    /// One that tells `url` of endings.
    pub(crate) async fn telling(url: &str) -> Self {
        Self::with(SimulatorConfig {
            webhook_url: Some(url.parse().unwrap()),
            webhook_secret: Some(Secret::new(SECRET)),
            shared_secret: Some(Secret::new(SHARED)),
            ..SimulatorConfig::default()
        })
        .await
    }

    pub(crate) async fn with(config: SimulatorConfig) -> Self {
        let start = "2026-01-22T12:00:00Z".parse::<Timestamp>().unwrap();
        let clock = Arc::new(ManualClock::starting_at(start));
        let ids = Arc::new(RandomIds::seeded(9));
        let fake = Simulator::new(config, clock.clone(), ids);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = fake.router();
        // The router alone: nothing is sent behind the test's back.
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        tasks.spawn("simulator", async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            fake,
            clock,
            base,
            http: client(),
        }
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    pub(crate) async fn step(&self) -> usize {
        self.fake.step().await
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().unwrap();
        self.http
            .request(method, format!("{}{path}", self.base))
            .header("x-goog-api-key", "test-key")
    }

    /// Sends and returns status and JSON body.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = self.request(method, path).body(body.to_owned());
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "").await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Value {
        let (status, answer) = self.ask("POST", path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }
}
