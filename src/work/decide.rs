//! What an answer, or a fault, means. Pure: every case can be read, and tested, without a network.

use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::fault::Fault;
use crate::domain::ledger::Operation;
use crate::domain::observation::{Observation, Observed};
use crate::domain::operation::OperationState;
use crate::domain::work::Reason;
use crate::store::{Change, Settlement, WorkFailure};

use super::policy::{DAILY, MAX_NEITHER_LOOKS, Policy};

/// What an observation changes about an operation; `known` is its record, if it has one.
pub(super) fn on_answer(
    observation: &Observation,
    known: Option<&Operation>,
    reason: Reason,
    policy: &Policy,
    now: Timestamp,
    ids: &dyn Ids,
) -> Change {
    let next_look_at = policy.next_look(known, reason, now, ids);
    match observation.observed {
        Observed::Ended(state) => Change::Settle(Settlement {
            state,
            body_hash: observation.body_hash.clone(),
            decide_at: now.after(policy.told_after),
        }),
        // An output that is promised but not there yet is a run that has not ended: settling now
        // would plan effects with nothing to collect.
        Observed::Running | Observed::OutputPending => Change::Running {
            requires_action: false,
            next_look_at,
        },
        Observed::RequiresAction => Change::Running {
            requires_action: true,
            next_look_at,
        },
        Observed::Neither => {
            let looks = known.map_or(0, |o| o.neither_looks).saturating_add(1);
            let closed = known.is_some_and(|o| o.state == OperationState::Anomalous);
            if closed || looks >= MAX_NEITHER_LOOKS {
                Change::Close {
                    state: OperationState::Anomalous,
                    next_look_at: now.after(DAILY),
                }
            } else {
                Change::Neither {
                    next_look_at: policy.next_try_unknown(now, looks, now, ids),
                }
            }
        }
    }
}

/// What it means that the API does not know an operation of the ledger. Only a Google-shaped 404
/// that repeats over the configured span closes it, and even then it is not a settled state.
pub(super) fn on_not_found(
    known: &Operation,
    reason: Reason,
    policy: &Policy,
    now: Timestamp,
    ids: &dyn Ids,
) -> Change {
    let closed = known.state.is_closed_unproven();
    let long = known
        .not_found_since
        .is_some_and(|since| now.since(since) >= policy.gone_after);
    if closed {
        Change::Close {
            state: known.state,
            next_look_at: now.after(DAILY),
        }
    } else if long {
        Change::Close {
            state: OperationState::Gone,
            next_look_at: now.after(DAILY),
        }
    } else {
        Change::NotFound {
            next_look_at: policy.next_look(Some(known), reason, now, ids),
        }
    }
}

/// How a work item goes back after a fault; `failures` counts the ones before it.
pub(super) fn on_fault(
    fault: &Fault,
    failures: u32,
    policy: &Policy,
    now: Timestamp,
    ids: &dyn Ids,
) -> WorkFailure {
    let count = failures.saturating_add(1);
    let delay = policy
        .retry
        .delay_at_least(count, ids.unit(), fault.retry_after());
    WorkFailure {
        again_at: now.after(delay),
        why: fault.to_string(),
        charged: fault.charges_attempt(),
    }
}
