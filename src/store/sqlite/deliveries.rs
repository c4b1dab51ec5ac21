//! Deliveries, inserted as a set.
//!
//! sqlx crosses a thread for every statement, so a statement per row would cap the receive rate.
//! Nearly always all of a set are new, so that is tried first, in one trip that asks for nothing back
//! (`capture`): a row handed over costs a wake-up. A dedupe row that is there already fails the statement,
//! and with it the attempt, before anything is captured. Then the set is taken apart: dedupe rows decide
//! who is new, then the new ones are captured and get their work items, then duplicates of unsettled
//! operations get a wake-up if nobody holds one. Sets that follow one with duplicates are taken apart at
//! once, until one has none ([`Insert`]). What is rare travels as a JSON document, whose rows come out by
//! `jsonb_each`: `json_each` would write each out as text, and read that again, wherever its value is named.
//!
//! Races: the writer is alone, so check and insert cannot interleave. Two copies of one delivery in
//! one set are told apart here, before SQL sees them. What a failed attempt did is rolled back to the
//! savepoint that the caller opened, so that nothing counts twice.

use std::collections::{HashMap, HashSet};

use sqlx::SqliteConnection;

use super::super::error::StoreError;
use super::super::{NewDelivery, Received};
use super::capture::{Keys, capture};
use super::sets::document;
use crate::domain::event::Verdict;
use crate::domain::operation::Kind;

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
