//! Alerts: one row per subject, so that each fires once and recovers once.
//!
//! An alert rides the outbox like any effect: its delivery is planned in the transaction that opens
//! (or ends) it, and is retried and given up by the same rules.

use std::fmt::Display;
use std::sync::Arc;

use sqlx::SqliteConnection;

use super::super::error::StoreError;
use super::super::{Reader, Store};
use super::outbox;
use super::rows::at;
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::ledger::{Alert, PlanEffects};
use crate::telemetry::metrics;

/// An alert that nobody could be told for this long is history.
const GIVE_UP: std::time::Duration = std::time::Duration::from_hours(72);

impl Store {
    /// Opens an alert, unless it is open. True when this opened it.
    pub async fn open_alert(
        &self,
        subject: String,
        summary: String,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<bool, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("open alert", Lane::Normal, move |connection| {
                Box::pin(async move {
                    open(connection, &subject, &summary, now, &*planner, &*ids).await
                })
            })
            .await
    }

    /// Ends an alert, if it is open. True when this ended it.
    pub async fn recover_alert(
        &self,
        subject: String,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<bool, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("recover alert", Lane::Normal, move |connection| {
                Box::pin(async move { recover(connection, &subject, now, &*planner, &*ids).await })
            })
            .await
    }
}

impl Reader {
    /// Whether the alert on that subject is open.
    pub async fn is_alert_open(&self, subject: &str) -> Result<bool, StoreError> {
        let open: bool = sqlx::query_scalar(
            "SELECT count(*) > 0 FROM alerts WHERE subject = ?1 AND state = 'open'",
        )
        .bind(subject)
        .fetch_one(&self.pool)
        .await?;
        Ok(open)
    }

    /// Open alerts, oldest first, at most 1,000.
    pub async fn open_alerts(&self) -> Result<Vec<Alert>, StoreError> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT subject, summary, opened_at_ms FROM alerts WHERE state = 'open' \
             ORDER BY opened_at_ms LIMIT 1000",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(subject, summary, opened)| Alert {
                subject,
                summary,
                opened_at: at(opened),
                recovered_at: None,
            })
            .collect())
    }
}

/// Opens an alert in the caller's transaction.
pub(super) async fn open(
    connection: &mut SqliteConnection,
    subject: &str,
    summary: &str,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<bool, StoreError> {
    let opened = sqlx::query(
        "INSERT INTO alerts (subject, state, summary, opened_at_ms) VALUES (?1, 'open', ?2, ?3) \
         ON CONFLICT (subject) DO UPDATE SET state = 'open', summary = excluded.summary, \
             opened_at_ms = excluded.opened_at_ms, recovered_at_ms = NULL \
         WHERE state = 'recovered'",
    )
    .bind(subject)
    .bind(summary)
    .bind(now.as_millis())
    .execute(&mut *connection)
    .await?;
    if opened.rows_affected() == 0 {
        return Ok(false);
    }
    metrics::alert("fired");
    tracing::warn!(subject, "alert opened: {summary}");
    let effects = planner.plan_alert(subject, summary, now, false, now);
    outbox::plan(connection, None, &effects, now, now.after(GIVE_UP), ids).await?;
    Ok(true)
}

/// Ends those of `subjects` that are open, in the caller's transaction. Mostly none is, and one look
/// tells.
pub(super) async fn recover_all(
    connection: &mut SqliteConnection,
    subjects: &[String],
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<(), StoreError> {
    let open: Vec<String> = sqlx::query_scalar(
        "SELECT a.subject FROM json_each(?1) ended CROSS JOIN alerts a ON a.subject = ended.value \
         WHERE a.state = 'open'",
    )
    .bind(serde_json::Value::from(subjects).to_string())
    .fetch_all(&mut *connection)
    .await?;
    for subject in open {
        recover(connection, &subject, now, planner, ids).await?;
    }
    Ok(())
}

/// The subjects of the alerts that an operation may have while it is open.
pub(super) fn of_operation(id: impl Display) -> Vec<String> {
    ["overdue", "requires_action", "gone", "anomalous"]
        .map(|flag| format!("operation/{id}/{flag}"))
        .to_vec()
}

/// Ends an alert in the caller's transaction.
pub(super) async fn recover(
    connection: &mut SqliteConnection,
    subject: &str,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<bool, StoreError> {
    let ended: Option<(String, i64)> = sqlx::query_as(
        "UPDATE alerts SET state = 'recovered', recovered_at_ms = ?2 \
         WHERE subject = ?1 AND state = 'open' RETURNING summary, opened_at_ms",
    )
    .bind(subject)
    .bind(now.as_millis())
    .fetch_optional(&mut *connection)
    .await?;
    let Some((summary, opened)) = ended else {
        return Ok(false);
    };
    metrics::alert("recovered");
    tracing::info!(subject, "alert recovered: {summary}");
    let effects = planner.plan_alert(subject, &summary, at(opened), true, now);
    outbox::plan(connection, None, &effects, now, now.after(GIVE_UP), ids).await?;
    Ok(true)
}
