//! `webhooks` against the simulator.

use serde_json::json;

use super::*;
use crate::simulator_support::Sim;

async fn place() -> (Place, Sim) {
    let sim = Sim::plain().await;
    let mut place = tokio::task::spawn_blocking(|| Place::new().with_ledger())
        .await
        .unwrap();
    place.set("GEMINI_BASE_URL", &sim.base);
    place.set("HOOKLEDGER__SERVER__PUBLIC_URL", "https://hooks.example");
    (place, sim)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_shows_what_differs_then_makes_it_so() {
    let (mut place, sim) = place().await;
    let lost = place.refused(2, &["webhooks", "sync"]);
    assert!(lost.contains("shown once"), "{lost}");
    assert!(sim.fake.webhooks().is_empty());
    place.set("HOOKLEDGER__SUBSCRIPTION__SECRETS_FILE", "secrets.json");

    let dry = place.json(&["webhooks", "sync", "--dry-run"]);
    assert_eq!(
        (&dry["action"], &dry["applied"]),
        (&json!("create"), &json!(false))
    );
    assert!(sim.fake.webhooks().is_empty());
    let made = place.run(&["webhooks", "sync"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(
        made.stdout
            .contains("+ uri: https://hooks.example/hooks/gemini/…"),
        "{}",
        made.stdout
    );
    assert!(made.stdout.contains("secrets.json"), "{}", made.stdout);
    let hook = sim.fake.webhooks().remove(0);
    let token = place.get("HOOK_PATH_TOKEN");
    assert_eq!(
        hook.uri,
        format!("https://hooks.example/hooks/gemini/{token}")
    );
    let secret = sim.fake.webhook_secrets(&hook.id).remove(0);
    assert!(!made.stdout.contains(secret.expose()));
    let kept = std::fs::read_to_string(place.path().join("secrets.json")).unwrap();
    assert!(kept.contains(secret.expose()));
    assert_eq!(place.json(&["webhooks", "sync"])["action"], "none");

    place.json(&[
        "webhooks",
        "update",
        "--event",
        "batch.failed",
        "--state",
        "disabled",
    ]);
    let diff = place.run(&["webhooks", "sync", "--dry-run"]).stdout;
    assert!(diff.contains("+ events: video.generated\n"), "{diff}");
    assert!(
        diff.contains("- state: disabled\n+ state: enabled\n"),
        "{diff}"
    );
    assert!(!diff.contains("batch.failed"), "{diff}");
    let done = place.json(&["webhooks", "sync"]);
    assert_eq!(
        (&done["action"], &done["applied"]),
        (&json!("update"), &json!(true))
    );
    assert_eq!(done["webhook"]["state"], "enabled");
    assert_eq!(sim.fake.webhooks()[0].subscribed_events.len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_made_listed_shown_pinged_rotated_and_deleted() {
    let (mut place, sim) = place().await;
    let made = place.json(&["webhooks", "create", "--show-secret", "--name", "mine"]);
    let id = made["id"].as_str().unwrap();
    let secret = sim.fake.webhook_secrets(id).remove(0);
    assert_eq!(made["secret"], secret.expose());
    let listed = place.run(&["webhooks", "list"]).stdout;
    assert!(listed.contains(id) && listed.contains("mine"), "{listed}");
    assert_eq!(place.json(&["webhooks", "show"])["id"], id);
    place.json(&["webhooks", "ping"]);
    assert_eq!(sim.fake.deliveries().len(), 1);
    let nowhere = place.refused(2, &["webhooks", "rotate"]);
    assert!(nowhere.contains("subscription.secrets_file"), "{nowhere}");
    place.set("HOOKLEDGER__SUBSCRIPTION__SECRETS_FILE", "secrets.json");
    assert_eq!(place.json(&["webhooks", "rotate"])["stage"], "proving");
    let second = sim.fake.webhook_secrets(id).remove(1);
    let kept = std::fs::read_to_string(place.path().join("secrets.json")).unwrap();
    assert!(kept.contains(second.expose()));
    place.refused(4, &["webhooks", "rotate"]);
    assert_eq!(place.json(&["webhooks", "delete", id])["deleted"], true);
    place.refused(3, &["webhooks", "show", id]);
    place.refused(2, &["webhooks", "show", "a/b"]);
}
