//! The record is watched: disabled, drifted, missing; and the path behind it is tried.

use std::time::Duration;

use hookledger::domain::operation::OperationState;
use hookledger::reconcile::subscription::{CANARY_ALERT, DRIFT_ALERT, STATE_ALERT};
use hookledger::simulator::WebhookState;

use super::scene::Scene;

const POLL: Duration = Duration::from_mins(5);

#[tokio::test]
async fn a_disabled_record_alerts_is_enabled_again_and_what_was_lost_settles() {
    let scene = Scene::new("", "").await;
    assert_eq!(scene.step().await.found, Some("matching"));
    assert_eq!(
        scene.step().await.found,
        None,
        "not before the interval is over"
    );
    let lost = scene.job().await;
    scene
        .fake
        .set_webhook_state(
            scene.id.as_str(),
            WebhookState::DisabledDueToFailedDeliveries,
        )
        .unwrap();
    assert_eq!(scene.end(&lost).await, 0, "nothing is delivered");
    scene.pass(POLL);
    let turn = scene.step().await;
    assert_eq!((turn.found, turn.reenabled), (Some("disabled"), true));
    assert_eq!(scene.fake.webhooks()[0].state, WebhookState::Enabled);
    assert_eq!(scene.open_alerts().await, [] as [&str; 0]);
    scene.world.send().await;
    let told = scene.world.pager.sent();
    assert_eq!(told.len(), 2, "opened and recovered, once each: {told:?}");
    let tick = scene.world.reconcile().await;
    assert_eq!(tick.looks_queued, 1, "pulled to now");
    scene.world.work().await;
    let operation = scene.world.operation(&lost).await.unwrap();
    assert_eq!(operation.state, OperationState::Succeeded);
    scene.pass(POLL);
    assert_eq!(scene.step().await.found, Some("matching"));
    scene.world.send().await;
    assert_eq!(scene.world.pager.sent().len(), 2);
}

