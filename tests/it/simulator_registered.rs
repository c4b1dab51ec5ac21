//! `WebhookService`: registered webhooks, their secrets, their events, their failures.

use hookledger::base::secret::Secret;
use hookledger::simulator::{
    DeliveryState, Fault, FaultKind, Kind, NewJob, Outcome, SimulatorConfig, WebhookState,
};
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::simulator_support::Sim;

async fn receiver(status: u16) -> MockServer {
    let server = MockServer::start().await;
    let answer = Mock::given(any()).respond_with(ResponseTemplate::new(status));
    answer.mount(&server).await;
    server
}

/// Registers one for these events and returns the answer.
async fn register(sim: &Sim, uri: &str, events: &[&str]) -> Value {
    let body = json!({"name": "wh", "uri": uri, "subscribed_events": events});
    sim.post("/v1/webhooks", &body.to_string()).await
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

/// Which of these secrets signed the request, in the order of its signatures.
fn signers(request: &Request, secrets: &[&str]) -> Vec<Option<usize>> {
    let header = |name: &str| request.headers.get(name).unwrap().to_str().unwrap();
    let stamp = header("webhook-timestamp").parse().unwrap();
    let expected: Vec<String> = secrets
        .iter()
        .map(|secret| {
            let key = standardwebhooks::Webhook::new(secret).unwrap();
            key.sign(header("webhook-id"), stamp, &request.body)
                .unwrap()
        })
        .collect();
    header("webhook-signature")
        .split(' ')
        .map(|given| expected.iter().position(|one| one == given))
        .collect()
}

/// Ends a batch now and sends what there is to send.
async fn end_a_batch(sim: &Sim) -> usize {
    let name = sim.fake.start(NewJob::new(Kind::Batch)).unwrap();
    sim.fake.finish(&name, Outcome::Succeeded).unwrap();
    sim.step().await
}

#[tokio::test]
async fn a_webhook_is_made_shown_changed_and_deleted() {
    let sim = Sim::plain().await;
    let made = register(&sim, "https://h.example/hooks/1", &["batch.succeeded"]).await;
    let id = text(&made, "id");
    assert!(id.len() == 36 && id.bytes().all(|b| b.is_ascii_alphanumeric()));
    let secret = text(&made, "new_signing_secret");
    assert!(secret.starts_with("whsec_") && secret.len() == 50);
    let path = format!("/v1beta/webhooks/{id}");
    let shown = sim.get(&path).await;
    assert_eq!(shown["new_signing_secret"], Value::Null, "shown once");
    let tail = &secret[secret.len() - 4..];
    let truncated = json!([{"truncated_secret": format!("whsec_...{tail}")}]);
    assert_eq!(shown["signing_secrets"], truncated);
    assert_eq!(shown["state"], "enabled");
    assert_eq!(shown["name"], "wh");

    sim.pass(1000);
    // Without a mask: what is there changes.
    let (status, changed) = sim
        .ask(
            "PATCH",
            &path,
            r#"{"uri":"https://h.example/2","state":"disabled"}"#,
        )
        .await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["uri"], "https://h.example/2");
    assert_eq!(changed["state"], "disabled");
    assert_eq!(changed["name"], "wh");
    assert!(text(&changed, "update_time") > text(&changed, "create_time"));
    // With one: only what it lists, and an absent name goes.
    let masked = format!("{path}?update_mask=name,subscribed_events");
    let body = r#"{"uri":"https://other/","subscribed_events":["video.generated"]}"#;
    let (_, changed) = sim.ask("PATCH", &masked, body).await;
    assert_eq!(changed["uri"], "https://h.example/2");
    assert_eq!(changed["subscribed_events"], json!(["video.generated"]));
    assert_eq!(changed["name"], Value::Null);
    assert_eq!(sim.get(&path).await, changed);

    assert_eq!(sim.ask("DELETE", &path, "").await, (200, json!({})));
    let (status, gone) = sim.ask("GET", &path, "").await;
    assert_eq!((status, &gone["error"]["code"]), (404, &json!("not_found")));
    assert_eq!(sim.ask("DELETE", &path, "").await.0, 404);
}

