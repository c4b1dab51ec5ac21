//! The model behind HTTP: every route under `/v1` and `/v1beta`, the control API under `/_sim/`.
//!
//! One request of the API: it is written into the request log; its path is read into a call (a path
//! Google does not know answers an HTML 404); the API key is checked (not for the bytes of an
//! upload, nor for the public keys); a fault may answer instead; time is played up to now; the call acts on the model; a
//! fault may spoil the answer. Acting comes before spoiling, so a create whose answer is lost has
//! made its job, as with the real API.
//!
//! The control API asks for no key and speaks JSON:
//!
//! ```text
//! POST   /_sim/operations              make a job: {"kind":"batch","outcome":"succeeded",
//!                                      "complete_after_ms":2000,"webhook":{"deliver":"once"}} → 201 {"name"}
//! POST   /_sim/operations/{name}/finish  {"outcome":"failed"} → the job's body
//! POST   /_sim/faults                  {"fault":"unavailable","count":2,"name":"batches/…"} or
//!                                      {"webhook":{"deliver":"drop"}}, or a list → {"set":1}
//! DELETE /_sim/faults                  forgets them all
//! POST   /_sim/forge                   {"name":"batches/…","type":"batch.succeeded"}: a signed lie → {"ids"}
//! POST   /_sim/webhooks/send           {"replay":"msg_…"} or {"body":…,"id":…,"unsigned":true} → {"id"}
//! GET    /_sim/webhooks                the registered webhooks, how often each failed
//! POST   /_sim/webhooks/{id}/state     {"state":"disabled_due_to_failed_deliveries"}
//! POST   /_sim/ping-body               {"body":…}: what pings send; null is the usual body again
//! POST   /_sim/jwks/rotate             {"withdraw":true,"hidden":true}: a new key signs → {"kid"}
//! POST   /_sim/jwks/publish            puts hidden keys into the key set
//! POST   /_sim/jwt-claims              {"claims":{"aud":null,"x":1}}: over the usual claims
//! POST   /_sim/advance                 {"ms":60000}: moves the model's time → {"now"}
//! GET    /_sim/requests                requests the API has seen
//! GET    /_sim/deliveries              webhooks sent, waiting or dropped
//! ```
//!
//! `docs/SIMULATOR.md` shows each by example.

pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod create;
pub(crate) mod error;
pub(crate) mod reply;
pub(crate) mod requests;
pub(crate) mod steer;
pub(crate) mod steer_hooks;
pub(crate) mod upload;
pub(crate) mod webhook_service;

use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use http::request::Parts;
use subtle::ConstantTimeEq;

use self::api::Asked;
use self::call::Call;
use self::error::ApiError;
use self::reply::Reply;
use super::Simulator;
use super::faults::{Fault, FaultKind};
use crate::base::clock::Timestamp;

/// Largest request body, in bytes: results and uploads are kept in memory.
const LARGEST_BODY: usize = 256 * 1024 * 1024;

/// All routes.
pub(crate) fn router(sim: Arc<Simulator>) -> Router {
    let api = Router::new().fallback(serve).with_state(Arc::clone(&sim));
    steer::router(Arc::clone(&sim))
        .merge(steer_hooks::router(sim))
        .fallback_service(api)
}

async fn serve(State(sim): State<Arc<Simulator>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let method = parts.method.as_str();
    // Some clients escape the colon before the verb.
    let path = parts.uri.path().replace("%3A", ":").replace("%3a", ":");
    let query = parts.uri.query().unwrap_or_default();
    sim.seen().note(method, &path, sim.now());
    let Some(call) = Call::parse(method, &path) else {
        return Reply::html(404, "Not Found").whole();
    };
    let envelope = call::envelope(&path);
    if call != Call::Jwks
        && !upload::is_continued(&call, query)
        && let Err(error) = check_key(&sim, &parts)
    {
        return error.render(envelope).whole();
    }
    let fault = sim.model().faults.take(method, &path, sim.now());
    if let Some(answer) = fault.as_ref().and_then(instead) {
        return answer
            .unwrap_or_else(|error| error.render(envelope))
            .whole();
    }
    let Ok(body) = to_bytes(body, LARGEST_BODY).await else {
        return ApiError::invalid("The request body is too large.")
            .render(envelope)
            .whole();
    };
    let reply = if call == Call::Jwks {
        let max_age = sim.config.tokens.max_age.as_secs();
        let caching = format!("public, max-age={max_age}, must-revalidate");
        Reply::ok(&sim.keys().jwks()).with("cache-control", caching)
    } else {
        let asked = Asked {
            headers: &parts.headers,
            query,
            body: &body,
            now: sim.now(),
            complete_after: sim.config.complete_after,
            ids: &*sim.ids,
        };
        let mut model = sim.model();
        model.advance(asked.now, asked.ids);
        api::answer(&mut model, &call, &asked).unwrap_or_else(|error| error.render(envelope))
    };
    sim.changed.notify_one();
    match fault {
        Some(fault) => spoil(&sim, &fault, reply).await,
        None => reply.whole(),
    }
}

