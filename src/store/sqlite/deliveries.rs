//! Deliveries, inserted as a set.
//!
//! sqlx crosses a thread for every statement, so a statement per row would cap the receive rate.
//! However many deliveries share a commit, their rows travel as one JSON document, and what need not be
//! JSON, headers and bodies, as one blob that the rows point into. Rows come out of the document by
//! `jsonb_each`: `json_each` would write each out as text, and read that again, wherever its value is named.
//!
//! Nearly always all of a set are new, so that is tried first, in one trip that asks for nothing back: a
//! row handed over costs a wake-up. A dedupe row that is there already fails the statement, and with it
//! the attempt, before anything is captured. Then the set is taken apart: dedupe rows decide who is new,
//! then the new ones are captured and get their work items, then duplicates of unsettled operations get a
//! wake-up if nobody holds one. Sets that follow one with duplicates are taken apart at once, until one
//! has none ([`Insert`]).
//!
//! Races: the writer is alone, so check and insert cannot interleave. Two copies of one delivery in
//! one set are told apart here, before SQL sees them. What a failed attempt did is rolled back to the
//! savepoint that the caller opened, so that nothing counts twice.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::super::error::StoreError;
use super::super::{NewDelivery, Received};
use crate::domain::event::Verdict;
use crate::domain::operation::{Kind, OperationRef};

/// Inserts sets, and remembers how the last one went.
#[derive(Debug, Default)]
pub(super) struct Insert {
    /// The last set held duplicates: redeliveries come in crowds.
    duplicates: bool,
}

