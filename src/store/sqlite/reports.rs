//! Reading for people, metrics and waits: single records, what hangs on them, gauges. Lists are in
//! [`lists`](super::lists).
//!
//! No read stays open over anything but itself: a long reader would keep the write-ahead log growing.

use sqlx::{QueryBuilder, Row};
use uuid::Uuid;

use super::super::Reader;
use super::super::error::StoreError;
use super::rows::{at, effect, event, json};
use crate::base::clock::Timestamp;
use crate::domain::ledger::{CapturedEvent, EffectRecord, LogEntry};

/// Figures about now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Work items that wait.
    pub ready: u64,
    /// Work items that are held.
    pub leased: u64,
    /// Dead work items.
    pub dead: u64,
    /// When the oldest due work item became due.
    pub oldest_due: Option<Timestamp>,
    /// Operations that are reserved.
    pub reserved: u64,
    /// Operations that are pending.
    pub pending: u64,
    /// Of these, overdue.
    pub overdue: u64,
    /// Operations that were closed as gone.
    pub gone: u64,
    /// Operations that were closed as anomalous.
    pub anomalous: u64,
    /// Effects on their way: planned, sending and ambiguous.
    pub effects_open: u64,
    /// Effects that are due or will be.
    pub effects_planned: u64,
    /// Effects being sent.
    pub effects_sending: u64,
    /// Effects that may have arrived and are repeated.
    pub effects_ambiguous: u64,
    /// Effects that wait for a person.
    pub effects_held: u64,
    /// Effects given up.
    pub effects_dead: u64,
    /// Open alerts.
    pub alerts_open: u64,
}

