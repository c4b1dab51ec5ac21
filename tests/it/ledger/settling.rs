//! Settling: by webhook, by reconciliation, and what is not believed.

use std::time::Duration;

use hookledger::domain::effect::EffectState;
use hookledger::domain::event::Verdict;
use hookledger::domain::ledger::Told;
use hookledger::domain::operation::OperationState;
use hookledger::domain::work::{Outcome, Reason};
use hookledger::store::Registered;
use hookledger::work::ItemEnd;
use serde_json::json;

use crate::support::world::{Says, World, running, succeeded};

use super::{A, MINUTE};

#[tokio::test]
async fn a_registered_operation_settles_by_its_webhook_and_its_effect_runs_once() {
    let w = World::new().await;
    assert!(matches!(w.register(A, "nightly").await, Registered::New(_)));
    w.api.says(A, succeeded(A));
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Accepted);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);

    let settled = w.operation(A).await.unwrap();
    assert_eq!(settled.state, OperationState::Succeeded);
    assert_eq!(settled.settled_by, Some(Reason::Webhook));
    assert!(!settled.side_effect_done);

    assert_eq!(w.send().await, [EffectState::Done]);
    assert_eq!(w.send().await, []);
    let sent = w.notify.sent();
    assert_eq!(sent.len(), 1);
    let body: serde_json::Value = serde_json::from_slice(&sent[0].payload).unwrap();
    assert_eq!(body["data"]["name"], A);
    assert_eq!(body["data"]["job_kind"], "nightly");
    assert_eq!(body["data"]["settled_by"], "webhook");
    assert!(w.operation(A).await.unwrap().side_effect_done);
}

#[tokio::test]
async fn an_operation_whose_webhook_is_lost_settles_by_reconciliation_and_counts_as_rescued() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    assert_eq!(
        w.reconcile().await.looks_queued,
        0,
        "within the grace nobody looks"
    );
    w.advance(Duration::from_secs(91));
    assert_eq!(w.reconcile().await.looks_queued, 1);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    let settled = w.operation(A).await.unwrap();
    assert_eq!(settled.settled_by, Some(Reason::Reconcile));
    assert_eq!(settled.told, Told::Undecided);

    w.advance(16 * MINUTE);
    assert_eq!(w.reconcile().await.rescued, 1);
    assert_eq!(w.operation(A).await.unwrap().told, Told::Rescued);

    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::AlreadySettled)]);
    assert_eq!(w.operation(A).await.unwrap().told, Told::Late);
    w.send().await;
    assert_eq!(w.notify.sent().len(), 1, "one effect, whoever told it");
}

#[tokio::test]
async fn a_forged_ending_changes_nothing() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, running(A));
    w.tell("forged", A).await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::NotTerminal)]);
    let open = w.operation(A).await.unwrap();
    assert_eq!(
        (open.state, open.settled_at),
        (OperationState::Pending, None)
    );
    assert_eq!(w.send().await, []);
    let next = open.next_check_at.unwrap().since(w.now());
    assert!(
        next <= Duration::from_secs(6),
        "the API may lag behind: look again soon, {next:?}"
    );
}

#[tokio::test]
async fn looks_after_an_event_come_close_together_then_follow_age() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, running(A));
    w.tell("m1", A).await;
    w.work().await;
    let mut waits = Vec::new();
    for _ in 0..4 {
        let next = w.operation(A).await.unwrap().next_check_at.unwrap();
        waits.push(next.since(w.now()).as_secs());
        w.advance(next.since(w.now()) + Duration::from_millis(1));
        assert_eq!(w.reconcile().await.looks_queued, 1);
        assert_eq!(w.work().await, [ItemEnd::Done(Outcome::NotTerminal)]);
    }
    for (wait, about) in waits.iter().zip([5, 15, 60, 60]) {
        assert!((about * 3 / 4..=about * 6 / 5).contains(wait), "{waits:?}");
    }
}

#[tokio::test]
async fn reconciliation_cannot_take_the_slots_of_fresh_events() {
    let w = World::with("[worker]\nconcurrency = 8\nfresh_slots = 4").await;
    for i in 0..50 {
        w.register(&format!("batches/old{i}"), "nightly").await;
        w.api.says(
            &format!("batches/old{i}"),
            running(&format!("batches/old{i}")),
        );
    }
    w.register(A, "nightly").await;
    w.advance(2 * MINUTE);
    assert_eq!(w.reconcile().await.looks_queued, 51);
    assert_eq!(
        w.work().await.len(),
        4,
        "eight slots, four of them for fresh items only"
    );
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    let ends = w.work().await;
    assert_eq!(
        ends[0],
        ItemEnd::Done(Outcome::Settled),
        "the fresh one goes first: {ends:?}"
    );
}

#[tokio::test]
async fn a_replay_looks_again_and_repeats_no_effect() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    let first = w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    let again = w.replay(first.event_id).await;
    assert_eq!(
        again.verdict,
        Verdict::Accepted,
        "dedupe must not swallow a replay"
    );
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::AlreadySettled)]);
    assert_eq!(w.send().await, []);
}

#[tokio::test]
async fn endings_without_an_event_are_not_counted_as_lost() {
    let w = World::new().await;
    let name = "models/veo/operations/op1";
    w.register(name, "clips").await;
    w.api.says(
        name,
        Says::Body(json!({"name": name, "done": true, "error": {"code": 13, "message": "x"}})),
    );
    w.advance(2 * MINUTE);
    w.reconcile().await;
    w.work().await;
    w.advance(16 * MINUTE);
    let turn = w.reconcile().await;
    assert_eq!((turn.decided, turn.rescued), (1, 0));
    assert_eq!(w.operation(name).await.unwrap().told, Told::NoEvent);
}
