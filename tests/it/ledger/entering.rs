//! Who comes into the ledger, in every order of webhook and registration.

use std::time::Duration;

use hookledger::domain::effect::AmbiguousPolicy;
use hookledger::domain::fault::Fault;
use hookledger::domain::operation::OperationState;
use hookledger::domain::work::{Outcome, Reason};
use hookledger::store::Registered;
use hookledger::work::ItemEnd;
use serde_json::json;

use crate::support::world::{Says, World, succeeded};

use super::{A, HOUR, MINUTE};

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
