//! The `http` and `slack` effects against a receiver that answers.

use std::collections::BTreeMap;
use std::time::Duration;

use hookledger::base::secret::Secret;
use hookledger::config::settings::Action;
use hookledger::domain::effect::Delivery;
use serde_json::{Value, json};
use wiremock::matchers::{any, method};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::{KEY, LIMIT, effect, message, told};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(super) fn http(url: &str, secret: Option<&str>, allow_private: bool) -> Action {
    Action::Http {
        url: url.parse().unwrap(),
        secret: secret.map(Secret::new),
        allow_private,
        headers: BTreeMap::from([("x-team".to_owned(), Secret::new("captions"))]),
    }
}

async fn receiver(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.headers.get(name).map(|v| v.to_str().unwrap())
}

#[tokio::test]
async fn a_signed_delivery_passes_the_published_verifier_byte_for_byte() {
    let server = receiver(ResponseTemplate::new(204)).await;
    let target = effect(http(&server.uri(), Some(SECRET), true), LIMIT);
    // Spacing and order that no serialiser of ours would choose.
    let body = br#"{ "z":1,"a" : "\u00e4" }"#;
    assert_eq!(target.deliver(&message(&body[..])).await, Delivery::Done);

    let requests = server.received_requests().await.unwrap();
    let request = &requests[0];
    assert_eq!(request.body, body);
    assert_eq!(header(request, "webhook-id"), Some(KEY));
    assert_eq!(header(request, "idempotency-key"), Some(KEY));
    assert_eq!(header(request, "content-type"), Some("application/json"));
    assert_eq!(header(request, "x-team"), Some("captions"));
    assert!(
        header(request, "user-agent")
            .unwrap()
            .starts_with("hookledger/")
    );
    let verifier = standardwebhooks::Webhook::new(SECRET).unwrap();
    verifier.verify(&request.body, &request.headers).unwrap();
}

#[tokio::test]
async fn without_a_secret_nothing_is_signed() {
    let server = receiver(ResponseTemplate::new(200)).await;
    let target = effect(http(&server.uri(), None, true), LIMIT);
    assert_eq!(target.deliver(&message("{}")).await, Delivery::Done);
    let requests = server.received_requests().await.unwrap();
    assert_eq!(header(&requests[0], "webhook-signature"), None);
    assert!(header(&requests[0], "webhook-timestamp").is_some());
}

#[tokio::test]
async fn every_attempt_carries_the_same_key_until_the_receiver_says_yes() {
    let server = MockServer::start().await;
    let answers = [500, 503, 429, 404, 401, 302, 502, 504, 408, 400];
    for code in answers {
        Mock::given(any())
            .respond_with(ResponseTemplate::new(code))
            .up_to_n_times(1)
            .mount(&server)
            .await;
    }
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    let target = effect(http(&server.uri(), Some(SECRET), true), LIMIT);
    let mut words = Vec::new();
    for attempt in 1..=11 {
        let mut one = message("{}");
        one.attempt = attempt;
        words.push(told(target.deliver(&one).await).0);
    }
    let mut expected = ["retry"; 11];
    (expected[6], expected[7], expected[10]) = ("ambiguous", "ambiguous", "done");
    assert_eq!(words, expected);
    for request in server.received_requests().await.unwrap() {
        assert_eq!(header(&request, "webhook-id"), Some(KEY));
        assert_eq!(request.body, b"{}");
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed() {
    let elsewhere = receiver(ResponseTemplate::new(200)).await;
    for code in [301, 302, 303, 307, 308] {
        let answer = ResponseTemplate::new(code).insert_header("location", elsewhere.uri());
        let server = receiver(answer).await;
        let target = effect(http(&server.uri(), None, true), LIMIT);
        let (word, why) = told(target.deliver(&message("{}")).await);
        assert_eq!(word, "retry");
        assert!(why.contains("redirects are not followed"), "{why}");
    }
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_private_receiver_is_reached_only_when_allowed() {
    let server = receiver(ResponseTemplate::new(200)).await;
    let port = server.address().port();
    // By address, by another spelling of it, and by a name that only the resolver can judge.
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
        let url = format!("http://{host}:{port}/path-of-mine");
        let (word, why) = told(
            effect(http(&url, None, false), LIMIT)
                .deliver(&message("{}"))
                .await,
        );
        assert_eq!(word, "retry", "{host}: {why}");
        assert!(why.contains("allow_private = true"), "{host}: {why}");
        assert!(!why.contains("path-of-mine"), "{why}");
    }
    assert!(server.received_requests().await.unwrap().is_empty());

    let url = format!("http://localhost:{port}/");
    let allowed = effect(http(&url, None, true), LIMIT);
    assert_eq!(allowed.deliver(&message("{}")).await, Delivery::Done);
}

#[tokio::test]
async fn metadata_is_never_reached_whatever_is_allowed() {
    let target = effect(http("http://169.254.169.254/latest/", None, true), LIMIT);
    let (word, why) = told(target.deliver(&message("{}")).await);
    assert_eq!(word, "retry");
    assert!(why.contains("cloud metadata"), "{why}");
}

fn slack(url: &str) -> Action {
    Action::Slack {
        webhook_url: Secret::new(url),
        allow_private: true,
    }
}

#[tokio::test]
async fn slack_gets_one_message_and_its_patience_is_respected() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(429).insert_header("retry-after", "30"))
        .up_to_n_times(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_body_string("ok"))
        .mount(&server)
        .await;
    let target = effect(slack(&format!("{}/services/T0/hush", server.uri())), LIMIT);
    let body = json!({"type": "operation.settled", "timestamp": "2026-01-22T12:00:00Z", "data": {
        "id": "1", "name": "batches/a", "job_kind": "nightly", "state": "succeeded",
        "settled_by": "webhook", "user_metadata": null, "summary": {}}})
    .to_string();
    let Delivery::Retry { after, why } = target.deliver(&message(body.clone())).await else {
        panic!("429 is a retry");
    };
    assert_eq!(after, Some(Duration::from_secs(30)));
    assert!(!why.contains("hush"));
    assert_eq!(target.deliver(&message(body)).await, Delivery::Done);

    let requests = server.received_requests().await.unwrap();
    let sent: Value = requests[1].body_json().unwrap();
    assert_eq!(sent["text"], "batches/a is succeeded");
    assert!(sent["blocks"].to_string().contains("nightly"));
}

/// The environment is read when a process starts, so another test of this binary is run in one whose
/// environment names a proxy that is not there.
#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "effects::http::without_a_secret_nothing_is_signed",
        ])
        .envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:9")))
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}
