//! `/effects`: the outbox, and a person's word on what is stuck in it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::state::AdminState;
use super::input::{self, Input, Nothing, Params, Segment};
use super::refusal::Refusal;
use crate::domain::effect::EffectState;
use crate::domain::ledger::EffectRecord;
use crate::store::{EffectFilter, EffectRetry};

#[derive(Debug, Serialize)]
pub(super) struct Effects {
    effects: Vec<EffectRecord>,
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EffectParams {
    q: Option<String>,
    state: Option<String>,
    effect: Option<String>,
    cause: Option<String>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

impl EffectParams {
    fn filter(&self) -> Result<EffectFilter, Refusal> {
        Ok(EffectFilter {
            q: input::prefix(self.q.as_deref())?,
            state: input::word(
                "state",
                self.state.as_deref(),
                EffectState::from_word,
                &EffectState::ALL.map(EffectState::as_str),
            )?,
            effect: input::text("effect", self.effect.as_deref())?,
            cause: input::text("cause", self.cause.as_deref())?,
            since: input::time("since", self.since.as_deref())?,
            until: input::time("until", self.until.as_deref())?,
        })
    }
}

pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    Params(params): Params<EffectParams>,
) -> Result<Json<Effects>, Refusal> {
    let filter = params.filter()?;
    let cursor = input::cursor(params.cursor.as_deref())?;
    let limit = input::limit(params.limit.as_deref())?;
    let page = state.store.effects(&filter, cursor, limit).await?;
    Ok(Json(Effects {
        effects: page.items,
        next_cursor: page.next_cursor,
    }))
}

pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    Segment(id): Segment,
) -> Result<Json<EffectRecord>, Refusal> {
    find(&state, input::id(&id)?).await.map(Json)
}

pub(super) async fn retry(
    State(state): State<Arc<AdminState>>,
    Segment(id): Segment,
    Input(Nothing {}): Input<Nothing>,
) -> Result<(StatusCode, Json<EffectRecord>), Refusal> {
    let effect = decide(&state, input::id(&id)?, EffectRetry::Again).await?;
    Ok((StatusCode::ACCEPTED, Json(effect)))
}

/// The word in `{"as": …}`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Done,
    Dead,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolution {
    r#as: Word,
}

pub(super) async fn resolve(
    State(state): State<Arc<AdminState>>,
    Segment(id): Segment,
    Input(resolution): Input<Resolution>,
) -> Result<Json<EffectRecord>, Refusal> {
    let what = match resolution.r#as {
        Word::Done => EffectRetry::Done,
        Word::Dead => EffectRetry::Dead,
    };
    decide(&state, input::id(&id)?, what).await.map(Json)
}

/// The store refuses both an effect that is not there and one on its way; which of the two it was
/// is looked up afterwards, and an effect never goes away while it is on its way.
async fn decide(state: &AdminState, id: Uuid, what: EffectRetry) -> Result<EffectRecord, Refusal> {
    let done = state.registrar.resolve_effect(id, what).await?;
    let effect = find(state, id).await?;
    if !done {
        return Err(Refusal::conflict(
            "The effect is being sent right now; try again when that has ended.",
        ));
    }
    Ok(effect)
}

async fn find(state: &AdminState, id: Uuid) -> Result<EffectRecord, Refusal> {
    let effect = state.store.effect(id).await?;
    effect.ok_or_else(|| Refusal::not_found("There is no effect of this id."))
}
