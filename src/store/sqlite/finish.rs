//! Ending work items with what their looks found: the results of a commit together.
//!
//! Design: all leases that end for good are fenced and ended by one statement, all operations they are
//! about are read by one, and all that settle as most do are written by one more: transition, history,
//! outbox rows. A look that asks for anything else (adoption, a reservation, an alert, withheld effects) is
//! written by `settle` after these, in the same savepoint; a lease that goes back is ended alone.
//!
//! Races: two results of one commit may be about one operation. The second is left to `settle`, which
//! reads the record again and finds it settled. A lease that is named twice is ended once: the second
//! is written alone, and its fence refuses it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::super::Store;
use super::super::error::StoreError;
use super::super::{Applied, Change, Close, Look, Settlement, Subject};
use super::alerts;
use super::queue::end_lease;
use super::rows::{fenced, operation, select_operations};
use super::sets::{AsSet, Said, Waiting, document};
use super::settle::{ended, looks_since_event, write_down};
use super::write::Work;
use crate::base::clock::Timestamp;
use crate::base::failpoint::failpoint;
use crate::base::ids::Ids;
use crate::domain::effect::Trigger;
use crate::domain::ledger::{Lease, NewEffect, Operation, PlanEffects};
use crate::domain::operation::OperationName;

impl Store {
    /// Writes the looks that one work item led to, and ends the item.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease was lost: nothing was written.
    pub async fn finish_looks(
        &self,
        lease: &Lease,
        looks: Vec<Look>,
        close: Close,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<Vec<Applied>, StoreError> {
        let finish = Finish {
            lease: lease.clone(),
            looks,
            close,
            planner,
            now: self.clock.now(),
            ids: Arc::clone(&self.ids),
        };
        self.writer.write_in_set(finish).await
    }
}

/// A work item's end, to be written.
pub(super) struct Finish {
    lease: Lease,
    looks: Vec<Look>,
    close: Close,
    planner: Arc<dyn PlanEffects>,
    now: Timestamp,
    ids: Arc<dyn Ids>,
}

impl AsSet for Finish {
    const NAME: &'static str = "finish look";
    type Said = Vec<Applied>;

    fn waiting(waiting: Waiting<Self>) -> Work {
        Work::Finish(waiting)
    }

    async fn together(
        connection: &mut SqliteConnection,
        set: &[Self],
    ) -> Result<Vec<Said<Self>>, StoreError> {
        let mut said: Vec<_> = set.iter().map(|_| None).collect();
        let held = end_leases(connection, set).await?;
        let mut records = read(connection, set).await?;
        let (mut settling, mut others, mut leases) = (Vec::new(), Vec::new(), HashSet::new());
        for (item, said) in set.iter().zip(&mut said) {
            if !matches!(item.close, Close::Done(_)) || !leases.insert(item.lease.id) {
                continue;
            }
            if !held.contains(&item.lease.id) {
                *said = Some(fenced("work_queue", &item.lease.id, 0).map(|()| Vec::new()));
                continue;
            }
            let plain = item
                .plain()
                .and_then(|(id, look, end)| Some((records.remove(&id)?, look, end)))
                .filter(|(before, _, end)| {
                    before.state.may_become(end.state) && !before.effects_withheld
                });
            match plain {
                Some((before, look, end)) => {
                    settling.push((Settling::new(item, &before, look, end), said));
                }
                None => others.push((item, said)),
            }
        }
        let (settling, places): (Vec<_>, Vec<_>) = settling.into_iter().unzip();
        for (settled, said) in settle(connection, settling).await?.into_iter().zip(places) {
            *said = Some(Ok(vec![Applied::Settled(Box::new(settled))]));
        }
        for (item, said) in others {
            *said = Some(Ok(item.write_looks(connection).await?));
        }
        Ok(said)
    }

