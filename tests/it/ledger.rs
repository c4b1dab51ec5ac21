//! The life of operations: by webhook, by reconciliation, in every order.

use std::time::Duration;

use hookledger::domain::effect::{AmbiguousPolicy, Delivery, EffectState};
use hookledger::domain::event::Verdict;
use hookledger::domain::fault::Fault;
use hookledger::domain::ledger::Told;
use hookledger::domain::operation::OperationState;
use hookledger::domain::work::{Outcome, Reason};
use hookledger::store::{EventFilter, Registered};
use hookledger::work::{Fetching, ItemEnd};
use serde_json::json;

use crate::support::TestStore;
use crate::support::world::{Says, World, failed, running, succeeded};

const A: &str = "batches/a";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

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
async fn a_webhook_before_the_registration_still_settles_and_still_runs_the_effect() {
    let w = World::new().await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    let adopted = w.operation(A).await.unwrap();
    assert!(adopted.job_kind.is_unregistered() && !adopted.registered);
    let registered = w.register(A, "nightly").await;
    let Registered::Same(record) = registered else {
        panic!("{registered:?}")
    };
    assert_eq!(
        (record.id, record.job_kind.as_str()),
        (adopted.id, "nightly")
    );
    w.send().await;
    assert_eq!(
        w.notify.sent().len(),
        1,
        "the effect of `*` ran once, planned at settle"
    );
}

#[tokio::test]
async fn registering_an_adopted_and_settled_operation_runs_the_effect_it_now_matches() {
    let w = World::with("[[effects]]\nname='x'\nkind='command'\nargv=['true']\n").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    // A rule for one job kind only: adoption does not match it, registration does.
    let planner = hookledger::effects::plan::Planner::new(
        vec![hookledger::domain::effect::EffectRule {
            name: "notify".into(),
            job_kind: "night*".into(),
            on: vec![hookledger::domain::effect::Trigger::State(
                OperationState::Succeeded,
            )],
            ambiguous: AmbiguousPolicy::Retry,
        }],
        Vec::new(),
    );
    let store = &w.base.store;
    let name: hookledger::domain::operation::OperationName = "batches/b".parse().unwrap();
    let planner: std::sync::Arc<dyn hookledger::domain::ledger::PlanEffects> =
        std::sync::Arc::new(planner);
    w.api.says("batches/b", succeeded("batches/b"));
    w.tell("m2", "batches/b").await;
    let worker = std::sync::Arc::new(hookledger::work::Worker::new(
        store.clone(),
        w.api.clone(),
        planner.clone(),
        w.base.clock.clone(),
        w.base.ids.clone(),
        &w.settings,
    ));
    assert_eq!(
        worker.step().await.unwrap(),
        [ItemEnd::Done(Outcome::Settled)]
    );
    let adopted = w.operation("batches/b").await.unwrap();
    assert_eq!(store.effects_of(adopted.id).await.unwrap(), []);
    let policy = hookledger::work::Policy::new(&w.settings);
    let registrar = hookledger::work::Registrar::new(
        store.clone(),
        planner,
        w.base.clock.clone(),
        w.base.ids.clone(),
        policy,
    );
    registrar
        .register(name, "nightly".parse().unwrap(), None)
        .await
        .unwrap();
    let effects = store.effects_of(adopted.id).await.unwrap();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].effect, "notify");
}

#[tokio::test]
async fn another_job_kind_for_the_same_name_is_a_conflict() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    assert!(matches!(
        w.register(A, "nightly").await,
        Registered::Same(_)
    ));
    assert!(
        matches!(w.register(A, "weekly").await, Registered::Conflict(k) if k.as_str() == "nightly")
    );
}

#[tokio::test]
async fn a_short_id_finds_its_operation_however_it_is_written() {
    for id in ["a1", "batch_a1", "batches/a1"] {
        let w = World::new().await;
        w.register("batches/a1", "nightly").await;
        w.api.says("batches/a1", succeeded("batches/a1"));
        w.tell("m1", id).await;
        assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)], "{id}");
        assert_eq!(w.api.asked(), ["batches/a1"], "{id}");
    }
}