impl Insert {
    /// Inserts a set in the savepoint `one`, which the caller opened and nothing has used yet.
    pub(super) async fn set(
        &mut self,
        connection: &mut SqliteConnection,
        deliveries: &[NewDelivery],
    ) -> Result<Vec<Received>, StoreError> {
        if !self.duplicates && all_differ(deliveries) {
            let all: Vec<&NewDelivery> = deliveries.iter().collect();
            match capture(connection, &all, Keys::New).await {
                Ok(()) => return Ok(deliveries.iter().map(as_new).collect()),
                Err(sqlx::Error::Database(e)) if e.is_unique_violation() => {
                    sqlx::query("ROLLBACK TO one")
                        .execute(&mut *connection)
                        .await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let received = apart(connection, deliveries).await?;
        self.duplicates = received.iter().any(|r| r.verdict == Verdict::Duplicate);
        Ok(received)
    }
}

fn as_new(delivery: &NewDelivery) -> Received {
    Received {
        event_id: delivery.id,
        verdict: delivery.verdict(),
    }
}

/// Whether no two have one key.
fn all_differ(deliveries: &[NewDelivery]) -> bool {
    let mut keys = HashSet::with_capacity(deliveries.len());
    deliveries.iter().all(|delivery| {
        let key = delivery.dedupe_key.as_deref();
        key.is_none_or(|key| keys.insert((delivery.source.as_str(), key)))
    })
}

/// Inserts a set that may hold duplicates.
async fn apart(
    connection: &mut SqliteConnection,
    deliveries: &[NewDelivery],
) -> Result<Vec<Received>, StoreError> {
    let verdicts = dedupe(connection, deliveries).await?;
    let new: Vec<&NewDelivery> = deliveries
        .iter()
        .zip(&verdicts)
        .filter(|(_, received)| received.verdict != Verdict::Duplicate)
        .map(|(delivery, _)| delivery)
        .collect();
    capture(connection, &new, Keys::Decided).await?;
    let again: Vec<&NewDelivery> = deliveries
        .iter()
        .zip(&verdicts)
        .filter(|(_, received)| received.verdict == Verdict::Duplicate)
        .map(|(delivery, _)| delivery)
        .collect();
    wake_again(connection, &again).await?;
    Ok(verdicts)
}

const DEDUPE: &str = "
    INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, duplicates, expires_at_ms)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
    FROM jsonb_each(?1) WHERE true
    ON CONFLICT (source, dedupe_key) DO UPDATE SET
        event_id       = iif(expires_at_ms <= excluded.received_at_ms, excluded.event_id, event_id),
        outcome        = iif(expires_at_ms <= excluded.received_at_ms, excluded.outcome, outcome),
        received_at_ms = iif(expires_at_ms <= excluded.received_at_ms, excluded.received_at_ms, received_at_ms),
        duplicates     = iif(expires_at_ms <= excluded.received_at_ms, excluded.duplicates, duplicates + 1 + excluded.duplicates),
        expires_at_ms  = iif(expires_at_ms <= excluded.received_at_ms, excluded.expires_at_ms, expires_at_ms)
    RETURNING event_id";

/// Decides for each delivery whether it is new. A delivery without a key always is.
async fn dedupe(
    connection: &mut SqliteConnection,
    deliveries: &[NewDelivery],
) -> Result<Vec<Received>, StoreError> {
    // The first with its key, and how many copies of it are beside it.
    let mut first: HashMap<(&str, &str), (&NewDelivery, u64)> = HashMap::new();
    for delivery in deliveries {
        if let Some(key) = &delivery.dedupe_key {
            first
                .entry((&delivery.source, key))
                .and_modify(|(_, copies)| *copies += 1)
                .or_insert((delivery, 0));
        }
    }
    let rows: Vec<_> = first
        .iter()
        .map(|((source, key), (delivery, copies))| {
            (
                source,
                key,
                delivery.id,
                delivery.received_at.as_millis(),
                delivery.verdict().as_str(),
                copies,
                delivery.dedupe_until.as_millis(),
            )
        })
        .collect();
    // Whose row it is now: a copy's id is in none, for only the first of them was offered.
    let mut owners: HashSet<String> = HashSet::new();
    if !rows.is_empty() {
        let found: Vec<String> = sqlx::query_scalar(DEDUPE)
            .bind(document(&rows)?)
            .fetch_all(connection)
            .await?;
        owners.extend(found);
    }
    Ok(deliveries
        .iter()
        .map(|delivery| {
            let is_new = delivery.dedupe_key.is_none() || owners.contains(&delivery.id.to_string());
            let verdict = if is_new {
                delivery.verdict()
            } else {
                Verdict::Duplicate
            };
            Received {
                event_id: delivery.id,
                verdict,
            }
        })
        .collect())
}

/// Most bytes of headers and bodies in one statement: SQLite copies them once more.
const MAX_BYTES: usize = 4 << 20;

// A full name is its own key, whoever else in the ledger ends in the same segment; only a short id is
// looked up there.
const CAPTURE: &str = "
    INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, expires_at_ms)
    SELECT value ->> 1, value ->> 9, value ->> 0, value ->> 2, value ->> 3, value ->> 20
    FROM jsonb_each(?1) WHERE value ->> 20 IS NOT NULL;
    INSERT INTO captured_events (id, source, received_at_ms, verdict, why, event_type, operation, segment,
                                 webhook_id, dedupe_key, proof, reservation, replay_of, user_metadata, headers, body)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
           value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
           CAST(substr(?2, value ->> 14, value ->> 15) AS TEXT), substr(?2, value ->> 16, value ->> 17)
    FROM jsonb_each(?1);
    INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reservation, event_id, reason, fresh,
                            state, created_at_ms, available_at_ms)
    SELECT iif(instr(value ->> 6, '/'), value ->> 6,
               coalesce((SELECT max(o.name) FROM operations o WHERE o.segment = value ->> 7 HAVING count(*) = 1), value ->> 6)),
           value ->> 6, value ->> 7, value ->> 18, value ->> 11, value ->> 0, value ->> 19, 1, 'ready', value ->> 2, value ->> 2
    FROM jsonb_each(?1) WHERE value ->> 3 = 'accepted'
    ON CONFLICT (ref_key) WHERE state = 'ready' DO UPDATE SET
        available_at_ms = min(available_at_ms, excluded.available_at_ms),
        reason = excluded.reason, fresh = 1, event_id = excluded.event_id,
        kind_hint = coalesce(kind_hint, excluded.kind_hint),
        reservation = coalesce(reservation, excluded.reservation)";

/// Who writes the dedupe rows of captured deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Their capture, which fails on one that is there.
    New,
    /// Somebody did before.
    Decided,
}

/// A delivery in the document, in the order in which the statements count.
#[derive(Serialize)]
struct Row<'a>(
    uuid::Uuid,
    &'a str,
    i64,
    &'static str,
    Option<&'static str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    &'a str,
    Option<uuid::Uuid>,
    Option<uuid::Uuid>,
    Option<String>,
    // Where in the blob, counted from one, and how many bytes: the headers, then the body.
    usize,
    usize,
    usize,
    usize,
    Option<&'static str>,
    &'static str,
    // Until when its key counts, where it gets its dedupe row here.
    Option<i64>,
);