#[tokio::test]
async fn the_list_comes_in_pages() {
    let sim = Sim::plain().await;
    assert_eq!(sim.get("/v1/webhooks").await, json!({}));
    let mut ids = Vec::new();
    for i in 0..3 {
        let made = register(&sim, &format!("https://h/{i}"), &["batch.failed"]).await;
        ids.push(text(&made, "id").to_owned());
    }
    let first = sim.get("/v1/webhooks?page_size=2").await;
    let token = text(&first, "next_page_token");
    let second = sim
        .get(&format!("/v1/webhooks?page_size=2&page_token={token}"))
        .await;
    let listed: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["webhooks"].as_array().unwrap())
        .map(|hook| text(hook, "id"))
        .collect();
    assert_eq!(listed, ids);
    assert_eq!(second["next_page_token"], Value::Null);
}

#[tokio::test]
async fn what_google_would_not_take_is_refused_and_changes_nothing() {
    let sim = Sim::plain().await;
    for body in [
        r#"{"uri":"https://h/","subscribed_events":["batch.cancelled"]}"#,
        r#"{"uri":"https://h/","subscribed_events":[]}"#,
        r#"{"uri":"https://h/"}"#,
        r#"{"uri":"ftp://h/","subscribed_events":["batch.failed"]}"#,
        r#"{"subscribed_events":["batch.failed"]}"#,
        r#"{"uri":"https://h/","subscribedEvents":["batch.failed"]}"#,
        "[]",
    ] {
        let (status, answer) = sim.ask("POST", "/v1/webhooks", body).await;
        let code = &answer["error"]["code"];
        assert_eq!((status, code), (400, &json!("invalid_request")), "{body}");
        assert_eq!(
            answer["error"]["status"],
            Value::Null,
            "no classic envelope"
        );
    }
    assert_eq!(sim.get("/v1/webhooks").await, json!({}));

    let made = register(&sim, "https://h/1", &["batch.failed"]).await;
    let path = format!("/v1/webhooks/{}", text(&made, "id"));
    let before = sim.get(&path).await;
    for (query, body) in [
        (
            "",
            r#"{"uri":"https://h/2","state":"disabled_due_to_failed_deliveries"}"#,
        ),
        (
            "",
            r#"{"uri":"https://h/2","subscribed_events":["nonsense"]}"#,
        ),
        ("?update_mask=uri,secret", r#"{"uri":"https://h/2"}"#),
        ("?update_mask=state", r#"{"uri":"https://h/2"}"#),
    ] {
        let (status, _) = sim.ask("PATCH", &format!("{path}{query}"), body).await;
        assert_eq!(status, 400, "{query} {body}");
    }
    let (status, _) = sim
        .ask(
            "POST",
            &format!("{path}:rotateSigningSecret"),
            r#"{"revocation_behavior":"REVOKE_PREVIOUS_SECRETS_AFTER_H24"}"#,
        )
        .await;
    assert_eq!(status, 400);
    assert_eq!(sim.get(&path).await, before);
    let (status, _) = sim.ask("POST", "/v1/webhooks/none:ping", "{}").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_webhook_gets_the_events_it_subscribed_to_signed_with_its_own_secret() {
    let (wanting, other, own) = (
        receiver(200).await,
        receiver(200).await,
        receiver(200).await,
    );
    let sim = Sim::plain().await;
    let made = register(&sim, &wanting.uri(), &["batch.succeeded"]).await;
    register(&sim, &other.uri(), &["video.generated"]).await;
    assert_eq!(end_a_batch(&sim).await, 1);
    let told = wanting.received_requests().await.unwrap();
    let secret = text(&made, "new_signing_secret");
    assert_eq!(signers(&told[0], &[secret]), [Some(0)]);
    assert!(other.received_requests().await.unwrap().is_empty());
    let report = &sim.fake.deliveries()[0];
    assert_eq!(report.webhook.as_deref(), made["id"].as_str());

    // A job with its own destinations goes there instead.
    let elsewhere = NewJob {
        webhook_uris: vec![own.uri()],
        ..NewJob::new(Kind::Batch)
    };
    let name = sim.fake.start(elsewhere).unwrap();
    sim.fake.finish(&name, Outcome::Succeeded).unwrap();
    assert_eq!(sim.step().await, 1);
    assert_eq!(wanting.received_requests().await.unwrap().len(), 1);
    assert_eq!(own.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_rotation_overlaps_for_a_day_or_not_at_all() {
    let server = receiver(200).await;
    let sim = Sim::plain().await;
    let made = register(&sim, &server.uri(), &["batch.succeeded"]).await;
    let path = format!("/v1/webhooks/{}", text(&made, "id"));
    let rotate = format!("{path}:rotateSigningSecret");
    let mut secrets = vec![text(&made, "new_signing_secret").to_owned()];
    let body = r#"{"revocation_behavior":"revoke_previous_secrets_after_h24"}"#;
    let fresh = sim.post(&rotate, body).await;
    assert_eq!(fresh.as_object().unwrap().len(), 1);
    secrets.push(text(&fresh, "secret").to_owned());
    let shown = sim.get(&path).await;
    let listed = shown["signing_secrets"].as_array().unwrap();
    assert_eq!(listed[0]["expire_time"], "2026-01-23T12:00:00.000Z");
    assert_eq!(listed[1]["expire_time"], Value::Null);

    end_a_batch(&sim).await;
    sim.pass(24 * 3600 * 1000 - 1);
    end_a_batch(&sim).await;
    sim.pass(1);
    end_a_batch(&sim).await;
    let body = r#"{"revocation_behavior":"revoke_previous_secrets_immediately"}"#;
    let fresh = sim.post(&rotate, body).await;
    secrets.push(text(&fresh, "secret").to_owned());
    end_a_batch(&sim).await;

    let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
    let told = server.received_requests().await.unwrap();
    let who: Vec<_> = told.iter().map(|told| signers(told, &secrets)).collect();
    let both = vec![Some(0), Some(1)];
    assert_eq!(who, [both.clone(), both, vec![Some(1)], vec![Some(2)]]);
    let id = text(&made, "id");
    let held = sim.fake.webhook_secrets(id);
    assert_eq!(
        held.iter().map(Secret::expose).collect::<Vec<_>>(),
        [secrets[2]]
    );
}

#[tokio::test]
async fn a_rotation_whose_answer_is_lost_has_happened() {
    let sim = Sim::plain().await;
    let made = register(&sim, "https://h/", &["batch.failed"]).await;
    let rotate = format!("/v1/webhooks/{}:rotateSigningSecret", text(&made, "id"));
    sim.fake
        .fault(Fault::once(FaultKind::Reset).on(":rotateSigningSecret"));
    let lost = async { sim.request("POST", &rotate).send().await?.bytes().await };
    assert!(lost.await.is_err());
    assert_eq!(sim.fake.webhooks()[0].secrets, 2);
    sim.post(&rotate, "").await;
    assert_eq!(sim.fake.webhooks()[0].secrets, 3);
}

#[tokio::test]
async fn one_api_version_can_be_missing() {
    let sim = Sim::plain().await;
    let faults = r#"{"fault":"html_not_found","count":0,"name":"/v1beta/webhooks"}"#;
    sim.post("/_sim/faults", faults).await;
    assert_eq!(sim.ask("GET", "/v1beta/webhooks", "").await.0, 404);
    assert_eq!(sim.ask("GET", "/v1/webhooks", "").await.0, 200);
}

#[tokio::test]
async fn a_ping_is_signed_and_may_say_anything() {
    let server = receiver(200).await;
    let sim = Sim::plain().await;
    let made = register(&sim, &server.uri(), &["batch.failed"]).await;
    let id = text(&made, "id");
    let ping = format!("/v1/webhooks/{id}:ping");
    assert_eq!(sim.post(&ping, "").await, json!({}));
    assert_eq!(sim.step().await, 1);
    sim.post("/_sim/ping-body", r#"{"body":{"hello":1}}"#).await;
    sim.post(&ping, "{}").await;
    sim.step().await;
    let told = server.received_requests().await.unwrap();
    let secret = text(&made, "new_signing_secret");
    let bodies: Vec<Value> = told.iter().map(|r| r.body_json().unwrap()).collect();
    assert_eq!(bodies[0]["type"], "webhook.ping");
    assert_eq!(bodies[1], json!({"hello": 1}));
    for told in &told {
        assert_eq!(signers(told, &[secret]), [Some(0)]);
    }

    sim.fake
        .set_webhook_state(id, WebhookState::Disabled)
        .unwrap();
    let (status, answer) = sim.ask("POST", &ping, "").await;
    let code = &answer["error"]["code"];
    assert_eq!((status, code), (400, &json!("failed_precondition")));
}

#[tokio::test]
async fn failures_in_a_row_disable_a_webhook_and_its_events_are_lost() {
    let server = MockServer::start().await;
    let broken = Mock::given(any()).respond_with(ResponseTemplate::new(500));
    broken.up_to_n_times(3).mount(&server).await;
    let fine = Mock::given(any()).respond_with(ResponseTemplate::new(200));
    fine.mount(&server).await;
    let sim = Sim::with(SimulatorConfig {
        disable_after: 3,
        ..SimulatorConfig::default()
    })
    .await;
    let made = register(&sim, &server.uri(), &["batch.succeeded"]).await;
    let path = format!("/v1/webhooks/{}", text(&made, "id"));
    end_a_batch(&sim).await;
    for _ in 0..2 {
        sim.pass(60_000);
        assert_eq!(sim.step().await, 1);
    }
    let shown = sim.get(&path).await;
    assert_eq!(shown["state"], "disabled_due_to_failed_deliveries");
    // Neither the retry nor a new event goes out.
    sim.pass(60_000);
    assert_eq!(sim.step().await, 0);
    assert_eq!(sim.fake.deliveries()[0].state, DeliveryState::Dropped);
    assert_eq!(end_a_batch(&sim).await, 0);
    // Enabled again it sends what comes from then on, and its failures are forgotten.
    sim.ask("PATCH", &path, r#"{"state":"enabled"}"#).await;
    assert_eq!(sim.fake.webhooks()[0].failures, 0);
    assert_eq!(end_a_batch(&sim).await, 1);
    assert_eq!(server.received_requests().await.unwrap().len(), 4);
}

#[tokio::test]
async fn the_state_can_be_set_from_outside() {
    let sim = Sim::plain().await;
    let made = register(&sim, "https://h/token", &["batch.succeeded"]).await;
    let id = text(&made, "id");
    let state = r#"{"state":"disabled_due_to_failed_deliveries"}"#;
    sim.post(&format!("/_sim/webhooks/{id}/state"), state).await;
    let shown = sim.get(&format!("/v1/webhooks/{id}")).await;
    assert_eq!(shown["state"], "disabled_due_to_failed_deliveries");
    assert_eq!(end_a_batch(&sim).await, 0);
    let seen = sim.get("/_sim/webhooks").await;
    assert_eq!(seen["webhooks"][0]["id"], id);
    assert_eq!(seen["webhooks"][0]["uri"], "https://h/…");
    let (status, _) = sim.ask("POST", "/_sim/webhooks/none/state", state).await;
    assert_eq!(status, 404);
}
