//! Pruning, in small batches, and giving the space back.
//!
//! Only what is over may go: a pending operation is never pruned, an ended one leaves a tombstone, and
//! so its late events cannot make it anew. Each batch is its own transaction, so that pruning
//! never keeps a delivery waiting for long. A captured delivery first loses its body and headers, the
//! most of its bytes, and later its row.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sqlx::{Encode, Sqlite, SqliteConnection, Type};

use super::super::error::StoreError;
use super::super::{Reader, Store};
use super::alerts;
use super::ledger::name_hash;
use super::lists::first_id;
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::base::failpoint::failpoint;
use crate::base::ids::Ids;
use crate::domain::ledger::PlanEffects;
use crate::domain::operation::OperationName;

/// How long each thing is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Settled operations, after settling.
    pub operations: Duration,
    /// Tombstones.
    pub tombstones: Duration,
    /// Captured events, after they came.
    pub events: Duration,
    /// Bodies and headers of captured events, after they came.
    pub bodies: Duration,
    /// Finished work items and recovered alerts.
    pub finished: Duration,
}

/// What one batch removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Pruned {
    /// Operations, each with its history and effects.
    pub operations: u64,
    /// Captured events.
    pub events: u64,
    /// Captured events emptied: their rows stay.
    pub bodies: u64,
    /// Dedupe rows.
    pub dedupe_rows: u64,
    /// Work items.
    pub work_items: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Alerts.
    pub alerts: u64,
    /// What was sent about alerts.
    pub notices: u64,
    /// Requests with a key.
    pub requests: u64,
}

impl Pruned {
    /// Whether anything was removed: there may be more.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl std::ops::AddAssign for Pruned {
    fn add_assign(&mut self, more: Self) {
        self.operations += more.operations;
        self.events += more.events;
        self.bodies += more.bodies;
        self.dedupe_rows += more.dedupe_rows;
        self.work_items += more.work_items;
        self.tombstones += more.tombstones;
        self.alerts += more.alerts;
        self.notices += more.notices;
        self.requests += more.requests;
    }
}

/// Rows of one table removed in one batch.
const BATCH: i64 = 500;

impl Store {
    /// Removes one batch of what is over.
    pub async fn prune(
        &self,
        keep: Retention,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<Pruned, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("prune", Lane::Normal, move |connection| {
                Box::pin(async move { batch(connection, keep, now, &*planner, &*ids).await })
            })
            .await
    }

    /// Gives some free pages back to the file system: few enough that nobody waits for long and that
    /// the write-ahead log keeps its limit. Answers how many are left.
    pub async fn tidy(&self) -> Result<u64, StoreError> {
        self.writer
            .write("tidy", Lane::Normal, |connection| {
                Box::pin(async move {
                    sqlx::query("PRAGMA incremental_vacuum(2000)")
                        .execute(&mut *connection)
                        .await?;
                    let left: i64 = sqlx::query_scalar("PRAGMA freelist_count")
                        .fetch_one(connection)
                        .await?;
                    Ok(u64::try_from(left).unwrap_or(0))
                })
            })
            .await
    }

    /// Writes the heartbeat: readiness means that this commits.
    pub async fn beat(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.writer
            .write("heartbeat", Lane::Front, move |connection| {
                Box::pin(async move {
                    sqlx::query("UPDATE heartbeat SET at_ms = ?1 WHERE id = 1")
                        .bind(now.as_millis())
                        .execute(connection)
                        .await?;
                    Ok(())
                })
            })
            .await
    }
}

impl Reader {
    /// A read that touches the file: proof that readers work.
    pub async fn ping(&self) -> Result<Timestamp, StoreError> {
        let at: i64 = sqlx::query_scalar("SELECT at_ms FROM heartbeat WHERE id = 1")
            .fetch_one(&self.pool)
            .await?;
        Ok(Timestamp::from_millis(at))
    }
}

