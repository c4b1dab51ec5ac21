//! Deliveries, inserted as a set.
//!
//! sqlx crosses a thread for every statement, so a statement per row would cap the receive rate.
//! However many deliveries share a commit, this is at most five statements (bodies are inserted in
//! chunks of fixed sizes, so that the prepared statements repeat).
//!
//! Order inside one transaction: dedupe rows decide who is new, then the new ones are captured and
//! get their work items, then duplicates of unsettled operations get a wake-up if nobody holds one.
//!
//! Races: the writer is alone, so check and insert cannot interleave. Two copies of one delivery in
//! one set are told apart here, before SQL sees them.

use std::collections::HashMap;

use serde_json::{Value, json};
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::super::error::StoreError;
use super::super::{NewDelivery, Received};
use crate::domain::event::Verdict;
use crate::domain::operation::Kind;

pub(super) async fn insert(
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
    capture(connection, &new).await?;
    queue(connection, &new, Wake::New).await?;
    let again: Vec<&NewDelivery> = deliveries
        .iter()
        .zip(&verdicts)
        .filter(|(_, received)| received.verdict == Verdict::Duplicate)
        .map(|(delivery, _)| delivery)
        .collect();
    queue(connection, &again, Wake::Duplicate).await?;
    Ok(verdicts)
}

const DEDUPE: &str = "
    INSERT INTO processed_events (source, dedupe_key, event_id, received_at_ms, outcome, duplicates, expires_at_ms)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
    FROM json_each(?1) WHERE true
    ON CONFLICT (source, dedupe_key) DO UPDATE SET
        event_id       = iif(expires_at_ms <= excluded.received_at_ms, excluded.event_id, event_id),
        outcome        = iif(expires_at_ms <= excluded.received_at_ms, excluded.outcome, outcome),
        received_at_ms = iif(expires_at_ms <= excluded.received_at_ms, excluded.received_at_ms, received_at_ms),
        duplicates     = iif(expires_at_ms <= excluded.received_at_ms, excluded.duplicates, duplicates + 1 + excluded.duplicates),
        expires_at_ms  = iif(expires_at_ms <= excluded.received_at_ms, excluded.expires_at_ms, expires_at_ms)
    RETURNING source, dedupe_key, event_id";

