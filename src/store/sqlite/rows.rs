//! Rows into domain records. A value that no version of this program writes names its table, column
//! and row, instead of being guessed at.

use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::super::error::StoreError;
use crate::base::clock::Timestamp;
use crate::domain::effect::EffectState;
use crate::domain::event::Verdict;
use crate::domain::ledger::{EffectRecord, EventRecord, Lease, Operation, Told, WorkRecord};
use crate::domain::operation::{JobKind, Kind, OperationState};
use crate::domain::work::{Reason, WorkState};

/// `SELECT` of every column [`operation`] reads, of `operations o`.
macro_rules! operation_columns {
    () => {
        concat!(
            "SELECT o.id, o.name, o.kind, o.job_kind, o.registered, o.state, o.requires_action, ",
            "o.overdue, o.submitted_at_ms, o.registered_at_ms, o.settled_at_ms, o.settled_by, ",
            "o.attempts, o.looks_since_event, o.next_check_at_ms, o.deadline_at_ms, ",
            "o.not_found_since_ms, o.neither_looks, o.told, o.user_metadata, o.summary, ",
            "o.body_hash, o.effects_expected, o.effects_withheld, (o.settled_at_ms IS NOT NULL AND ",
            "o.effects_expected IS NOT NULL AND o.effects_withheld = 0 AND NOT EXISTS (SELECT 1 FROM effects e WHERE ",
            "e.operation_id = o.id AND e.state <> 'done')) AS side_effect_done ",
        )
    };
}
pub(super) use operation_columns;

/// The same, with the given tail after `FROM operations o`.
macro_rules! select_operations {
    ($tail:literal) => {
        concat!(
            crate::store::sqlite::rows::operation_columns!(),
            "FROM operations o ",
            $tail
        )
    };
}
pub(super) use select_operations;

fn bad(
    table: &'static str,
    column: &'static str,
    row: &impl ToString,
) -> impl FnOnce() -> StoreError {
    let row = row.to_string();
    move || StoreError::Inconsistent { table, column, row }
}

pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn maybe_at(row: &SqliteRow, column: &str) -> Option<Timestamp> {
    row.get::<Option<i64>, _>(column).map(at)
}

fn count(row: &SqliteRow, column: &str) -> u32 {
    u32::try_from(row.get::<i64, _>(column)).unwrap_or(u32::MAX)
}

pub(super) fn json(text: Option<String>) -> Option<Value> {
    text.and_then(|t| serde_json::from_str(&t).ok())
}

pub(super) fn operation(row: &SqliteRow) -> Result<Operation, StoreError> {
    const T: &str = "operations";
    let id: String = row.get("id");
    let kind: String = row.get("kind");
    let name: Option<String> = row.get("name");
    let settled_by: Option<String> = row.get("settled_by");
    Ok(Operation {
        name: name
            .map(|n| n.parse().map_err(|_| bad(T, "name", &id)()))
            .transpose()?,
        kind: Kind::from_word(&kind),
        job_kind: row
            .get::<String, _>("job_kind")
            .parse::<JobKind>()
            .map_err(|_| bad(T, "job_kind", &id)())?,
        registered: row.get("registered"),
        state: OperationState::from_word(&row.get::<String, _>("state"))
            .ok_or_else(bad(T, "state", &id))?,
        requires_action: row.get("requires_action"),
        overdue: row.get("overdue"),
        submitted_at: at(row.get("submitted_at_ms")),
        registered_at: maybe_at(row, "registered_at_ms"),
        settled_at: maybe_at(row, "settled_at_ms"),
        settled_by: settled_by
            .map(|w| Reason::from_word(&w).ok_or_else(bad(T, "settled_by", &id)))
            .transpose()?,
        attempts: count(row, "attempts"),
        looks_since_event: row
            .get::<Option<i64>, _>("looks_since_event")
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        next_check_at: maybe_at(row, "next_check_at_ms"),
        deadline_at: maybe_at(row, "deadline_at_ms"),
        not_found_since: maybe_at(row, "not_found_since_ms"),
        neither_looks: count(row, "neither_looks"),
        told: Told::from_word(&row.get::<String, _>("told")).ok_or_else(bad(T, "told", &id))?,
        user_metadata: json(row.get("user_metadata")),
        summary: json(row.get("summary")),
        body_hash: row.get("body_hash"),
        effects_expected: row
            .get::<Option<i64>, _>("effects_expected")
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        effects_withheld: row.get("effects_withheld"),
        side_effect_done: row.get("side_effect_done"),
        id: uuid(T, "id", &id)?,
    })
}

