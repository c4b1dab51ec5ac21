//! Traces: one from a delivery to its last effect.
//!
//! Problem: what belongs to one operation happens in several processes and over days: a delivery is
//! taken now, looked at after a crash, settled by the timer, told to a receiver that was down for
//! hours. No context that lives in memory spans that, and a column for it would make the ledger
//! carry what is only a view of it.
//!
//! Design: a span's place is *derived* ([`Trace`], [`Place`]) from what the ledger has anyway: the
//! operation's last segment, an event's id, an item's epoch, an effect's key and attempt. Whoever
//! records a span computes whose child it is, in whatever process. Spans are recorded finished; there
//! is no current span and nothing to propagate.
//!
//! ```text
//! operation                  root: from submission to settlement, recorded when it settles
//! ├── delivery               one for each verified delivery; a link to the sender's own span
//! │   └── fetch              a look that this delivery woke
//! ├── fetch                  a look that nobody woke by a delivery
//! └── settle
//!     └── effect NAME        one for each attempt, however late; what it posts carries its place
//! ```
//!
//! A delivery that names no operation, and an alert, have a trace of their own. A refused delivery has
//! none: whoever may not deliver must not fill the collector either; it is counted. A sender's
//! `traceparent` is linked and never a parent, since it is only a claim.
//!
//! Recording puts the span into a bounded queue or counts it as dropped; it never waits, and does
//! nothing when traces are off. One loop of the application's ([`Exporter`]) sends batches as OTLP over
//! HTTP. The SDK's own batch processor is not used: it runs on a thread that no [`Shutdown`] knows,
//! keeps its number of dropped spans to itself, and takes settings from variables that `check` never
//! saw. The messages are those of `opentelemetry-proto`.
//!
//! Races: a process that dies loses what waits in its queue, and an attempt that is repeated after a
//! crash may export a span twice, with the same ids. Traces are a view; the ledger is the record.
//!
//! [`Shutdown`]: crate::base::shutdown::Shutdown

mod export;
mod place;
mod span;

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::mpsc;
use url::Url;

pub use self::export::Exporter;
pub use self::place::{Place, Trace};
pub use self::span::{Kind, Span, Value};
use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::base::swap::Swap;
use crate::telemetry::metrics;

/// Spans that may wait to be exported.
const QUEUE: usize = 4096;

/// Where spans go, and which.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address they are posted to, whole.
    pub endpoint: Url,
    /// Headers sent along.
    pub headers: Vec<(String, Secret)>,
    /// What this service is called.
    pub service_name: String,
    /// Of a hundred traces, how many are exported.
    pub sample_percent: u8,
}

/// Why traces cannot be exported at all. Names no secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A header that cannot be sent.
    #[error("traces.headers: {0} is not a header name and value")]
    Header(String),
    /// The TLS or DNS machinery did not start.
    #[error("the HTTP client for traces could not be made")]
    Client(#[source] reqwest::Error),
}

/// Takes finished spans. Clones are the same; the default takes none.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Inner>>);

struct Inner {
    queue: mpsc::Sender<Span>,
    sample_percent: u8,
    headers: Swap<HeaderMap>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traces").field(&self.is_on()).finish()
    }
}

impl Traces {
    /// The taker, and the exporter that somebody has to run.
    ///
    /// # Errors
    /// A header is none, or there can be no client.
    pub fn new(options: &Options, clock: Arc<dyn Clock>) -> Result<(Self, Exporter), Error> {
        let headers = Swap::new(export::headers(&options.headers)?);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let exporter = Exporter::new(options, headers.clone(), waiting, clock)?;
        let inner = Inner {
            queue,
            sample_percent: options.sample_percent,
            headers,
        };
        Ok((Self(Some(Arc::new(inner))), exporter))
    }

    /// Whether anything is exported: what only a span needs need not be found out otherwise.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Headers that can be sent.
    ///
    /// # Errors
    /// One is none.
    pub fn checked(headers: &[(String, Secret)]) -> Result<HeaderMap, Error> {
        export::headers(headers)
    }

    /// Sends other headers from now on, as [`Traces::checked`] has made them.
    pub fn renew(&self, headers: HeaderMap) {
        if let Some(inner) = &self.0 {
            inner.headers.set(headers);
        }
    }

    /// Takes what `span` makes, when its trace is one that is exported. Never waits.
    pub fn record(&self, span: impl FnOnce() -> Span) {
        let Some(inner) = &self.0 else {
            return;
        };
        let span = span();
        if span.at.is_sampled(inner.sample_percent) && inner.queue.try_send(span).is_err() {
            metrics::trace_spans("queue_full", 1);
        }
    }

    /// The `traceparent` that says that `place` is the caller; `None` when traces are off.
    pub fn traceparent(&self, place: &Place) -> Option<String> {
        let inner = self.0.as_ref()?;
        Some(place.traceparent(place.is_sampled(inner.sample_percent)))
    }
}