#[tokio::test]
async fn a_short_video_id_waits_for_its_registration_and_is_woken_by_it() {
    let w = World::new().await;
    let name = "models/veo/operations/op1";
    w.deliver(
        "m1",
        json!({"type": "video.generated", "data": {"id": "op1"}}),
    )
    .await;
    assert_eq!(w.work().await, [ItemEnd::Again]);
    assert_eq!(
        w.api.asked(),
        Vec::<String>::new(),
        "nobody knows its model"
    );
    w.api.says(name, Says::Body(json!({"name": name, "done": true, "response": {"generateVideoResponse":
        {"generatedSamples": [{"video": {"uri": "https://generativelanguage.googleapis.com/v1beta/files/f1:download?alt=media"}}]}}})));
    w.register(name, "clips").await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    assert_eq!(
        w.operation(name).await.unwrap().settled_by,
        Some(Reason::Webhook)
    );
}

#[tokio::test]
async fn two_operations_of_one_segment_are_both_woken() {
    let w = World::new().await;
    let (one, two) = ("models/a/operations/same", "models/b/operations/same");
    w.register(one, "clips").await;
    w.register(two, "clips").await;
    for name in [one, two] {
        w.api.says(
            name,
            Says::Body(json!({"name": name, "done": true, "error": {"code": 13, "message": "x"}})),
        );
    }
    w.deliver(
        "m1",
        json!({"type": "video.generated", "data": {"id": "same"}}),
    )
    .await;
    w.work().await;
    for name in [one, two] {
        assert_eq!(
            w.operation(name).await.unwrap().state,
            OperationState::Failed,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_name_that_only_answers_404_gets_no_record_and_is_given_up_after_a_week() {
    let w = World::new().await;
    w.tell("m1", "batches/nobody").await;
    for _ in 0..400 {
        let ends = w.work().await;
        assert!(w.operation("batches/nobody").await.is_none());
        if ends == [ItemEnd::Done(Outcome::Unresolved)] {
            return;
        }
        w.advance(31 * MINUTE);
    }
    panic!("never given up");
}

#[tokio::test]
async fn a_strangers_operation_is_given_up_after_a_week_too() {
    let w = World::new().await;
    w.api.says(
        A,
        Says::Fault(Fault::Forbidden {
            what: "not yours".into(),
        }),
    );
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Again]);
    w.advance(7 * 24 * HOUR);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Unresolved)]);
    assert!(w.operation(A).await.is_none());
}

#[tokio::test]
async fn an_operation_that_becomes_visible_late_is_adopted_then() {
    let w = World::new().await;
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Again]);
    w.api.says(A, succeeded(A));
    w.advance(Duration::from_secs(7));
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
}

#[tokio::test]
async fn ignoring_the_unregistered_keeps_the_event_and_a_later_registration_looks_at_once() {
    let w = World::with("[ledger]\nunregistered = 'ignore'\n").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::NotOurs)]);
    assert!(w.operation(A).await.is_none());
    w.register(A, "nightly").await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    assert_eq!(
        w.operation(A).await.unwrap().settled_by,
        Some(Reason::Register)
    );
}

#[tokio::test]
async fn copies_of_one_delivery_fold_into_one_even_in_one_commit() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    let copies = futures_util::future::join_all((0..10).map(|_| w.tell("same", A))).await;
    let accepted = copies
        .iter()
        .filter(|r| r.verdict == Verdict::Accepted)
        .count();
    let duplicate = copies
        .iter()
        .filter(|r| r.verdict == Verdict::Duplicate)
        .count();
    assert_eq!((accepted, duplicate), (1, 9));
    w.work().await;
    w.send().await;
    assert_eq!(w.notify.sent().len(), 1);
    let events = w
        .base
        .store
        .events(&EventFilter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(events.items.len(), 1);
    assert_eq!(events.items[0].duplicates, 9);
}

#[tokio::test]
async fn a_duplicate_never_swallows_a_wake_up() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, running(A));
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::NotTerminal)]);
    w.api.says(A, succeeded(A));
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Duplicate);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Duplicate);
    assert_eq!(w.work().await, [], "settled: there is nothing to wake");
}

