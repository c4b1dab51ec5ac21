//! The public door: `POST /hooks/{source}/{token}`.
//!
//! Layers, cheapest first: the path token, the client's address and the proofs as far as headers show them, the declared
//! length, a permit, the body under its cap and deadline, the proofs over the raw bytes and their
//! window, and then one call to the receiver, which commits. Nothing before that call touches the
//! store, so whoever has no proof costs no disk.
//!
//! Races: the receiver runs in a task of its own, together with its permit. A client that hangs up
//! ends the handler but not the commit, and what a commit that outlived its client did is seen as a
//! duplicate when the sender tries again. If the task ends without an answer (a panic), nobody knows
//! what was stored, and the answer is 503: never a 2xx, which would end the sender's retries, and
//! never a 4xx, which may.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use http::{HeaderMap, Request, Response};
use serde::Serialize;
use tokio::sync::oneshot;

use super::body::{BodyError, check_declared, read_capped};
use super::error::Problem;
use super::failures::Failures;
use super::peers::Client;
use super::permits::{Permit, Permits};
use crate::base::clock::Clock;
use crate::base::failpoint::failpoint;
use crate::base::shutdown::Shutdown;
use crate::base::swap::Swap;
use crate::config::settings::Server;
use crate::telemetry::metrics;
use crate::verify::{AnswerClass, Reject, Verified, Verifier};

/// Keys of tokens are asked for once a minute.
const WHEN_KEYS_MAY_BE_BACK: Duration = Duration::from_mins(1);

/// What became of a verified delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum ReceiveAnswer {
    /// New, and on disk with its work item.
    Accepted,
    /// Seen before.
    Duplicate,
    /// On disk; there is nothing to do about it.
    Ignored,
}

/// Nothing was stored. The sender should try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deliveries cannot be stored right now")]
pub struct Unavailable {
    /// When trying again makes sense.
    pub retry_after: Duration,
}

/// Who takes verified deliveries.
#[async_trait]
pub trait Receive: Send + Sync + 'static {
    /// Answers once the delivery is on disk. The caller never drops this future early.
    async fn receive(&self, delivery: Verified) -> Result<ReceiveAnswer, Unavailable>;

    /// Counts a refusal. `source` is a configured name; `reason` is a [`Reject::label`] or one of
    /// `body_too_large`, `body_incomplete`, `busy`, `store_unavailable`.
    fn refused(&self, source: Option<&str>, reason: &'static str) {
        metrics::refusal(source, reason);
    }
}

/// What the door needs.
pub struct Door {
    verifier: Swap<Verifier>,
    receiver: Arc<dyn Receive>,
    clock: Arc<dyn Clock>,
    tasks: Shutdown,
    failures: Failures,
    permits: Permits,
    max_body: u64,
    body_timeout: Duration,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("verifier", &self.verifier)
            .finish_non_exhaustive()
    }
}

impl Door {
    /// A door to `receiver`, by whichever verifier is in force when a delivery comes. Commits run in `tasks`, which must stop after the listener and before
    /// the store.
    pub fn new(
        verifier: impl Into<Swap<Verifier>>,
        receiver: Arc<dyn Receive>,
        server: &Server,
        clock: Arc<dyn Clock>,
        tasks: Shutdown,
    ) -> Self {
        Self {
            verifier: verifier.into(),
            receiver,
            failures: Failures::new(Arc::clone(&clock)),
            clock,
            tasks,
            permits: Permits::new(server.max_in_flight),
            max_body: server.max_body,
            body_timeout: server.body_timeout,
        }
    }