async fn batch(
    connection: &mut SqliteConnection,
    keep: Retention,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<Pruned, StoreError> {
    let mut operations = 0;
    for statement in [SETTLED_OVER, CLOSED_OVER] {
        operations += bury(connection, statement, keep, now, planner, ids).await?;
    }
    let bodies = empty_bodies(connection, now.before(keep.bodies), now).await?;
    failpoint!("fp-p1");
    let events = delete(
        connection,
        "DELETE FROM captured_events WHERE id IN (SELECT e.id FROM captured_events e \
         WHERE e.id < ?1 AND NOT EXISTS (SELECT 1 FROM operations o \
             WHERE o.segment = e.segment AND o.settled_at_ms IS NULL) \
         AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = e.segment AND q.state IN ('ready', 'leased')) \
         ORDER BY e.id LIMIT ?2)",
        first_id(now.before(keep.events)),
    )
    .await?;
    let dedupe_rows = delete(
        connection,
        "DELETE FROM processed_events WHERE (source, dedupe_key) IN (SELECT source, dedupe_key \
         FROM processed_events WHERE expires_at_ms < ?1 ORDER BY expires_at_ms LIMIT ?2)",
        now.as_millis(),
    )
    .await?;
    let work_items = delete(
        connection,
        "DELETE FROM work_queue WHERE id IN (SELECT id FROM work_queue WHERE state = 'done' \
         AND finished_at_ms < ?1 ORDER BY finished_at_ms LIMIT ?2)",
        now.before(keep.finished).as_millis(),
    )
    .await?;
    let tombstones = delete(
        connection,
        "DELETE FROM tombstones WHERE name_hash IN (SELECT name_hash FROM tombstones \
         WHERE expires_at_ms < ?1 ORDER BY expires_at_ms LIMIT ?2)",
        now.as_millis(),
    )
    .await?;
    let alerts = delete(
        connection,
        "DELETE FROM alerts WHERE subject IN (SELECT subject FROM alerts WHERE state = 'recovered' \
         AND recovered_at_ms < ?1 ORDER BY recovered_at_ms LIMIT ?2)",
        now.before(keep.operations).as_millis(),
    )
    .await?;
    let notices = delete(
        connection,
        "DELETE FROM effects WHERE id IN (SELECT id FROM effects WHERE operation_id IS NULL \
         AND planned_at_ms < ?1 AND state IN ('done', 'dead') ORDER BY planned_at_ms LIMIT ?2)",
        now.before(keep.operations).as_millis(),
    )
    .await?;
    let requests = delete(
        connection,
        "DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE expires_at_ms < ?1 \
         ORDER BY expires_at_ms LIMIT ?2)",
        now.as_millis(),
    )
    .await?;
    Ok(Pruned {
        operations,
        events,
        bodies,
        dedupe_rows,
        work_items,
        tombstones,
        alerts,
        notices,
        requests,
    })
}

async fn empty_bodies(
    connection: &mut SqliteConnection,
    before: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "UPDATE captured_events SET body = x'', headers = '[]', emptied_at_ms = ?3 WHERE id IN ( \
         SELECT e.id FROM captured_events e WHERE e.emptied_at_ms IS NULL AND e.received_at_ms < ?1 \
         AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.segment = e.segment AND o.settled_at_ms IS NULL) \
         AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = e.segment AND q.state IN ('ready', 'leased')) \
         ORDER BY e.received_at_ms LIMIT ?2)",
    )
    .bind(before.as_millis())
    .bind(BATCH)
    .bind(now.as_millis())
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

async fn delete(
    connection: &mut SqliteConnection,
    statement: &'static str,
    before: impl for<'q> Encode<'q, Sqlite> + Type<Sqlite> + Send + 'static,
) -> Result<u64, StoreError> {
    let done = sqlx::query(statement)
        .bind(before)
        .bind(BATCH)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// Settled operations whose time is over and whose effects are all at an end.
const SETTLED_OVER: &str = "
    SELECT o.id, o.name, o.state, o.settled_at_ms FROM operations o
    WHERE o.settled_at_ms < ?1 AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.operation_id = o.id
        AND e.state IN ('planned', 'sending', 'ambiguous', 'held'))
    ORDER BY o.settled_at_ms LIMIT ?2";
/// The same for those that were closed without proof and never seen again.
const CLOSED_OVER: &str = "
    SELECT o.id, o.name, o.state, o.closed_at_ms FROM operations o
    WHERE o.closed_at_ms < ?1 AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.operation_id = o.id
        AND e.state IN ('planned', 'sending', 'ambiguous', 'held'))
    ORDER BY o.closed_at_ms LIMIT ?2";

/// Turns the operations that `over` finds into tombstones.
async fn bury(
    connection: &mut SqliteConnection,
    over: &'static str,
    keep: Retention,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<u64, StoreError> {
    let over: Vec<(String, String, String, i64)> = sqlx::query_as(over)
        .bind(now.before(keep.operations).as_millis())
        .bind(BATCH)
        .fetch_all(&mut *connection)
        .await?;
    for (id, name, state, ended_at) in &over {
        let name: OperationName = name.parse().map_err(|_| StoreError::Inconsistent {
            table: "operations",
            column: "name",
            row: id.clone(),
        })?;
        sqlx::query(
            "INSERT INTO tombstones (name_hash, state, settled_at_ms, expires_at_ms) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (name_hash) DO UPDATE SET expires_at_ms = excluded.expires_at_ms",
        )
        .bind(name_hash(&name))
        .bind(state)
        .bind(ended_at)
        .bind(now.after(keep.tombstones).as_millis())
        .execute(&mut *connection)
        .await?;
        sqlx::query("DELETE FROM operation_log WHERE operation_id = ?1")
            .bind(id)
            .execute(&mut *connection)
            .await?;
        // What was wrong with it is nobody's concern any more, nor what was wrong with its effects,
        // which go with it (ON DELETE CASCADE).
        let effects: Vec<String> =
            sqlx::query_scalar("SELECT id FROM effects WHERE operation_id = ?1 AND state = 'dead'")
                .bind(id)
                .fetch_all(&mut *connection)
                .await?;
        let effects = effects.iter().map(|effect| format!("effect/{effect}"));
        let over: Vec<String> = alerts::of_operation(id)
            .into_iter()
            .chain(effects)
            .collect();
        alerts::recover_all(connection, &over, now, planner, ids).await?;
        sqlx::query("DELETE FROM operations WHERE id = ?1")
            .bind(id)
            .execute(&mut *connection)
            .await?;
    }
    Ok(u64::try_from(over.len()).unwrap_or(u64::MAX))
}
