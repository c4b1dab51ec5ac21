//! A person's word on effects, on one or on a page of them.

use std::sync::Arc;

use sqlx::SqliteConnection;
use uuid::Uuid;

use super::super::Store;
use super::super::error::StoreError;
use super::alerts;
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::effect::EffectState;
use crate::domain::ledger::PlanEffects;

/// What a person does about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectRetry {
    /// Send it again with the same key.
    Again,
    /// It did arrive: take it as done.
    Done,
    /// It will not be sent any more.
    Dead,
}

/// What the decision is written with.
struct Word<'a> {
    what: EffectRetry,
    now: Timestamp,
    give_up_at: Timestamp,
    planner: &'a dyn PlanEffects,
    ids: &'a dyn Ids,
}

impl Store {
    /// A person's word on an effect that is held, dead, ambiguous or done. False when there is no
    /// such effect, or it is being sent right now.
    pub async fn resolve_effect(
        &self,
        id: Uuid,
        what: EffectRetry,
        give_up_at: Timestamp,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<bool, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("resolve effect", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let word = Word {
                        what,
                        now,
                        give_up_at,
                        planner: &*planner,
                        ids: &*ids,
                    };
                    word.on(connection, id, None).await
                })
            })
            .await
    }

    /// Makes those of these effects due again that are still in this state, with the same keys.
    /// Answers how many.
    pub async fn retry_effects(
        &self,
        effects: Vec<Uuid>,
        state: EffectState,
        give_up_at: Timestamp,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<u64, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("retry effects", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let word = Word {
                        what: EffectRetry::Again,
                        now,
                        give_up_at,
                        planner: &*planner,
                        ids: &*ids,
                    };
                    let mut retried = 0;
                    for id in effects {
                        retried += u64::from(word.on(connection, id, Some(state)).await?);
                    }
                    Ok(retried)
                })
            })
            .await
    }
}

impl Word<'_> {
    /// False when there is no such effect, it is being sent, or it is not in `wanted` any more.
    async fn on(
        &self,
        connection: &mut SqliteConnection,
        id: Uuid,
        wanted: Option<EffectState>,
    ) -> Result<bool, StoreError> {
        let (state, finished) = match self.what {
            EffectRetry::Again => (EffectState::Planned, None),
            EffectRetry::Done => (EffectState::Done, Some(self.now.as_millis())),
            EffectRetry::Dead => (EffectState::Dead, Some(self.now.as_millis())),
        };
        let changed = sqlx::query(
            "UPDATE effects SET state = ?2, finished_at_ms = ?3, next_attempt_at_ms = ?4, \
             give_up_at_ms = max(give_up_at_ms, ?5) \
             WHERE id = ?1 AND state <> 'sending' AND state = coalesce(?6, state)",
        )
        .bind(id.to_string())
        .bind(state.as_str())
        .bind(finished)
        .bind(self.now.as_millis())
        .bind(self.give_up_at.as_millis())
        .bind(wanted.map(EffectState::as_str))
        .execute(&mut *connection)
        .await?;
        let changed = changed.rows_affected() == 1;
        if changed {
            let subject = format!("effect/{id}");
            alerts::recover(connection, &subject, self.now, self.planner, self.ids).await?;
        }
        Ok(changed)
    }
}
