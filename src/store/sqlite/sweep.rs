//! What the timer finds: due looks, overdue operations, endings no webhook told, missing effects.
//!
//! Each sweep follows an index over exactly what is due, so its cost does not grow with the ledger.
//! The only exception is the outbox audit, which walks the settled records a page a turn.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::super::error::StoreError;
use super::super::{Reader, Store};
use super::ledger::{by_id, log};
use super::lists::first_id;
use super::rows::{operation, select_operations, uuid};
use super::settle::set_told;
use super::write::Lane;
use super::{alerts, outbox};
use crate::base::clock::Timestamp;
use crate::base::failpoint::failpoint;
use crate::domain::effect::Trigger;
use crate::domain::ledger::PlanEffects;
pub use crate::domain::ledger::Told;
use crate::domain::operation::OperationName;

/// How one ending became known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescued {
    /// The operation.
    pub name: OperationName,
    /// How.
    pub told: Told,
}

impl Store {
    /// Queues a look at up to `limit` operations whose next look is due, oldest first. Each gets
    /// another look `again_after` later, should this one be lost. No look at a pending operation is ever
    /// put off for longer than `longest`. Answers how many were queued.
    pub async fn queue_due_looks(
        &self,
        limit: u32,
        again_after: Duration,
        longest: Duration,
    ) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let again = now.after(again_after);
        let bounds = Farthest {
            look: now.after(longest.max(again_after) * 2),
            any: now.after(NEVER_LATER.max(again_after * 2)),
        };
        self.writer
            .write("queue due looks", Lane::Normal, move |connection| {
                Box::pin(async move {
                    undo_clock_jump(connection, now, bounds).await?;
                    let queued = sqlx::query(
                        "INSERT INTO work_queue (ref_key, raw, segment, kind_hint, reason, fresh, state, created_at_ms, available_at_ms) \
                         SELECT name, name, segment, kind, 'reconcile', 0, 'ready', ?1, ?1 FROM ( \
                             SELECT name, segment, kind FROM operations WHERE next_check_at_ms <= ?1 \
                             ORDER BY next_check_at_ms LIMIT ?2) due \
                         WHERE NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = due.segment \
                                           AND q.state IN ('ready', 'leased') AND q.state = 'leased' \
                                           AND q.ref_key = due.name) \
                         ON CONFLICT (ref_key) WHERE state = 'ready' DO UPDATE SET \
                             available_at_ms = min(available_at_ms, excluded.available_at_ms)",
                    )
                    .bind(now.as_millis())
                    .bind(limit)
                    .execute(&mut *connection)
                    .await?;
                    failpoint!("fp-r1", if queued.rows_affected() > 0);
                    sqlx::query(
                        "UPDATE operations SET next_check_at_ms = ?2 WHERE id IN ( \
                             SELECT id FROM operations WHERE next_check_at_ms <= ?1 \
                             ORDER BY next_check_at_ms LIMIT ?3)",
                    )
                    .bind(now.as_millis())
                    .bind(again.as_millis())
                    .bind(limit)
                    .execute(&mut *connection)
                    .await?;
                    Ok(queued.rows_affected())
                })
            })
            .await
    }

    /// Pulls the next look at pending operations to now, those submitted up to `before`, a page of
    /// `limit` in the order of their ids. Answers how many were pulled and, unless this was the
    /// last page, where the next one begins.
    pub async fn pull_looks(
        &self,
        before: Timestamp,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<(u64, Option<Uuid>), StoreError> {
        let now = self.clock.now();
        let after = after.map_or_else(String::new, |id| id.to_string());
        self.writer
            .write("pull looks", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let page: Vec<String> = sqlx::query_scalar(
                        "SELECT id FROM operations WHERE state = 'pending' AND id > ?1 \
                         AND submitted_at_ms <= ?2 ORDER BY id LIMIT ?3",
                    )
                    .bind(&after)
                    .bind(before.as_millis())
                    .bind(limit)
                    .fetch_all(&mut *connection)
                    .await?;
                    let Some(last) = page.last() else {
                        return Ok((0, None));
                    };
                    let pulled = sqlx::query(
                        "UPDATE operations SET next_check_at_ms = ?1 WHERE state = 'pending' \
                         AND id > ?2 AND id <= ?3 AND submitted_at_ms <= ?4 \
                         AND next_check_at_ms > ?1",
                    )
                    .bind(now.as_millis())
                    .bind(&after)
                    .bind(last)
                    .bind(before.as_millis())
                    .execute(&mut *connection)
                    .await?
                    .rows_affected();
                    let full = u32::try_from(page.len()).is_ok_and(|n| n == limit);
                    let next = full.then(|| uuid("operations", "id", last)).transpose()?;
                    Ok((pulled, next))
                })
            })
            .await
    }

    /// Flags operations that are pending past their time, each with one alert and the effects that
    /// chose `overdue`. Answers how many.
    pub async fn flag_overdue(
        &self,
        give_up_after: Duration,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<u64, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("flag overdue", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let late: Vec<String> = sqlx::query_scalar(
                        "UPDATE operations SET overdue = 1, overdue_at_ms = NULL WHERE id IN ( \
                             SELECT id FROM operations WHERE overdue_at_ms <= ?1 ORDER BY overdue_at_ms LIMIT 500) \
                         RETURNING id",
                    )
                    .bind(now.as_millis())
                    .fetch_all(&mut *connection)
                    .await?;
                    for id in &late {
                        let record = by_id(connection, uuid("operations", "id", id)?).await?;
                        log(connection, record.id, now, "overdue", "reconcile", None).await?;
                        let age = now.since(record.submitted_at).as_secs();
                        let summary = format!(
                            "{} ({}) has been pending for {}",
                            record.name.as_ref().map_or("?", |n| n.as_str()),
                            record.job_kind,
                            humantime::format_duration(Duration::from_secs(age)),
                        );
                        let subject = format!("operation/{id}/overdue");
                        alerts::open(connection, &subject, &summary, now, &*planner, &*ids).await?;
                        let effects = planner.plan(&record, Trigger::Overdue, now);
                        let give_up = now.after(give_up_after);
                        outbox::plan(connection, Some(&record), &effects, now, give_up, &*ids)
                            .await?;
                    }
                    Ok(u64::try_from(late.len()).unwrap_or(u64::MAX))
                })
            })
            .await
    }

    /// Decides, for endings old enough, whether a webhook told them. The first that none told opens the
    /// alert `subject`, in the same commit: it is decided once, so whoever is to hear of it must be told
    /// then.
    pub async fn decide_told(
        &self,
        subject: &'static str,
        summary: fn(&OperationName) -> String,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<Vec<Rescued>, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("decide told", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let due = sqlx::query(select_operations!(
                        "WHERE o.decide_at_ms <= ?1 ORDER BY o.decide_at_ms LIMIT 500"
                    ))
                    .bind(now.as_millis())
                    .fetch_all(&mut *connection)
                    .await?;
                    let mut decided = Vec::with_capacity(due.len());
                    for row in &due {
                        let record = operation(row)?;
                        let (Some(name), Some(kind)) = (record.name.clone(), record.kind) else {
                            continue;
                        };
                        let named: bool = sqlx::query_scalar(
                            "SELECT count(*) > 0 FROM captured_events \
                             WHERE segment IN (?1, 'batch_' || ?1) AND replay_of IS NULL",
                        )
                        .bind(name.segment())
                        .fetch_one(&mut *connection)
                        .await?;
                        let registered_before = record
                            .registered_at
                            .zip(record.settled_at)
                            .is_some_and(|(registered, settled)| registered <= settled);
                        let told = if named {
                            Told::Webhook
                        } else if !record.state.has_event(kind) {
                            Told::NoEvent
                        } else if registered_before {
                            Told::Rescued
                        } else {
                            // Found by a person or an import: nobody expected a delivery.
                            Told::NoEvent
                        };
                        sqlx::query("UPDATE operations SET decide_at_ms = NULL WHERE id = ?1")
                            .bind(record.id.to_string())
                            .execute(&mut *connection)
                            .await?;
                        set_told(connection, record.id, told).await?;
                        decided.push(Rescued { name, told });
                    }
                    if let Some(one) = decided.iter().find(|one| one.told == Told::Rescued) {
                        let summary = summary(&one.name);
                        alerts::open(connection, subject, &summary, now, &*planner, &*ids).await?;
                    }
                    Ok(decided)
                })
            })
            .await
    }

    /// Plans the effects of settled operations that have none planned, and of those on the audited
    /// page whose outbox rows are fewer than were written down. Never touches an existing row.
    /// Answers how many operations were repaired, and where the next page begins.
    pub async fn repair_effects(
        &self,
        page_after: Option<(Timestamp, String)>,
        give_up_after: Duration,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<(u64, Option<(Timestamp, String)>), StoreError> {
        let (missing, next) = self.missing_effects(page_after).await?;
        if missing.is_empty() {
            return Ok((0, next));
        }
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        let repaired = self
            .writer
            .write("repair effects", Lane::Normal, move |connection| {
                Box::pin(async move {
                    for id in &missing {
                        let record = by_id(connection, uuid("operations", "id", id)?).await?;
                        if !record.state.is_settled() {
                            continue;
                        }
                        let effects = planner.plan(&record, Trigger::State(record.state), now);
                        let give_up = now.after(give_up_after);
                        outbox::plan(connection, Some(&record), &effects, now, give_up, &*ids)
                            .await?;
                        log(
                            connection,
                            record.id,
                            now,
                            "effects planned again",
                            "reconcile",
                            None,
                        )
                        .await?;
                    }
                    Ok(u64::try_from(missing.len()).unwrap_or(u64::MAX))
                })
            })
            .await?;
        Ok((repaired, next))
    }
}

