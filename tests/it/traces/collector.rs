//! A collector of OTLP over HTTP that remembers what it was sent.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use hookledger::base::clock::SystemClock;
use hookledger::base::shutdown::Shutdown;
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

#[derive(Debug, Default)]
struct Memory {
    requests: Vec<(HeaderMap, Bytes)>,
    refuses: Option<u16>,
    refused: usize,
}

/// Listens on loopback until the test ends.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    pub(super) url: String,
    memory: Arc<Mutex<Memory>>,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let memory = Arc::<Mutex<Memory>>::default();
        let router = Router::new()
            .route("/v1/traces", post(take))
            .with_state(memory.clone());
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        tasks.spawn("collector", async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { url, memory }
    }

    /// From now on every request is answered so; `None` takes them.
    pub(super) fn refuses(&self, status: Option<u16>) {
        self.memory.lock().unwrap().refuses = status;
    }

    /// How often it said no.
    pub(super) fn refused(&self) -> usize {
        self.memory.lock().unwrap().refused
    }

    /// Every request it took: its headers and its bytes.
    pub(super) fn requests(&self) -> Vec<(HeaderMap, Bytes)> {
        self.memory.lock().unwrap().requests.clone()
    }

    /// Every message it took.
    pub(super) fn messages(&self) -> Vec<ExportTraceServiceRequest> {
        let decode = |(_, body): &(HeaderMap, Bytes)| {
            ExportTraceServiceRequest::decode(body.clone()).unwrap()
        };
        self.requests().iter().map(decode).collect()
    }

    /// Every span it took.
    pub(super) fn spans(&self) -> Vec<Span> {
        let messages = self.messages().into_iter();
        messages
            .flat_map(|m| m.resource_spans)
            .flat_map(|r| r.scope_spans)
            .flat_map(|s| s.spans)
            .collect()
    }

    /// Those of this name, by their beginning.
    pub(super) fn named(&self, name: &str) -> Vec<Span> {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

/// The text of an attribute.
pub(super) fn text(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|a| a.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{key}: {other:?}"),
    }
}

async fn take(
    State(memory): State<Arc<Mutex<Memory>>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut memory = memory.lock().unwrap();
    if let Some(status) = memory.refuses {
        memory.refused += 1;
        return StatusCode::from_u16(status).unwrap();
    }
    memory.requests.push((headers, body));
    StatusCode::OK
}
