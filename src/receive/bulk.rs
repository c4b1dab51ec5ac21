//! Replaying many captured deliveries.
//!
//! Deliveries are put through side by side, so that they share commits, but only so many at a time:
//! each is in memory with its body. A replay is no candidate for a replay, or each repetition of the
//! command would double what there is.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use uuid::Uuid;

use super::{Receiver, Replayed};
use crate::domain::recovered::Recovered;
use crate::store::{EventFilter, StoreError};

/// Deliveries in hand at the same time.
const ABREAST: usize = 16;

impl Receiver {
    /// Puts a page of captured deliveries through the queue once more, newest first. Those whose body
    /// was removed are left alone.
    pub async fn replay_page(
        &self,
        filter: &EventFilter,
        cursor: Option<Uuid>,
        limit: u32,
        dry_run: bool,
    ) -> Result<Recovered, StoreError> {
        let filter = EventFilter {
            originals: true,
            ..filter.clone()
        };
        let page = self.store.events(&filter, cursor, limit).await?;
        let matched = u64::try_from(page.items.len()).unwrap_or(u64::MAX);
        let done = if dry_run {
            0
        } else {
            stream::iter(page.items)
                .map(|event| self.replay(event.id))
                .buffered(ABREAST)
                .try_fold(0, async |done, replayed| {
                    Ok(done + u64::from(matches!(replayed, Replayed::Received(_))))
                })
                .await?
        };
        Ok(Recovered {
            matched,
            done,
            next_cursor: page.next_cursor,
        })
    }
}
