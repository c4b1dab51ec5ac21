//! Captured deliveries.

use uuid::Uuid;

use super::super::super::Reader;
use super::super::super::error::StoreError;
use super::super::reports::EVENT_COLUMNS;
use super::super::rows::event;
use super::prefix::{among, begins, few};
use super::{Page, Piece, Sql, Text, Walk, below, first_id, word};
use crate::base::clock::Timestamp;
use crate::domain::event::Verdict;
use crate::domain::ledger::EventRecord;
use crate::domain::operation::NamePrefix;

/// Which captured events to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only those that name an operation with this last segment.
    pub segment: Option<String>,
    /// Only those that name an operation which begins so.
    pub q: Option<NamePrefix>,
    /// Only those of this source.
    pub source: Option<String>,
    /// Only those of this type.
    pub event_type: Option<String>,
    /// Only those with this verdict.
    pub verdict: Option<Verdict>,
    /// Only deliveries, no replays of them.
    pub originals: bool,
    /// Only those that came then or later.
    pub since: Option<Timestamp>,
    /// Only those that came before.
    pub until: Option<Timestamp>,
}

const BY_SEGMENT: &str = "SELECT id FROM captured_events INDEXED BY captured_events_operation \
                          WHERE segment >= ?1 AND segment < ?2 LIMIT ?3";

impl Reader {
    /// Captured events, newest first.
    pub async fn events(
        &self,
        filter: &EventFilter,
        cursor: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<EventRecord>, StoreError> {
        let segment = filter.q.as_ref().and_then(NamePrefix::segment);
        let named = match segment.filter(|_| filter.segment.is_none()) {
            None => None,
            Some(segment) => few(&self.pool, BY_SEGMENT, &segment).await?,
        };
        let walk = filter.walk(named, cursor);
        walk.read(
            &self.pool,
            EVENT_COLUMNS,
            limit,
            event,
            |e: &EventRecord| e.id.to_string(),
        )
        .await
    }
}

impl EventFilter {
    /// `named` are the ids with the last segment that `q` tells, when they are few.
    pub(super) fn walk(&self, named: Option<Vec<String>>, cursor: Option<Uuid>) -> Walk {
        let mut rest = self.clone();
        let mut walk = Walk {
            from: vec![Sql("captured_events c")],
            key: "c.id",
            below: below(cursor, self.until),
            from_id: self.since.map(first_id).map(Text),
            followed: Vec::new(),
            judged: Vec::new(),
        };
        if let Some(segment) = rest.segment.take() {
            walk.from = vec![Sql(
                "captured_events c INDEXED BY captured_events_operation",
            )];
            walk.followed = vec![Sql(" AND c.segment = "), Text(segment)];
        } else if let Some(ids) = named {
            rest.q.take_if(|q| !q.is_of_whole_name());
            walk.from = among(&ids, Sql(" CROSS JOIN captured_events c"));
            walk.followed = vec![Sql(" AND c.id = named.value")];
        } else if rest.verdict.take_if(|v| *v == Verdict::Ignored).is_some() {
            walk.from = vec![Sql("captured_events c INDEXED BY captured_events_ignored")];
            walk.followed = vec![Sql(" AND c.verdict = 'ignored'")];
        }
        walk.judged = rest.judged();
        walk
    }

    /// The conditions that no index serves.
    fn judged(&self) -> Vec<Piece> {
        let mut judged = Vec::new();
        if let Some(q) = &self.q {
            judged.extend(if q.is_of_whole_name() {
                begins(" AND +c.operation >= ", " AND +c.operation < ", q)
            } else {
                begins(" AND +c.segment >= ", " AND +c.segment < ", q)
            });
        }
        for (column, wanted) in [
            (" AND +c.source = ", self.source.as_deref()),
            (" AND +c.event_type = ", self.event_type.as_deref()),
            (" AND +c.verdict = ", self.verdict.map(Verdict::as_str)),
        ] {
            judged.extend(wanted.into_iter().flat_map(|w| [Sql(column), word(w)]));
        }
        if self.originals {
            judged.push(Sql(" AND c.replay_of IS NULL"));
        }
        judged
    }
}
