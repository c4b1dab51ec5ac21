//! The work queue: enter, renew, give back, close. How items are taken is in `claim`.
//!
//! An outcome that is nobody's fault (still running, an outage, a stop) gives the charge of its claim
//! back.
//!
//! Race: an event may arrive while a worker holds its operation's item, and makes a new ready row.
//! When the held one goes back, it finds that row and folds into it, keeping the higher count of
//! attempts and deaths: there is never a second ready row, and poison cannot launder its count.

use std::time::Duration;

use sqlx::{Row, SqliteConnection};

use super::super::error::StoreError;
use super::super::{Close, Reader, Store};
use super::rows::fenced;
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::domain::ledger::Lease;
use crate::domain::operation::{Kind, OperationName};
use crate::domain::work::Reason;

impl Store {
    /// Makes a held lease last `lease` from now.
    pub async fn renew(&self, held: &Lease, lease: Duration) -> Result<(), StoreError> {
        let until = monotonic_ms(self.clock.monotonic() + lease);
        let (id, epoch) = (held.id, held.epoch);
        self.writer
            .write("renew", Lane::Front, move |connection| {
                Box::pin(async move {
                    let done = sqlx::query(
                        "UPDATE work_queue SET lease_until_ms = ?3 \
                         WHERE id = ?1 AND state = 'leased' AND lease_epoch = ?2",
                    )
                    .bind(id)
                    .bind(epoch)
                    .bind(until)
                    .execute(connection)
                    .await?;
                    fenced("work_queue", &id, done.rows_affected())
                })
            })
            .await
    }

    /// Ends a lease without a look (nothing was learned about any operation).
    pub async fn close_lease(&self, held: &Lease, close: Close) -> Result<(), StoreError> {
        let (held, now) = (held.clone(), self.clock.now());
        self.writer
            .write("close lease", Lane::Normal, move |connection| {
                Box::pin(async move { end_lease(connection, &held, &close, now).await })
            })
            .await
    }

    /// Queues a look at an operation on a person's or the timer's behalf, due now.
    pub async fn wake(&self, name: &OperationName, reason: Reason) -> Result<(), StoreError> {
        let (name, now) = (name.clone(), self.clock.now());
        self.writer
            .write("wake", Lane::Normal, move |connection| {
                Box::pin(async move { enqueue(connection, &name, reason, now).await })
            })
            .await
    }

    /// Puts those of these items back that are dead, due now, with their attempts forgotten. Answers
    /// how many.
    pub async fn retry_dead(&self, items: Vec<i64>) -> Result<u64, StoreError> {
        let now = self.clock.now();
        self.writer
            .write("retry dead", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let dead: Vec<i64> = sqlx::query_scalar(
                        "SELECT q.id FROM json_each(?1) named CROSS JOIN work_queue q ON q.id = named.value \
                         WHERE q.state = 'dead'",
                    )
                    .bind(serde_json::Value::from(items).to_string())
                    .fetch_all(&mut *connection)
                    .await?;
                    for id in &dead {
                        sqlx::query("UPDATE work_queue SET attempts = 0, failures = 0, crashes = 0 WHERE id = ?1")
                            .bind(id)
                            .execute(&mut *connection)
                            .await?;
                        back_to_ready(connection, *id, now, Some("retried by the operator"), true)
                            .await?;
                    }
                    Ok(u64::try_from(dead.len()).unwrap_or(u64::MAX))
                })
            })
            .await
    }
}

impl Reader {
    /// Work items that were given up.
    pub async fn dead_items(&self) -> Result<u64, StoreError> {
        let dead: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM work_queue WHERE state <> 'done' AND state = 'dead'",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(u64::try_from(dead).unwrap_or(0))
    }
}

pub(super) fn monotonic_ms(since_start: Duration) -> i64 {
    i64::try_from(since_start.as_millis()).unwrap_or(i64::MAX)
}