#[tokio::test]
async fn an_id_is_new_again_after_its_dedupe_row_expired() {
    let w = World::new().await;
    w.tell("m1", A).await;
    w.advance(167 * HOUR);
    w.advance(59 * MINUTE);
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Duplicate);
    w.advance(MINUTE);
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Accepted);
}

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
async fn what_is_gone_for_good_is_pruned_and_its_alerts_end() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    while w.operation(A).await.unwrap().state == OperationState::Pending {
        w.advance(31 * MINUTE);
        w.reconcile().await;
        w.work().await;
    }
    let upkeep = hookledger::reconcile::upkeep::Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    w.advance(13 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 0);
    w.advance(2 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 1);
    assert!(w.operation(A).await.is_none());
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
    let items = w.base.store.work_items(None, None, 10).await.unwrap().items;
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
        let dead =
            w.base
                .store
                .work_items(Some(hookledger::domain::work::WorkState::Dead), None, 9);
        assert_eq!(dead.await.unwrap().items.len(), 1);
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
        assert_eq!(w.base.store.retry_dead(None).await.unwrap(), 1);
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
async fn reconciliation_cannot_take_the_slots_of_fresh_events() {
    let w = World::new().await;
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
    let again = w.receiver.replay(first.event_id).await.unwrap().unwrap();
    assert_eq!(
        again.verdict,
        Verdict::Accepted,
        "dedupe must not swallow a replay"
    );
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::AlreadySettled)]);
    assert_eq!(w.send().await, []);
}

#[tokio::test]
async fn a_failed_effect_is_repeated_with_the_same_key_and_body_until_it_is_done() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, failed(A));
    w.tell("m1", A).await;
    w.work().await;
    for end in [
        Delivery::Retry {
            after: Some(HOUR),
            why: "503".into(),
        },
        Delivery::Ambiguous {
            why: "timeout".into(),
        },
    ] {
        w.notify.answer_next(end);
    }
    assert_eq!(w.send().await, [EffectState::Planned]);
    w.advance(59 * MINUTE);
    assert_eq!(w.send().await, [], "Retry-After is honoured");
    w.advance(HOUR);
    assert_eq!(w.send().await, [EffectState::Ambiguous]);
    w.advance(2 * HOUR);
    assert_eq!(w.send().await, [EffectState::Done]);
    let sent = w.notify.sent();
    assert_eq!(sent.len(), 3);
    assert!(
        sent.iter()
            .all(|m| m.key == sent[0].key && m.payload == sent[0].payload)
    );
}

#[tokio::test]
async fn an_effect_is_given_up_by_age_and_never_by_count_and_can_be_retried() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    let mut attempts = 0;
    for _ in 0..200 {
        w.notify.answer_next(Delivery::Retry {
            after: None,
            why: "down".into(),
        });
        match w.send().await.as_slice() {
            [EffectState::Dead] => break,
            [EffectState::Planned] => attempts += 1,
            other => panic!("{other:?}"),
        }
        w.advance(HOUR + 15 * MINUTE);
    }
    assert!(attempts > 50, "given up after {attempts} attempts");
    let operation = w.operation(A).await.unwrap();
    assert!(!operation.side_effect_done);
    let effect = w
        .base
        .store
        .effects_of(operation.id)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(effect.state, EffectState::Dead);
    assert!(
        w.base.store.open_alerts().await.unwrap()[0]
            .summary
            .contains("notify")
    );
    for turn in 0..3 {
        assert_eq!(
            w.reconcile().await.repaired,
            0,
            "the sweep never touches dead, turn {turn}"
        );
    }
    assert!(w.registrar.retry(operation.id).await.unwrap());
    w.notify.answer_next(Delivery::Done);
    assert!(w.send().await.contains(&EffectState::Done));
    let sent = w.notify.sent();
    assert_eq!(sent.last().unwrap().key, sent[0].key);
}

