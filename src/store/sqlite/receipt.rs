//! The receipts of sends: those of a commit together.
//!
//! Design: one statement fences and ends all attempts, and one look tells which of those that are done
//! had an alert. An effect that is dead or held opens its alert after these, in the same savepoint.
//!
//! Race: as for work items, a send that is named twice is ended once; the second is written alone and
//! its fence refuses it.

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::SqliteConnection;
use uuid::Uuid;

use super::super::Store;
use super::super::error::StoreError;
use super::alerts;
use super::outbox::fate;
use super::rows::fenced;
use super::sets::{AsSet, Said, Waiting, document};
use super::write::Work;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::effect::EffectState;
use crate::domain::ledger::{EffectEnd, EffectRecord, LeasedEffect, PlanEffects};

impl Store {
    /// Writes the receipt of an attempt. Answers the state the effect is in now.
    pub async fn end_send(
        &self,
        sent: &LeasedEffect,
        end: EffectEnd,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<EffectState, StoreError> {
        let now = self.clock.now();
        let (state, again_at, why) = fate(&end, sent.record.give_up_at, now);
        let receipt = Receipt {
            record: sent.record.clone(),
            epoch: sent.epoch,
            state,
            again_at,
            why,
            planner,
            now,
            ids: Arc::clone(&self.ids),
        };
        self.writer.write_in_set(receipt).await
    }
}

/// An attempt's end, to be written.
pub(super) struct Receipt {
    record: EffectRecord,
    epoch: i64,
    state: EffectState,
    again_at: Timestamp,
    why: Option<String>,
    planner: Arc<dyn PlanEffects>,
    now: Timestamp,
    ids: Arc<dyn Ids>,
}

impl AsSet for Receipt {
    const NAME: &'static str = "end send";
    type Said = EffectState;

    fn waiting(waiting: Waiting<Self>) -> Work {
        Work::Receipt(waiting)
    }

    async fn together(
        connection: &mut SqliteConnection,
        set: &[Self],
    ) -> Result<Vec<Said<Self>>, StoreError> {
        let mut named = HashSet::new();
        let once: Vec<bool> = set.iter().map(|one| named.insert(one.record.id)).collect();
        let firsts = || set.iter().zip(&once).filter(|(_, first)| **first);
        let held = end(connection, firsts().map(|(one, _)| one)).await?;
        let is_held = |one: &Self| held.contains(&one.record.id.to_string());
        let kept = || firsts().map(|(one, _)| one).filter(|one| is_held(one));
        let done: Vec<String> = kept()
            .filter(|one| one.state == EffectState::Done)
            .filter_map(Self::subject)
            .collect();
        if let Some(first) = set.first().filter(|_| !done.is_empty()) {
            let (planner, ids) = (&*first.planner, &*first.ids);
            alerts::recover_all(connection, &done, first.now, planner, ids).await?;
        }
        for one in kept() {
            one.warn(connection).await?;
        }
        let what = |(one, first): (&Self, &bool)| {
            first.then(|| {
                fenced("effects", &one.record.id, u64::from(is_held(one))).map(|()| one.state)
            })
        };
        Ok(set.iter().zip(&once).map(what).collect())
    }

    async fn alone(&self, connection: &mut SqliteConnection) -> Result<EffectState, StoreError> {
        let held = end(connection, std::iter::once(self)).await?;
        fenced("effects", &self.record.id, held.len() as u64)?;
        if let Some(subject) = self.subject().filter(|_| self.state == EffectState::Done) {
            let (planner, ids) = (&*self.planner, &*self.ids);
            alerts::recover(connection, &subject, self.now, planner, ids).await?;
        }
        self.warn(connection).await?;
        Ok(self.state)
    }
}

const END: &str = "
    UPDATE effects SET state = ended.value ->> 2, next_attempt_at_ms = ended.value ->> 3, last_error = ended.value ->> 4,
           finished_at_ms = ended.value ->> 5, lease_until_ms = NULL
    FROM jsonb_each(?1) ended
    WHERE effects.id = ended.value ->> 0 AND effects.state = 'sending' AND effects.lease_epoch = ended.value ->> 1
    RETURNING effects.id";

/// Ends attempts, and answers those whose lease was held.
async fn end(
    connection: &mut SqliteConnection,
    receipts: impl Iterator<Item = &Receipt>,
) -> Result<HashSet<String>, StoreError> {
    let rows: Vec<_> = receipts.map(Receipt::row).collect();
    let held: Vec<String> = sqlx::query_scalar(END)
        .bind(document(&rows)?)
        .fetch_all(connection)
        .await?;
    Ok(held.into_iter().collect())
}

impl Receipt {
    fn row(&self) -> (Uuid, i64, &'static str, i64, Option<&str>, Option<i64>) {
        let finished = matches!(self.state, EffectState::Done | EffectState::Dead);
        (
            self.record.id,
            self.epoch,
            self.state.as_str(),
            self.again_at.as_millis(),
            self.why.as_deref(),
            finished.then_some(self.now.as_millis()),
        )
    }

    /// The subject of its alert. An alert that cannot be delivered must not raise one about itself.
    fn subject(&self) -> Option<String> {
        let id = self.record.id;
        self.record.operation_id.map(|_| format!("effect/{id}"))
    }

    /// Opens its alert when a person has to look at it.
    async fn warn(&self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let Some(subject) = self.subject() else {
            return Ok(());
        };
        if !matches!(self.state, EffectState::Dead | EffectState::Held) {
            return Ok(());
        }
        let summary = format!(
            "effect {} of {} is {}: {}",
            self.record.effect,
            self.record
                .operation_name
                .as_ref()
                .map_or("?", |n| n.as_str()),
            self.state,
            self.why.as_deref().unwrap_or("no reason given"),
        );
        let (planner, ids) = (&*self.planner, &*self.ids);
        alerts::open(connection, &subject, &summary, self.now, planner, ids)
            .await
            .map(drop)
    }
}