#[tokio::test]
async fn a_record_that_is_disabled_again_at_once_is_enabled_ever_more_rarely() {
    let scene = Scene::new("poll_interval = '1m'", "").await;
    let id = scene.id.as_str().to_owned();
    let mut enabled = Vec::new();
    // Whatever enables it, the provider disables it again before the next look.
    for minute in 0..100 {
        let state = WebhookState::DisabledDueToFailedDeliveries;
        scene.fake.set_webhook_state(&id, state).unwrap();
        if scene.step().await.reenabled {
            enabled.push(minute);
            assert_eq!(scene.fake.webhooks()[0].state, WebhookState::Enabled);
        }
        scene.pass(Duration::from_mins(1));
    }
    assert_eq!(enabled, [0, 10, 30, 70]);
    let alerts = scene.world.base.store.open_alerts().await.unwrap();
    let alert = alerts.iter().find(|a| a.subject == STATE_ALERT).unwrap();
    let text = "4 time(s) in a row, so it is enabled no sooner than 1h 20m after the last time";
    assert!(alert.summary.contains(text), "{}", alert.summary);
    // A person has mended it: it is not held back, and the alert ends.
    scene
        .fake
        .set_webhook_state(&id, WebhookState::Enabled)
        .unwrap();
    scene.pass(Duration::from_mins(1));
    assert_eq!(scene.step().await.found, Some("matching"));
    assert_eq!(scene.open_alerts().await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_gap_is_closed_in_batches_and_again_from_its_beginning_after_a_crash() {
    let mut scene = Scene::new("", "[reconcile]\nbatch_size = 2").await;
    for _ in 0..5 {
        scene.job().await;
    }
    let id = scene.id.as_str().to_owned();
    scene
        .fake
        .set_webhook_state(&id, WebhookState::Disabled)
        .unwrap();
    let turn = scene.step().await;
    assert_eq!((turn.reenabled, turn.pulled), (true, 2));
    assert_eq!(scene.open_alerts().await, [STATE_ALERT]);
    scene.restart();
    let mut pulled = Vec::new();
    while !scene.open_alerts().await.is_empty() {
        pulled.push(scene.step().await.pulled);
    }
    // Those of the first batch are due already and not pulled again.
    assert_eq!(pulled, [0, 2, 1]);
    assert_eq!(
        scene.world.reconcile().await.looks_queued,
        2,
        "a turn's budget"
    );
}

#[tokio::test]
async fn a_record_that_may_not_be_enabled_again_alerts_until_a_person_does() {
    let scene = Scene::new("reenable = false", "").await;
    let id = scene.id.as_str().to_owned();
    scene
        .fake
        .set_webhook_state(&id, WebhookState::Disabled)
        .unwrap();
    for _ in 0..3 {
        assert!(!scene.step().await.reenabled);
        scene.pass(POLL);
    }
    assert_eq!(scene.open_alerts().await, [STATE_ALERT]);
    scene
        .fake
        .set_webhook_state(&id, WebhookState::Enabled)
        .unwrap();
    let lost = scene.job().await;
    assert_eq!(scene.step().await.pulled, 1, "{lost}");
    assert_eq!(scene.open_alerts().await, [] as [&str; 0]);
}

#[tokio::test]
async fn drift_and_a_missing_record_alert_and_recover() {
    let scene = Scene::new("", "").await;
    let patch = hookledger::gemini::webhooks::WebhookPatch {
        subscribed_events: Some(vec!["batch.failed".to_owned()]),
        ..Default::default()
    };
    scene.api.update(&scene.id, &patch).await.unwrap();
    assert_eq!(scene.step().await.found, Some("drift"));
    assert_eq!(scene.open_alerts().await, [DRIFT_ALERT]);
    let summary = &scene.world.base.store.open_alerts().await.unwrap()[0].summary;
    assert!(
        summary.contains("video.generated") && !summary.contains("hooks/"),
        "{summary}"
    );
    let patch = hookledger::gemini::webhooks::WebhookPatch {
        subscribed_events: Some(scene.world.settings.subscription.events.clone()),
        ..Default::default()
    };
    scene.api.update(&scene.id, &patch).await.unwrap();
    scene.pass(POLL);
    assert_eq!(scene.step().await.found, Some("matching"));
    assert_eq!(scene.open_alerts().await, [] as [&str; 0]);
    scene.api.delete(&scene.id).await.unwrap();
    scene.pass(POLL);
    assert_eq!(scene.step().await.found, Some("missing"));
    assert_eq!(scene.open_alerts().await, [STATE_ALERT]);
}

#[tokio::test]
async fn the_canary_alerts_when_the_path_is_cut_and_recovers() {
    let scene = Scene::new("ping_interval = '10m'", "").await;
    assert_eq!(scene.step().await.canary, Some("sent"));
    assert_eq!(scene.step().await.canary, None, "still on its way");
    assert_eq!(scene.fake.step().await, 1);
    assert_eq!(scene.answers(), [Some(200)]);
    assert_eq!(scene.step().await.canary, Some("arrived"));

    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}/x", closed.local_addr().unwrap());
    drop(closed);
    scene.point_to(&nowhere).await;
    scene.pass(Duration::from_mins(10));
    assert_eq!(scene.step().await.canary, Some("sent"));
    scene.fake.step().await;
    scene.pass(Duration::from_secs(59));
    assert_eq!(scene.step().await.canary, None);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.step().await.canary, Some("missed"));
    assert_eq!(scene.open_alerts().await, [DRIFT_ALERT, CANARY_ALERT]);

    scene.point_to(&scene.hook).await;
    scene.pass(Duration::from_mins(10));
    assert_eq!(scene.step().await.canary, Some("sent"));
    scene.fake.step().await;
    assert_eq!(scene.step().await.canary, Some("arrived"));
    assert_eq!(scene.open_alerts().await, [] as [&str; 0]);
}
