//! What one operation went through, and what the page tells about all of them.

use super::super::Reader;
use super::super::error::StoreError;
use super::rows::work;
use crate::base::clock::Timestamp;
use crate::domain::ledger::WorkRecord;

impl Reader {
    /// The newest looks at the operation of this last segment, newest first.
    pub async fn looks_of(&self, segment: &str, limit: u32) -> Result<Vec<WorkRecord>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM work_queue INDEXED BY work_queue_segment WHERE segment = ?1 \
             ORDER BY id DESC LIMIT ?2",
        )
        .bind(segment)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(work).collect()
    }

    /// How many operations that settled since then had lost their webhook.
    pub async fn rescued_since(&self, since: Timestamp) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM operations INDEXED BY operations_rescued \
             WHERE told = 'rescued' AND settled_at_ms >= ?1",
        )
        .bind(since.as_millis())
        .fetch_one(&self.pool)
        .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
