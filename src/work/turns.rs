//! The loop that the worker and the sender share: take a turn, then wait for a commit, for a slot, or
//! for the next due time, whichever is first.
//!
//! Races: the store's news is marked as seen before the turn reads what is due, so a commit during the
//! turn ends the wait at once; a slot that frees during the turn leaves its permit. If the writer is
//! gone there is no more news, and the loop goes by its times: it must not spin. A turn claims once:
//! under a steady load there is always more, and between two claims the loop must beat and hear that
//! it is to stop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::base::clock::Clock;
use crate::base::shutdown::{Heartbeat, Shutdown};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics;

/// Rest after a turn that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What a turn says that claimed something: there may be more.
pub(super) const AGAIN: Duration = Duration::ZERO;

/// What a turn works in.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// Where the tasks it starts belong.
    pub(super) group: &'a Shutdown,
    /// Told when a task it started has ended.
    pub(super) freed: &'a Arc<Notify>,
}

/// Something that takes turns.
#[async_trait]
pub(super) trait TakesTurns: Send + Sync {
    /// The loop's name.
    const NAME: &'static str;

    /// Whose commits it waits for.
    fn store(&self) -> &Store;

    /// What it waits by.
    fn clock(&self) -> &dyn Clock;

    /// Starts what one claim finds, and says how long nothing new can be due.
    async fn turn(self: &Arc<Self>, turn: &Turn<'_>) -> Result<Duration, StoreError>;
}

/// Takes turns until `group` stops. What was started is the group's to wait for.
pub(super) async fn until_stopped<T: TakesTurns>(part: Arc<T>, group: Shutdown, heart: Heartbeat) {
    let mut news = part.store().news();
    let freed = Arc::new(Notify::new());
    loop {
        heart.beat();
        metrics::loop_turn(T::NAME);
        news.mark_unchanged();
        let wait = match part
            .turn(&Turn {
                group: &group,
                freed: &freed,
            })
            .await
        {
            Ok(wait) => wait,
            Err(error) => {
                tracing::error!(task = T::NAME, %error, "a turn failed; the next one is soon");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            biased;
            () = group.stopping() => return,
            Ok(()) = news.changed() => {}
            () = freed.notified() => {}
            () = part.clock().sleep(wait) => {}
        }
    }
}