impl<'a> Row<'a> {
    /// The row of a delivery, whose bytes it puts behind those in `blob`.
    fn new(delivery: &'a NewDelivery, keys: Keys, blob: &mut Vec<u8>) -> Result<Self, sqlx::Error> {
        let key = delivery.dedupe_key.as_ref().filter(|_| keys == Keys::New);
        let operation = delivery.operation.as_ref();
        let headers_at = blob.len();
        delivery.write_headers(blob).map_err(unwritable)?;
        let body_at = blob.len();
        blob.extend_from_slice(&delivery.body);
        Ok(Self(
            delivery.id,
            &delivery.source,
            delivery.received_at.as_millis(),
            delivery.verdict().as_str(),
            delivery.ignored_because,
            delivery.event_type.as_deref(),
            operation.map(OperationRef::raw),
            operation.map(OperationRef::segment),
            delivery.webhook_id.as_deref(),
            delivery.dedupe_key.as_deref(),
            &delivery.proof,
            delivery.reservation,
            delivery.replay_of,
            delivery.user_metadata.as_ref().map(Value::to_string),
            headers_at + 1,
            body_at - headers_at,
            body_at + 1,
            delivery.body.len(),
            operation
                .and_then(OperationRef::kind_hint)
                .map(Kind::as_str),
            delivery.reason().as_str(),
            key.map(|_| delivery.dedupe_until.as_millis()),
        ))
    }
}

/// Captures new deliveries, and queues those that name an operation; one that waits for it already is
/// pulled forward.
async fn capture(
    connection: &mut SqliteConnection,
    new: &[&NewDelivery],
    keys: Keys,
) -> Result<(), sqlx::Error> {
    let mut waiting = new.iter().peekable();
    while waiting.peek().is_some() {
        let (mut rows, mut blob) = (Vec::new(), Vec::new());
        while blob.len() < MAX_BYTES
            && let Some(delivery) = waiting.next()
        {
            rows.push(Row::new(delivery, keys, &mut blob)?);
        }
        sqlx::query(CAPTURE)
            .bind(document(&rows)?)
            .bind(blob)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Nothing to do when every operation it may mean has settled, or when an item waits under its short id
/// (which looks at all of them). An item under a full name is the conflict's to find: it may be another's.
const QUEUE_DUPLICATE: &str = "
    INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reservation, event_id, reason, fresh,
                            state, created_at_ms, available_at_ms)
    SELECT iif(instr(value ->> 0, '/'), value ->> 0,
               coalesce((SELECT max(o.name) FROM operations o WHERE o.segment = value ->> 1 HAVING count(*) = 1), value ->> 0)),
           value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 6, 1, 'ready', value ->> 5, value ->> 5
    FROM jsonb_each(?1)
    WHERE (SELECT count(*) = 0 OR count(*) > count(o.settled_at_ms) FROM operations o
           WHERE o.segment = value ->> 1 AND (o.name = value ->> 0 OR instr(value ->> 0, '/') = 0))
      AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = value ->> 1 AND q.state IN ('ready', 'leased')
                      AND q.state = 'ready' AND instr(q.ref_key, '/') = 0)
    ON CONFLICT (ref_key) WHERE state = 'ready' DO NOTHING";

/// Queues duplicates only if their operation may still be open and nobody waits.
async fn wake_again(
    connection: &mut SqliteConnection,
    deliveries: &[&NewDelivery],
) -> Result<(), StoreError> {
    let rows: Vec<_> = deliveries
        .iter()
        .filter(|d| d.verdict() == Verdict::Accepted)
        .filter_map(|d| {
            let operation = d.operation.as_ref()?;
            Some((
                operation.raw(),
                operation.segment(),
                operation.kind_hint().map(Kind::as_str),
                d.reservation,
                d.id,
                d.received_at.as_millis(),
                d.reason().as_str(),
            ))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(QUEUE_DUPLICATE)
        .bind(document(&rows)?)
        .execute(connection)
        .await?;
    Ok(())
}

fn document(rows: &impl Serialize) -> Result<String, sqlx::Error> {
    serde_json::to_string(rows).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> sqlx::Error {
    sqlx::Error::Encode(error.into())
}