    async fn deliver(
        &self,
        source: &str,
        token: &str,
        client: Option<Client>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<ReceiveAnswer, Refused> {
        let address = client.map(|c| c.address);
        let admitted = self.verifier.get().admit(source, token, address, headers)?;
        check_declared(headers, self.max_body)?;
        let permit = self.permits.take().ok_or(Refused::Busy)?;
        let body = read_capped(headers, body, self.max_body, self.body_timeout).await?;
        failpoint!("fp-in1");
        let whole = self.clock.monotonic();
        let delivery = admitted.verify(body, self.clock.now()).await?;
        let answer = self.commit(delivery, permit).await;
        failpoint!("fp-in3");
        metrics::received_in(self.clock.monotonic().saturating_sub(whole));
        answer
    }

    async fn commit(&self, delivery: Verified, permit: Permit) -> Result<ReceiveAnswer, Refused> {
        let (tell, told) = oneshot::channel();
        let receiver = Arc::clone(&self.receiver);
        self.tasks.spawn("receive", async move {
            let answer = receiver.receive(delivery).await;
            drop(permit);
            // Nobody listens when the client hung up; the delivery is stored all the same.
            let _ = tell.send(answer);
        });
        match told.await {
            Ok(answer) => answer.map_err(Refused::Store),
            Err(_) => Err(Refused::Lost),
        }
    }

    fn refuse(&self, source: &str, client: Option<Client>, refused: &Refused) -> Problem {
        let known = !matches!(
            refused,
            Refused::Proof(Reject::UnknownSource | Reject::WrongToken)
        );
        let source = known.then_some(source);
        let reason = refused.label();
        self.receiver.refused(source, reason);
        match refused {
            Refused::Proof(reject) => match reject.answer_class() {
                AnswerClass::NotFound => {
                    // Whoever knows the token and comes from elsewhere: a leak, or a list that is out
                    // of date. Told, but not as often as somebody likes.
                    let loud = source.is_some() && client.is_none_or(|c| self.failures.count(c));
                    if loud {
                        tracing::warn!(source, reason, "delivery refused");
                    } else {
                        tracing::debug!(source, reason, "delivery refused");
                    }
                    Problem::NOT_FOUND
                }
                AnswerClass::Unavailable => {
                    tracing::warn!(source, reason, "delivery not taken");
                    Problem::UNAVAILABLE.after(WHEN_KEYS_MAY_BE_BACK)
                }
                AnswerClass::Unauthorized if client.is_none_or(|c| self.failures.count(c)) => {
                    tracing::info!(source, reason, "delivery refused");
                    Problem::UNAUTHORIZED
                }
                AnswerClass::Unauthorized => {
                    tracing::debug!(source, reason, "delivery refused, again");
                    Problem::TOO_MANY_FAILURES
                }
            },
            Refused::Body(error) => {
                tracing::info!(source, reason, "delivery refused");
                (*error).into()
            }
            Refused::Busy | Refused::Lost => {
                tracing::warn!(source, reason, "delivery not taken");
                Problem::UNAVAILABLE
            }
            Refused::Store(unavailable) => {
                tracing::warn!(source, reason, "delivery not taken");
                Problem::UNAVAILABLE.after(unavailable.retry_after)
            }
        }
    }
}

#[derive(Debug)]
enum Refused {
    Proof(Reject),
    Body(BodyError),
    Busy,
    Store(Unavailable),
    Lost,
}

impl Refused {
    const fn label(&self) -> &'static str {
        match self {
            Self::Proof(reject) => reject.label(),
            Self::Body(BodyError::TooLarge) => "body_too_large",
            Self::Body(BodyError::TimedOut | BodyError::Broken) => "body_incomplete",
            Self::Busy => "busy",
            Self::Store(_) | Self::Lost => "store_unavailable",
        }
    }
}

impl From<Reject> for Refused {
    fn from(reject: Reject) -> Self {
        Self::Proof(reject)
    }
}

impl From<BodyError> for Refused {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

/// The door's route. Wrap it with [`layers::wrap`](super::layers::wrap).
pub fn routes(door: Arc<Door>) -> Router {
    Router::new()
        .route("/hooks/{source}/{token}", post(handle))
        .with_state(door)
}

async fn handle(
    State(door): State<Arc<Door>>,
    path: Result<Path<(String, String)>, PathRejection>,
    client: Option<Extension<Client>>,
    request: Request<Body>,
) -> Response<Body> {
    // A path that is not even text is one more unknown path.
    let Ok(Path((source, token))) = path else {
        return Problem::NOT_FOUND.into_response();
    };
    let client = client.map(|Extension(c)| c);
    let (head, body) = request.into_parts();
    match door
        .deliver(&source, &token, client, &head.headers, body)
        .await
    {
        Ok(answer) => Json(answer).into_response(),
        Err(refused) => door.refuse(&source, client, &refused).into_response(),
    }
}
