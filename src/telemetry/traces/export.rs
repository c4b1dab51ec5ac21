//! Sending spans: batches, patience, and one line for an outage however long.
//!
//! A batch goes when it is full or its first span is [`LINGER`] old. A collector that is down or says
//! "later" is asked again with back-off, [`TRIES`] times for each batch; meanwhile the queue fills, and
//! what finds it full is counted and gone. The first failure is logged, and the first success after it.
//!
//! At the stop everything that waits is sent once, as fast as the collector takes it; the application
//! bounds how long that may last, and what is left is counted.
//!
//! Races: the queue's end is behind a lock, so that a loop that panicked and was started again goes on
//! with the same queue; a batch in hand at that moment is lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::{Client, redirect, retry};
use tokio::sync::{Mutex, mpsc};
use url::Url;

use super::span::{self, Span};
use super::{Error, Options};
use crate::base::backoff::Backoff;
use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::base::swap::Swap;
use crate::telemetry::metrics;

/// Most spans of one request.
const BATCH: usize = 512;
/// Longest that a span waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// One request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a batch is tried.
const TRIES: u32 = 5;
/// Most of an answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

const PAUSE: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(30),
};

/// Sends what was recorded.
pub struct Exporter {
    client: Client,
    endpoint: Url,
    headers: Swap<HeaderMap>,
    service_name: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    waiting: mpsc::Receiver<Span>,
    /// Whether the last request failed.
    is_down: bool,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("host", &self.endpoint.host_str())
            .finish_non_exhaustive()
    }
}

/// How a request ended that was not taken.
enum Failed {
    /// It may be taken later.
    Later(&'static str),
    /// It never will be.
    Never(&'static str),
}

pub(super) fn headers(configured: &[(String, Secret)]) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in configured {
        let bad = || Error::Header(name.clone());
        let parsed = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    let protobuf = HeaderValue::from_static("application/x-protobuf");
    headers.insert(header::CONTENT_TYPE, protobuf);
    Ok(headers)
}

impl Exporter {
    pub(super) fn new(
        options: &Options,
        headers: Swap<HeaderMap>,
        waiting: mpsc::Receiver<Span>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let client = Client::builder()
            .user_agent(concat!("hookledger/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .timeout(TIMEOUT)
            .build()
            .map_err(Error::Client)?;
        Ok(Self {
            client,
            endpoint: options.endpoint.clone(),
            headers,
            service_name: options.service_name.clone(),
            clock,
            state: Mutex::new(State {
                waiting,
                is_down: false,
            }),
        })
    }

    /// Exports until `group` stops, then once more what waits.
    pub async fn run_loop(self: Arc<Self>, group: Shutdown, heart: Heartbeat) {
        let mut state = self.state.lock().await;
        while !group.is_stopping() {
            heart.beat();
            let batch = self.gather(&mut state.waiting, &group).await;
            if !batch.is_empty() {
                self.export(&mut state, batch, &group).await;
            }
        }
        tokio::select! {
            () = self.flush(&mut state, &group) => {}
            () = group.forced() => {}
        }
        let left = state.waiting.len() as u64;
        metrics::trace_spans("undelivered", left);
    }

    /// Waits for a first span, then a moment for others.
    async fn gather(&self, waiting: &mut mpsc::Receiver<Span>, group: &Shutdown) -> Vec<Span> {
        let mut batch = Vec::new();
        tokio::select! {
            _ = waiting.recv_many(&mut batch, BATCH) => {}
            () = group.stopping() => return batch,
        }
        let lingered = self.clock.sleep(LINGER);
        tokio::pin!(lingered);
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                _ = waiting.recv_many(&mut batch, room) => {}
                () = &mut lingered => break,
                () = group.stopping() => break,
            }
        }
        batch
    }

    /// Everything that waits, one try each.
    async fn flush(&self, state: &mut State, group: &Shutdown) {
        while !state.waiting.is_empty() {
            let mut batch = Vec::new();
            state.waiting.recv_many(&mut batch, BATCH).await;
            self.export(state, batch, group).await;
        }
    }

    /// Sends one batch, or gives it up. In a stop it is tried once.
    async fn export(&self, state: &mut State, batch: Vec<Span>, group: &Shutdown) {
        let mut counted = Counted(batch.len() as u64);
        let body = span::request(&self.service_name, batch).encode_to_vec();
        for tried in 1..=TRIES {
            let end = tokio::select! {
                end = self.send(body.clone()) => end,
                () = group.forced() => return,
            };
            let (why, again) = match end {
                Ok(rejected) => {
                    counted.taken(rejected);
                    if std::mem::take(&mut state.is_down) {
                        tracing::info!("traces are exported again");
                    }
                    return;
                }
                Err(Failed::Later(why)) => (why, true),
                Err(Failed::Never(why)) => (why, false),
            };
            if !std::mem::replace(&mut state.is_down, true) {
                tracing::warn!(
                    why,
                    "traces cannot be exported; this is not said again until they can"
                );
            }
            if !again {
                counted.refused();
                return;
            }
            if tried == TRIES || group.is_stopping() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep(PAUSE.delay(tried, 0.5)) => {}
                () = group.stopping() => {}
            }
        }
    }

    /// One request. Answers how many spans the collector took and threw away.
    async fn send(&self, body: Vec<u8>) -> Result<u64, Failed> {
        let headers = HeaderMap::clone(&self.headers.get());
        let request = self.client.post(self.endpoint.clone());
        let mut answer = match request.headers(headers).body(body).send().await {
            Ok(answer) => answer,
            Err(error) if error.is_timeout() => return Err(Failed::Later("no answer in time")),
            Err(error) if error.is_connect() => return Err(Failed::Later("no connection")),
            Err(_) => return Err(Failed::Later("the connection was lost")),
        };
        let status = answer.status();
        let mut text = Vec::new();
        while text.len() < MAX_ANSWER
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            text.extend_from_slice(&chunk);
        }
        match status {
            _ if status.is_success() => {
                // An answer that is not read is taken for the whole success that its status says.
                let answer = ExportTraceServiceResponse::decode(&*text).unwrap_or_default();
                let rejected = answer.partial_success.map_or(0, |part| part.rejected_spans);
                Ok(u64::try_from(rejected).unwrap_or(0))
            }
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Failed::Later("the collector asks for patience")),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(Failed::Never("the collector refuses the credentials"))
            }
            StatusCode::NOT_FOUND => Err(Failed::Never("there is no collector at this path")),
            _ => Err(Failed::Never("the collector refuses the spans")),
        }
    }
}

/// Spans in hand: what becomes of them is counted once, also when the one who has them is dropped.
struct Counted(u64);

impl Counted {
    fn taken(&mut self, rejected: u64) {
        let all = std::mem::take(&mut self.0);
        let rejected = rejected.min(all);
        metrics::trace_spans("refused", rejected);
        metrics::trace_spans("exported", all - rejected);
    }

    fn refused(&mut self) {
        metrics::trace_spans("refused", std::mem::take(&mut self.0));
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::trace_spans("undelivered", self.0);
    }
}
