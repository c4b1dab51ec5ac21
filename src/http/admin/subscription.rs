//! `/subscription/rotate`: a new signing secret, in the service that accepts it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::super::error::Problem;
use super::super::state::AdminState;
use super::input::Input;
use super::refusal::Refusal;
use crate::reconcile::rotation::RotationError;

/// Nothing can be asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Serialize)]
pub(super) struct Rotated {
    webhook_id: String,
    stage: &'static str,
    secret_stored_in: String,
}

pub(super) async fn rotate(
    State(state): State<Arc<AdminState>>,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Rotated>, Refusal> {
    let subscription = state.subscription.as_ref().ok_or_else(|| {
        Refusal::conflict(
            "The service does not look after the subscription; set subscription.enabled.",
        )
    })?;
    let rotation = subscription.rotation().ok_or_else(|| {
        Refusal::conflict("There is nowhere to keep the secret; set subscription.secrets_file.")
    })?;
    let unavailable = |why: String| Refusal::from(Problem::UNAVAILABLE).because(why);
    let webhook = subscription
        .webhook()
        .await
        .map_err(|fault| unavailable(format!("The provider could not be asked: {fault}.")))?;
    let webhook = webhook
        .ok_or_else(|| Refusal::not_found("The provider has no webhook for this service."))?;
    rotation.begin(&webhook.id).await.map_err(|error| {
        tracing::warn!(%error, webhook = %webhook.id, "a rotation did not begin");
        match error {
            RotationError::Open => Refusal::conflict("A rotation is in progress already."),
            other => unavailable(format!("{other}.")),
        }
    })?;
    Ok(Json(Rotated {
        webhook_id: webhook.id.to_string(),
        stage: "proving",
        secret_stored_in: rotation.file().path().display().to_string(),
    }))
}