#[tokio::test]
async fn a_crash_while_sending_is_ambiguous_and_the_policy_decides() {
    for (policy, then) in [
        (AmbiguousPolicy::Retry, EffectState::Ambiguous),
        (AmbiguousPolicy::Hold, EffectState::Held),
    ] {
        let w = World::on(TestStore::open().await, "", policy);
        w.register(A, "nightly").await;
        w.api.says(A, succeeded(A));
        w.tell("m1", A).await;
        w.work().await;
        let sending = w
            .base
            .store
            .begin_sends(vec![("notify".to_owned(), 10)], MINUTE)
            .await
            .unwrap();
        assert_eq!(sending.len(), 1);
        let (dir, now) = w.base.close().await;

        let w = World::on(TestStore::open_in(dir, now, 2).await, "", policy);
        assert_eq!(w.reconciler.recover().await.unwrap().sends_freed, 1);
        let id = w.operation(A).await.unwrap().id;
        assert_eq!(w.base.store.effects_of(id).await.unwrap()[0].state, then);
        w.send().await;
        let repeated = w.notify.sent().len();
        assert_eq!(repeated, usize::from(policy == AmbiguousPolicy::Retry));
        // The sender of before may still think that it holds the row.
        let late = w.base.store.end_send(
            &sending[0],
            hookledger::domain::ledger::EffectEnd::Done,
            w.planner.clone(),
        );
        assert!(matches!(
            late.await,
            Err(hookledger::store::StoreError::Fenced { .. })
        ));
    }
}

#[tokio::test]
async fn missing_outbox_rows_are_planned_again() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    crate::support::sql(w.dir(), "DELETE FROM effects").await;
    assert_eq!(w.reconcile().await.repaired, 1);
    assert_eq!(w.reconcile().await.repaired, 0);
    assert_eq!(w.send().await, [EffectState::Done]);
}

#[tokio::test]
async fn a_settled_operation_is_pruned_into_a_tombstone_that_late_events_cannot_wake() {
    let w = World::new().await;
    let upkeep = hookledger::reconcile::upkeep::Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    w.register(A, "nightly").await;
    w.register("batches/pending", "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    w.advance(13 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 0);
    w.advance(2 * 24 * HOUR);
    let pruned = upkeep.step().await.unwrap();
    assert_eq!(pruned.operations, 1);
    assert!(w.operation(A).await.is_none());
    assert!(
        w.operation("batches/pending").await.is_some(),
        "pending is never pruned"
    );
    w.tell("m2", A).await;
    let ends = w.work().await;
    assert!(ends.contains(&ItemEnd::Done(Outcome::Pruned)), "{ends:?}");
    assert!(w.operation(A).await.is_none());
}

#[tokio::test]
async fn an_effect_that_is_not_over_keeps_its_operation() {
    let w = World::new().await;
    let upkeep = hookledger::reconcile::upkeep::Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.advance(20 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 0);
    assert!(w.operation(A).await.is_some());
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

#[tokio::test]
async fn a_leased_item_of_a_dead_process_runs_again_at_once_and_stays_charged() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.tell("m1", A).await;
    let held = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap();
    assert_eq!((held.len(), held[0].attempts), (1, 1));
    let w = w.restart().await;
    let ready = w.base.store.work_items(None, None, 9).await.unwrap().items;
    assert_eq!(ready[0].attempts, 1, "a crash counts");
    // The worker of before cannot write any more.
    let late = w
        .base
        .store
        .close_lease(&held[0], hookledger::store::Close::Release)
        .await;
    assert!(matches!(
        late,
        Err(hookledger::store::StoreError::Fenced { .. })
    ));
    w.api.says(A, succeeded(A));
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
}

#[tokio::test]
async fn an_expired_lease_is_taken_back_and_its_old_holder_is_fenced_off() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.tell("m1", A).await;
    let held = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap().remove(0);
    w.base.clock.jump_to(w.now().after(24 * HOUR));
    assert_eq!(
        w.reconcile().await.leases_freed,
        0,
        "a jump of the wall clock expires nothing"
    );
    w.advance(2 * MINUTE);
    assert_eq!(w.reconcile().await.leases_freed, 1);
    let again = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap().remove(0);
    assert!(again.epoch > held.epoch);
    assert!(w.base.store.renew(&held, MINUTE).await.is_err());
    let done = hookledger::store::Close::Done(Outcome::Settled);
    assert!(
        w.base
            .store
            .finish_looks(&held, Vec::new(), done, w.planner.clone())
            .await
            .is_err()
    );
    w.base.store.renew(&again, MINUTE).await.unwrap();
}

