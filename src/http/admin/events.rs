//! `/events`: captured deliveries, and sending one through the queue once more.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::state::AdminState;
use super::bulk::{BulkAnswer, Paging};
use super::input::{self, Input, Nothing, Params, Segment};
use super::operations;
use super::refusal::Refusal;
use crate::domain::event::Verdict;
use crate::domain::ledger::{CapturedEvent, EventRecord};
use crate::domain::operation::OperationRef;
use crate::receive;
use crate::store::{EventFilter, Received};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct EventParams {
    pub(in super::super) operation: Option<String>,
    pub(in super::super) q: Option<String>,
    pub(in super::super) source: Option<String>,
    pub(in super::super) r#type: Option<String>,
    pub(in super::super) verdict: Option<String>,
    pub(in super::super) since: Option<String>,
    pub(in super::super) until: Option<String>,
    pub(in super::super) cursor: Option<String>,
    pub(in super::super) limit: Option<String>,
}

impl EventParams {
    /// Everything but the operation, which may have to be looked up.
    pub(in super::super) fn filter(&self) -> Result<EventFilter, Refusal> {
        // A duplicate is counted and not captured, so nothing has that verdict.
        let verdict =
            |word: &str| Verdict::from_word(word).filter(|verdict| *verdict != Verdict::Duplicate);
        Ok(EventFilter {
            q: input::prefix(self.q.as_deref())?,
            source: input::text("source", self.source.as_deref())?,
            event_type: input::text("type", self.r#type.as_deref())?,
            verdict: input::word(
                "verdict",
                self.verdict.as_deref(),
                verdict,
                &["accepted", "ignored"],
            )?,
            since: input::time("since", self.since.as_deref())?,
            until: input::time("until", self.until.as_deref())?,
            ..EventFilter::default()
        })
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Events {
    events: Vec<EventRecord>,
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    Params(params): Params<EventParams>,
) -> Result<Json<Events>, Refusal> {
    let cursor = input::cursor(params.cursor.as_deref())?;
    let limit = input::limit(params.limit.as_deref())?;
    let mut filter = params.filter()?;
    filter.segment = match input::given(params.operation.as_deref()) {
        None => None,
        Some(which) if input::as_id(which).is_some() => {
            let operation = operations::find(&state, which).await?;
            let Some(name) = operation.name else {
                return Ok(Json(Events::default()));
            };
            Some(name.segment().to_owned())
        }
        Some(raw) => {
            let named = OperationRef::parse(raw, None).ok_or_else(|| {
                Refusal::bad_request(
                    "operation must be an operation's name, its last segment or its ledger id.",
                )
            })?;
            Some(named.segment().to_owned())
        }
    };
    let page = state.store.events(&filter, cursor, limit).await?;
    Ok(Json(Events {
        events: page.items,
        next_cursor: page.next_cursor,
    }))
}

/// A delivery as it came: every byte can be had back.
#[derive(Debug, Serialize)]
pub(super) struct Captured {
    #[serde(flatten)]
    record: EventRecord,
    headers: Vec<(String, Value)>,
    body_base64: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    Segment(id): Segment,
) -> Result<Json<Captured>, Refusal> {
    let event = find(&state, input::id(&id)?).await?;
    let headers = event.headers.into_iter().map(|(name, value)| {
        let value = String::from_utf8(value).map_or_else(
            |bytes| json!({"base64": data_encoding::BASE64.encode(bytes.as_bytes())}),
            Value::from,
        );
        (name, value)
    });
    Ok(Json(Captured {
        headers: headers.collect(),
        body_base64: data_encoding::BASE64.encode(&event.body),
        body: String::from_utf8(event.body).ok(),
        record: event.record,
    }))
}

#[derive(Debug, Serialize)]
pub(super) struct Replayed {
    event_id: Uuid,
    status: Verdict,
}

pub(super) async fn replay(
    State(state): State<Arc<AdminState>>,
    Segment(id): Segment,
    Input(Nothing {}): Input<Nothing>,
) -> Result<(StatusCode, Json<Replayed>), Refusal> {
    let received = play_again(&state, input::id(&id)?).await?;
    let replayed = Replayed {
        event_id: received.event_id,
        status: received.verdict,
    };
    Ok((StatusCode::ACCEPTED, Json(replayed)))
}

/// Puts a captured delivery through the queue once more.
pub(in super::super) async fn play_again(
    state: &AdminState,
    id: Uuid,
) -> Result<Received, Refusal> {
    match state.receiver.replay(id).await? {
        receive::Replayed::Received(received) => Ok(received),
        receive::Replayed::Emptied => Err(Refusal::conflict(EMPTIED)),
        receive::Replayed::Unknown => Err(unknown()),
    }
}

/// Which deliveries to replay.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayMany {
    since: Option<String>,
    until: Option<String>,
    q: Option<String>,
    source: Option<String>,
    r#type: Option<String>,
    verdict: Option<String>,
    #[serde(default)]
    dry_run: bool,
    cursor: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn replay_many(
    State(state): State<Arc<AdminState>>,
    Input(asked): Input<ReplayMany>,
) -> Result<Json<BulkAnswer>, Refusal> {
    let params = EventParams {
        operation: None,
        q: asked.q,
        source: asked.source,
        r#type: asked.r#type,
        verdict: asked.verdict,
        since: asked.since,
        until: asked.until,
        cursor: asked.cursor,
        limit: None,
    };
    let filter = params.filter()?;
    if filter.since.is_none() {
        return Err(Refusal::bad_request(
            "since: say from when on deliveries are to be replayed.",
        ));
    }
    let paging = Paging {
        cursor: params.cursor.as_deref(),
        limit: asked.limit,
    };
    let (cursor, limit) = (paging.cursor()?, paging.limit()?);
    let page = state
        .receiver
        .replay_page(&filter, cursor, limit, asked.dry_run)
        .await?;
    Ok(BulkAnswer::new(page, asked.dry_run))
}

const EMPTIED: &str = "The event's body was removed (store.body_retention); ask the API about its \
                       operation instead: POST .../operations/NAME/retry.";

pub(in super::super) async fn find(state: &AdminState, id: Uuid) -> Result<CapturedEvent, Refusal> {
    state.store.event(id).await?.ok_or_else(unknown)
}

fn unknown() -> Refusal {
    Refusal::not_found("There is no captured event of this id; it may have been pruned.")
}
