//! The outbox.

use uuid::Uuid;

use super::super::super::Reader;
use super::super::super::error::StoreError;
use super::super::rows::effect;
use super::prefix::begins;
use super::{Page, Sql, Text, Walk, below, first_id, word};
use crate::base::clock::Timestamp;
use crate::domain::effect::EffectState;
use crate::domain::ledger::EffectRecord;
use crate::domain::operation::NamePrefix;

/// Which effects to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectFilter {
    /// Only those of an operation which begins so.
    pub q: Option<NamePrefix>,
    /// Only those in this state.
    pub state: Option<EffectState>,
    /// Only those of the configured effect of this name.
    pub effect: Option<String>,
    /// Only those planned for this: a trigger's word, or `alert`.
    pub cause: Option<String>,
    /// Only those planned then or later.
    pub since: Option<Timestamp>,
    /// Only those planned before.
    pub until: Option<Timestamp>,
}

const SEGMENT_FROM: &str =
    " AND (SELECT o.segment FROM operations o WHERE o.id = e.operation_id) >= ";
const SEGMENT_TO: &str = " AND (SELECT o.segment FROM operations o WHERE o.id = e.operation_id) < ";

impl Reader {
    /// Effects, newest first.
    pub async fn effects(
        &self,
        filter: &EffectFilter,
        cursor: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<EffectRecord>, StoreError> {
        let walk = filter.walk(cursor);
        walk.read(
            &self.pool,
            "SELECT e.*",
            limit,
            effect,
            |e: &EffectRecord| e.id.to_string(),
        )
        .await
    }
}

impl EffectFilter {
    pub(super) fn walk(&self, cursor: Option<Uuid>) -> Walk {
        let mut walk = Walk {
            from: vec![Sql("effects e")],
            key: "e.id",
            below: below(cursor, self.until),
            from_id: self.since.map(first_id).map(Text),
            followed: Vec::new(),
            judged: Vec::new(),
        };
        match self.state {
            None => {}
            Some(EffectState::Done) => walk.judged.push(Sql(" AND +e.state = 'done'")),
            Some(state) => {
                walk.from = vec![Sql("effects e INDEXED BY effects_open")];
                walk.followed = vec![
                    Sql(" AND e.state <> 'done' AND e.state = "),
                    word(state.as_str()),
                ];
            }
        }
        if let Some(q) = &self.q {
            walk.judged.extend(if q.is_of_whole_name() {
                begins(" AND +e.operation_name >= ", " AND +e.operation_name < ", q)
            } else {
                begins(SEGMENT_FROM, SEGMENT_TO, q)
            });
        }
        for (column, wanted) in [
            (" AND +e.effect = ", &self.effect),
            (" AND +e.cause = ", &self.cause),
        ] {
            let wanted = wanted.as_deref().map(|w| [Sql(column), word(w)]);
            walk.judged.extend(wanted.into_iter().flatten());
        }
        walk
    }
}
