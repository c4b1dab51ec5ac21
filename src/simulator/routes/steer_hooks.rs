//! `/_sim/` for registered webhooks and for the keys of dynamic signing.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::reply::Reply;
use super::steer::{read, refusal, refused, veiled, whole};
use crate::simulator::{KeyRotation, Simulator, WebhookState};

type Sim = State<Arc<Simulator>>;

/// The routes.
pub(crate) fn router(sim: Arc<Simulator>) -> Router {
    Router::new()
        .route("/_sim/webhooks", get(list))
        .route("/_sim/webhooks/{id}/state", post(set_state))
        .route("/_sim/ping-body", post(ping_body))
        .route("/_sim/jwks/rotate", post(rotate_key))
        .route("/_sim/jwks/publish", post(publish))
        .route("/_sim/jwt-claims", post(claims))
        .with_state(sim)
}

async fn list(State(sim): Sim) -> Response {
    let mut all = sim.webhooks();
    for hook in &mut all {
        hook.uri = veiled(&hook.uri);
    }
    Reply::ok(&json!({"webhooks": all})).whole()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewState {
    state: WebhookState,
}

async fn set_state(State(sim): Sim, Path(id): Path<String>, body: Bytes) -> Response {
    whole(read::<NewState>(&body).and_then(|new| {
        sim.set_webhook_state(&id, new.state).map_err(refused)?;
        Ok(Reply::ok(&json!({"state": new.state})))
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PingBody {
    /// `null` is the usual one again.
    body: Option<Value>,
}

async fn ping_body(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<PingBody>(&body).map(|new| {
        sim.set_ping_body(new.body);
        Reply::ok(&json!({}))
    }))
}

async fn rotate_key(State(sim): Sim, body: Bytes) -> Response {
    let how = if body.is_empty() {
        Ok(KeyRotation::default())
    } else {
        read::<KeyRotation>(&body)
    };
    whole(how.and_then(|how| {
        let made = sim.rotate_key(how);
        let kid = made.ok_or_else(|| refusal(500, "no key could be made"))?;
        Ok(Reply::ok(&json!({"kid": kid})))
    }))
}

async fn publish(State(sim): Sim) -> Response {
    sim.publish_keys();
    Reply::ok(&json!({})).whole()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    claims: Map<String, Value>,
}

async fn claims(State(sim): Sim, body: Bytes) -> Response {
    whole(read::<Claims>(&body).map(|new| {
        sim.set_claims(new.claims);
        Reply::ok(&json!({}))
    }))
}