fn check_key(sim: &Simulator, parts: &Parts) -> Result<(), ApiError> {
    let header = parts
        .headers
        .get("x-goog-api-key")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let query = parts.uri.query().unwrap_or_default();
    let key = header
        .or_else(|| {
            url::form_urlencoded::parse(query.as_bytes())
                .find(|(name, _)| name == "key")
                .map(|(_, value)| value.into_owned())
        })
        .filter(|key| !key.is_empty())
        .ok_or_else(ApiError::no_key)?;
    let accepted = sim
        .config
        .api_key
        .as_ref()
        .is_none_or(|accepted| bool::from(accepted.expose().as_bytes().ct_eq(key.as_bytes())));
    if accepted {
        Ok(())
    } else {
        Err(ApiError::key_invalid())
    }
}

/// What a fault answers in the API's place; `None` for those that let it act.
fn instead(fault: &Fault) -> Option<Result<Reply, ApiError>> {
    Some(match fault.fault {
        FaultKind::RateLimited => Err(ApiError::rate_limited(fault.retry_after_ms)),
        FaultKind::ServerError => Err(ApiError::new(
            500,
            "INTERNAL",
            "An internal error has occurred.",
        )),
        FaultKind::Unavailable => Err(ApiError::new(
            503,
            "UNAVAILABLE",
            "This model is currently experiencing high demand. Please try again later.",
        )),
        FaultKind::BadGateway => Ok(Reply::html(502, "Bad Gateway")),
        FaultKind::NotFound => Err(ApiError::not_found()),
        FaultKind::HtmlNotFound => Ok(Reply::html(404, "Not Found")),
        FaultKind::KeyInvalid => Err(ApiError::key_invalid()),
        FaultKind::Unauthenticated => Err(ApiError::new(
            401,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials.",
        )),
        FaultKind::PaymentRequired => Err(ApiError::new(
            402,
            "PAYMENT_REQUIRED",
            "Your prepaid credit is used up.",
        )),
        FaultKind::Forbidden => Err(ApiError::new(
            403,
            "PERMISSION_DENIED",
            "The caller does not have permission.",
        )),
        FaultKind::Hang
        | FaultKind::Reset
        | FaultKind::Truncated
        | FaultKind::Garbage
        | FaultKind::WrongName
        | FaultKind::DateAhead
        | FaultKind::DateBehind => return None,
    })
}

/// Spoils the answer of a call that has acted.
async fn spoil(sim: &Simulator, fault: &Fault, mut reply: Reply) -> Response {
    match fault.fault {
        FaultKind::Hang => {
            tokio::select! {
                () = sim.clock.sleep(fault.hang()) => {}
                () = sim.closing.cancelled() => {}
            }
            reply.whole()
        }
        FaultKind::Reset => reply.broken(0),
        FaultKind::Truncated => reply.broken(50),
        FaultKind::Garbage => {
            reply.body = bytes::Bytes::from_static(b"{\"name\": \"batches/\x00\xff, upstream");
            reply.whole()
        }
        FaultKind::WrongName => {
            reply.body = other_name(&reply.body, sim).into();
            reply.whole()
        }
        FaultKind::DateAhead | FaultKind::DateBehind => {
            // The clock's own time: the model's may have been moved ahead.
            match http_date(fault.date(sim.clock.now())) {
                Some(date) => reply.with("date", date).whole(),
                None => reply.whole(),
            }
        }
        _ => reply.whole(),
    }
}

/// A moment as `Date` tells it.
fn http_date(at: Timestamp) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
    jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&at)
        .ok()
}

/// The body with the resource's own name exchanged for one that nobody has.
fn other_name(body: &[u8], sim: &Simulator) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return text;
    };
    let name = value.get("name").or_else(|| value.get("id"));
    let Some(last) = name
        .and_then(serde_json::Value::as_str)
        .map(super::state::names::last_segment)
    else {
        return text;
    };
    text.replace(last, &super::state::names::segment(&*sim.ids, last.len()))
}
