//! The HTTP client of the Gemini API against a server that misbehaves on purpose.

mod credentials;
mod downloads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{ManualClock, SystemClock, Timestamp};
use hookledger::base::secret::Secret;
use hookledger::config::settings;
use hookledger::domain::fault::Fault;
use hookledger::domain::observation::Observed;
use hookledger::domain::operation::OperationState;
use hookledger::gemini::GeminiApi;
use hookledger::gemini::client::{BuildError, HttpGemini};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::matchers::{any, method, path, query_param};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const KEY: &str = "test-key-that-nobody-may-repeat";
const GATEWAY_TOKEN: &str = "Bearer gateway-token-of-the-operator";
/// How long a test waits for what must end by itself.
const PATIENCE: Duration = Duration::from_secs(10);
const BATCH: &str = "batches/3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge";
const FILE: &str = "files/batch-3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge";

fn settings(base: &str) -> settings::Gemini {
    settings::Gemini {
        base_url: base.parse().unwrap(),
        download_base_url: None,
        api_version: "v1beta".to_owned(),
        api_key: Some(Secret::new(KEY)),
        timeout: Duration::from_secs(10),
        requests_per_second: 0,
        extra_headers: BTreeMap::from([(
            "cf-aig-authorization".to_owned(),
            Secret::new(GATEWAY_TOKEN),
        )]),
        max_body: 64 * 1024,
    }
}

fn client(settings: &settings::Gemini) -> HttpGemini {
    HttpGemini::new(settings, Arc::new(SystemClock::new())).unwrap()
}

async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

async fn fetch(settings: &settings::Gemini) -> Result<Observed, Fault> {
    let fetched = client(settings).operation(&BATCH.parse().unwrap()).await?;
    Ok(fetched.observation.observed)
}

async fn only_request(server: &MockServer) -> Request {
    let mut requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.headers.get(name).map(|v| v.to_str().unwrap())
}

/// What a raw server does with a connection it has answered.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Hold,
    Close,
}