pub(super) fn uuid(
    table: &'static str,
    column: &'static str,
    text: &str,
) -> Result<Uuid, StoreError> {
    text.parse().map_err(|_| bad(table, column, &text)())
}

pub(super) fn lease(row: &SqliteRow) -> Result<Lease, StoreError> {
    const T: &str = "work_queue";
    let id: i64 = row.get("id");
    let kind: Option<String> = row.get("kind_hint");
    let reservation: Option<String> = row.get("reservation");
    let event: Option<String> = row.get("event_id");
    Ok(Lease {
        id,
        epoch: row.get("lease_epoch"),
        raw: row.get("raw"),
        kind_hint: kind.and_then(|k| Kind::from_word(&k)),
        reservation: reservation
            .map(|r| uuid(T, "reservation", &r))
            .transpose()?,
        event: event.map(|e| uuid(T, "event_id", &e)).transpose()?,
        reason: Reason::from_word(&row.get::<String, _>("reason"))
            .ok_or_else(bad(T, "reason", &id))?,
        created_at: at(row.get("created_at_ms")),
        due_at: at(row.get("available_at_ms")),
        attempts: count(row, "attempts"),
        failures: count(row, "failures"),
    })
}

pub(super) fn work(row: &SqliteRow) -> Result<WorkRecord, StoreError> {
    const T: &str = "work_queue";
    let id: i64 = row.get("id");
    Ok(WorkRecord {
        id,
        operation: row.get("ref_key"),
        reason: Reason::from_word(&row.get::<String, _>("reason"))
            .ok_or_else(bad(T, "reason", &id))?,
        state: WorkState::from_word(&row.get::<String, _>("state"))
            .ok_or_else(bad(T, "state", &id))?,
        created_at: at(row.get("created_at_ms")),
        available_at: at(row.get("available_at_ms")),
        attempts: count(row, "attempts"),
        outcome: row.get("outcome"),
        last_error: row.get("last_error"),
        finished_at: maybe_at(row, "finished_at_ms"),
    })
}

pub(super) fn effect(row: &SqliteRow) -> Result<EffectRecord, StoreError> {
    const T: &str = "effects";
    let id: String = row.get("id");
    let operation_id: Option<String> = row.get("operation_id");
    let operation_name: Option<String> = row.get("operation_name");
    Ok(EffectRecord {
        operation_id: operation_id
            .map(|o| uuid(T, "operation_id", &o))
            .transpose()?,
        operation_name: operation_name
            .map(|n| n.parse().map_err(|_| bad(T, "operation_name", &id)()))
            .transpose()?,
        effect: row.get("effect"),
        cause: row.get("cause"),
        idempotency_key: row.get("idempotency_key"),
        state: EffectState::from_word(&row.get::<String, _>("state"))
            .ok_or_else(bad(T, "state", &id))?,
        planned_at: at(row.get("planned_at_ms")),
        next_attempt_at: at(row.get("next_attempt_at_ms")),
        give_up_at: at(row.get("give_up_at_ms")),
        attempts: count(row, "attempts"),
        finished_at: maybe_at(row, "finished_at_ms"),
        last_error: row.get("last_error"),
        id: uuid(T, "id", &id)?,
    })
}

pub(super) fn event(row: &SqliteRow) -> Result<EventRecord, StoreError> {
    const T: &str = "captured_events";
    let id: String = row.get("id");
    Ok(EventRecord {
        source: row.get("source"),
        received_at: at(row.get("received_at_ms")),
        verdict: Verdict::from_word(&row.get::<String, _>("verdict"))
            .ok_or_else(bad(T, "verdict", &id))?,
        why: row.get("why"),
        event_type: row.get("event_type"),
        operation: row.get("operation"),
        webhook_id: row.get("webhook_id"),
        proof: row.get("proof"),
        duplicates: u64::try_from(row.get::<i64, _>("duplicates")).unwrap_or(0),
        body_bytes: u64::try_from(row.get::<i64, _>("body_bytes")).unwrap_or(0),
        emptied_at: maybe_at(row, "emptied_at_ms"),
        id: uuid(T, "id", &id)?,
    })
}

/// Says that an update carrying a lease must have changed its one row.
pub(super) fn fenced(
    table: &'static str,
    row: &impl ToString,
    changed: u64,
) -> Result<(), StoreError> {
    if changed == 1 {
        Ok(())
    } else {
        Err(StoreError::Fenced {
            table,
            row: row.to_string(),
        })
    }
}
