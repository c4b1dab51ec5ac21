//! Events as a receiver meets them: signed, late, twice, swapped, changed, forged, not at all.

use hookledger::base::clock::Timestamp;
use hookledger::base::secret::Secret;
use hookledger::simulator::{
    DeliveryState, DynamicSigning, IdForm, Kind, Mode, NewJob, Outcome, RawWebhook, Refused,
    SimulatorConfig, WebhookFault, WebhookPlan,
};
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::simulator_support::{SECRET, SHARED, Sim};

/// A receiver that answers `status`.
async fn receiver(status: u16) -> MockServer {
    let server = MockServer::start().await;
    let answer = Mock::given(any()).respond_with(ResponseTemplate::new(status));
    answer.mount(&server).await;
    server
}

async fn got(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap()
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn header<'a>(request: &'a Request, name: &str) -> &'a str {
    request.headers.get(name).unwrap().to_str().unwrap()
}

/// Whether the signature fits the body as it arrived. Freshness is not asked: the clock is manual.
fn is_signed(request: &Request) -> bool {
    let verifier = standardwebhooks::Webhook::new(SECRET).unwrap();
    let timestamp = header(request, "webhook-timestamp").parse().unwrap();
    let expected = verifier
        .sign(header(request, "webhook-id"), timestamp, &request.body)
        .unwrap();
    request
        .headers
        .get("webhook-signature")
        .is_some_and(|given| given.to_str().unwrap() == expected)
}

fn job(kind: Kind, deliver: Mode) -> NewJob {
    NewJob {
        webhook: WebhookPlan::of(deliver),
        ..NewJob::new(kind)
    }
}

#[tokio::test]
async fn an_ending_is_told_signed_with_the_fields_of_its_type() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    let batch = NewJob {
        input: hookledger::simulator::BatchInput::File,
        user_metadata: Some(json!({"job": "42"})),
        ..NewJob::new(Kind::Batch)
    };
    let batch = sim.fake.start(batch).unwrap();
    let video = sim.fake.start(NewJob::new(Kind::Video)).unwrap();
    let failed = NewJob {
        outcome: Outcome::Failed,
        ..NewJob::new(Kind::Interaction)
    };
    let interaction = sim.fake.start(failed).unwrap();
    assert_eq!(sim.step().await, 0, "nothing has ended yet");
    sim.pass(2000);
    assert_eq!(sim.step().await, 3);

    let requests = got(&server).await;
    let of = |event: &str| {
        let request = requests.iter().find(|r| body(r)["type"] == event).unwrap();
        assert!(is_signed(request), "{event}");
        assert_eq!(header(request, "x-hook-secret"), SHARED);
        assert!(header(request, "webhook-id").starts_with("msg_"));
        body(request)
    };
    let told = of("batch.succeeded");
    let id = batch.strip_prefix("batches/").unwrap();
    assert_eq!(
        told["data"],
        json!({"id": batch, "output_file_uri": format!("files/batch-{id}")})
    );
    assert_eq!(told["user_metadata"], json!({"job": "42"}));
    assert_eq!(told["version"], "v1");
    let told = of("video.generated");
    assert_eq!(told["data"]["id"], video.as_str());
    let file = told["data"]["file_name"].as_str().unwrap();
    assert!(
        told["data"]["output_file_uri"]
            .as_str()
            .unwrap()
            .contains(file)
    );
    let told = of("interaction.failed");
    assert_eq!(
        told["data"]["id"],
        interaction.strip_prefix("interactions/").unwrap()
    );
    assert_eq!(told["data"]["error_code"], "api_error");
}

#[tokio::test]
async fn endings_without_an_event_are_told_to_nobody() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    for (kind, outcome) in [
        (Kind::Video, Outcome::Failed),
        (Kind::Video, Outcome::Filtered),
        (Kind::Video, Outcome::Neither),
        (Kind::Batch, Outcome::Cancelled),
        (Kind::Interaction, Outcome::Cancelled),
        (Kind::Interaction, Outcome::Incomplete),
        (Kind::Interaction, Outcome::BudgetExceeded),
    ] {
        let quiet = NewJob {
            outcome,
            ..NewJob::new(kind)
        };
        sim.fake.start(quiet).unwrap();
    }
    sim.pass(2000);
    assert_eq!(sim.step().await, 0);
    assert!(sim.fake.deliveries().is_empty());
}

