//! Work items.

use super::super::super::Reader;
use super::super::super::error::StoreError;
use super::super::rows::work;
use super::prefix::begins;
use super::{Number, Page, Sql, Walk, word};
use crate::base::clock::Timestamp;
use crate::domain::ledger::WorkRecord;
use crate::domain::operation::NamePrefix;
use crate::domain::work::{Reason, WorkState};

/// Which work items to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkFilter {
    /// Only those for an operation which begins so.
    pub q: Option<NamePrefix>,
    /// Only those in this state.
    pub state: Option<WorkState>,
    /// Only those queued for this.
    pub reason: Option<Reason>,
    /// Only those queued then or later.
    pub since: Option<Timestamp>,
    /// Only those queued before.
    pub until: Option<Timestamp>,
}

impl Reader {
    /// Work items, newest first.
    pub async fn work_items(
        &self,
        filter: &WorkFilter,
        cursor: Option<i64>,
        limit: u32,
    ) -> Result<Page<WorkRecord>, StoreError> {
        let walk = filter.walk(cursor);
        walk.read(&self.pool, "SELECT q.*", limit, work, |w: &WorkRecord| {
            w.id.to_string()
        })
        .await
    }
}

impl WorkFilter {
    pub(super) fn walk(&self, cursor: Option<i64>) -> Walk {
        let mut walk = Walk {
            from: vec![Sql("work_queue q")],
            key: "q.id",
            below: Number(cursor.unwrap_or(i64::MAX)),
            from_id: None,
            followed: Vec::new(),
            judged: Vec::new(),
        };
        match self.state {
            None => {}
            Some(WorkState::Done) => walk.judged.push(Sql(" AND +q.state = 'done'")),
            Some(state) => {
                walk.from = vec![Sql("work_queue q INDEXED BY work_queue_open")];
                walk.followed = vec![
                    Sql(" AND q.state <> 'done' AND q.state = "),
                    word(state.as_str()),
                ];
            }
        }
        if let Some(q) = &self.q {
            walk.judged.extend(if q.is_of_whole_name() {
                begins(" AND +q.ref_key >= ", " AND +q.ref_key < ", q)
            } else {
                begins(" AND +q.segment >= ", " AND +q.segment < ", q)
            });
        }
        if let Some(reason) = self.reason {
            walk.judged
                .extend([Sql(" AND +q.reason = "), word(reason.as_str())]);
        }
        // Ids are numbers that tell no time.
        for (column, at) in [
            (" AND +q.created_at_ms >= ", self.since),
            (" AND +q.created_at_ms < ", self.until),
        ] {
            let at = at.map(|at| [Sql(column), Number(at.as_millis())]);
            walk.judged.extend(at.into_iter().flatten());
        }
        walk
    }
}
