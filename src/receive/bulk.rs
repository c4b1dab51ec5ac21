//! Replaying many captured deliveries.
//!
//! Deliveries are put through side by side, so that they share commits, but only so many at a time:
//! each is in memory with its body. A replay is no candidate for a replay, or each repetition of the
//! command would double what there is.
//!
//! A passing error stops the page where it came, and what was done stands: were it told as an error,
//! the caller would send the page again and write the same replays once more, for as long as the
//! error comes back. The page says to go on at the first that was not done. Those beside it that
//! went through are replayed again then: at most fifteen, and none is lost. The first of a page goes
//! alone, so a page that wrote anything has moved on.

use futures_util::future::join_all;
use uuid::Uuid;

use super::{Receiver, Replayed};
use crate::domain::ledger::EventRecord;
use crate::domain::recovered::Recovered;
use crate::store::{EventFilter, StoreError};

/// Deliveries in hand at the same time.
const ABREAST: usize = 16;

impl Receiver {
    /// Puts a page of captured deliveries through the queue once more, newest first. Those whose body
    /// was removed are left alone. A passing error is one only when nothing was done; else the page
    /// ends there.
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
        if dry_run {
            return Ok(Recovered {
                matched: u64::try_from(page.items.len()).unwrap_or(u64::MAX),
                done: 0,
                next_cursor: page.next_cursor,
            });
        }
        let mut all = Recovered {
            next_cursor: page.next_cursor,
            ..Recovered::default()
        };
        let (first, rest) = page.items.split_at(page.items.len().min(1));
        let mut last = None;
        for some in std::iter::once(first).chain(rest.chunks(ABREAST)) {
            if let Some(error) = self.replay_some(some, &mut last, &mut all).await? {
                if all.done == 0 {
                    return Err(error);
                }
                all.next_cursor = last.map(|id| id.to_string());
                break;
            }
        }
        Ok(all)
    }

    /// Replays these side by side, counts them, and says which passing error came, if one did. `last`
    /// is then the one before it.
    async fn replay_some(
        &self,
        events: &[EventRecord],
        last: &mut Option<Uuid>,
        all: &mut Recovered,
    ) -> Result<Option<StoreError>, StoreError> {
        let replays = join_all(events.iter().map(|event| self.replay(event.id))).await;
        let mut stopped = None;
        for (event, replayed) in events.iter().zip(replays) {
            match replayed {
                Ok(replayed) => {
                    all.matched += 1;
                    all.done += u64::from(matches!(replayed, Replayed::Received(_)));
                    if stopped.is_none() {
                        *last = Some(event.id);
                    }
                }
                Err(error) if error.is_passing() => {
                    stopped.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stopped)
    }
}
