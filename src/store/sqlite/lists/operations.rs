//! Operations.

use uuid::Uuid;

use super::super::super::Reader;
use super::super::super::error::StoreError;
use super::super::rows::{operation, operation_columns};
use super::prefix::{among, begins, few};
use super::{Page, Piece, Sql, Text, Walk, below, first_id, word};
use crate::base::clock::Timestamp;
use crate::domain::ledger::{Operation, Told};
use crate::domain::operation::{JobKind, Kind, NamePrefix, OperationState};
use crate::domain::work::Reason;

/// Which operations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFilter {
    /// Only those whose name begins so.
    pub q: Option<NamePrefix>,
    /// Only those whose name says they are this.
    pub kind: Option<Kind>,
    /// Only those of this job kind.
    pub job_kind: Option<JobKind>,
    /// Only those in this state.
    pub state: Option<OperationState>,
    /// Only those that settled by this.
    pub settled_by: Option<Reason>,
    /// Only those that are overdue, or are not.
    pub overdue: Option<bool>,
    /// Only those whose ending was told so.
    pub told: Option<Told>,
    /// Only those that entered the ledger then or later.
    pub since: Option<Timestamp>,
    /// Only those that entered the ledger before.
    pub until: Option<Timestamp>,
}

const BY_NAME: &str = "SELECT id FROM operations WHERE name >= ?1 AND name < ?2 LIMIT ?3";
const BY_SEGMENT: &str = "SELECT id FROM operations INDEXED BY operations_segment \
                          WHERE segment >= ?1 AND segment < ?2 LIMIT ?3";

impl Reader {
    /// Operations, newest first.
    pub async fn operations(
        &self,
        filter: &OperationFilter,
        cursor: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<Operation>, StoreError> {
        let named = match &filter.q {
            None => None,
            Some(q) if q.is_of_whole_name() => few(&self.pool, BY_NAME, q).await?,
            Some(q) => few(&self.pool, BY_SEGMENT, q).await?,
        };
        let walk = filter.walk(named, cursor);
        walk.read(
            &self.pool,
            operation_columns!(),
            limit,
            operation,
            |o: &Operation| o.id.to_string(),
        )
        .await
    }
}

impl OperationFilter {
    /// `named` are the ids that `q` finds, when they are few.
    pub(super) fn walk(&self, named: Option<Vec<String>>, cursor: Option<Uuid>) -> Walk {
        let mut rest = self.clone();
        let mut walk = Walk {
            from: vec![Sql("operations o")],
            key: "o.id",
            below: below(cursor, self.until),
            from_id: self.since.map(first_id).map(Text),
            followed: Vec::new(),
            judged: Vec::new(),
        };
        if let Some(ids) = named {
            rest.q = None;
            walk.from = among(&ids, Sql(" CROSS JOIN operations o"));
            walk.followed = vec![Sql(" AND o.id = named.value")];
        } else if rest.overdue.take_if(|overdue| *overdue).is_some() {
            walk.from = vec![Sql("operations o INDEXED BY operations_late")];
            walk.followed = vec![Sql(" AND o.overdue = 1")];
        } else if let Some(state) = rest
            .state
            .take_if(|s| self.job_kind.is_none() || is_rare(*s))
        {
            walk.from = vec![Sql("operations o INDEXED BY operations_state")];
            walk.followed = vec![Sql(" AND o.state = "), word(state.as_str())];
        } else if let Some(job_kind) = rest.job_kind.take() {
            walk.from = vec![Sql("operations o INDEXED BY operations_job_kind")];
            walk.followed = vec![Sql(" AND o.job_kind = "), word(job_kind.as_str())];
        }
        walk.judged = rest.judged();
        walk
    }

    /// The conditions that no index serves.
    fn judged(&self) -> Vec<Piece> {
        let mut judged = Vec::new();
        if let Some(q) = &self.q {
            judged.extend(if q.is_of_whole_name() {
                begins(" AND +o.name >= ", " AND +o.name < ", q)
            } else {
                begins(" AND +o.segment >= ", " AND +o.segment < ", q)
            });
        }
        match self.overdue {
            None => {}
            Some(true) => judged.push(Sql(" AND +o.overdue = 1")),
            Some(false) => judged.push(Sql(" AND +o.overdue = 0")),
        }
        for (column, wanted) in [
            (" AND +o.state = ", self.state.map(OperationState::as_str)),
            (" AND +o.kind = ", self.kind.map(Kind::as_str)),
            (
                " AND +o.job_kind = ",
                self.job_kind.as_ref().map(JobKind::as_str),
            ),
            (" AND +o.settled_by = ", self.settled_by.map(Reason::as_str)),
            (" AND +o.told = ", self.told.map(Told::as_str)),
        ] {
            judged.extend(wanted.into_iter().flat_map(|w| [Sql(column), word(w)]));
        }
        judged
    }
}

/// Whether few of a long ledger are in this state: most have succeeded.
fn is_rare(state: OperationState) -> bool {
    state != OperationState::Succeeded
}
