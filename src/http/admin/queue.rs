//! `/queue`: work items, and putting the dead ones back. `/alerts`: what is open.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::super::state::AdminState;
use super::bulk::{BulkAnswer, Paging};
use super::input::{self, Input, Params};
use super::refusal::Refusal;
use crate::domain::ledger::{Alert, WorkRecord};
use crate::domain::work::{Reason, WorkState};
use crate::store::WorkFilter;

#[derive(Debug, Serialize)]
pub(super) struct Items {
    items: Vec<WorkRecord>,
    next_cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct QueueParams {
    pub(in super::super) q: Option<String>,
    pub(in super::super) state: Option<String>,
    pub(in super::super) reason: Option<String>,
    pub(in super::super) since: Option<String>,
    pub(in super::super) until: Option<String>,
    pub(in super::super) cursor: Option<String>,
    pub(in super::super) limit: Option<String>,
}

impl QueueParams {
    pub(in super::super) fn filter(&self) -> Result<WorkFilter, Refusal> {
        Ok(WorkFilter {
            q: input::prefix(self.q.as_deref())?,
            state: input::word(
                "state",
                self.state.as_deref(),
                WorkState::from_word,
                &WorkState::ALL.map(WorkState::as_str),
            )?,
            reason: input::word(
                "reason",
                self.reason.as_deref(),
                Reason::from_word,
                &Reason::ALL.map(Reason::as_str),
            )?,
            since: input::time("since", self.since.as_deref())?,
            until: input::time("until", self.until.as_deref())?,
        })
    }
}

pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    Params(params): Params<QueueParams>,
) -> Result<Json<Items>, Refusal> {
    let filter = params.filter()?;
    let cursor = input::cursor(params.cursor.as_deref())?;
    let limit = input::limit(params.limit.as_deref())?;
    let page = state.store.work_items(&filter, cursor, limit).await?;
    Ok(Json(Items {
        items: page.items,
        next_cursor: page.next_cursor,
    }))
}

/// The dead item of this id, or those that fit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    id: Option<i64>,
    q: Option<String>,
    state: Option<String>,
    reason: Option<String>,
    since: Option<String>,
    until: Option<String>,
    #[serde(default)]
    dry_run: bool,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn retry(
    State(state): State<Arc<AdminState>>,
    Input(which): Input<Which>,
) -> Result<Json<BulkAnswer>, Refusal> {
    let paging = Paging {
        cursor: which.cursor.as_deref(),
        limit: which.limit,
    };
    let (cursor, limit) = (paging.cursor()?, paging.limit()?);
    let params = QueueParams {
        q: which.q,
        state: which.state,
        reason: which.reason,
        since: which.since,
        until: which.until,
        cursor: None,
        limit: None,
    };
    let filter = params.filter()?;
    if filter.state.is_some_and(|state| state != WorkState::Dead) {
        return Err(Refusal::bad_request(
            "state must be dead: nothing else is put back.",
        ));
    }
    let (registrar, dry_run) = (&state.registrar, which.dry_run);
    let page = match which.id {
        Some(_) if filter != WorkFilter::default() || cursor.is_some() => {
            return Err(Refusal::bad_request(
                "id names one item; leave out what chooses among many.",
            ));
        }
        Some(id) => registrar.retry_item(id, dry_run).await?,
        None => {
            registrar
                .retry_items(&filter, cursor, limit, dry_run)
                .await?
        }
    };
    Ok(BulkAnswer::new(page, dry_run))
}

#[derive(Debug, Serialize)]
pub(super) struct Alerts {
    alerts: Vec<Alert>,
}

pub(super) async fn alerts(State(state): State<Arc<AdminState>>) -> Result<Json<Alerts>, Refusal> {
    let alerts = state.store.open_alerts().await?;
    Ok(Json(Alerts { alerts }))
}
