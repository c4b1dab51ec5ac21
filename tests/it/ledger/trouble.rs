//! What is late, gone, broken, forbidden or poison.

use std::sync::Arc;

use hookledger::domain::effect::{AmbiguousPolicy, EffectRule, Trigger};
use hookledger::domain::fault::Fault;
use hookledger::domain::operation::OperationState;
use hookledger::domain::work::Outcome;
use hookledger::effects::plan::Planner;
use hookledger::store::WorkFilter;
use hookledger::work::{Fetching, ItemEnd, Worker};
use serde_json::json;

use crate::support::world::{Says, World, running, succeeded};

use super::{A, HOUR, MINUTE};

#[tokio::test]
async fn an_overdue_operation_alerts_once_and_recovers_once() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, running(A));
    w.advance(6 * HOUR + MINUTE);
    assert_eq!(w.reconcile().await.overdue, 1);
    assert_eq!(w.reconcile().await.overdue, 0);
    w.work().await;
    assert!(w.operation(A).await.unwrap().overdue);
    w.send().await;
    assert_eq!(w.pager.sent().len(), 1);
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    let kinds: Vec<String> = w
        .pager
        .sent()
        .iter()
        .map(|m| {
            serde_json::from_slice::<serde_json::Value>(&m.payload).unwrap()["type"].to_string()
        })
        .collect();
    assert_eq!(kinds, ["\"alert.opened\"", "\"alert.recovered\""]);
    let settled = w.operation(A).await.unwrap();
    assert!(!settled.overdue);
    assert_eq!(w.base.store.open_alerts().await.unwrap(), []);
}

#[tokio::test]
async fn gone_needs_a_day_of_404_and_is_not_the_end() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    let mut looks = 0;
    while w.operation(A).await.unwrap().state == OperationState::Pending {
        w.advance(31 * MINUTE);
        w.reconcile().await;
        w.work().await;
        looks += 1;
        assert!(looks < 100, "never gone");
    }
    let gone = w.operation(A).await.unwrap();
    assert_eq!(gone.state, OperationState::Gone);
    assert!(looks >= 46, "gone after only {looks} looks");
    assert_eq!(w.notify.sent().len(), 0);
    assert_eq!(
        w.base.store.open_alerts().await.unwrap().len(),
        2,
        "overdue and gone"
    );
    w.api.says(A, succeeded(A));
    w.advance(25 * HOUR);
    w.reconcile().await;
    w.work().await;
    assert_eq!(
        w.operation(A).await.unwrap().state,
        OperationState::Succeeded
    );
    assert_eq!(w.base.store.open_alerts().await.unwrap(), []);
}

#[tokio::test]
async fn done_with_neither_response_nor_error_becomes_anomalous_after_bounded_looks() {
    let w = World::new().await;
    let name = "models/veo/operations/op1";
    w.register(name, "clips").await;
    w.api
        .says(name, Says::Body(json!({"name": name, "done": true})));
    for _ in 0..5 {
        assert_eq!(
            w.operation(name).await.unwrap().state,
            OperationState::Pending
        );
        w.advance(5 * MINUTE);
        w.reconcile().await;
        w.work().await;
    }
    assert_eq!(
        w.operation(name).await.unwrap().state,
        OperationState::Anomalous
    );
}

#[tokio::test]
async fn an_outage_charges_nothing_and_ends_in_settlement() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(
        A,
        Says::Fault(Fault::Unavailable {
            retry_after: None,
            what: "503".into(),
        }),
    );
    w.tell("m1", A).await;
    for _ in 0..30 {
        assert_eq!(w.work().await, [ItemEnd::Again]);
        w.advance(15 * MINUTE);
    }
    let items = w
        .base
        .store
        .work_items(&WorkFilter::default(), None, 10)
        .await
        .unwrap()
        .items;
    assert_eq!(items[0].attempts, 0);
    assert_eq!(w.worker.fetching(), Fetching::Unreachable);
    w.api.says(A, succeeded(A));
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
}

