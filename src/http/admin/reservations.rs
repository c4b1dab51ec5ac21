//! `/reservations`: a record before the provider knows the job, and the URL its webhook comes by.
//!
//! The answer carries what goes into the create call: the URL, whose token names the reservation,
//! and the metadata, which names it too for providers that hand metadata back.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;
use uuid::Uuid;

use super::super::state::AdminState;
use super::input::{self, Input, Segment};
use super::refusal::Refusal;
use crate::domain::ledger::Operation;
use crate::store::Binding;

/// The metadata field that names the reservation.
const ID_FIELD: &str = "hookledger_id";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewReservation {
    job_kind: String,
    user_metadata: Option<Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Reserved {
    id: Uuid,
    webhook_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_url: Option<String>,
    user_metadata: Map<String, Value>,
}

pub(super) async fn reserve(
    State(state): State<Arc<AdminState>>,
    Input(new): Input<NewReservation>,
) -> Result<(StatusCode, Json<Reserved>), Refusal> {
    let job_kind = input::job_kind(&new.job_kind)?;
    let metadata = input::metadata(new.user_metadata)?;
    let mut shown = match &metadata {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    if shown.contains_key(ID_FIELD) {
        return Err(Refusal::bad_request(format!(
            "user_metadata.{ID_FIELD} is written by hookledger; leave it out."
        )));
    }
    let tokens = state.path_tokens.get();
    let Some(tokens) = &*tokens else {
        return Err(Refusal::conflict(
            "A reservation's URL is derived from hooks.path_token (HOOK_PATH_TOKEN), which is not set.",
        ));
    };
    let id = state.registrar.reserve(job_kind, metadata).await?;
    shown.insert(ID_FIELD.to_owned(), Value::from(id.to_string()));
    let webhook_path = format!("/hooks/gemini/{}", tokens.mint_reservation(id));
    let webhook_url = state
        .public_url
        .as_ref()
        .map(|base| join(base, &webhook_path));
    let reserved = Reserved {
        id,
        webhook_path,
        webhook_url,
        user_metadata: shown,
    };
    Ok((StatusCode::CREATED, Json(reserved)))
}

fn join(base: &Url, path: &str) -> String {
    format!("{}{path}", base.as_str().trim_end_matches('/'))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Name {
    name: String,
}

pub(super) async fn bind(
    State(state): State<Arc<AdminState>>,
    Segment(id): Segment,
    Input(bound): Input<Name>,
) -> Result<Json<Operation>, Refusal> {
    let (id, name) = (input::id(&id)?, input::name(&bound.name)?);
    match state.registrar.bind(id, name).await? {
        Binding::Bound(operation) | Binding::Same(operation) => Ok(Json(operation)),
        Binding::Unknown => Err(Refusal::not_found("There is no reservation of this id.")),
        Binding::Conflict(why) => Err(Refusal::conflict(format!(
            "The reservation cannot be bound: {why}."
        ))),
    }
}
