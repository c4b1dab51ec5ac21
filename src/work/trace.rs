//! The spans of looks, settlements and attempts. Where each stands is `telemetry::traces`' to say;
//! here is what it tells.

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::domain::ledger::{EffectRecord, Lease, Operation};
use crate::domain::operation::{OperationName, OperationState};
use crate::domain::work::Reason;
use crate::telemetry::traces::{Kind, Place, Span, Trace, Value};

/// When something happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub(super) began: Timestamp,
    pub(super) took: Duration,
}

/// One question to the API. A child of the delivery that woke the item, when one did.
pub(super) fn fetch(
    lease: &Lease,
    name: &OperationName,
    when: When,
    outcome: &str,
    error: Option<&'static str>,
) -> Span {
    let trace = Trace::of_operation(name.as_str());
    let woken = matches!(lease.reason, Reason::Webhook | Reason::Replay);
    let by = lease.event.filter(|_| woken);
    Span {
        at: trace.fetch(lease.id, lease.epoch, name.as_str()),
        parent: Some(by.map_or_else(|| trace.root(), |event| trace.delivery(event))),
        name: "fetch".to_owned(),
        kind: Kind::Client,
        began: when.began,
        took: when.took,
        attributes: vec![
            ("http.request.method", "GET".into()),
            ("hookledger.operation.name", name.as_str().into()),
            ("hookledger.reason", lease.reason.as_str().into()),
            ("hookledger.outcome", outcome.into()),
            ("hookledger.attempt", lease.attempts.into()),
        ],
        link: None,
        error,
    }
}

/// The settlement of an operation, and the operation itself, which has ended with it.
pub(super) fn settled(operation: &Operation, reason: Reason, when: When) -> Vec<Span> {
    let Some(name) = &operation.name else {
        return Vec::new();
    };
    let trace = Trace::of_operation(name.as_str());
    let succeeded = operation.state == OperationState::Succeeded;
    let about: Vec<(&'static str, Value)> = vec![
        ("hookledger.operation.name", name.as_str().into()),
        (
            "hookledger.operation.state",
            operation.state.as_str().into(),
        ),
        ("hookledger.job_kind", operation.job_kind.as_str().into()),
        ("hookledger.settled_by", reason.as_str().into()),
    ];
    let planned = operation.effects_expected.unwrap_or(0);
    let mut settling = about.clone();
    settling.push(("hookledger.effects", planned.into()));
    let settled_at = operation.settled_at.unwrap_or(when.began);
    let began = operation.submitted_at.min(settled_at);
    vec![
        Span {
            at: trace.settlement(name.as_str()),
            parent: Some(trace.root()),
            name: "settle".to_owned(),
            kind: Kind::Internal,
            began: when.began,
            took: when.took,
            attributes: settling,
            link: None,
            error: None,
        },
        Span {
            at: trace.root(),
            parent: None,
            name: "operation".to_owned(),
            kind: Kind::Internal,
            began,
            took: settled_at.since(began),
            attributes: about,
            link: None,
            error: (!succeeded).then(|| operation.state.as_str()),
        },
    ]
}

/// Where an attempt stands, and under what: the settlement it was planned by, or the operation that has
/// not settled yet. An alert is about no operation.
pub(super) fn attempt_at(record: &EffectRecord) -> (Place, Option<Place>) {
    let Some(name) = &record.operation_name else {
        let trace = Trace::of_effect(&record.idempotency_key);
        return (
            trace.attempt(&record.idempotency_key, record.attempts),
            None,
        );
    };
    let trace = Trace::of_operation(name.as_str());
    let settled = OperationState::from_word(&record.cause).is_some_and(OperationState::is_settled);
    let parent = if settled {
        trace.settlement(name.as_str())
    } else {
        trace.root()
    };
    (
        trace.attempt(&record.idempotency_key, record.attempts),
        Some(parent),
    )
}

/// One attempt to make an effect happen.
pub(super) fn attempt(record: &EffectRecord, when: When, outcome: &'static str) -> Span {
    let (at, parent) = attempt_at(record);
    let mut attributes: Vec<(&'static str, Value)> = vec![
        ("hookledger.effect.name", record.effect.as_str().into()),
        ("hookledger.effect.cause", record.cause.as_str().into()),
        (
            "hookledger.effect.key",
            record.idempotency_key.as_str().into(),
        ),
        ("hookledger.outcome", outcome.into()),
        ("hookledger.attempt", record.attempts.into()),
    ];
    if let Some(name) = &record.operation_name {
        attributes.push(("hookledger.operation.name", name.as_str().into()));
    }
    Span {
        at,
        parent,
        // Names of effects are the configuration's, so there are few.
        name: format!("effect {}", record.effect),
        kind: Kind::Client,
        began: when.began,
        took: when.took,
        attributes,
        link: None,
        error: (outcome != "done").then_some(outcome),
    }
}
