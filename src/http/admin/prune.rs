//! `/prune`: what is over, and removing it now instead of at the next turn of its loop.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::super::state::AdminState;
use super::input::{Input, Nothing};
use super::refusal::Refusal;
use crate::reconcile::upkeep::Upkeep;
use crate::store::{Over, Pruned};

/// How long one call removes batches before it answers; the caller comes again for the rest.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
pub(super) struct WouldGo {
    over: Vec<Over>,
}

pub(super) async fn over(State(state): State<Arc<AdminState>>) -> Result<Json<WouldGo>, Refusal> {
    let over = upkeep(&state)?.over().await?;
    Ok(Json(WouldGo { over }))
}

#[derive(Debug, Serialize)]
pub(super) struct Gone {
    removed: Pruned,
    more: bool,
}

pub(super) async fn prune(
    State(state): State<Arc<AdminState>>,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Gone>, Refusal> {
    let (removed, more) = upkeep(&state)?.prune_for(PATIENCE).await?;
    Ok(Json(Gone { removed, more }))
}

fn upkeep(state: &AdminState) -> Result<&Upkeep, Refusal> {
    let upkeep = state.upkeep.as_deref();
    upkeep.ok_or_else(|| Refusal::conflict("Nothing prunes in this process."))
}
