//! `/_sim/`: the control API. Its JSON is strict: a misspelt field is refused, not ignored.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::reply::Reply;
use crate::simulator::{Fault, NewJob, Outcome, RawWebhook, Refused, Simulator, WebhookFault};

type Sim = State<Arc<Simulator>>;
type Answer = Result<Reply, Reply>;

/// The routes under `/_sim/`.
pub(crate) fn router(sim: Arc<Simulator>) -> Router {
    Router::new()
        .route("/_sim/operations", post(start))
        .route("/_sim/operations/{*name}", post(finish))
        .route("/_sim/faults", post(fault).delete(clear))
        .route("/_sim/forge", post(forge))
        .route("/_sim/webhooks/send", post(send))
        .route("/_sim/advance", post(advance))
        .route("/_sim/requests", get(requests))
        .route("/_sim/deliveries", get(deliveries))
        .with_state(sim)
}

pub(crate) fn whole(answer: Answer) -> Response {
    answer.unwrap_or_else(|refusal| refusal).whole()
}

pub(crate) fn refusal(status: u16, text: &str) -> Reply {
    Reply::json(status, &json!({"error": text}))
}

pub(crate) fn refused(why: Refused) -> Reply {
    let status = match why {
        Refused::Unknown | Refused::UnknownWebhook => 404,
        Refused::AlreadyEnded => 409,
        Refused::DoesNotFit | Refused::NoDestination => 400,
    };
    refusal(status, &why.to_string())
}

pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Reply> {
    serde_json::from_slice(body).map_err(|error| refusal(400, &error.to_string()))
}

async fn start(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<NewJob>(&body).and_then(|job| {
        let name = sim.start(job).map_err(refused)?;
        Ok(Reply::json(201, &json!({"name": name})))
    }))
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Finish {
    outcome: Outcome,
}

async fn finish(State(sim): Sim, Path(path): Path<String>, body: Bytes) -> Response {
    let Some(name) = path.strip_suffix("/finish") else {
        return refusal(404, "the path ends in /finish").whole();
    };
    let asked = if body.is_empty() {
        Ok(Finish::default())
    } else {
        read::<Finish>(&body)
    };
    whole(asked.and_then(|asked| {
        sim.finish(name, asked.outcome).map_err(refused)?;
        Ok(Reply::ok(&sim.body(name).unwrap_or(Value::Null)))
    }))
}

/// One fault or a list of them; one with a `webhook` field concerns events.
async fn fault(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<Value>(&body).and_then(|value| {
        let list = match value {
            Value::Array(list) => list,
            one => vec![one],
        };
        let count = list.len();
        let (mut http, mut webhooks) = (Vec::new(), Vec::new());
        let bad = |error: serde_json::Error| refusal(400, &error.to_string());
        for item in list {
            if item.get("webhook").is_some() {
                webhooks.push(serde_json::from_value::<WebhookFault>(item).map_err(bad)?);
            } else {
                http.push(serde_json::from_value::<Fault>(item).map_err(bad)?);
            }
        }
        for fault in http {
            sim.fault(fault);
        }
        for fault in webhooks {
            sim.webhook_fault(fault);
        }
        Ok(Reply::ok(&json!({"set": count})))
    }))
}

async fn clear(State(sim): Sim) -> Response {
    sim.clear_faults();
    Reply::ok(&json!({})).whole()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forge {
    name: String,
    #[serde(rename = "type")]
    event_type: String,
}

async fn forge(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<Forge>(&body).and_then(|lie| {
        let told = sim.forge(&lie.name, &lie.event_type).map_err(refused)?;
        Ok(Reply::ok(&json!({"ids": told})))
    }))
}

async fn send(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<RawWebhook>(&body).and_then(|raw| {
        let id = sim.send_webhook(raw).map_err(refused)?;
        Ok(Reply::ok(&json!({"id": id})))
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    ms: u64,
}

async fn advance(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<Advance>(&body).map(|by| {
        sim.advance(Duration::from_millis(by.ms));
        Reply::ok(&json!({"now": sim.now()}))
    }))
}

async fn requests(State(sim): Sim) -> Response {
    Reply::ok(&json!({"requests": sim.requests()})).whole()
}

async fn deliveries(State(sim): Sim) -> Response {
    let mut all = sim.deliveries();
    for delivery in &mut all {
        delivery.url = veiled(&delivery.url);
    }
    Reply::ok(&json!({"deliveries": all})).whole()
}

/// A URL without the last part of its path, which is the receiver's token.
pub(crate) fn veiled(url: &str) -> String {
    match url.rsplit_once('/') {
        Some((rest, _)) => format!("{rest}/…"),
        None => url.to_owned(),
    }
}
