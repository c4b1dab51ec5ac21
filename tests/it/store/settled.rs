//! A settled operation never changes: not by any use case, not by a shell.

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, Timestamp};
use hookledger::domain::effect::{AmbiguousPolicy, EffectRule, Trigger};
use hookledger::domain::ledger::{Lease, Operation, PlanEffects, Told};
use hookledger::domain::operation::{OperationName, OperationState};
use hookledger::domain::work::{Outcome, Reason};
use hookledger::effects::plan::Planner;
use hookledger::store::{
    Applied, Binding, Change, Close, Look, NewRegistration, Registered, Reservation, Settlement,
    StoreError, Subject, Terms,
};
use sqlx::Connection as _;

use super::outside;
use crate::support::{NOON, TestStore, options};

const A: &str = "batches/a";

pub(super) fn planner() -> Arc<dyn PlanEffects> {
    let rule = EffectRule {
        name: "notify".into(),
        job_kind: "*".into(),
        on: vec![Trigger::State(OperationState::Succeeded)],
        ambiguous: AmbiguousPolicy::Retry,
    };
    Arc::new(Planner::new(vec![rule], Vec::new()))
}

pub(super) fn terms(now: Timestamp) -> Terms {
    let hours = |h| now.after(Duration::from_hours(h));
    Terms {
        first_look_at: hours(0),
        overdue_at: hours(6),
        deadline_at: Some(hours(48)),
        give_up_at: hours(72),
    }
}

pub(super) fn name() -> OperationName {
    A.parse().unwrap()
}

pub(super) fn look(change: Change) -> Look {
    Look {
        subject: Subject::Found {
            name: name(),
            reservation: None,
        },
        reason: Reason::Webhook,
        change,
        summary: Some(serde_json::json!({"found": "something else"})),
        terms: terms(NOON),
    }
}

pub(super) fn ending(state: OperationState) -> Change {
    Change::Settle(Settlement {
        state,
        body_hash: format!("hash of {state}"),
        decide_at: NOON.after(Duration::from_mins(15)),
    })
}

async fn lease(base: &TestStore) -> Lease {
    base.store.wake(&name(), Reason::Operator).await.unwrap();
    let mut claimed = base
        .store
        .claim(1, 1, 1, Duration::from_secs(60))
        .await
        .unwrap();
    claimed.pop().unwrap()
}

async fn finish(base: &TestStore, look: Look) -> Result<Vec<Applied>, StoreError> {
    let lease = lease(base).await;
    let close = Close::Done(Outcome::NotTerminal);
    base.store
        .finish_looks(&lease, vec![look], close, planner())
        .await
}

pub(super) async fn settled() -> (TestStore, Operation) {
    let base = TestStore::open().await;
    let new = registration("nightly");
    base.store.register(new, planner()).await.unwrap();
    let applied = finish(&base, look(ending(OperationState::Succeeded))).await;
    assert!(matches!(applied.unwrap()[..], [Applied::Settled(_)]));
    let record = base.store.operation_by_name(&name()).await.unwrap();
    (base, record.unwrap())
}

fn registration(job_kind: &str) -> NewRegistration {
    NewRegistration {
        name: name(),
        job_kind: job_kind.parse().unwrap(),
        user_metadata: Some(serde_json::json!({"mine": true})),
        terms: terms(NOON),
    }
}

#[tokio::test]
async fn no_look_changes_it_whatever_it_claims_to_have_found() {
    let (base, before) = settled().await;
    base.clock.advance(Duration::from_hours(1));
    let next_look_at = base.clock.now();
    let mut changes = vec![
        Change::Nothing,
        Change::Running {
            requires_action: true,
            next_look_at,
        },
        Change::NotFound { next_look_at },
        Change::Neither { next_look_at },
    ];
    for state in [OperationState::Gone, OperationState::Anomalous] {
        changes.push(Change::Close {
            state,
            next_look_at,
        });
    }
    changes.extend(OperationState::ALL.map(ending));
    for change in changes {
        let shown = format!("{change:?}");
        for subject in [
            Subject::Known(before.id),
            Subject::Found {
                name: name(),
                reservation: Some(before.id),
            },
        ] {
            let look = Look {
                subject,
                ..look(change.clone())
            };
            let applied = finish(&base, look).await.unwrap();
            assert_eq!(
                applied,
                [Applied::AlreadySettled(Box::new(before.clone()))],
                "{shown}"
            );
        }
        let after = base.store.operation(before.id).await.unwrap().unwrap();
        assert_eq!(after, before, "{shown}");
    }
    let log = base.store.operation_log(before.id).await.unwrap();
    assert_eq!(log.len(), 2, "registered and settled, no more: {log:?}");
    let effects = base.store.effects_of(before.id).await.unwrap();
    assert_eq!(effects.len(), 1);
}