#[tokio::test]
async fn an_event_during_a_fetch_is_not_lost_and_never_makes_two_ready_rows() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.tell("m1", A).await;
    let held = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap().remove(0);
    w.tell("m2", A).await;
    let failure = hookledger::store::WorkFailure {
        again_at: w.now(),
        why: "x".into(),
        charged: true,
    };
    w.base
        .store
        .close_lease(&held, hookledger::store::Close::Again(failure, 10))
        .await
        .unwrap();
    let items = w.base.store.work_items(None, None, 9).await.unwrap().items;
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0].attempts, 1, "poison cannot launder its count");
}

#[tokio::test]
async fn what_is_registered_on_the_file_gets_its_effects_by_the_service_s_rules() {
    let w = World::new().await;
    let store = &w.base.store;
    // Adopted and settled by a service without rules: nothing was expected of it.
    let undecided = || -> std::sync::Arc<dyn hookledger::domain::ledger::PlanEffects> {
        std::sync::Arc::new(hookledger::effects::plan::Undecided::default())
    };
    let nothing = std::sync::Arc::new(hookledger::effects::plan::Planner::default());
    let worker = std::sync::Arc::new(hookledger::work::Worker::new(
        store.clone(),
        w.api.clone(),
        nothing,
        w.base.clock.clone(),
        w.base.ids.clone(),
        &w.settings,
    ));
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    assert_eq!(
        worker.step().await.unwrap(),
        [ItemEnd::Done(Outcome::Settled)]
    );
    let adopted = w.operation(A).await.unwrap();
    assert_eq!(adopted.effects_expected, Some(0));

    let policy = hookledger::work::Policy::new(&w.settings);
    let (clock, ids) = (w.base.clock.clone(), w.base.ids.clone());
    let registrar =
        hookledger::work::Registrar::new(store.clone(), undecided(), clock, ids, policy);
    let (name, kind) = (A.parse().unwrap(), "nightly".parse().unwrap());
    registrar.register(name, kind, None).await.unwrap();
    assert_eq!(w.operation(A).await.unwrap().effects_expected, None);
    w.reconcile().await;
    let planned = store.effects_of(adopted.id).await.unwrap();
    assert_eq!(planned.len(), 1, "{planned:?}");
    assert_eq!(planned[0].effect, "notify");

    // The operator's retry on the file asks again, and doubles nothing.
    assert!(registrar.retry(adopted.id).await.unwrap());
    assert_eq!(w.operation(A).await.unwrap().effects_expected, None);
    w.reconcile().await;
    assert_eq!(store.effects_of(adopted.id).await.unwrap(), planned);
    assert_eq!(w.operation(A).await.unwrap().effects_expected, Some(1));
}

/// What is logged, as text.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(part)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failed_attempt_is_a_warning_that_says_why() {
    let lines = Lines::default();
    let writer = lines.clone();
    let logger = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(logger);
    // A second subscriber, or a line another thread met first would be taken to interest nobody.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let w = World::new().await;
    w.notify.answer_next(Delivery::Retry {
        after: Some(Duration::from_secs(1)),
        why: "the canary is asleep".to_owned(),
    });
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    w.advance(Duration::from_hours(1));
    assert_eq!(w.send().await, [EffectState::Done]);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let told: Vec<_> = text
        .lines()
        .filter(|line| line.contains("effect attempt ended"))
        .collect();
    assert_eq!(told.len(), 2, "{text}");
    assert!(told[0].contains("WARN"), "{text}");
    assert!(told[0].contains("the canary is asleep"), "{text}");
    assert!(
        told[1].contains("INFO") && !told[1].contains("why"),
        "{text}"
    );
}
