//! The alert about webhooks that do not arrive.
//!
//! Problem: an ending that reconciliation had to find means that a webhook was lost. Nothing is lost by
//! it, so nobody notices that all of them are.
//!
//! Design: the first rescued ending opens the alert, in the commit that decides that it was rescued. It ends when a webhook has told an ending again and
//! none has been rescued for `CALM`: webhooks that are lost now and then must not alert and recover in
//! turns. Silence alone ends nothing, for it is also what a dead subscription sounds like.
//!
//! Races: when the last one was rescued is not written down. A process that starts waits for `CALM`
//! from its own beginning; the alert lasts a little longer then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::clock::Clock;
use crate::domain::ledger::PlanEffects;
use crate::domain::operation::OperationName;
use crate::store::{Rescued, Store, StoreError, Told};

/// The subject of the alert.
pub const RESCUED_ALERT: &str = "webhooks/rescued";

/// So long without a rescued ending, and webhooks arrive again.
const CALM: Duration = Duration::from_hours(1);

/// What the alert says.
pub fn summary(name: &OperationName) -> String {
    format!(
        "no webhook told that {name} had ended, reconciliation found it: deliveries may not reach \
         this service"
    )
}

/// When an ending was rescued last, or counts as such. Monotonic.
#[derive(Debug)]
pub(super) struct LastRescued(Mutex<Duration>);

impl LastRescued {
    pub(super) fn new(clock: &dyn Clock) -> Self {
        Self(Mutex::new(clock.monotonic()))
    }

    /// What a turn decided about how endings were told; the alert is open if one was rescued.
    pub(super) async fn judge(
        &self,
        decided: &[Rescued],
        store: &Store,
        clock: &dyn Clock,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<(), StoreError> {
        let now = clock.monotonic();
        let told = |what| decided.iter().find(|one| one.told == what);
        if told(Told::Rescued).is_some() {
            self.set(now);
            return Ok(());
        }
        let is_calm = now >= self.at() + CALM;
        if is_calm && told(Told::Webhook).is_some() && store.is_alert_open(RESCUED_ALERT).await? {
            store
                .recover_alert(RESCUED_ALERT.to_owned(), planner)
                .await?;
        }
        Ok(())
    }

    fn at(&self) -> Duration {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn set(&self, at: Duration) {
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = at;
    }
}
