//! A receiver of effects that remembers all it got.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::base::shutdown::Shutdown;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) key: String,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn operation(&self) -> String {
        self.json()["data"]["name"].as_str().unwrap().to_owned()
    }
}

#[derive(Debug, Default)]
struct Memory {
    got: Vec<Got>,
    traceparents: Vec<Option<String>>,
    answers: VecDeque<u16>,
    refused: BTreeMap<String, usize>,
    pause: Duration,
}

/// Listens on loopback until the test ends.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    pub(crate) url: String,
    memory: Arc<Mutex<Memory>>,
}

impl Sink {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/effects", listener.local_addr().unwrap());
        let memory = Arc::<Mutex<Memory>>::default();
        let router = Router::new()
            .route("/effects", post(take))
            .with_state(memory.clone());
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        tasks.spawn("sink", async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { url, memory }
    }

    /// The next requests are answered so, and 200 after that.
    pub(crate) fn answer_next(&self, statuses: impl IntoIterator<Item = u16>) {
        self.memory.lock().unwrap().answers.extend(statuses);
    }

    /// From now on each answer comes so long after its request was remembered.
    pub(crate) fn answer_after(&self, pause: Duration) {
        self.memory.lock().unwrap().pause = pause;
    }

    /// All it got, in order.
    pub(crate) fn all(&self) -> Vec<Got> {
        self.memory.lock().unwrap().got.clone()
    }

    /// The `traceparent` of each request, in the same order.
    pub(crate) fn traceparents(&self) -> Vec<Option<String>> {
        self.memory.lock().unwrap().traceparents.clone()
    }

    /// All it got, by operation.
    pub(crate) fn by_operation(&self) -> BTreeMap<String, Vec<Got>> {
        let mut all: BTreeMap<_, Vec<Got>> = BTreeMap::new();
        for got in &self.memory.lock().unwrap().got {
            all.entry(got.operation()).or_default().push(got.clone());
        }
        all
    }

    /// How often it said no, by key.
    pub(crate) fn refused(&self) -> BTreeMap<String, usize> {
        self.memory.lock().unwrap().refused.clone()
    }

    /// What it got about one operation.
    pub(crate) fn about(&self, operation: &str) -> Vec<Got> {
        self.by_operation().remove(operation).unwrap_or_default()
    }
}

async fn take(
    State(memory): State<Arc<Mutex<Memory>>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let key = headers["webhook-id"].to_str().unwrap().to_owned();
    let traceparent = headers.get("traceparent");
    let traceparent = traceparent.map(|value| value.to_str().unwrap().to_owned());
    let (status, pause) = {
        let mut memory = memory.lock().unwrap();
        let status = memory.answers.pop_front().unwrap_or(200);
        if status != 200 {
            *memory.refused.entry(key.clone()).or_default() += 1;
        }
        memory.traceparents.push(traceparent);
        memory.got.push(Got { key, body });
        (status, memory.pause)
    };
    SystemClock::new().sleep(pause).await;
    StatusCode::from_u16(status).unwrap()
}