/// Settled records audited in one turn.
const AUDIT_PAGE: i64 = 200;

/// Nothing is ever due later than this, apart from a look whose longest pause is configured longer.
pub(super) const NEVER_LATER: Duration = Duration::from_hours(48);

/// The latest moments that the clock as it is now can have written.
#[derive(Debug, Clone, Copy)]
struct Farthest {
    /// A look at a pending operation.
    look: Timestamp,
    /// Anything: who was told to wait may be told a day.
    any: Timestamp,
}

/// Times in the far future were written by a clock that has been set back since. They would be waited
/// for until it comes round again, so what they stand for is due now.
async fn undo_clock_jump(
    connection: &mut SqliteConnection,
    now: Timestamp,
    bounds: Farthest,
) -> Result<(), StoreError> {
    for statement in [
        "UPDATE operations SET next_check_at_ms = ?1 WHERE next_check_at_ms > iif(state = 'pending', ?3, ?2) \
         AND next_check_at_ms > min(?2, ?3)",
        "UPDATE work_queue SET available_at_ms = ?1 \
         WHERE state = 'ready' AND fresh IN (0, 1) AND available_at_ms > ?2",
        "UPDATE effects SET next_attempt_at_ms = ?1 \
         WHERE state IN ('planned', 'ambiguous') AND next_attempt_at_ms > ?2",
    ] {
        sqlx::query(statement)
            .bind(now.as_millis())
            .bind(bounds.any.as_millis())
            .bind(bounds.look.as_millis())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

impl Reader {
    /// Settled operations whose effects are missing: those never planned, and those of one page of
    /// the ledger that have fewer rows than were written down.
    async fn missing_effects(
        &self,
        after: Option<(Timestamp, String)>,
    ) -> Result<(Vec<String>, Option<(Timestamp, String)>), StoreError> {
        let mut missing: Vec<String> = sqlx::query_scalar(
            "SELECT id FROM operations INDEXED BY operations_unplanned \
             WHERE settled_at_ms IS NOT NULL AND effects_expected IS NULL LIMIT 500",
        )
        .fetch_all(&self.pool)
        .await?;
        let (ms, id) = after.map_or((i64::MIN, String::new()), |(t, id)| (t.as_millis(), id));
        let page = sqlx::query(
            "SELECT o.id, o.settled_at_ms, o.effects_expected > \
                 (SELECT count(*) FROM effects e WHERE e.operation_id = o.id) AS short \
             FROM operations o \
             WHERE o.settled_at_ms IS NOT NULL AND (o.settled_at_ms, o.id) > (?1, ?2) \
             ORDER BY o.settled_at_ms, o.id LIMIT ?3",
        )
        .bind(ms)
        .bind(id)
        .bind(AUDIT_PAGE)
        .fetch_all(&self.pool)
        .await?;
        for row in &page {
            if row.get::<Option<bool>, _>("short").unwrap_or(false) {
                missing.push(row.get("id"));
            }
        }
        let full = i64::try_from(page.len()).unwrap_or(0) == AUDIT_PAGE;
        let next = page.last().filter(|_| full).map(|row| {
            (
                Timestamp::from_millis(row.get("settled_at_ms")),
                row.get("id"),
            )
        });
        Ok((missing, next))
    }

    /// Whether a delivery came in by `source` at `since` or later that gave nothing to do, or that
    /// named `webhook`. Replays do not count.
    pub async fn pinged_since(
        &self,
        source: &str,
        webhook: &str,
        since: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar(
            "SELECT count(*) > 0 FROM captured_events \
             WHERE id >= ?1 AND source = ?2 AND (verdict = 'ignored' OR segment = ?3) AND replay_of IS NULL",
        )
        .bind(first_id(since))
        .bind(source)
        .bind(webhook)
        .fetch_one(&self.pool)
        .await?)
    }

    /// When the next look, overdue flag or decision is due.
    pub async fn next_sweep_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let due: Option<i64> = sqlx::query_scalar(
            "SELECT min(at) FROM ( \
                 SELECT min(next_check_at_ms) AS at FROM operations WHERE next_check_at_ms IS NOT NULL \
                 UNION ALL SELECT min(overdue_at_ms) FROM operations WHERE overdue_at_ms IS NOT NULL \
                 UNION ALL SELECT min(decide_at_ms) FROM operations WHERE decide_at_ms IS NOT NULL)",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(due.map(Timestamp::from_millis))
    }
}