/// Upserts the one ready item of a known operation, due at `at` at the latest.
pub(super) async fn enqueue(
    connection: &mut SqliteConnection,
    name: &OperationName,
    reason: Reason,
    at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reason, fresh, state, created_at_ms, available_at_ms) \
         VALUES (?1, ?1, ?2, ?3, ?4, ?5, 'ready', ?6, ?6) \
         ON CONFLICT (ref_key) WHERE state = 'ready' DO UPDATE SET \
             available_at_ms = min(available_at_ms, excluded.available_at_ms), \
             reason = iif(fresh > excluded.fresh, reason, excluded.reason), \
             fresh = max(fresh, excluded.fresh)",
    )
    .bind(name.as_str())
    .bind(name.segment())
    .bind(Kind::as_str(name.kind()))
    .bind(reason.as_str())
    .bind(reason.is_fresh())
    .bind(at.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends a lease in the caller's transaction.
pub(super) async fn end_lease(
    connection: &mut SqliteConnection,
    held: &Lease,
    close: &Close,
    now: Timestamp,
) -> Result<(), StoreError> {
    if let Close::Done(outcome) = close {
        // The fence and the end in one: whoever lost the lease changes nothing.
        let done = sqlx::query(
            "UPDATE work_queue SET state = 'done', outcome = ?3, finished_at_ms = ?4, lease_until_ms = NULL, \
             attempts = max(attempts - 1, 0) WHERE id = ?1 AND lease_epoch = ?2 AND state = 'leased'",
        )
        .bind(held.id)
        .bind(held.epoch)
        .bind(outcome.as_str())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
        return fenced("work_queue", &held.id, done.rows_affected());
    }
    // Fence first: whoever lost the lease may change nothing, not even by giving it back.
    let holds: bool = sqlx::query_scalar(
        "SELECT count(*) > 0 FROM work_queue WHERE id = ?1 AND state = 'leased' AND lease_epoch = ?2",
    )
    .bind(held.id)
    .bind(held.epoch)
    .fetch_one(&mut *connection)
    .await?;
    fenced("work_queue", &held.id, u64::from(holds))?;
    match close {
        Close::Done(_) => Ok(()),
        Close::Again(failure, max_attempts)
            if failure.charged && held.attempts >= *max_attempts =>
        {
            bury(connection, held.id, now, &failure.why).await
        }
        Close::Again(failure, _) => {
            sqlx::query(
                "UPDATE work_queue SET attempts = attempts - ?2, failures = failures + 1, fresh = 0 \
                 WHERE id = ?1",
            )
            .bind(held.id)
            .bind(i64::from(!failure.charged))
            .execute(&mut *connection)
            .await?;
            back_to_ready(
                connection,
                held.id,
                failure.again_at,
                Some(&failure.why),
                false,
            )
            .await
        }
        Close::Release => {
            sqlx::query("UPDATE work_queue SET attempts = attempts - 1 WHERE id = ?1")
                .bind(held.id)
                .execute(&mut *connection)
                .await?;
            back_to_ready(connection, held.id, now, None, false).await
        }
    }
}

pub(super) async fn bury(
    connection: &mut SqliteConnection,
    id: i64,
    now: Timestamp,
    why: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE work_queue SET state = 'dead', lease_until_ms = NULL, finished_at_ms = ?2, last_error = ?3 \
         WHERE id = ?1",
    )
    .bind(id)
    .bind(now.as_millis())
    .bind(why)
    .execute(&mut *connection)
    .await?;
    // The timer would only run the same poison again; a person or a new event may. Only of the
    // operation that it names: another may end in the same segment.
    sqlx::query(
        "UPDATE operations SET next_check_at_ms = NULL WHERE settled_at_ms IS NULL \
         AND segment = (SELECT segment FROM work_queue WHERE id = ?1) \
         AND (SELECT q.ref_key = operations.name OR NOT instr(q.ref_key, '/') FROM work_queue q WHERE q.id = ?1)",
    )
    .bind(id)
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes a leased or dead row ready, or folds it into the ready row its operation already has.
pub(super) async fn back_to_ready(
    connection: &mut SqliteConnection,
    id: i64,
    at: Timestamp,
    why: Option<&str>,
    fresh: bool,
) -> Result<(), StoreError> {
    let other = sqlx::query(
        "SELECT other.id FROM work_queue me JOIN work_queue other \
         ON other.ref_key = me.ref_key AND other.state = 'ready' WHERE me.id = ?1",
    )
    .bind(id)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(other) = other {
        let other: i64 = other.get(0);
        sqlx::query(
            "UPDATE work_queue SET \
                 attempts = max(attempts, (SELECT attempts FROM work_queue WHERE id = ?2)), \
                 crashes = max(crashes, (SELECT crashes FROM work_queue WHERE id = ?2)), \
                 reservation = coalesce(reservation, (SELECT reservation FROM work_queue WHERE id = ?2)) \
             WHERE id = ?1",
        )
        .bind(other)
        .bind(id)
        .execute(&mut *connection)
        .await?;
        sqlx::query("DELETE FROM work_queue WHERE id = ?1")
            .bind(id)
            .execute(connection)
            .await?;
        return Ok(());
    }
    sqlx::query(
        "UPDATE work_queue SET state = 'ready', lease_until_ms = NULL, finished_at_ms = NULL, \
         available_at_ms = ?2, last_error = coalesce(?3, last_error), fresh = max(fresh, ?4) \
         WHERE id = ?1",
    )
    .bind(id)
    .bind(at.as_millis())
    .bind(why)
    .bind(fresh)
    .execute(connection)
    .await?;
    Ok(())
}