#[tokio::test]
async fn a_job_with_its_own_destinations_does_not_use_the_configured_one() {
    let (usual, own) = (receiver(200).await, receiver(200).await);
    let sim = Sim::with(SimulatorConfig {
        webhook_url: Some(usual.uri().parse().unwrap()),
        webhook_secret: Some(Secret::new(SECRET)),
        dynamic_signing: DynamicSigning::Hmac,
        ..SimulatorConfig::default()
    })
    .await;
    let create = json!({
        "instances": [{"prompt": "cat"}],
        "webhookConfig": {"uris": [own.uri()], "user_metadata": {"job": "42"}},
    });
    sim.post("/v1beta/models/veo:predictLongRunning", &create.to_string())
        .await;
    sim.pass(2000);
    assert_eq!(sim.step().await, 1);
    assert!(got(&usual).await.is_empty());
    let told = got(&own).await;
    assert!(is_signed(&told[0]));
    assert_eq!(body(&told[0])["user_metadata"], json!({"job": "42"}));
}

#[tokio::test]
async fn a_refused_event_is_tried_again_with_its_id_and_a_fresh_timestamp() {
    let server = MockServer::start().await;
    let busy = Mock::given(any()).respond_with(ResponseTemplate::new(503));
    busy.up_to_n_times(1).mount(&server).await;
    let fine = Mock::given(any()).respond_with(ResponseTemplate::new(200));
    fine.mount(&server).await;
    let sim = Sim::telling(&server.uri()).await;
    sim.fake.start(NewJob::new(Kind::Batch)).unwrap();
    sim.pass(2000);
    assert_eq!(sim.step().await, 1);
    assert_eq!(sim.step().await, 0, "not before its back-off");
    sim.pass(2000);
    assert_eq!(sim.step().await, 1);
    let told = got(&server).await;
    assert_eq!(
        header(&told[0], "webhook-id"),
        header(&told[1], "webhook-id")
    );
    assert_ne!(
        header(&told[0], "webhook-timestamp"),
        header(&told[1], "webhook-timestamp")
    );
    assert!(is_signed(&told[1]));
    let report = &sim.fake.deliveries()[0];
    assert_eq!(
        (report.state, report.attempt, report.status),
        (DeliveryState::Delivered, 2, Some(200))
    );
}

#[tokio::test]
async fn after_the_models_time_was_moved_a_webhook_is_still_fresh() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    sim.fake.start(NewJob::new(Kind::Batch)).unwrap();
    sim.post("/_sim/advance", r#"{"ms":86400000}"#).await;
    assert_eq!(sim.step().await, 1);
    let told = got(&server).await;
    let start = "2026-01-22T12:00:00Z".parse::<Timestamp>().unwrap();
    let stamp = header(&told[0], "webhook-timestamp");
    assert_eq!(stamp, start.as_seconds().to_string());
    assert_eq!(body(&told[0])["timestamp"], "2026-01-22T12:00:02.000Z");
}

#[tokio::test]
async fn dropped_delayed_and_doubled_events() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    sim.fake.start(job(Kind::Batch, Mode::Drop)).unwrap();
    let twice = sim.fake.start(job(Kind::Batch, Mode::Twice)).unwrap();
    let late = NewJob {
        webhook: WebhookPlan {
            delay_ms: Some(7000),
            ..WebhookPlan::of(Mode::Delay)
        },
        ..NewJob::new(Kind::Video)
    };
    let late = sim.fake.start(late).unwrap();
    sim.pass(2000);
    assert_eq!(sim.step().await, 2);
    let told = got(&server).await;
    assert_eq!(body(&told[0])["data"]["id"], twice.as_str());
    assert_eq!(told[0].body, told[1].body);
    assert_eq!(
        header(&told[0], "webhook-id"),
        header(&told[1], "webhook-id")
    );
    sim.pass(6999);
    assert_eq!(sim.step().await, 0);
    sim.pass(1);
    assert_eq!(sim.step().await, 1);
    assert_eq!(body(&got(&server).await[2])["data"]["id"], late.as_str());
    assert_eq!(sim.fake.deliveries()[0].state, DeliveryState::Dropped);
}

#[tokio::test]
async fn a_reordered_event_arrives_after_a_later_one() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    let first = sim.fake.start(job(Kind::Batch, Mode::Reorder)).unwrap();
    sim.pass(2000);
    assert_eq!(sim.step().await, 0);
    let second = sim.fake.start(job(Kind::Batch, Mode::Once)).unwrap();
    sim.pass(2000);
    assert_eq!(sim.step().await, 2);
    let told: Vec<Value> = got(&server).await.iter().map(body).collect();
    assert_eq!(told[0]["data"]["id"], second.as_str());
    assert_eq!(told[1]["data"]["id"], first.as_str());
    assert!(told[0]["timestamp"].as_str() > told[1]["timestamp"].as_str());
}