#[tokio::test]
async fn poison_is_dead_after_its_attempts_alerts_and_can_be_retried() {
    for poison in [
        Says::Fault(Fault::Undecodable {
            what: "truncated".into(),
        }),
        Says::Panic,
    ] {
        let w = World::new().await;
        w.register(A, "nightly").await;
        w.api.says(A, poison);
        w.tell("m1", A).await;
        for _ in 0..10 {
            assert_eq!(w.work().await.len(), 1);
            w.advance(15 * MINUTE);
        }
        assert_eq!(w.work().await, [], "dead after ten");
        let dead = WorkFilter {
            state: Some(hookledger::domain::work::WorkState::Dead),
            ..WorkFilter::default()
        };
        let dead = w.base.store.work_items(&dead, None, 9).await.unwrap();
        assert_eq!(dead.items.len(), 1);
        w.advance(48 * HOUR);
        w.reconcile().await;
        assert_eq!(
            w.work().await,
            [],
            "reconciliation must not run poison again"
        );
        assert!(
            w.base
                .store
                .open_alerts()
                .await
                .unwrap()
                .iter()
                .any(|a| a.subject == "queue/dead")
        );
        w.api.says(A, succeeded(A));
        assert_eq!(
            w.registrar
                .retry_items(&WorkFilter::default(), None, 9, false)
                .await
                .unwrap()
                .done,
            1
        );
        assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
        w.reconcile().await;
        assert_eq!(w.base.store.open_alerts().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_refused_key_pauses_everything_alerts_and_goes_on_by_itself() {
    let w = World::new().await;
    let refused = Fault::KeyRefused {
        what: "API_KEY_INVALID".into(),
    };
    w.register(A, "nightly").await;
    w.api.says(A, Says::Fault(refused.clone()));
    w.api.probe_says(Some(refused));
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Again]);
    assert_eq!(w.worker.fetching(), Fetching::KeyRefused);
    for _ in 0..5 {
        w.advance(10 * MINUTE);
        assert_eq!(w.work().await, []);
    }
    assert_eq!(w.api.asked().len(), 1, "one question, then only probes");
    assert_eq!(
        w.base.store.open_alerts().await.unwrap()[0].subject,
        "gemini/key"
    );
    w.api.says(A, succeeded(A));
    w.api.probe_says(None);
    w.advance(10 * MINUTE);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    assert_eq!(w.base.store.open_alerts().await.unwrap(), []);
}

#[tokio::test]
async fn one_forbidden_name_does_not_stop_the_others() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.register("batches/b", "nightly").await;
    w.api.says(
        A,
        Says::Fault(Fault::Forbidden {
            what: "not yours".into(),
        }),
    );
    w.api.says("batches/b", succeeded("batches/b"));
    w.tell("m1", A).await;
    w.work().await;
    assert_eq!(w.worker.fetching(), Fetching::Works);
    w.tell("m2", "batches/b").await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
}

#[tokio::test]
async fn requires_action_is_a_flag_that_alerts_and_ends() {
    let w = World::new().await;
    let name = "interactions/v1_x";
    w.register(name, "agent").await;
    w.api.says(
        name,
        Says::Body(json!({"id": "v1_x", "status": "requires_action"})),
    );
    w.deliver(
        "m1",
        json!({"type": "interaction.requires_action", "data": {"id": "v1_x"}}),
    )
    .await;
    w.work().await;
    let open = w.operation(name).await.unwrap();
    assert!(open.requires_action);
    assert_eq!(open.state, OperationState::Pending);
    assert_eq!(w.base.store.open_alerts().await.unwrap().len(), 1);
    w.api.says(
        name,
        Says::Body(json!({"id": "v1_x", "status": "in_progress"})),
    );
    w.deliver(
        "m2",
        json!({"type": "interaction.completed", "data": {"id": "v1_x"}}),
    )
    .await;
    w.work().await;
    assert!(!w.operation(name).await.unwrap().requires_action);
    assert_eq!(w.base.store.open_alerts().await.unwrap(), []);
}

/// Rules that act on what the others leave alone.
fn worrier() -> Arc<Planner> {
    let rule = EffectRule {
        name: "worry".to_owned(),
        job_kind: "*".to_owned(),
        on: vec![Trigger::Overdue, Trigger::State(OperationState::Gone)],
        ambiguous: AmbiguousPolicy::Retry,
    };
    Arc::new(Planner::new(vec![rule], Vec::new()))
}

async fn due(w: &World) -> Vec<String> {
    let due = w.base.store.effects_due().await.unwrap();
    due.into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn what_became_overdue_while_its_effects_were_withheld_is_told_once_it_is_seen_going_on() {
    let w = World::new().await;
    let names = vec![A.parse().unwrap()];
    w.registrar.import(names, None, false).await.unwrap();
    w.advance(31 * 24 * HOUR);
    let flagged = w.base.store.flag_overdue(HOUR, worrier()).await.unwrap();
    assert_eq!((flagged, due(&w).await.len()), (1, 0), "withheld");
    w.api.says(A, running(A));
    w.reconcile().await;
    let (store, clock, ids) = (&w.base.store, &w.base.clock, &w.base.ids);
    let worker = Worker::new(
        store.clone(),
        w.api.clone(),
        worrier(),
        clock.clone(),
        ids.clone(),
        &w.settings,
    );
    Arc::new(worker).step().await.unwrap();
    assert_eq!(due(&w).await, ["worry"]);
}

#[tokio::test]
async fn a_person_can_release_the_effects_of_one_that_is_gone() {
    let w = World::new().await;
    let names = vec![A.parse().unwrap()];
    w.registrar.import(names, None, false).await.unwrap();
    while w.operation(A).await.unwrap().state == OperationState::Pending {
        w.advance(31 * MINUTE);
        w.reconcile().await;
        w.work().await;
    }
    while !w.send().await.is_empty() {}
    let gone = w.operation(A).await.unwrap();
    assert!(gone.effects_withheld);
    assert_eq!(due(&w).await, [""; 0], "the alerts are told");
    let end = w.now().after(HOUR);
    let store = &w.base.store;
    assert!(
        store
            .retry_operation(gone.id, end, worrier())
            .await
            .unwrap()
    );
    assert_eq!(due(&w).await, ["worry"]);
}
