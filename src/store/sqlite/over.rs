//! What pruning would remove, counted and left alone.
//!
//! Each statement asks what the one in `upkeep` removes; a test holds the two against each other.

use super::super::Reader;
use super::super::error::StoreError;
use super::lists::first_id;
use super::upkeep::Retention;
use crate::base::clock::Timestamp;

/// Rows of one table whose time is over.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Over {
    /// What they are, as [`Pruned`](super::upkeep::Pruned) calls them.
    pub what: &'static str,
    /// How many.
    pub rows: u64,
    /// The time of the oldest that its retention is counted from.
    pub oldest: Option<Timestamp>,
    /// The same of the newest.
    pub newest: Option<Timestamp>,
}

impl Reader {
    /// Everything whose time is over at `now`, by table.
    pub async fn over(&self, keep: Retention, now: Timestamp) -> Result<Vec<Over>, StoreError> {
        let [operations, events, bodies, finished] =
            [keep.operations, keep.events, keep.bodies, keep.finished].map(|age| now.before(age));
        let mut all = Vec::new();
        for (what, statement, before) in [
            ("operations", OPERATIONS, operations),
            ("events", EVENTS, events),
            ("bodies", BODIES, bodies),
            ("dedupe_rows", DEDUPE_ROWS, now),
            ("work_items", WORK_ITEMS, finished),
            ("tombstones", TOMBSTONES, now),
            ("alerts", ALERTS, operations),
            ("notices", NOTICES, operations),
            ("requests", REQUESTS, now),
        ] {
            let query = sqlx::query_as(statement);
            let query = if what == "events" {
                query.bind(first_id(before))
            } else {
                query.bind(before.as_millis())
            };
            let (rows, oldest, newest): (i64, Option<i64>, Option<i64>) =
                query.fetch_one(&self.pool).await?;
            all.push(Over {
                what,
                rows: u64::try_from(rows).unwrap_or(0),
                oldest: oldest.map(Timestamp::from_millis),
                newest: newest.map(Timestamp::from_millis),
            });
        }
        Ok(all)
    }
}

const OPERATIONS: &str = "
    SELECT count(*), min(at), max(at) FROM (
        SELECT o.id, o.settled_at_ms AS at FROM operations o WHERE o.settled_at_ms < ?1
        UNION ALL SELECT o.id, o.closed_at_ms FROM operations o WHERE o.closed_at_ms < ?1) ended
    WHERE NOT EXISTS (SELECT 1 FROM effects e WHERE e.operation_id = ended.id
        AND e.state IN ('planned', 'sending', 'ambiguous', 'held'))";
const EVENTS: &str = "
    SELECT count(*), min(e.received_at_ms), max(e.received_at_ms) FROM captured_events e
    WHERE e.id < ?1
    AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.segment = e.segment AND o.settled_at_ms IS NULL)
    AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = e.segment AND q.state IN ('ready', 'leased'))";
const BODIES: &str = "
    SELECT count(*), min(e.received_at_ms), max(e.received_at_ms) FROM captured_events e
    WHERE e.emptied_at_ms IS NULL AND e.received_at_ms < ?1
    AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.segment = e.segment AND o.settled_at_ms IS NULL)
    AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.segment = e.segment AND q.state IN ('ready', 'leased'))";
const DEDUPE_ROWS: &str = "SELECT count(*), min(expires_at_ms), max(expires_at_ms) FROM processed_events WHERE expires_at_ms < ?1";
const WORK_ITEMS: &str = "SELECT count(*), min(finished_at_ms), max(finished_at_ms) FROM work_queue WHERE state = 'done' AND finished_at_ms < ?1";
const TOMBSTONES: &str = "SELECT count(*), min(expires_at_ms), max(expires_at_ms) FROM tombstones WHERE expires_at_ms < ?1";
const ALERTS: &str = "SELECT count(*), min(recovered_at_ms), max(recovered_at_ms) FROM alerts WHERE state = 'recovered' AND recovered_at_ms < ?1";
const NOTICES: &str = "SELECT count(*), min(planned_at_ms), max(planned_at_ms) FROM effects WHERE operation_id IS NULL AND planned_at_ms < ?1 AND state IN ('done', 'dead')";
const REQUESTS: &str = "SELECT count(*), min(expires_at_ms), max(expires_at_ms) FROM requests WHERE expires_at_ms < ?1";