/// Decides for each delivery whether it is new. A delivery without a key always is.
async fn dedupe(
    connection: &mut SqliteConnection,
    deliveries: &[NewDelivery],
) -> Result<Vec<Received>, StoreError> {
    let mut first: HashMap<(&str, &str), usize> = HashMap::new();
    let mut copies: HashMap<usize, u64> = HashMap::new();
    for (i, delivery) in deliveries.iter().enumerate() {
        if let Some(key) = &delivery.dedupe_key {
            match first.entry((&delivery.source, key)) {
                std::collections::hash_map::Entry::Occupied(seen) => {
                    *copies.entry(*seen.get()).or_default() += 1;
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(i);
                }
            }
        }
    }
    let rows: Vec<Value> = first
        .iter()
        .filter_map(|((source, key), i)| {
            let delivery = deliveries.get(*i)?;
            Some(json!([
                source,
                key,
                delivery.id.to_string(),
                delivery.received_at.as_millis(),
                delivery.verdict().as_str(),
                copies.get(i).copied().unwrap_or(0),
                delivery.dedupe_until.as_millis(),
            ]))
        })
        .collect();
    let mut owner: HashMap<(String, String), String> = HashMap::new();
    if !rows.is_empty() {
        let found = sqlx::query(DEDUPE)
            .bind(Value::from(rows).to_string())
            .fetch_all(connection)
            .await?;
        for row in found {
            owner.insert((row.get(0), row.get(1)), row.get(2));
        }
    }
    Ok(deliveries
        .iter()
        .enumerate()
        .map(|(i, delivery)| {
            let is_new = delivery.dedupe_key.as_ref().is_none_or(|key| {
                first.get(&(delivery.source.as_str(), key.as_str())) == Some(&i)
                    && owner.get(&(delivery.source.clone(), key.clone()))
                        == Some(&delivery.id.to_string())
            });
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

/// Sizes of one insert: few distinct statements, so that each stays prepared.
const CHUNKS: [usize; 4] = [64, 16, 4, 1];

async fn capture(
    connection: &mut SqliteConnection,
    mut new: &[&NewDelivery],
) -> Result<(), StoreError> {
    for size in CHUNKS {
        while let Some((now, later)) = new.split_at_checked(size) {
            new = later;
            let mut insert = QueryBuilder::new(
                "INSERT INTO captured_events (id, source, received_at_ms, verdict, why, event_type, \
                 operation, segment, webhook_id, dedupe_key, proof, reservation, replay_of, user_metadata, \
                 headers, body) ",
            );
            insert.push_values(now, |mut row, delivery| {
                let operation = delivery.operation.as_ref();
                row.push_bind(delivery.id.to_string())
                    .push_bind(&delivery.source)
                    .push_bind(delivery.received_at.as_millis())
                    .push_bind(delivery.verdict().as_str())
                    .push_bind(delivery.ignored_because)
                    .push_bind(&delivery.event_type)
                    .push_bind(operation.map(|o| o.raw().to_owned()))
                    .push_bind(operation.map(|o| o.segment().to_owned()))
                    .push_bind(&delivery.webhook_id)
                    .push_bind(&delivery.dedupe_key)
                    .push_bind(&delivery.proof)
                    .push_bind(delivery.reservation.map(|r| r.to_string()))
                    .push_bind(delivery.replay_of.map(|r| r.to_string()))
                    .push_bind(delivery.user_metadata.as_ref().map(Value::to_string))
                    .push_bind(delivery.headers_json())
                    .push_bind(delivery.body.as_ref());
            });
            insert.build().execute(&mut *connection).await?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// Queue it, or pull the one that waits forward.
    New,
    /// Queue it only if its operation may still be open and nobody waits.
    Duplicate,
}

// A full name is its own key, whoever else in the ledger ends in the same segment; only a short id is
// looked up there.
const QUEUE_NEW: &str = "
    INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reservation, event_id, reason, fresh,
                            state, created_at_ms, available_at_ms)
    SELECT iif(instr(value ->> 0, '/'), value ->> 0,
               coalesce((SELECT max(o.name) FROM operations o WHERE o.segment = value ->> 1 HAVING count(*) = 1), value ->> 0)),
           value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 6, 1, 'ready', value ->> 5, value ->> 5
    FROM json_each(?1) WHERE true
    ON CONFLICT (ref_key) WHERE state = 'ready' DO UPDATE SET
        available_at_ms = min(available_at_ms, excluded.available_at_ms),
        reason = excluded.reason, fresh = 1, event_id = excluded.event_id,
        kind_hint = coalesce(kind_hint, excluded.kind_hint),
        reservation = coalesce(reservation, excluded.reservation)";

/// Nothing to do when every operation it may mean has settled, or when an item waits under its short id
/// (which looks at all of them). An item under a full name is the conflict's to find: it may be another's.
const QUEUE_DUPLICATE: &str = "
    INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reservation, event_id, reason, fresh,
                            state, created_at_ms, available_at_ms)
    SELECT iif(instr(value ->> 0, '/'), value ->> 0,
               coalesce((SELECT max(o.name) FROM operations o WHERE o.segment = value ->> 1 HAVING count(*) = 1), value ->> 0)),
           value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 6, 1, 'ready', value ->> 5, value ->> 5
    FROM json_each(?1)
    WHERE (SELECT count(*) = 0 OR count(*) > count(o.settled_at_ms) FROM operations o
           WHERE o.segment = value ->> 1 AND (o.name = value ->> 0 OR instr(value ->> 0, '/') = 0))
      AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = value ->> 1 AND q.state IN ('ready', 'leased')
                      AND q.state = 'ready' AND instr(q.ref_key, '/') = 0)
    ON CONFLICT (ref_key) WHERE state = 'ready' DO NOTHING";

async fn queue(
    connection: &mut SqliteConnection,
    deliveries: &[&NewDelivery],
    wake: Wake,
) -> Result<(), StoreError> {
    let rows: Vec<Value> = deliveries
        .iter()
        .filter(|d| d.verdict() == Verdict::Accepted)
        .filter_map(|d| {
            let operation = d.operation.as_ref()?;
            Some(json!([
                operation.raw(),
                operation.segment(),
                operation.kind_hint().map(Kind::as_str),
                d.reservation.map(|r| r.to_string()),
                d.id.to_string(),
                d.received_at.as_millis(),
                d.reason().as_str(),
            ]))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let statement = match wake {
        Wake::New => QUEUE_NEW,
        Wake::Duplicate => QUEUE_DUPLICATE,
    };
    sqlx::query(statement)
        .bind(Value::from(rows).to_string())
        .execute(connection)
        .await?;
    Ok(())
}
