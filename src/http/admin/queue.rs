//! `/queue`: work items, and putting the dead ones back. `/alerts`: what is open.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::super::state::AdminState;
use super::input::{Input, ListParams, Params};
use super::refusal::Refusal;
use crate::domain::ledger::{Alert, WorkRecord};
use crate::domain::work::WorkState;

#[derive(Debug, Serialize)]
pub(super) struct Items {
    items: Vec<WorkRecord>,
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    Params(params): Params<ListParams>,
) -> Result<Json<Items>, Refusal> {
    let all = [
        WorkState::Ready,
        WorkState::Leased,
        WorkState::Done,
        WorkState::Dead,
    ];
    let wanted = params.state(WorkState::from_word, &all.map(WorkState::as_str))?;
    let (cursor, limit) = (params.cursor()?, params.limit()?);
    let page = state.store.work_items(wanted, cursor, limit).await?;
    Ok(Json(Items {
        items: page.items,
        next_cursor: page.next_cursor,
    }))
}

/// All dead items, or the one of this id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    id: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Retried {
    retried: u64,
}

pub(super) async fn retry(
    State(state): State<Arc<AdminState>>,
    Input(which): Input<Which>,
) -> Result<Json<Retried>, Refusal> {
    let retried = state.store.retry_dead(which.id).await?;
    Ok(Json(Retried { retried }))
}

#[derive(Debug, Serialize)]
pub(super) struct Alerts {
    alerts: Vec<Alert>,
}

pub(super) async fn alerts(State(state): State<Arc<AdminState>>) -> Result<Json<Alerts>, Refusal> {
    let alerts = state.store.open_alerts().await?;
    Ok(Json(Alerts { alerts }))
}
