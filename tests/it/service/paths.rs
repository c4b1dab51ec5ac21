//! The ways in which an operation comes to its end, each with its effect.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::time::Duration;

use hookledger::simulator::{Mode, Outcome};
use serde_json::{Value, json};

use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, job, silent, succeeded};

/// The effect of an operation arrived once, and says what the ledger says.
fn check_effect(stand: &Stand, name: &str, operation: &Value) {
    let got = stand.sink.about(name);
    assert_eq!(got.len(), 1, "{name}: once");
    assert_eq!(
        got[0].key, operation["effects"][0]["idempotency_key"],
        "{name}"
    );
    let body = got[0].json();
    assert_eq!(body["type"], "operation.settled");
    for field in ["id", "name", "kind", "job_kind", "state", "settled_by"] {
        assert_eq!(body["data"][field], operation[field], "{name}: {field}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_by_webhook_or_found_by_reconciliation_each_settles_with_its_effect() {
    // Reconciliation must not be faster than the webhook that is to be shown.
    let stand = Stand::with(&[("reconcile.grace", "'5s'")]).await;
    let told = stand.gemini.start(job(true, Mode::Once)).unwrap();
    let lost = stand.gemini.start(job(true, Mode::Drop)).unwrap();
    let bad = stand.gemini.start(job(true, Mode::Drop)).unwrap();
    for name in [&told, &lost, &bad] {
        assert_eq!(stand.register(name, "nightly").await, 201);
        assert_eq!(stand.register(name, "nightly").await, 200);
        assert_eq!(stand.register(name, "weekly").await, 409);
    }
    stand.gemini.finish(&told, Outcome::default()).unwrap();
    stand.gemini.finish(&lost, Outcome::default()).unwrap();
    stand.gemini.finish(&bad, Outcome::Failed).unwrap();
    for (name, by, state) in [
        (&told, "webhook", "succeeded"),
        (&lost, "reconcile", "succeeded"),
        (&bad, "reconcile", "failed"),
    ] {
        let operation = stand.settled(name).await;
        assert_eq!(operation["settled_by"], by, "{name}");
        assert_eq!(operation["state"], state, "{name}");
        assert_eq!(operation["job_kind"], "nightly");
        check_effect(&stand, name, &operation);
    }
    let all = Told {
        settled: [told, lost, bad].into(),
        ..Told::default()
    };
    outside::check_drained(&stand.db(), &all, &stand.sink).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_settles_in_whatever_form_its_event_names_it() {
    let stand = Stand::with(&[("reconcile.grace", "'10m'")]).await;
    let start = |body: Value| {
        let job = serde_json::from_value(body).unwrap();
        stand.gemini.start(job).unwrap()
    };
    let mut names = Vec::new();
    for (kind, form) in [
        ("batch", "full"),
        ("batch", "bare"),
        ("batch", "prefixed"),
        ("video", "full"),
        ("interaction", "full"),
    ] {
        let name = start(json!({
            "kind": kind, "manual": true, "webhook": {"deliver": "once", "id_form": form}
        }));
        assert_eq!(stand.register(&name, "nightly").await, 201, "{name}");
        names.push((name, kind, form));
    }
    for (name, _, _) in &names {
        stand.gemini.finish(name, Outcome::Succeeded).unwrap();
    }
    for (name, kind, form) in &names {
        let operation = stand.settled(name).await;
        assert_eq!(operation["kind"], *kind);
        assert_eq!(operation["settled_by"], "webhook", "{kind} named {form}");
        check_effect(&stand, name, &operation);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_comes_after_reconciliation_changes_nothing() {
    let stand = Stand::up().await;
    let late = serde_json::from_value(json!({
        "kind": "batch", "complete_after_ms": 0, "webhook": {"deliver": "delay", "delay_ms": 2_500}
    }));
    let name = stand.gemini.start(late.unwrap()).unwrap();
    assert_eq!(stand.register(&name, "nightly").await, 201);
    let before = stand.settled(&name).await;
    assert_eq!(before["settled_by"], "reconcile");
    let closed = "SELECT count(*) FROM work_queue WHERE reason = 'webhook' AND state = 'done'";
    eventually("the webhook is worked on", SOON, async || {
        (outside::count(&stand.db(), closed).await == 1).then_some(())
    })
    .await;
    let after = stand.operation(&name).await.unwrap();
    for field in ["state", "settled_by", "settled_at", "effects"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    check_effect(&stand, &name, &after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_ending_changes_nothing() {
    let stand = Stand::up().await;
    let name = stand.gemini.start(silent(true)).unwrap();
    assert_eq!(stand.register(&name, "nightly").await, 201);
    let before = stand.operation(&name).await.unwrap();
    let (status, word) = stand.deliver("forged", succeeded(&name)).await;
    assert_eq!((status, &*word), (200, "accepted"));
    let closed =
        "SELECT count(*) FROM work_queue WHERE outcome = 'not_terminal' AND reason = 'webhook'";
    eventually("the forged ending is refuted", SOON, async || {
        (outside::count(&stand.db(), closed).await == 1).then_some(())
    })
    .await;
    let after = stand.operation(&name).await.unwrap();
    for field in [
        "id",
        "state",
        "settled_by",
        "settled_at",
        "job_kind",
        "effects",
    ] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["state"], "pending");
    // A name that does not exist gets no record at all.
    let nobody = "batches/zzzzzzzzzzzzzzzzzzzz";
    assert_eq!(stand.deliver("nobody", succeeded(nobody)).await.0, 200);
    let asked = || {
        stand
            .gemini
            .requests()
            .iter()
            .any(|r| r.path.ends_with(nobody))
    };
    eventually("the API is asked", SOON, async || asked().then_some(())).await;
    assert_eq!(stand.operation(nobody).await, None);
    assert!(stand.sink.by_operation().is_empty());
    // And the truth still settles.
    stand.gemini.finish(&name, Outcome::default()).unwrap();
    let operation = stand.settled(&name).await;
    check_effect(&stand, &name, &operation);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registering_what_was_adopted_still_runs_its_effect() {
    let stand = Stand::with(&[("each_effect.job_kind", "'nightly'")]).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    assert_eq!(stand.deliver("early", succeeded(&name)).await.0, 200);
    let adopted = eventually("it is adopted and settled", SOON, async || {
        stand
            .operation(&name)
            .await
            .filter(|o| !o["settled_by"].is_null())
    })
    .await;
    assert_eq!(adopted["job_kind"], "unregistered");
    assert!(
        stand.sink.about(&name).is_empty(),
        "no effect matches it yet"
    );
    // The record was there already.
    assert_eq!(stand.register(&name, "nightly").await, 200);
    let operation = eventually("its effect is done", SOON, async || {
        let operation = stand.operation(&name).await?;
        (operation["effects"][0]["state"] == "done").then_some(operation)
    })
    .await;
    assert_eq!(
        operation["settled_at"], adopted["settled_at"],
        "settled once"
    );
    check_effect(&stand, &name, &operation);
    assert_eq!(stand.register(&name, "nightly").await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_fails_is_sent_again_with_its_key_and_body() {
    let stand = Stand::up().await;
    stand.sink.answer_next([500, 404, 502]);
    let name = stand.gemini.start(job(false, Mode::Twice)).unwrap();
    stand.settled(&name).await;
    let got = stand.sink.about(&name);
    assert_eq!(got.len(), 4, "three failures, one receipt");
    assert!(got.iter().all(|g| g == &got[0]));
    let told = Told {
        settled: [name].into(),
        ..Told::default()
    };
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_instance_on_the_same_file_is_refused() {
    let mut stand = Stand::up().await;
    let mut second = stand.spawn("second.log");
    let status = second.ended(Duration::from_secs(10)).await;
    assert!(!status.success());
    let said = second.logged();
    assert!(said.contains("in use by another hookledger"), "{said}");
    assert!(said.contains("webhook.db"), "{said}");
    // The first one does not notice.
    let name = stand.gemini.start(job(false, Mode::Once)).unwrap();
    stand.settled(&name).await;
    assert!(stand.service().is_running());
    outside::check_file(&stand.db()).await;
}
