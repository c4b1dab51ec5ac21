//! The end of a look: what it found is written down, and then told.
//!
//! Race: the disk may be full, or the file held by somebody else, when an answer is there. The answer is
//! kept and written again; a lease that runs out meanwhile is somebody else's, and the fence says so.

use std::sync::Arc;

use super::WRITE_AGAIN;
use super::look::Plan;
use super::step::{ItemEnd, KEY_ALERT, Worker};
use super::tell::{tell, tell_lag};
use super::trace::{self, When};
use crate::base::failpoint::failpoint;
use crate::domain::ledger::Lease;
use crate::store::{Applied, Close, Look, StoreError, Subject};
use crate::telemetry::metrics;

impl Worker {
    /// Writes down what was learned of an item, and counts and logs it once it is on disk.
    pub(super) async fn write_down(
        &self,
        lease: &Lease,
        plan: Plan,
    ) -> Result<ItemEnd, StoreError> {
        let end = match &plan.close {
            Close::Done(outcome) => ItemEnd::Done(*outcome),
            Close::Again(..) | Close::Release => ItemEnd::Again,
        };
        let dead = matches!(&plan.close,
            Close::Again(failure, cap) if failure.charged && lease.attempts >= *cap);
        let adopts = plan
            .looks
            .iter()
            .any(|l| matches!(l.subject, Subject::Found { .. }));
        let (at, began) = (self.clock.now(), self.clock.monotonic());
        let applied = self.finish(lease, plan.looks, plan.close).await?;
        let took = self.clock.monotonic().saturating_sub(began);
        failpoint!("fp-w5", if applied.iter().any(|one| matches!(one, Applied::Settled(_))));
        for one in &applied {
            tell(lease.reason, one);
            if let Applied::Settled(operation) = one {
                tell_lag(lease.reason, operation, &plan.ended);
                if self.traces.is_on() {
                    let when = When { began: at, took };
                    for span in trace::settled(operation, lease.reason, when) {
                        self.traces.record(|| span);
                    }
                }
            }
        }
        match end {
            ItemEnd::Done(outcome) => metrics::work_closed(lease.reason.as_str(), outcome.as_str()),
            _ if dead => metrics::dead_letter(),
            _ => {}
        }
        if adopts
            && applied
                .iter()
                .any(|one| one.record().is_some_and(|o| !o.registered))
        {
            metrics::adopted();
        }
        if let Some(what) = plan.key_refused
            && self.gate.refuse(self.clock.monotonic(), self.ids.unit())
        {
            let summary = format!("the API refuses the key, so nothing is fetched: {what}");
            let planner = Arc::clone(&self.planner);
            self.store
                .open_alert(KEY_ALERT.to_owned(), summary, planner)
                .await?;
        }
        Ok(end)
    }

    /// Writes what was learned, again and again while the disk is full or somebody else holds the
    /// file: that is an outage and costs neither the answer nor an attempt. Meanwhile nothing can be
    /// claimed, for a claim is a write too. A lease that runs out before the writer comes back is
    /// somebody else's, and the fence says so.
    async fn finish(
        &self,
        lease: &Lease,
        looks: Vec<Look>,
        close: Close,
    ) -> Result<Vec<Applied>, StoreError> {
        loop {
            let planner = Arc::clone(&self.planner);
            let (looks, close) = (looks.clone(), close.clone());
            match self.store.finish_looks(lease, looks, close, planner).await {
                Err(error) if error.is_passing() => {
                    tracing::warn!(operation = lease.raw, %error, "could not write down a look yet");
                }
                end => return end,
            }
            self.clock.sleep(WRITE_AGAIN).await;
            // As good as it goes: the next write is fenced all the same.
            drop(self.store.renew(lease, self.lease).await);
        }
    }
}