    async fn alone(&self, connection: &mut SqliteConnection) -> Result<Vec<Applied>, StoreError> {
        // The fence comes first: a worker that lost its lease writes nothing at all.
        end_lease(connection, &self.lease, &self.close, self.now).await?;
        self.write_looks(connection).await
    }
}

impl Finish {
    async fn write_looks(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<Applied>, StoreError> {
        let (planner, ids) = (&*self.planner, &*self.ids);
        let reservation = self.lease.reservation;
        write_down(connection, reservation, &self.looks, self.now, planner, ids).await
    }

    /// What one look at one known operation found, when that is its end.
    fn plain(&self) -> Option<(Uuid, &Look, &Settlement)> {
        match self.looks.as_slice() {
            [look] if self.lease.reservation.is_none() => match (&look.subject, &look.change) {
                (Subject::Known(id), Change::Settle(end)) => Some((*id, look, end)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The fence and the end in one, as for a single lease. The `+` keeps SQLite from going through all leases
/// instead of those that are named.
const END_LEASES: &str = "
    UPDATE work_queue SET state = 'done', outcome = ended.value ->> 2, finished_at_ms = ended.value ->> 3,
           lease_until_ms = NULL, attempts = max(attempts - 1, 0)
    FROM jsonb_each(?1) ended
    WHERE work_queue.id = ended.value ->> 0 AND work_queue.lease_epoch = ended.value ->> 1
          AND +work_queue.state = 'leased'
    RETURNING work_queue.id";

/// Ends the leases that end for good, and answers those that were held.
async fn end_leases(
    connection: &mut SqliteConnection,
    set: &[Finish],
) -> Result<HashSet<i64>, StoreError> {
    let mut named = HashSet::new();
    let rows: Vec<_> = set
        .iter()
        .filter_map(|item| match &item.close {
            Close::Done(outcome) => {
                let (id, epoch) = (item.lease.id, item.lease.epoch);
                Some((id, epoch, outcome.as_str(), item.now.as_millis()))
            }
            // Written alone, so its name is not taken here: it may be a stale lease of one that is held.
            Close::Again(..) | Close::Release => None,
        })
        .filter(|(id, ..)| named.insert(*id))
        .collect();
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let held: Vec<i64> = sqlx::query_scalar(END_LEASES)
        .bind(document(&rows)?)
        .fetch_all(connection)
        .await?;
    Ok(held.into_iter().collect())
}

/// The operations that may settle plainly, as they are.
async fn read(
    connection: &mut SqliteConnection,
    set: &[Finish],
) -> Result<HashMap<Uuid, Operation>, StoreError> {
    let named: Vec<Uuid> = set.iter().filter_map(|i| Some(i.plain()?.0)).collect();
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(select_operations!(
        "WHERE o.id IN (SELECT value FROM jsonb_each(?1))"
    ))
    .bind(document(&named)?)
    .fetch_all(connection)
    .await?;
    rows.iter()
        .map(|row| operation(row).map(|record| (record.id, record)))
        .collect()
}

/// A settlement with nothing unusual about it.
struct Settling<'a> {
    item: &'a Finish,
    row: Row8<'a>,
    settled: Operation,
    effects: Vec<NewEffect>,
    give_up_at: Timestamp,
}

/// The id, the state, when, by what, the body's hash, when it is decided who told it, looks since the
/// event, the summary.
type Row8<'a> = (
    Uuid,
    &'static str,
    i64,
    &'static str,
    &'a str,
    i64,
    Option<u32>,
    Option<String>,
);

impl<'a> Settling<'a> {
    fn new(item: &'a Finish, before: &Operation, look: &'a Look, end: &'a Settlement) -> Self {
        let settled = ended(before, look, end, item.now);
        Self {
            item,
            row: (
                before.id,
                end.state.as_str(),
                item.now.as_millis(),
                look.reason.as_str(),
                &end.body_hash,
                end.decide_at.as_millis(),
                looks_since_event(before, look),
                look.summary.as_ref().map(Value::to_string),
            ),
            effects: item
                .planner
                .plan(&settled, Trigger::State(settled.state), item.now),
            settled,
            give_up_at: look.terms.give_up_at,
        }
    }

    fn effect_rows(&'a self, blob: &mut Vec<u8>) -> Vec<EffectRow<'a>> {
        let name = self.settled.name.as_ref().map(OperationName::as_str);
        let row = |new: &'a NewEffect| {
            let at = blob.len();
            blob.extend_from_slice(&new.payload);
            EffectRow(
                self.item.ids.uuid(self.item.now),
                self.settled.id,
                name,
                &new.effect,
                &new.cause,
                &new.idempotency_key,
                at + 1,
                new.payload.len(),
                self.item.now.as_millis(),
                self.give_up_at.as_millis(),
            )
        };
        self.effects.iter().map(row).collect()
    }
}

/// An outbox row in the document, its payload in the blob: where, counted from one, and how many bytes.
#[derive(Serialize)]
struct EffectRow<'a>(
    Uuid,
    Uuid,
    Option<&'a str>,
    &'a str,
    &'a str,
    &'a str,
    usize,
    usize,
    i64,
    i64,
);

/// The outbox rows go first, so that the transition can count them. The last statement tells the alerts
/// that are over: mostly none is, and one look tells.
const SETTLE: &str = "
    INSERT INTO effects (id, operation_id, operation_name, effect, cause, idempotency_key, payload,
                         state, planned_at_ms, next_attempt_at_ms, give_up_at_ms)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
           CAST(substr(?3, value ->> 6, value ->> 7) AS BLOB), 'planned', value ->> 8, value ->> 8, value ->> 9
    FROM jsonb_each(?2) WHERE true
    ON CONFLICT (idempotency_key) DO NOTHING;
    UPDATE operations SET
        state = ended.value ->> 1, settled_at_ms = ended.value ->> 2, settled_by = ended.value ->> 3,
        body_hash = ended.value ->> 4, decide_at_ms = ended.value ->> 5, attempts = attempts + 1,
        looks_since_event = ended.value ->> 6, summary = coalesce(ended.value ->> 7, summary),
        effects_expected = (SELECT count(*) FROM effects e WHERE e.operation_id = operations.id),
        closed_at_ms = NULL, next_check_at_ms = NULL, overdue_at_ms = NULL, overdue = 0,
        requires_action = 0, not_found_since_ms = NULL
    FROM jsonb_each(?1) ended
    WHERE operations.id = ended.value ->> 0 AND operations.settled_at_ms IS NULL
    RETURNING operations.id, effects_expected;
    INSERT INTO operation_log (operation_id, what, at_ms, cause, detail)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(?1);
    SELECT a.subject FROM jsonb_each(?1) ended CROSS JOIN alerts a
    ON a.subject IN ('operation/' || (ended.value ->> 0) || '/overdue', 'operation/' || (ended.value ->> 0) || '/requires_action',
                     'operation/' || (ended.value ->> 0) || '/gone', 'operation/' || (ended.value ->> 0) || '/anomalous')
    WHERE a.state = 'open'";

/// Settles operations that are open, and answers the records as they are then, in the same order.
async fn settle(
    connection: &mut SqliteConnection,
    mut settling: Vec<Settling<'_>>,
) -> Result<Vec<Operation>, StoreError> {
    let Some(first) = settling.first().map(|one| one.item) else {
        return Ok(Vec::new());
    };
    let mut blob = Vec::new();
    let effects: Vec<_> = settling
        .iter()
        .flat_map(|one| one.effect_rows(&mut blob))
        .collect();
    let rows: Vec<_> = settling.iter().map(|one| &one.row).collect();
    let (rows, effects) = (document(&rows)?, document(&effects)?);
    let found = sqlx::query(SETTLE)
        .bind(rows)
        .bind(effects)
        .bind(blob)
        .fetch_all(&mut *connection)
        .await?;
    let (mut expected, mut over) = (HashMap::new(), Vec::new());
    for row in &found {
        if row.len() == 2 {
            expected.insert(row.get::<String, _>(0), row.get::<Option<u32>, _>(1));
        } else {
            over.push(row.get::<String, _>(0));
        }
    }
    for one in &mut settling {
        let id = one.settled.id.to_string();
        // It was open when it was read, in this transaction.
        let planned = expected.remove(&id).ok_or(StoreError::Inconsistent {
            table: "operations",
            column: "settled_at_ms",
            row: id,
        })?;
        one.settled.effects_expected = planned;
    }
    failpoint!("fp-w4");
    for subject in over {
        let (planner, ids) = (&*first.planner, &*first.ids);
        alerts::recover(connection, &subject, first.now, planner, ids).await?;
    }
    Ok(settling.into_iter().map(|one| one.settled).collect())
}
