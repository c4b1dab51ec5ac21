//! `/operations`: registering, listing, showing, and the operator's "go on".

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::error::Problem;
use super::super::state::AdminState;
use super::input::{self, Input, Nothing, Params, Segment};
use super::refusal::Refusal;
use crate::domain::ledger::{EffectRecord, LogEntry, Operation, Told};
use crate::domain::operation::{Kind, NotAJobKind, OperationState};
use crate::domain::work::Reason;
use crate::store::{OperationFilter, Registered};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registration {
    name: String,
    job_kind: String,
    user_metadata: Option<Value>,
}

pub(super) async fn register(
    State(state): State<Arc<AdminState>>,
    Input(new): Input<Registration>,
) -> Result<(StatusCode, Json<Operation>), Refusal> {
    let name = input::name(&new.name)?;
    let job_kind = input::job_kind(&new.job_kind)?;
    let metadata = input::metadata(new.user_metadata)?;
    match state.registrar.register(name, job_kind, metadata).await? {
        Registered::New(operation) => Ok((StatusCode::CREATED, Json(operation))),
        Registered::Same(operation) => Ok((StatusCode::OK, Json(operation))),
        Registered::Conflict(other) => Err(Refusal::conflict(format!(
            "job_kind: this operation is registered with the job kind {other}; register it with \
             that one, or leave it as it is."
        ))),
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Operations {
    operations: Vec<Operation>,
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationParams {
    q: Option<String>,
    kind: Option<String>,
    job_kind: Option<String>,
    state: Option<String>,
    settled_by: Option<String>,
    overdue: Option<String>,
    told: Option<String>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

impl OperationParams {
    fn filter(&self) -> Result<OperationFilter, Refusal> {
        let states = OperationState::ALL.map(OperationState::as_str);
        Ok(OperationFilter {
            q: input::prefix(self.q.as_deref())?,
            kind: input::word(
                "kind",
                self.kind.as_deref(),
                Kind::from_word,
                &Kind::ALL.map(Kind::as_str),
            )?,
            job_kind: input::given(self.job_kind.as_deref())
                .map(str::parse)
                .transpose()
                .map_err(|error: NotAJobKind| Refusal::bad_request(format!("{error}.")))?,
            state: input::word(
                "state",
                self.state.as_deref(),
                OperationState::from_word,
                &states,
            )?,
            settled_by: input::word(
                "settled_by",
                self.settled_by.as_deref(),
                Reason::from_word,
                &Reason::ALL.map(Reason::as_str),
            )?,
            overdue: input::flag("overdue", self.overdue.as_deref())?,
            told: input::word(
                "told",
                self.told.as_deref(),
                Told::from_word,
                &Told::ALL.map(Told::as_str),
            )?,
            since: input::time("since", self.since.as_deref())?,
            until: input::time("until", self.until.as_deref())?,
        })
    }
}

pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    Params(params): Params<OperationParams>,
) -> Result<Json<Operations>, Refusal> {
    let filter = params.filter()?;
    let cursor = input::cursor(params.cursor.as_deref())?;
    let limit = input::limit(params.limit.as_deref())?;
    let page = state.store.operations(&filter, cursor, limit).await?;
    Ok(Json(Operations {
        operations: page.items,
        next_cursor: page.next_cursor,
    }))
}

/// An operation with its history and its effects.
#[derive(Debug, Serialize)]
pub(super) struct Whole {
    #[serde(flatten)]
    operation: Operation,
    log: Vec<LogEntry>,
    effects: Vec<EffectRecord>,
}

pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    Segment(which): Segment,
) -> Result<Json<Whole>, Refusal> {
    let operation = find(&state, &which).await?;
    Ok(Json(Whole {
        log: state.store.operation_log(operation.id).await?,
        effects: state.store.effects_of(operation.id).await?,
        operation,
    }))
}

/// `POST /operations/{name or id}/retry`. The name's slashes make its end part of the wildcard.
pub(super) async fn act(
    State(state): State<Arc<AdminState>>,
    Segment(rest): Segment,
    Input(Nothing {}): Input<Nothing>,
) -> Result<(StatusCode, Json<Operation>), Refusal> {
    let Some(which) = rest.strip_suffix("/retry") else {
        return Err(Refusal::from(Problem::METHOD_NOT_ALLOWED)
            .because("An operation takes GET. The one action is POST .../operations/NAME/retry."));
    };
    let operation = find(&state, which).await?;
    if operation.name.is_none() {
        return Err(Refusal::conflict(
            "The operation is reserved and has no name yet, so there is nothing to look at; bind \
             it first.",
        ));
    }
    if !state.registrar.retry(operation.id).await? {
        return Err(unknown());
    }
    let operation = state.store.operation(operation.id).await?;
    Ok((StatusCode::ACCEPTED, Json(operation.ok_or_else(unknown)?)))
}

/// The operation of that name or ledger id. No name is a UUID: every name has a slash.
pub(super) async fn find(state: &AdminState, which: &str) -> Result<Operation, Refusal> {
    let found = match input::as_id(which) {
        Some(id) => state.store.operation(id).await?,
        None => state.store.operation_by_name(&input::name(which)?).await?,
    };
    found.ok_or_else(unknown)
}

fn unknown() -> Refusal {
    Refusal::not_found("The ledger has no operation of this name or id.")
}
