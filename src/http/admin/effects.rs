//! `/effects`: the outbox, and a person's word on what is stuck in it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::state::AdminState;
use super::bulk::{BulkAnswer, Paging};
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct EffectParams {
    pub(in super::super) q: Option<String>,
    pub(in super::super) state: Option<String>,
    pub(in super::super) effect: Option<String>,
    pub(in super::super) cause: Option<String>,
    pub(in super::super) since: Option<String>,
    pub(in super::super) until: Option<String>,
    pub(in super::super) cursor: Option<String>,
    pub(in super::super) limit: Option<String>,
}

impl EffectParams {
    pub(in super::super) fn filter(&self) -> Result<EffectFilter, Refusal> {
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

/// Which effects to send again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryMany {
    state: Option<String>,
    effect: Option<String>,
    cause: Option<String>,
    q: Option<String>,
    since: Option<String>,
    until: Option<String>,
    #[serde(default)]
    dry_run: bool,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn retry_many(
    State(state): State<Arc<AdminState>>,
    Input(asked): Input<RetryMany>,
) -> Result<Json<BulkAnswer>, Refusal> {
    let paging = Paging {
        cursor: asked.cursor.as_deref(),
        limit: asked.limit,
    };
    let (cursor, limit) = (paging.cursor()?, paging.limit()?);
    let params = EffectParams {
        q: asked.q,
        state: asked.state,
        effect: asked.effect,
        cause: asked.cause,
        since: asked.since,
        until: asked.until,
        cursor: None,
        limit: None,
    };
    let filter = params.filter()?;
    let stuck = filter
        .state
        .filter(|state| EffectState::STUCK.contains(state));
    let stuck = stuck.ok_or_else(|| {
        let words = EffectState::STUCK.map(EffectState::as_str).join(", ");
        Refusal::bad_request(format!("state must be one of {words}."))
    })?;
    let page = state
        .registrar
        .retry_effects(&filter, stuck, cursor, (limit, asked.dry_run))
        .await?;
    Ok(BulkAnswer::new(page, asked.dry_run))
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
pub(in super::super) async fn decide(
    state: &AdminState,
    id: Uuid,
    what: EffectRetry,
) -> Result<EffectRecord, Refusal> {
    let done = state.registrar.resolve_effect(id, what).await?;
    let effect = find(state, id).await?;
    if !done {
        return Err(Refusal::conflict(
            "The effect is being sent right now; try again when that has ended.",
        ));
    }
    Ok(effect)
}

pub(in super::super) async fn find(state: &AdminState, id: Uuid) -> Result<EffectRecord, Refusal> {
    let effect = state.store.effect(id).await?;
    effect.ok_or_else(|| Refusal::not_found("There is no effect of this id."))
}
