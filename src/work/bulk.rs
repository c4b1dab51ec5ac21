//! Putting many dead items, or stuck effects, back.
//!
//! A page is read and then changed in one transaction, which leaves alone what has changed between.

use std::sync::Arc;

use uuid::Uuid;

use super::register::Registrar;
use crate::domain::effect::EffectState;
use crate::domain::recovered::Recovered;
use crate::domain::work::WorkState;
use crate::store::{EffectFilter, StoreError, WorkFilter};

impl Registrar {
    /// Puts a page of dead items back, newest first, with their attempts forgotten.
    pub async fn retry_items(
        &self,
        filter: &WorkFilter,
        cursor: Option<i64>,
        limit: u32,
        dry_run: bool,
    ) -> Result<Recovered, StoreError> {
        let filter = WorkFilter {
            state: Some(WorkState::Dead),
            ..filter.clone()
        };
        let page = self.store.work_items(&filter, cursor, limit).await?;
        let ids: Vec<i64> = page.items.iter().map(|item| item.id).collect();
        Ok(Recovered {
            matched: u64::try_from(ids.len()).unwrap_or(u64::MAX),
            done: if dry_run {
                0
            } else {
                self.store.retry_dead(ids).await?
            },
            next_cursor: page.next_cursor,
        })
    }

    /// Puts one item back, if it is dead.
    pub async fn retry_item(&self, id: i64, dry_run: bool) -> Result<Recovered, StoreError> {
        let filter = WorkFilter {
            state: Some(WorkState::Dead),
            ..WorkFilter::default()
        };
        // The newest below the next id: this one, or it is not dead.
        let page = self.store.work_items(&filter, id.checked_add(1), 1).await?;
        let dead = page.items.first().is_some_and(|item| item.id == id);
        let done = dead && !dry_run;
        Ok(Recovered {
            matched: u64::from(dead),
            done: if done {
                self.store.retry_dead(vec![id]).await?
            } else {
                0
            },
            next_cursor: None,
        })
    }

    /// Makes a page of effects in `state` due again, newest first, with the same keys.
    pub async fn retry_effects(
        &self,
        filter: &EffectFilter,
        state: EffectState,
        cursor: Option<Uuid>,
        (limit, dry_run): (u32, bool),
    ) -> Result<Recovered, StoreError> {
        let filter = EffectFilter {
            state: Some(state),
            ..filter.clone()
        };
        let page = self.store.effects(&filter, cursor, limit).await?;
        let ids: Vec<Uuid> = page.items.iter().map(|effect| effect.id).collect();
        let matched = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let done = if dry_run {
            0
        } else {
            let give_up_at = self.policy.give_up_at(self.clock.now());
            let planner = Arc::clone(&self.planner);
            self.store
                .retry_effects(ids, state, give_up_at, planner)
                .await?
        };
        Ok(Recovered {
            matched,
            done,
            next_cursor: page.next_cursor,
        })
    }
}