#[tokio::test]
async fn spoiled_events_cannot_be_verified_and_are_sent_once() {
    let server = receiver(401).await;
    let sim = Sim::telling(&server.uri()).await;
    sim.fake.start(job(Kind::Batch, Mode::Tamper)).unwrap();
    sim.fake.start(job(Kind::Batch, Mode::Stale)).unwrap();
    sim.pass(2000);
    assert_eq!(sim.step().await, 2);
    sim.pass(3_600_000);
    assert_eq!(sim.step().await, 0, "a spoiled event is not tried again");
    let told = got(&server).await;
    let (signed, tampered): (Vec<_>, Vec<_>) = told.iter().partition(|r| is_signed(r));
    assert_eq!((signed.len(), tampered.len()), (1, 1));
    let now = "2026-01-22T12:00:02Z".parse::<Timestamp>().unwrap();
    assert_eq!(
        header(signed[0], "webhook-timestamp"),
        (now.as_seconds() - 3600).to_string()
    );
    assert_eq!(body(tampered[0])["type"], "batch.succeeded");
}

#[tokio::test]
async fn a_forged_event_is_validly_signed_and_false() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    let running = NewJob {
        manual: true,
        ..NewJob::new(Kind::Batch)
    };
    let name = sim.fake.start(running).unwrap();
    sim.pass(1000);
    sim.fake.forge(&name, "batch.succeeded").unwrap();
    assert_eq!(sim.step().await, 1);
    let told = got(&server).await;
    assert!(is_signed(&told[0]));
    assert_eq!(body(&told[0])["type"], "batch.succeeded");
    assert_eq!(body(&told[0])["data"]["id"], name.as_str());
    let truth = sim.get(&format!("/v1beta/{name}")).await;
    assert_eq!(truth["metadata"]["state"], "BATCH_STATE_RUNNING");

    // As a plan of the job: the lie at its start, the truth at its end.
    let lied = sim.fake.start(job(Kind::Video, Mode::Forge)).unwrap();
    assert_eq!(sim.step().await, 1);
    assert_eq!(
        sim.get(&format!("/v1beta/{lied}")).await,
        json!({"name": lied})
    );
    sim.pass(2000);
    assert_eq!(sim.step().await, 1);
    assert_eq!(
        sim.fake.forge("batches/none", "batch.succeeded"),
        Err(Refused::Unknown)
    );
}

#[tokio::test]
async fn a_fault_overrules_how_the_next_event_of_an_api_job_is_told() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    sim.fake.webhook_fault(WebhookFault {
        webhook: WebhookPlan::of(Mode::Drop),
        count: None,
        name: None,
    });
    for expected in [0, 1] {
        let create = r#"{"model":"m","input":"hi","background":true}"#;
        sim.post("/v1/interactions", create).await;
        sim.pass(2000);
        assert_eq!(sim.step().await, expected);
    }
}

#[tokio::test]
async fn each_form_of_the_id_can_be_had() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    let mut names = Vec::new();
    for id_form in [IdForm::Bare, IdForm::Prefixed, IdForm::Wrong] {
        let formed = NewJob {
            webhook: WebhookPlan {
                id_form,
                ..WebhookPlan::default()
            },
            ..NewJob::new(Kind::Batch)
        };
        names.push(sim.fake.start(formed).unwrap());
        sim.pass(2000);
        assert_eq!(sim.step().await, 1);
    }
    let told = got(&server).await;
    let id = |i: usize| body(&told[i])["data"]["id"].as_str().unwrap().to_owned();
    assert_eq!(format!("batches/{}", id(0)), names[0]);
    assert_eq!(id(1), names[1].replace("batches/", "batch_"));
    assert!(id(2).starts_with("batches/") && id(2) != names[2]);
}

#[tokio::test]
async fn a_replay_is_the_same_bytes_and_a_raw_body_is_sent_as_told() {
    let server = receiver(200).await;
    let sim = Sim::telling(&server.uri()).await;
    sim.fake.start(NewJob::new(Kind::Batch)).unwrap();
    sim.pass(2000);
    sim.step().await;
    sim.pass(60_000);
    let id = sim.fake.deliveries()[0].id.clone();
    let replay = RawWebhook {
        replay: Some(id),
        ..RawWebhook::default()
    };
    sim.fake.send_webhook(replay).unwrap();
    let raw = RawWebhook {
        body: Some(json!("no json")),
        unsigned: true,
        ..RawWebhook::default()
    };
    sim.fake.send_webhook(raw).unwrap();
    assert_eq!(sim.step().await, 2);
    let told = got(&server).await;
    let replayed = told[1..].iter().find(|r| r.body == told[0].body).unwrap();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        assert_eq!(header(replayed, name), header(&told[0], name), "{name}");
    }
    let raw = told.iter().find(|r| r.body == b"no json").unwrap();
    assert!(raw.headers.get("webhook-signature").is_none());
}