impl Reader {
    /// An operation's history, oldest first.
    pub async fn operation_log(&self, id: Uuid) -> Result<Vec<LogEntry>, StoreError> {
        let rows: Vec<(i64, String, String, Option<String>)> = sqlx::query_as(
            "SELECT at_ms, what, cause, detail FROM operation_log WHERE operation_id = ?1 \
             ORDER BY id LIMIT 1000",
        )
        .bind(id.to_string())
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(ms, what, cause, detail)| LogEntry {
                at: at(ms),
                what,
                cause,
                detail,
            })
            .collect())
    }

    /// The effects of an operation, in the order they were planned.
    pub async fn effects_of(&self, operation: Uuid) -> Result<Vec<EffectRecord>, StoreError> {
        let rows =
            sqlx::query("SELECT * FROM effects WHERE operation_id = ?1 ORDER BY id LIMIT 1000")
                .bind(operation.to_string())
                .fetch_all(&self.pool)
                .await?;
        rows.iter().map(effect).collect()
    }

    /// A captured event, whole.
    pub async fn event(&self, id: Uuid) -> Result<Option<CapturedEvent>, StoreError> {
        let mut query = QueryBuilder::new(EVENT_COLUMNS);
        query.push(", c.headers, c.body, c.reservation FROM captured_events c WHERE c.id = ");
        query.push_bind(id.to_string());
        let Some(row) = query.build().fetch_optional(&self.pool).await? else {
            return Ok(None);
        };
        Ok(Some(CapturedEvent {
            record: event(&row)?,
            headers: headers(json(row.get("headers"))),
            body: row.get("body"),
            reservation: row
                .get::<Option<String>, _>("reservation")
                .map(|r| super::rows::uuid("captured_events", "reservation", &r))
                .transpose()?,
        }))
    }

    /// When the next work item is due, if any waits.
    pub async fn next_work_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let due: Option<i64> = sqlx::query_scalar(
            "SELECT min(at) FROM ( \
                 SELECT min(available_at_ms) AS at FROM work_queue WHERE state = 'ready' AND fresh = 0 \
                 UNION ALL SELECT min(available_at_ms) FROM work_queue WHERE state = 'ready' AND fresh = 1)",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(due.map(at))
    }

    /// When the next fresh item is due that can be claimed, and the next of the others. Suspects wait
    /// while one of them is in hand.
    pub async fn next_work_due_by_lane(
        &self,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), StoreError> {
        let (fresh, old): (Option<i64>, Option<i64>) = sqlx::query_as(
            "SELECT (SELECT min(available_at_ms) FROM work_queue WHERE state = 'ready' AND fresh = 1 AND (crashes < 2 \
                         OR NOT EXISTS (SELECT 1 FROM work_queue WHERE state = 'leased' AND crashes >= 2))), \
                    (SELECT min(available_at_ms) FROM work_queue WHERE state = 'ready' AND fresh = 0 AND (crashes < 2 \
                         OR NOT EXISTS (SELECT 1 FROM work_queue WHERE state = 'leased' AND crashes >= 2)))",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok((fresh.map(at), old.map(at)))
    }

    /// Figures about now.
    pub async fn gauges(&self) -> Result<Gauges, StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT count(*) FROM work_queue WHERE state <> 'done' AND state = 'ready') AS ready, \
                    (SELECT count(*) FROM work_queue WHERE state <> 'done' AND state = 'leased') AS leased, \
                    (SELECT count(*) FROM work_queue WHERE state <> 'done' AND state = 'dead') AS dead, \
                    (SELECT count(*) FROM operations WHERE state = 'reserved') AS reserved, \
                    (SELECT count(*) FROM operations WHERE state = 'pending') AS pending, \
                    (SELECT count(*) FROM operations WHERE state = 'gone') AS gone, \
                    (SELECT count(*) FROM operations WHERE state = 'anomalous') AS anomalous, \
                    (SELECT count(*) FROM operations WHERE overdue = 1) AS overdue, \
                    (SELECT count(*) FROM effects WHERE state <> 'done' AND state = 'planned') AS effects_planned, \
                    (SELECT count(*) FROM effects WHERE state <> 'done' AND state = 'ambiguous') AS effects_ambiguous, \
                    (SELECT count(*) FROM effects WHERE state <> 'done' AND state = 'sending') AS effects_sending, \
                    (SELECT count(*) FROM effects WHERE state <> 'done' AND state = 'held') AS effects_held, \
                    (SELECT count(*) FROM effects WHERE state <> 'done' AND state = 'dead') AS effects_dead, \
                    (SELECT count(*) FROM alerts WHERE state = 'open') AS alerts_open",
        )
        .fetch_one(&self.pool)
        .await?;
        let count = |column: &str| u64::try_from(row.get::<i64, _>(column)).unwrap_or(0);
        let [planned, sending, ambiguous, held, dead] = [
            "effects_planned",
            "effects_sending",
            "effects_ambiguous",
            "effects_held",
            "effects_dead",
        ]
        .map(count);
        let open = planned + sending + ambiguous;
        Ok(Gauges {
            ready: count("ready"),
            leased: count("leased"),
            dead: count("dead"),
            oldest_due: self.next_work_due().await?,
            reserved: count("reserved"),
            pending: count("pending"),
            gone: count("gone"),
            anomalous: count("anomalous"),
            overdue: count("overdue"),
            effects_open: open,
            effects_planned: planned,
            effects_sending: sending,
            effects_ambiguous: ambiguous,
            effects_held: held,
            effects_dead: dead,
            alerts_open: count("alerts_open"),
        })
    }
}

/// What [`event`] reads, of `captured_events c`.
pub(super) const EVENT_COLUMNS: &str = "SELECT c.id, c.source, c.received_at_ms, c.verdict, c.why, c.event_type, \
     c.operation, c.webhook_id, c.proof, c.emptied_at_ms, length(c.body) AS body_bytes, \
     coalesce((SELECT p.duplicates FROM processed_events p WHERE p.source = c.source \
               AND p.event_id = c.id AND p.dedupe_key = c.dedupe_key), 0) AS duplicates";

/// Header values as they came; those that were no text were kept as base64.
fn headers(stored: Option<serde_json::Value>) -> Vec<(String, Vec<u8>)> {
    let list = stored
        .and_then(|v| v.as_array().cloned())
        .unwrap_or_default();
    list.iter()
        .filter_map(|pair| {
            let name = pair.get(0)?.as_str()?.to_owned();
            let value = pair.get(1)?;
            let bytes = match value.as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => data_encoding::BASE64
                    .decode(value.get("base64")?.as_str()?.as_bytes())
                    .ok()?,
            };
            Some((name, bytes))
        })
        .collect()
}
