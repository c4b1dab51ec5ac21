//! `Idempotency-Key`: a POST that is repeated is answered, not carried out again.
//!
//! Problem: a client whose connection broke does not know whether its request was carried out.
//!
//! Design, after the IETF draft *The Idempotency-Key HTTP Header Field*: the key is written down before
//! anything is done, with a fingerprint of the request (method, path, body), under the name of the
//! token; the answer is written down before it is sent. The same request with the same key gets that
//! answer for a day, another request is refused. A 503 stored nothing and is not kept, so the key is
//! free for the next try.
//!
//! Races: two at once, one of them in hand: 409, `in_progress`. A client that hangs up: the request
//! is a task of its own and goes on to its end. A process that dies, or a handler that panics, between
//! the two writes: whether the request was carried out is not known, so it is never carried out under
//! this key again; it is refused as `unfinished` until its day is over, and the operator looks.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::IntoResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::super::body::read_capped;
use super::super::error::Problem;
use super::super::state::AdminState;
use super::auth::Holder;
use super::input::MAX_BODY;
use super::refusal::Refusal;
use crate::store::{Begun, KeptAnswer, KeyedRequest};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is one of before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long an answer is kept.
const KEEP: Duration = Duration::from_hours(24);
/// Longest key, bytes.
const MAX_KEY: usize = 255;
/// Stands in a kept answer where the token of a reservation's URL was: it is derived again.
const TOKEN: &str = "<token>";

/// Keys whose requests are being carried out in this process.
#[derive(Debug, Clone, Default)]
pub struct Running(Arc<Mutex<HashSet<(String, String)>>>);

/// One of them; dropped when it has ended, however.
#[derive(Debug)]
struct InHand {
    all: Running,
    which: (String, String),
}