/// A server that answers every connection with these bytes once it has read a request.
async fn raw(answer: &'static [u8], then: Then) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // On a thread of its own; it ends when the test's runtime does, and accepting with it.
    tokio::task::spawn_blocking(move || {
        tokio::runtime::Handle::current().block_on(async move {
            let mut held = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                let asked = socket.read_buf(&mut Vec::new()).await;
                let answered = socket.write_all(answer).await;
                if then == Then::Hold && asked.is_ok() && answered.is_ok() {
                    held.push(socket);
                }
            }
        });
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_poll_carries_the_key_the_gateways_header_and_no_cache() {
    let body = json!({"name": BATCH, "done": true, "response": {"responsesFile": FILE}});
    let server = answering(ResponseTemplate::new(200).set_body_json(&body)).await;
    let seen = fetch(&settings(&server.uri())).await.unwrap();
    assert_eq!(seen, Observed::Ended(OperationState::Succeeded));
    let request = only_request(&server).await;
    assert_eq!(request.method.as_str(), "GET");
    assert_eq!(request.url.path(), format!("/v1beta/{BATCH}"));
    assert_eq!(request.url.query(), None);
    assert_eq!(header(&request, "x-goog-api-key"), Some(KEY));
    assert_eq!(
        header(&request, "cf-aig-authorization"),
        Some(GATEWAY_TOKEN)
    );
    assert_eq!(header(&request, "cf-aig-skip-cache"), Some("true"));
    let agent = header(&request, "user-agent").unwrap();
    assert!(agent.starts_with("hookledger/0."), "{agent}");
}

#[tokio::test]
async fn a_base_url_may_hold_a_path_with_or_without_a_slash() {
    for tail in ["/proxy/google-ai-studio", "/proxy/google-ai-studio/"] {
        let server =
            answering(ResponseTemplate::new(200).set_body_string("{\"done\":false}")).await;
        let mut settings = settings(&format!("{}{tail}", server.uri()));
        settings.api_version = "v1".to_owned();
        assert_eq!(fetch(&settings).await, Ok(Observed::Running));
        let request = only_request(&server).await;
        let wanted = format!("/proxy/google-ai-studio/v1/{BATCH}");
        assert_eq!(request.url.path(), wanted);
    }
}

#[tokio::test]
async fn nothing_leaves_without_a_key() {
    let server = answering(ResponseTemplate::new(200)).await;
    let mut settings = settings(&server.uri());
    settings.api_key = None;
    let client = client(&settings);
    let refused = Fault::KeyRefused {
        what: "no API key is configured (gemini.api_key)".to_owned(),
    };
    let operation = client.operation(&BATCH.parse().unwrap()).await;
    assert_eq!(operation.unwrap_err(), refused);
    assert_eq!(client.probe().await.unwrap_err(), refused);
    assert_eq!(
        client.download(&FILE.parse().unwrap()).await.unwrap_err(),
        refused
    );
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_api_call_follows_no_redirect() {
    let target = answering(ResponseTemplate::new(200).set_body_string("{\"done\":false}")).await;
    for status in [301, 302, 303, 307, 308] {
        let redirect = ResponseTemplate::new(status)
            .insert_header("location", format!("{}/v1beta/{BATCH}", target.uri()));
        let server = answering(redirect).await;
        let fault = fetch(&settings(&server.uri())).await.unwrap_err();
        assert_eq!(fault.label(), "unavailable");
        let same_host = ResponseTemplate::new(status).insert_header("location", "/elsewhere");
        let server = answering(same_host).await;
        let fault = fetch(&settings(&server.uri())).await.unwrap_err();
        assert!(fault.to_string().contains("redirect refused"), "{fault}");
        only_request(&server).await;
    }
    assert!(target.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn every_refusal_becomes_its_fault() {
    let google = |code: u16, status: &str, message: &str| json!({"error": {"code": code, "status": status, "message": message}});
    for (status, body, label) in [
        (
            400,
            google(400, "INVALID_ARGUMENT", "Could not parse the batch name"),
            "rejected",
        ),
        (
            400,
            google(400, "INVALID_ARGUMENT", "API key not valid."),
            "key_refused",
        ),
        (
            401,
            json!({"error": {"code": "authentication", "message": "m"}}),
            "key_refused",
        ),
        (
            402,
            json!({"error": {"code": "payment_required", "message": "m"}}),
            "key_refused",
        ),
        (403, google(403, "PERMISSION_DENIED", KEY), "forbidden"),
        (404, google(404, "NOT_FOUND", "m"), "not_found"),
        (404, json!([google(404, "NOT_FOUND", "m")]), "not_found"),
        (404, json!({"success": false, "errors": []}), "unavailable"),
        (429, google(429, "RESOURCE_EXHAUSTED", "m"), "throttled"),
        (
            503,
            google(503, "UNAVAILABLE", GATEWAY_TOKEN),
            "unavailable",
        ),
    ] {
        let answer = ResponseTemplate::new(status)
            .insert_header("retry-after", "17")
            .set_body_json(&body);
        let server = answering(answer).await;
        let fault = fetch(&settings(&server.uri())).await.unwrap_err();
        assert_eq!(fault.label(), label, "{status} {body}");
        let shown = format!("{fault} {fault:?}");
        assert!(
            !shown.contains(KEY) && !shown.contains(GATEWAY_TOKEN),
            "{shown}"
        );
        if matches!(label, "throttled" | "unavailable") {
            assert_eq!(
                fault.retry_after(),
                Some(Duration::from_secs(17)),
                "{status}"
            );
        }
    }
}

#[tokio::test]
async fn a_body_is_read_up_to_the_cap_and_no_further() {
    let mut body = format!(r#"{{"name":"{BATCH}","done":false,"x":""#);
    body.push_str(&"y".repeat(1000 - body.len() - 2));
    body.push_str("\"}");
    let server = answering(ResponseTemplate::new(200).set_body_string(&body)).await;
    let mut settings = settings(&server.uri());
    settings.max_body = 1000;
    assert_eq!(fetch(&settings).await, Ok(Observed::Running));
    settings.max_body = 999;
    let fault = fetch(&settings).await.unwrap_err();
    assert_eq!(fault.label(), "undecodable");
    assert!(
        fault.to_string().contains("larger than 999 bytes"),
        "{fault}"
    );
}

#[tokio::test]
async fn an_endless_body_ends_at_the_cap() {
    // No declared length, and the connection stays open: only the cap can end this read.
    let base = raw(
        b"HTTP/1.1 200 OK\r\n\r\n{\"name\": \"and so on, and so on\"",
        Then::Hold,
    )
    .await;
    let mut settings = settings(&base);
    settings.max_body = 16;
    assert_eq!(fetch(&settings).await.unwrap_err().label(), "undecodable");
}

#[tokio::test]
async fn what_calls_itself_json_and_is_none_is_undecodable() {
    let body = ResponseTemplate::new(200).set_body_raw("{\"name\": ", "application/json");
    let server = answering(body).await;
    let settings = settings(&server.uri());
    assert_eq!(fetch(&settings).await.unwrap_err().label(), "undecodable");
    let probe = client(&settings).probe().await.unwrap_err();
    assert_eq!(probe.label(), "undecodable");
}

#[tokio::test]
async fn a_page_instead_of_json_is_a_gateway_s_and_charges_nobody() {
    let page = ResponseTemplate::new(200).set_body_raw("<html>Sign in</html>", "text/html; x=y");
    let server = answering(page).await;
    let settings = settings(&server.uri());
    let fault = fetch(&settings).await.unwrap_err();
    assert_eq!(fault.label(), "unavailable");
    assert!(!fault.charges_attempt());
    assert!(fault.to_string().contains("text/html"), "{fault}");
    let probe = client(&settings).probe().await.unwrap_err();
    assert_eq!(probe.label(), "unavailable");
}

#[tokio::test]
async fn silence_a_cut_and_a_closed_port_are_unavailable() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", port.local_addr().unwrap());
    drop(port);
    for (base, said) in [
        (raw(b"", Then::Hold).await, "no answer within 300ms"),
        (
            raw(
                b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{",
                Then::Hold,
            )
            .await,
            "no answer within 300ms",
        ),
        (raw(b"", Then::Close).await, "the exchange failed"),
        (closed, "connecting failed"),
    ] {
        let mut settings = settings(&base);
        settings.timeout = Duration::from_millis(300);
        let fault = fetch(&settings).await.unwrap_err();
        assert_eq!(fault.label(), "unavailable");
        assert!(fault.to_string().contains(said), "{fault}");
        assert!(!fault.to_string().contains("http://"), "{fault}");
    }
}

#[tokio::test]
async fn a_server_that_trickles_is_cut_off_by_the_total_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = settings(&format!("http://{}", listener.local_addr().unwrap()));
    settings.timeout = Duration::from_millis(300);
    let trickle = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.read_buf(&mut Vec::new()).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n";
        socket.write_all(head).await.unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while socket.write_all(b" ").await.is_ok() {
            tick.tick().await;
        }
    };
    let both = async { tokio::join!(fetch(&settings), trickle).0 };
    let fault = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert!(
        fault
            .unwrap_err()
            .to_string()
            .contains("no answer within 300ms")
    );
}

#[tokio::test]
async fn requests_beyond_the_cap_wait_for_the_clock() {
    let server = answering(ResponseTemplate::new(200).set_body_string("{}")).await;
    let mut settings = settings(&server.uri());
    settings.requests_per_second = 1;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(0)));
    let client = HttpGemini::new(&settings, clock.clone()).unwrap();
    client.probe().await.unwrap();
    let second = client.probe();
    tokio::pin!(second);
    let early = tokio::time::timeout(Duration::from_millis(200), second.as_mut()).await;
    assert!(early.is_err(), "the second request did not wait");
    clock.advance(Duration::from_secs(1));
    second.await.unwrap();
    assert_eq!(server.received_requests().await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_probe_asks_for_a_list_of_one() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/v1beta/batches"))
        .and(query_param("pageSize", "1"))
        .respond_with(ResponseTemplate::new(200).set_body_string("{}"))
        .mount(&server)
        .await;
    client(&settings(&server.uri())).probe().await.unwrap();
    let refusing = answering(ResponseTemplate::new(401)).await;
    let fault = client(&settings(&refusing.uri()))
        .probe()
        .await
        .unwrap_err();
    assert_eq!(fault.label(), "key_refused");
}

#[test]
fn settings_no_request_can_be_made_of_are_refused_without_repeating_them() {
    let build = |change: fn(&mut settings::Gemini)| {
        let mut settings = settings("https://generativelanguage.googleapis.com");
        change(&mut settings);
        HttpGemini::new(&settings, Arc::new(SystemClock::new()))
    };
    let shown = format!("{:?}", build(|_| {}).unwrap());
    assert!(
        !shown.contains(KEY) && !shown.contains(GATEWAY_TOKEN),
        "{shown}"
    );
    for url in [
        "https://user:pw@gateway.example/",
        "https://gateway.example/?key=x",
        "https://gateway.example/#x",
        "ftp://gateway.example/",
        "data:text/plain,x",
    ] {
        let mut settings = settings(url);
        settings.api_key = None;
        let refused = HttpGemini::new(&settings, Arc::new(SystemClock::new())).unwrap_err();
        assert!(matches!(refused, BuildError::BaseUrl { .. }), "{url}");
        assert!(
            !refused.to_string().contains("gateway.example"),
            "{refused}"
        );
    }
    for version in ["", "..", "v1/x", "v1?x"] {
        let mut settings = settings("https://gateway.example");
        version.clone_into(&mut settings.api_version);
        let refused = HttpGemini::new(&settings, Arc::new(SystemClock::new())).unwrap_err();
        assert!(matches!(refused, BuildError::ApiVersion), "{version}");
    }
    let key = build(|s| s.api_key = Some(Secret::new("line\nbreak"))).unwrap_err();
    assert!(matches!(key, BuildError::ApiKey) && !key.to_string().contains("break"));
    let header = build(|s| {
        s.extra_headers.insert("x y".to_owned(), Secret::new("v"));
    });
    assert!(matches!(header.unwrap_err(), BuildError::ExtraHeader { name } if name == "x y"));
}
