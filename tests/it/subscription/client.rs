//! WebhookService over HTTP: paths, methods, bodies, and the version that has the service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::SystemClock;
use hookledger::base::secret::Secret;
use hookledger::config::settings;
use hookledger::domain::fault::Fault;
use hookledger::gemini::client::HttpGemini;
use hookledger::gemini::webhooks::{NewWebhook, Revocation, WebhookApi, WebhookPatch};
use serde_json::{Value, json};
use wiremock::matchers::{any, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

const KEY: &str = "test-key-that-nobody-may-repeat";

fn client(base: &str) -> HttpGemini {
    let settings = settings::Gemini {
        base_url: base.parse().unwrap(),
        download_base_url: None,
        api_version: "v1beta".to_owned(),
        api_key: Some(Secret::new(KEY)),
        timeout: Duration::from_secs(10),
        requests_per_second: 0,
        extra_headers: BTreeMap::new(),
        max_body: 64 * 1024,
    };
    HttpGemini::new(&settings, Arc::new(SystemClock::new())).unwrap()
}

/// What was asked: method, path with query, body.
async fn asked(server: &MockServer) -> Vec<(String, String, Value)> {
    let requests = server.received_requests().await.unwrap();
    let told = requests.iter().map(|r| {
        assert_eq!(r.headers["x-goog-api-key"], KEY);
        let query = r.url.query().map(|q| format!("?{q}")).unwrap_or_default();
        let body = serde_json::from_slice(&r.body).unwrap_or(Value::Null);
        if !body.is_null() {
            assert_eq!(r.headers["content-type"], "application/json");
        }
        let at = format!("{}{query}", r.url.path());
        (r.method.to_string(), at, body)
    });
    told.collect()
}

fn not_found() -> ResponseTemplate {
    let body = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "no"}});
    ResponseTemplate::new(404).set_body_json(body)
}

async fn on(server: &MockServer, verb: &str, at: &str, body: Value) {
    Mock::given(method(verb))
        .and(path(at))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .mount(server)
        .await;
}

#[tokio::test]
async fn every_call_is_made_as_documented() {
    let server = MockServer::start().await;
    let webhook = json!({"id": "w1", "state": "enabled", "new_signing_secret": "whsec_first"});
    on(&server, "POST", "/v1beta/webhooks", webhook.clone()).await;
    on(&server, "GET", "/v1beta/webhooks/w1", webhook.clone()).await;
    on(&server, "PATCH", "/v1beta/webhooks/w1", webhook).await;
    let secret = json!({"secret": "whsec_second"});
    on(
        &server,
        "POST",
        "/v1beta/webhooks/w1:rotateSigningSecret",
        secret,
    )
    .await;
    for (verb, at) in [
        ("POST", "/v1beta/webhooks/w1:ping"),
        ("DELETE", "/v1beta/webhooks/w1"),
    ] {
        let empty = Mock::given(method(verb)).and(path(at));
        empty
            .respond_with(ResponseTemplate::new(200))
            .mount(&server)
            .await;
    }
    let api = client(&server.uri());
    let new = NewWebhook {
        name: Some("n".to_owned()),
        uri: "https://a.example/x".to_owned(),
        subscribed_events: vec!["batch.failed".to_owned()],
    };
    let made = api.create(&new).await.unwrap();
    assert_eq!(made.new_signing_secret.unwrap().expose(), "whsec_first");
    let id = made.id;
    assert!(api.get(&id).await.unwrap().delivers());
    let patch = WebhookPatch {
        state: Some("enabled".to_owned()),
        subscribed_events: Some(vec![]),
        ..WebhookPatch::default()
    };
    api.update(&id, &patch).await.unwrap();
    api.ping(&id).await.unwrap();
    let second = api.rotate(&id, Revocation::AfterDay).await.unwrap();
    assert_eq!(second.expose(), "whsec_second");
    api.delete(&id).await.unwrap();
    let expected = [
        (
            "POST",
            "/v1beta/webhooks",
            json!({
                "name": "n", "uri": "https://a.example/x", "subscribed_events": ["batch.failed"],
            }),
        ),
        ("GET", "/v1beta/webhooks/w1", Value::Null),
        (
            "PATCH",
            "/v1beta/webhooks/w1?update_mask=state,subscribed_events",
            json!({"state": "enabled", "subscribed_events": []}),
        ),
        ("POST", "/v1beta/webhooks/w1:ping", json!({})),
        (
            "POST",
            "/v1beta/webhooks/w1:rotateSigningSecret",
            json!({"revocation_behavior": "revoke_previous_secrets_after_h24"}),
        ),
        ("DELETE", "/v1beta/webhooks/w1", Value::Null),
    ];
    let expected = expected.map(|(m, p, b)| (m.to_owned(), p.to_owned(), b));
    assert_eq!(asked(&server).await, expected);
}

#[tokio::test]
async fn a_list_is_walked_to_its_end() {
    let server = MockServer::start().await;
    Mock::given(query_param("page_token", "a b&c"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"webhooks": [{"id": "w2"}]})))
        .with_priority(1)
        .mount(&server)
        .await;
    let first = json!({"webhooks": [{"id": "w1"}, {"odd": 1}], "next_page_token": "a b&c"});
    on(&server, "GET", "/v1beta/webhooks", first).await;
    let all = client(&server.uri()).list().await.unwrap();
    let ids: Vec<&str> = all.iter().map(|w| w.id.as_str()).collect();
    assert_eq!(ids, ["w1", "w2"]);
}

#[tokio::test]
async fn the_other_version_is_asked_when_the_collection_is_missing_and_remembered() {
    let server = MockServer::start().await;
    let html = ResponseTemplate::new(404).set_body_string("<html>");
    Mock::given(any())
        .respond_with(html)
        .with_priority(9)
        .mount(&server)
        .await;
    on(&server, "POST", "/v1/webhooks", json!({"id": "w1"})).await;
    on(&server, "GET", "/v1/webhooks/w1", json!({"id": "w1"})).await;
    let api = client(&server.uri());
    let new = NewWebhook {
        name: None,
        uri: "https://a.example/x".to_owned(),
        subscribed_events: vec![],
    };
    let id = api.create(&new).await.unwrap().id;
    api.get(&id).await.unwrap();
    let paths: Vec<String> = asked(&server).await.into_iter().map(|a| a.1).collect();
    let expected = [
        "/v1beta/webhooks",
        "/v1beta/webhooks?page_size=1",
        "/v1/webhooks",
        "/v1/webhooks/w1",
    ];
    assert_eq!(paths, expected);
}

#[tokio::test]
async fn an_unknown_id_is_no_reason_to_change_the_version() {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(not_found())
        .with_priority(9)
        .mount(&server)
        .await;
    on(&server, "GET", "/v1beta/webhooks", json!({"webhooks": []})).await;
    let api = client(&server.uri());
    for _ in 0..2 {
        assert_eq!(
            api.get(&"w1".parse().unwrap()).await.unwrap_err(),
            Fault::NotFound
        );
    }
    let paths: Vec<String> = asked(&server).await.into_iter().map(|a| a.1).collect();
    let expected = [
        "/v1beta/webhooks/w1",
        "/v1beta/webhooks?page_size=1",
        "/v1beta/webhooks/w1",
    ];
    assert_eq!(paths, expected);
}