#[tokio::test]
async fn two_endings_in_one_transaction_are_one() {
    let base = TestStore::open().await;
    base.store
        .register(registration("nightly"), planner())
        .await
        .unwrap();
    let lease = lease(&base).await;
    let looks = vec![
        look(ending(OperationState::Failed)),
        look(ending(OperationState::Succeeded)),
    ];
    let close = Close::Done(Outcome::Settled);
    let applied = base
        .store
        .finish_looks(&lease, looks, close, planner())
        .await
        .unwrap();
    let states: Vec<_> = applied.iter().map(|a| a.record().unwrap().state).collect();
    assert_eq!(states, [OperationState::Failed; 2]);
    let record = base
        .store
        .operation_by_name(&name())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(base.store.effects_of(record.id).await.unwrap(), []);
}

#[tokio::test]
async fn only_settled_states_can_be_settled_to() {
    let base = TestStore::open().await;
    base.store
        .register(registration("nightly"), planner())
        .await
        .unwrap();
    for state in OperationState::ALL {
        if state.is_settled() {
            continue;
        }
        let refused = finish(&base, look(ending(state))).await;
        assert!(refused.is_err(), "settled to {state}");
        base.store.rescue_leases(10, true).await.unwrap();
    }
    let record = base
        .store
        .operation_by_name(&name())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (record.state, record.attempts, record.settled_at),
        (OperationState::Pending, 0, None),
        "a refused look leaves nothing behind"
    );
}

#[tokio::test]
async fn the_use_cases_of_people_and_timers_leave_it_alone() {
    let (base, before) = settled().await;
    let store = &base.store;
    base.clock.advance(Duration::from_hours(7));
    let now = base.clock.now();

    let again = store.register(registration("nightly"), planner()).await;
    assert_eq!(again.unwrap(), Registered::Same(before.clone()));
    let other = store.register(registration("weekly"), planner()).await;
    assert_eq!(
        other.unwrap(),
        Registered::Conflict("nightly".parse().unwrap())
    );
    let reserved = base.ids.uuid(now);
    store
        .reserve(Reservation {
            id: reserved,
            job_kind: "nightly".parse().unwrap(),
            user_metadata: None,
        })
        .await
        .unwrap();
    for (id, to) in [(reserved, A), (before.id, "batches/b")] {
        let bound = store.bind(id, to.parse().unwrap(), terms(now), planner());
        let bound = bound.await.unwrap();
        assert!(matches!(bound, Binding::Conflict(_)), "{bound:?}");
    }
    let give_up = now.after(Duration::from_hours(72));
    assert!(
        store
            .retry_operation(before.id, give_up, planner())
            .await
            .unwrap()
    );
    assert_eq!(
        store.flag_overdue(Duration::ZERO, planner()).await.unwrap(),
        0
    );
    assert_eq!(
        store
            .queue_due_looks(10, Duration::ZERO, Duration::ZERO)
            .await
            .unwrap(),
        0
    );
    store
        .repair_effects(None, Duration::ZERO, planner())
        .await
        .unwrap();
    let summary = |name: &OperationName| name.to_string();
    let decided = store.decide_told("rescued", summary, planner()).await;
    assert_eq!(decided.unwrap().len(), 1);
    // A process that dies here has told somebody: nothing decides it again.
    assert!(store.is_alert_open("rescued").await.unwrap());

    let after = store.operation(before.id).await.unwrap().unwrap();
    let expected = Operation {
        told: Told::Rescued,
        ..before
    };
    assert_eq!(after, expected);
}

#[tokio::test]
async fn a_shell_cannot_change_it_either() {
    let (base, before) = settled().await;
    let mut shell = outside(&options(&base.dir).path).await;
    for statement in [
        "UPDATE operations SET state = 'failed'",
        "UPDATE operations SET state = 'pending', settled_at_ms = NULL, settled_by = NULL",
        "UPDATE operations SET state = 'gone', closed_at_ms = 1, settled_at_ms = NULL, settled_by = NULL",
        "UPDATE operations SET settled_at_ms = settled_at_ms + 1",
        "UPDATE operations SET settled_by = 'operator'",
        "UPDATE operations SET body_hash = 'another'",
        "UPDATE operations SET name = 'batches/b', segment = 'b'",
        "UPDATE operations SET id = 'another'",
        "UPDATE OR IGNORE operations SET state = 'failed', settled_at_ms = 1",
        "UPDATE OR REPLACE operations SET state = 'failed', settled_at_ms = 1",
        "INSERT OR REPLACE INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms) \
         SELECT id, name, segment, kind, job_kind, registered, 'pending', 0 FROM operations",
        "INSERT OR REPLACE INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms) \
         SELECT 'another', name, segment, kind, job_kind, registered, 'pending', 0 FROM operations",
    ] {
        let refused = sqlx::query(statement).execute(&mut shell).await;
        let text = refused.expect_err(statement).to_string();
        assert!(
            text.contains("a settled operation never changes"),
            "{statement}: {text}"
        );
    }
    shell.close().await.unwrap();
    let after = base.store.operation(before.id).await.unwrap();
    assert_eq!(after, Some(before));
}
