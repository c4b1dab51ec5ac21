//! What a look changed, said in the log and counted.

use crate::base::clock::Timestamp;
use crate::domain::ledger::{Operation, Told};
use crate::domain::operation::{OperationName, OperationState};
use crate::domain::work::Reason;
use crate::store::Applied;
use crate::telemetry::metrics;

/// Counts and logs what a look changed.
pub(super) fn tell(reason: Reason, applied: &Applied) {
    match applied {
        Applied::Settled(operation) => {
            let lag = operation
                .settled_at
                .map(|at| at.since(operation.submitted_at));
            metrics::settled(reason.as_str(), operation.state.as_str(), lag);
            tracing::info!(
                operation = operation.name.as_ref().map(ToString::to_string),
                job_kind = %operation.job_kind,
                state = %operation.state,
                settled_by = reason.as_str(),
                effects = operation.effects_expected,
                "operation settled"
            );
        }
        Applied::AlreadySettled(before) => {
            if reason == Reason::Webhook && before.told == Told::Rescued {
                metrics::webhook_late();
            }
        }
        // A delivery said that it had ended, and the API says that it goes on.
        Applied::Open(operation) if reason == Reason::Webhook => {
            if operation.state == OperationState::Pending && !operation.requires_action {
                metrics::refuted();
            }
        }
        Applied::Open(_) | Applied::Pruned => {}
    }
}

/// Counts how long after its end, as the provider states it, an operation settled.
pub(super) fn tell_lag(reason: Reason, settled: &Operation, ended: &[(OperationName, Timestamp)]) {
    let its_own = |(name, _): &&(OperationName, Timestamp)| settled.name.as_ref() == Some(name);
    if let Some(((_, ended), settled)) = ended.iter().find(its_own).zip(settled.settled_at) {
        metrics::settled_after_end(reason.as_str(), settled.since(*ended));
    }
}