impl Running {
    fn enter(&self, request: &KeyedRequest) -> Option<InHand> {
        let which = (request.token.clone(), request.key.clone());
        let new = self.lock().insert(which.clone());
        new.then(|| InHand {
            all: self.clone(),
            which,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.all.lock().remove(&self.which);
    }
}

/// Carries a POST with a key out once.
pub(super) async fn keep_answers(
    State(state): State<Arc<AdminState>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let key = match key(request.headers()) {
        Ok(Some(key)) if request.method() == Method::POST => key,
        Ok(_) => return next.run(request).await,
        Err(refusal) => return refusal.into_response(),
    };
    match once(state, request, next, key).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn once(
    state: Arc<AdminState>,
    request: Request<Body>,
    next: Next,
    key: String,
) -> Result<Response<Body>, Refusal> {
    let (head, body) = request.into_parts();
    let body = read_capped(&head.headers, body, MAX_BODY, state.body_timeout).await;
    let body = body.map_err(|error| Refusal::from(Problem::from(error)))?;
    let Some(Holder(token)) = head.extensions.get().cloned() else {
        return Err(Problem::UNAUTHORIZED.into());
    };
    let keyed = KeyedRequest {
        token: token.to_string(),
        key,
        fingerprint: fingerprint(&head, &body),
    };
    let in_hand = state.running.enter(&keyed).ok_or_else(|| {
        conflict(
            "in_progress",
            "A request with this Idempotency-Key is being carried out; ask again when it has ended.",
        )
    })?;
    let request = Request::from_parts(head, Body::from(body));
    let (tell, told) = oneshot::channel();
    let requests = state.requests.clone();
    let work = async move {
        let answer = answer(&state, request, next, keyed).await;
        drop(in_hand);
        // Whoever asked may be gone.
        _ = tell.send(answer);
    };
    match requests {
        Some(group) => drop(group.spawn("request with a key", work)),
        None => work.await,
    }
    told.await
        .unwrap_or_else(|_| Err(Refusal::from(Problem::INTERNAL)))
}

/// The answer of before, or that of the handler.
async fn answer(
    state: &AdminState,
    request: Request<Body>,
    next: Next,
    keyed: KeyedRequest,
) -> Result<Response<Body>, Refusal> {
    match state.store.begin_request(keyed.clone(), KEEP).await? {
        Begun::New => Ok(carry_out(state, request, next, keyed).await),
        Begun::Answered(answer) => Ok(again(state, answer)),
        Begun::Other => Err(other()),
        Begun::Unfinished => Err(conflict(
            "unfinished",
            "The service ended, or failed, while it carried this request out, and whether it was \
             done is not known. Look, then send it with another key.",
        )),
        Begun::Full => Err(
            Refusal::from(Problem::UNAVAILABLE.after(Duration::from_mins(10))).because(
                "More than 100000 requests came with an Idempotency-Key in one day; send this one \
                 without, or later.",
            ),
        ),
    }
}

/// Runs the handler and writes its answer down before anybody gets it.
async fn carry_out(
    state: &AdminState,
    request: Request<Body>,
    next: Next,
    keyed: KeyedRequest,
) -> Response<Body> {
    let response = next.run(request).await;
    let (head, body) = response.into_parts();
    // Ours, and whole in memory already.
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return Problem::INTERNAL.into_response();
    };
    let kept = (head.status != StatusCode::SERVICE_UNAVAILABLE).then(|| KeptAnswer {
        status: head.status.as_u16(),
        content_type: content_type(&head.headers),
        body: swapped(state, &body, |token| (token, TOKEN.to_owned())),
    });
    if let Err(error) = state.store.end_request(keyed, kept).await {
        // The request was carried out all the same. A repetition will be told that it is not known.
        tracing::warn!(%error, "the answer to a request with a key could not be kept");
    }
    Response::from_parts(head, Body::from(body))
}

fn again(state: &AdminState, answer: KeptAnswer) -> Response<Body> {
    let body = swapped(state, &answer.body, |token| (TOKEN.to_owned(), token));
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    if let Some(Ok(kind)) = answer.content_type.map(HeaderValue::try_from) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    response
}

/// The answer to a reservation. What the client gave is kept byte for byte, whatever it spells.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Reserved<'a> {
    id: Uuid,
    webhook_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_url: Option<String>,
    #[serde(borrow)]
    user_metadata: &'a RawValue,
}

/// The body of a reservation with its token out of or back in its URL; any other as it is.
fn swapped(state: &AdminState, body: &[u8], how: impl Fn(String) -> (String, String)) -> Vec<u8> {
    let reserved = || {
        let mut answer: Reserved<'_> = serde_json::from_slice(body).ok()?;
        let tokens = state.path_tokens.get();
        let (from, to) = how((*tokens).as_ref()?.mint_reservation(answer.id));
        answer.webhook_path = answer.webhook_path.replace(&from, &to);
        answer.webhook_url = answer.webhook_url.map(|url| url.replace(&from, &to));
        serde_json::to_vec(&answer).ok()
    };
    reserved().unwrap_or_else(|| body.to_vec())
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?;
    value.to_str().ok().map(ToOwned::to_owned)
}

/// The one key, with or without the quotation marks that the draft asks for.
fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut all = headers.get_all(KEY).iter();
    let Some(first) = all.next() else {
        return Ok(None);
    };
    let text = first.to_str().unwrap_or_default();
    let inner = text
        .strip_prefix('"')
        .and_then(|t| t.strip_suffix('"'))
        .unwrap_or(text);
    let legal = all.next().is_none()
        && (1..=MAX_KEY).contains(&inner.len())
        && inner.bytes().all(|b| b.is_ascii_graphic());
    if legal {
        Ok(Some(inner.to_owned()))
    } else {
        Err(Refusal::bad_request(format!(
            "Idempotency-Key: exactly one is taken, of 1 to {MAX_KEY} visible ASCII characters."
        )))
    }
}

fn fingerprint(head: &http::request::Parts, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in [
        head.method.as_str().as_bytes(),
        head.uri.path().as_bytes(),
        head.uri.query().unwrap_or_default().as_bytes(),
    ] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(body);
    data_encoding::HEXLOWER.encode(&hash.finalize())
}

fn conflict(code: &'static str, detail: &'static str) -> Refusal {
    Refusal::from(Problem::new(StatusCode::CONFLICT, code, "Conflict", detail))
}

fn other() -> Refusal {
    Refusal::from(Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "key_reused",
        "Unprocessable Content",
        "This Idempotency-Key was sent with another request; each request wants a key of its own.",
    ))
}
