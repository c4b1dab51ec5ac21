//! The public door over real connections: the table of answers, and who owns a commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hookledger::base::clock::{ManualClock, SystemClock, Timestamp};
use hookledger::base::secret::Secret;
use hookledger::base::shutdown::Shutdown;
use hookledger::config::settings::{self, Require};
use hookledger::http::hooks::{Door, Receive, ReceiveAnswer, Unavailable, routes};
use hookledger::http::peers::Peers;
use hookledger::http::serve::ServeSettings;
use hookledger::verify::{SigningSecret, Verified, Verifier};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore};

use super::http_support::{PATIENCE, SHORT, Server, read_to_end, read_until, settings};

const TOKEN: &str = "correct-horse-battery-staple";
const SHARED: &str = "a-shared-secret-of-24-bytes";
const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOW: Timestamp = Timestamp::from_millis(1_769_083_200_123);
const MAX_BODY: usize = 4096;
const BODY: &[u8] = b"{\"type\":\"batch.succeeded\"}";

/// Answers by the body's text, and can be held at a gate.
struct Receiver {
    taken: Mutex<Vec<Verified>>,
    refusals: Mutex<Vec<(Option<String>, &'static str)>>,
    entered: Notify,
    gate: Semaphore,
    finished: Notify,
}

impl Receiver {
    fn with_gate(open: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            refusals: Mutex::default(),
            entered: Notify::new(),
            gate: Semaphore::new(open),
            finished: Notify::new(),
        })
    }

    fn refusals(&self) -> Vec<(Option<String>, &'static str)> {
        std::mem::take(&mut self.refusals.lock().unwrap())
    }
}

#[async_trait]
impl Receive for Receiver {
    async fn receive(&self, delivery: Verified) -> Result<ReceiveAnswer, Unavailable> {
        self.entered.notify_one();
        self.gate.acquire().await.unwrap().forget();
        let body = delivery.body().clone();
        self.taken.lock().unwrap().push(delivery);
        self.finished.notify_one();
        match body.as_ref() {
            b"again" => Ok(ReceiveAnswer::Duplicate),
            b"ping" => Ok(ReceiveAnswer::Ignored),
            b"full" => Err(Unavailable {
                retry_after: Duration::from_secs(7),
            }),
            b"defect" => {
                let planned = true;
                assert!(!planned, "as planned");
                Ok(ReceiveAnswer::Accepted)
            }
            _ => Ok(ReceiveAnswer::Accepted),
        }
    }

    fn refused(&self, source: Option<&str>, reason: &'static str) {
        let source = source.map(ToOwned::to_owned);
        self.refusals.lock().unwrap().push((source, reason));
    }
}

fn verifier() -> Verifier {
    let hooks = settings::Hooks {
        path_token: Some(Secret::new(TOKEN)),
        shared_secret: Some(Secret::new(SHARED)),
        tolerance: Duration::from_secs(300),
        dedupe_ttl: Duration::from_hours(168),
        max_waiting: 1 << 20,
    };
    let source = settings::Source {
        require: Require::Any,
        shared_header: true,
        signing_secrets: vec![Secret::new(SIGNING)],
    };
    Verifier::new(&hooks, &BTreeMap::from([("gemini".to_owned(), source)])).unwrap()
}

struct Place {
    server: Server,
    receiver: Arc<Receiver>,
    client: reqwest::Client,
}

impl Place {
    async fn new(receiver: Arc<Receiver>, serving: ServeSettings, max_in_flight: usize) -> Self {
        let clock = Arc::new(ManualClock::starting_at(NOW));
        let limits = settings::Server {
            listen: "127.0.0.1:0".parse().unwrap(),
            header_timeout: serving.header_timeout,
            body_timeout: SHORT,
            max_body: MAX_BODY as u64,
            max_connections: serving.max_connections,
            max_connections_per_address: serving.max_connections_per_address,
            max_in_flight,
            trusted_proxies: Vec::new(),
            stop_timeout: Duration::from_secs(5),
            public_url: None,
        };
        let tasks = Shutdown::new(Arc::new(SystemClock::new()));
        let door = Door::new(verifier(), receiver.clone(), &limits, clock, tasks);
        Self {
            server: Server::start(routes(Arc::new(door)), serving).await,
            receiver,
            client: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(20))
                .build()
                .unwrap(),
        }
    }

    async fn open() -> Self {
        Self::new(Receiver::with_gate(1000), settings(), 8).await
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.client
            .post(format!("http://{}{path}", self.server.address))
    }

    fn hook(&self) -> reqwest::RequestBuilder {
        self.post(&format!("/hooks/gemini/{TOKEN}"))
    }

    fn shared(&self, body: &'static str) -> reqwest::RequestBuilder {
        self.hook().header("x-hook-secret", SHARED).body(body)
    }
}

/// Status, and what an onlooker can compare: headers without the per-request ones, and the body.
async fn seen(request: reqwest::RequestBuilder) -> (u16, Vec<String>, String) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let mut headers: Vec<String> = response
        .headers()
        .iter()
        .filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    headers.sort();
    (status, headers, response.text().await.unwrap())
}

fn signed(request: reqwest::RequestBuilder, shift: i64, body: &[u8]) -> reqwest::RequestBuilder {
    let key = SigningSecret::parse(&Secret::new(SIGNING)).unwrap();
    let at = Timestamp::from_millis(NOW.as_millis() + shift * 1000);
    request
        .header("webhook-id", "msg_1")
        .header("webhook-timestamp", at.as_seconds())
        .header("webhook-signature", key.sign("msg_1", at, body))
}

#[tokio::test]
async fn what_was_received_is_answered_by_its_outcome() {
    let place = Place::open().await;
    for (body, status, answer) in [
        ("new", 200, r#"{"status":"accepted"}"#),
        ("again", 200, r#"{"status":"duplicate"}"#),
        ("ping", 200, r#"{"status":"ignored"}"#),
        ("", 200, r#"{"status":"accepted"}"#),
    ] {
        let (found, _, text) = seen(place.shared(body)).await;
        assert_eq!((found, text.as_str()), (status, answer), "{body}");
    }
    let raw = b"\xff\x00 {\r\n}";
    let (status, ..) = seen(signed(place.hook(), 0, raw).body(raw.to_vec())).await;
    assert_eq!(status, 200);
    let taken = place.receiver.taken.lock().unwrap();
    let last = taken.last().unwrap();
    assert_eq!(last.body().as_ref(), raw);
    assert_eq!(last.webhook_id(), Some("msg_1"));
    assert_eq!(place.receiver.refusals(), []);
}

#[tokio::test]
async fn a_wrong_path_looks_like_any_unknown_path() {
    let place = Place::open().await;
    let unknown = seen(place.post("/no/such/path").body("x")).await;
    assert_eq!(unknown.0, 404);
    for path in [
        "/hooks/gemini/wrong".to_owned(),
        format!("/hooks/nobody/{TOKEN}"),
        "/hooks/gemini/%ff%fe".to_owned(),
        format!("/hooks/gemini/{TOKEN}/"),
        format!("/hooks/gemini/{TOKEN}x"),
        "/hooks/gemini".to_owned(),
    ] {
        let request = place.post(&path).header("x-hook-secret", SHARED).body("x");
        assert_eq!(seen(request).await, unknown, "{path}");
    }
    let counted = place.receiver.refusals();
    assert!(counted.iter().all(|(source, _)| source.is_none()));
    assert_eq!(counted.len(), 3, "{counted:?}");
    // An escaped letter is the same path.
    let escaped = format!("/hooks/gemini/%63{}", &TOKEN.get(1..).unwrap());
    let request = place.post(&escaped).header("x-hook-secret", SHARED);
    assert_eq!(seen(request.body("x")).await.0, 200);
}

#[tokio::test]
async fn every_failed_proof_gets_one_answer() {
    let place = Place::open().await;
    let body = || BODY.to_vec();
    let wrong_secret = || place.hook().header("x-hook-secret", "wrong");
    let cases = [
        ("missing_proof", place.hook()),
        ("bad_shared_secret", wrong_secret()),
        ("bad_shared_secret", signed(wrong_secret(), 0, BODY)),
        ("bad_signature", signed(place.hook(), 0, b"other")),
        ("too_old", signed(place.hook(), -400, BODY)),
        ("too_early", signed(place.hook(), 400, BODY)),
        (
            "malformed_signature",
            signed(signed(place.hook(), 0, BODY), 0, BODY),
        ),
        (
            "bad_timestamp",
            place
                .hook()
                .header("webhook-id", "msg_1")
                .header("webhook-timestamp", "soon")
                .header("webhook-signature", "v1,AAAA"),
        ),
    ];
    let mut answers = Vec::new();
    for (reason, request) in cases {
        let (status, mut headers, text) = seen(request.body(body())).await;
        assert_eq!(status, 401, "{reason}");
        // Whether the connection lives on tells when we stopped reading, no more.
        headers.retain(|h| !h.starts_with("connection"));
        answers.push((headers, text));
        let counted = place.receiver.refusals();
        assert_eq!(counted, [(Some("gemini".to_owned()), reason)]);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(place.receiver.taken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn size_and_method_are_bounded() {
    let place = Place::open().await;
    let fits = vec![b'x'; MAX_BODY];
    let request = place.hook().header("x-hook-secret", SHARED);
    assert_eq!(seen(request.body(fits.clone())).await.0, 200);
    let mut over = fits;
    over.push(b'x');
    let chunked = futures_util::stream::iter([Ok::<_, std::io::Error>(over.clone())]);
    for body in [
        reqwest::Body::from(over),
        reqwest::Body::wrap_stream(chunked),
    ] {
        let request = place.hook().header("x-hook-secret", SHARED).body(body);
        assert_eq!(seen(request).await.0, 413);
    }
    let url = format!("http://{}/hooks/gemini/{TOKEN}", place.server.address);
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let request = place.client.request(method.parse().unwrap(), &url);
        let (status, headers, _) = seen(request).await;
        assert_eq!(status, 405, "{method}");
        assert!(headers.contains(&"allow: POST".to_owned()), "{headers:?}");
    }
    let slow = format!(
        "POST /hooks/gemini/{TOKEN} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {SHARED}\r\n\
         Content-Length: 10\r\n\r\n12345"
    );
    let answer = place.server.exchange(slow.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let reasons: Vec<_> = place.receiver.refusals().into_iter().map(|r| r.1).collect();
    assert_eq!(
        reasons,
        ["body_too_large", "body_too_large", "body_incomplete"]
    );
}

#[tokio::test]
async fn what_is_not_stored_is_503_and_says_when_to_come_back() {
    let place = Place::open().await;
    for (body, retry_after) in [("full", "retry-after: 7"), ("defect", "retry-after: 1")] {
        let (status, headers, text) = seen(place.shared(body)).await;
        assert_eq!(status, 503, "{body}");
        assert!(headers.contains(&retry_after.to_owned()), "{headers:?}");
        assert!(!text.contains("planned"), "{text}");
    }
    let reasons: Vec<_> = place.receiver.refusals().into_iter().map(|r| r.1).collect();
    assert_eq!(reasons, ["store_unavailable", "store_unavailable"]);
}

#[tokio::test]
async fn more_than_the_permits_is_503_before_the_body() {
    let place = Place::new(Receiver::with_gate(0), settings(), 1).await;
    let first = tokio::task::JoinSet::from_iter([place.shared("first").send()]);
    place.receiver.entered.notified().await;
    let (status, headers, _) = seen(place.shared("second")).await;
    assert_eq!(status, 503);
    assert!(headers.contains(&"retry-after: 1".to_owned()));
    // What costs nothing to refuse is refused as ever, permits or not.
    assert_eq!(seen(place.hook().body("x")).await.0, 401);
    let large = place.hook().header("x-hook-secret", SHARED);
    assert_eq!(seen(large.body(vec![b'x'; MAX_BODY + 1])).await.0, 413);
    place.receiver.gate.add_permits(2);
    assert!(first.join_all().await.into_iter().all(|r| r.is_ok()));
    assert_eq!(seen(place.shared("third")).await.0, 200);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_take_its_commit_along() {
    let one_place = ServeSettings {
        max_connections: 1,
        ..settings()
    };
    let place = Place::new(Receiver::with_gate(0), one_place, 8).await;
    let mut stream = place.server.connect().await;
    let request = format!(
        "POST /hooks/gemini/{TOKEN} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {SHARED}\r\n\
         Content-Length: 4\r\n\r\nlast"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    place.receiver.entered.notified().await;
    drop(stream);
    // There is one place, so an answer to a second connection proves that the first, and its
    // handler with it, is gone.
    let mut probe = place.server.connect().await;
    let request = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    probe.write_all(request).await.unwrap();
    read_until(&mut probe, "not_found").await;
    assert!(place.receiver.taken.lock().unwrap().is_empty());
    place.receiver.gate.add_permits(1);
    let finished = place.receiver.finished.notified();
    tokio::time::timeout(PATIENCE, finished).await.unwrap();
    let taken = place.receiver.taken.lock().unwrap();
    assert_eq!(taken.first().unwrap().body().as_ref(), b"last");
}

#[tokio::test]
async fn failures_are_throttled_by_address_and_valid_deliveries_never() {
    let behind_a_proxy = ServeSettings {
        peers: Peers::new(vec!["127.0.0.0/8".parse().unwrap()]),
        ..settings()
    };
    let place = Place::new(Receiver::with_gate(1000), behind_a_proxy, 8).await;
    let from = |who: &str, request: reqwest::RequestBuilder| {
        request.header("x-forwarded-for", format!("9.9.9.9, {who}"))
    };
    for n in 0..60 {
        let (status, ..) = seen(from("198.51.100.1", place.hook())).await;
        assert_eq!(status, 401, "failure {n}");
    }
    let (status, headers, _) = seen(from("198.51.100.1", place.hook())).await;
    assert_eq!(status, 429);
    assert!(headers.contains(&"retry-after: 60".to_owned()));
    let (status, ..) = seen(from("198.51.100.1", place.shared("new"))).await;
    assert_eq!(status, 200, "a valid delivery is never throttled");
    let wrong_path = place.post("/hooks/gemini/wrong");
    assert_eq!(seen(from("198.51.100.1", wrong_path)).await.0, 404);
    assert_eq!(seen(from("198.51.100.2", place.hook())).await.0, 401);
    // Without a forwarding header everybody is the proxy: no limit.
    for _ in 0..70 {
        assert_eq!(seen(place.hook()).await.0, 401);
    }
}

#[tokio::test]
async fn a_body_is_asked_for_only_behind_the_first_gate() {
    let place = Place::open().await;
    let head = |token: &str| {
        format!(
            "POST /hooks/gemini/{token} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {SHARED}\r\n\
             Content-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
    };
    let mut stream = place.server.connect().await;
    stream.write_all(head(TOKEN).as_bytes()).await.unwrap();
    read_until(&mut stream, "100 Continue").await;
    stream.write_all(b"new").await.unwrap();
    read_until(&mut stream, "accepted").await;
    let answer = place.server.exchange(head("wrong").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn damaged_requests_never_reach_the_receiver_nor_break_the_door() {
    let place = Place::open().await;
    let request = format!(
        "POST /hooks/gemini/{TOKEN} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: not-the-shared-secret\r\n\
         webhook-id: msg_1\r\nwebhook-timestamp: 1769083200\r\nwebhook-signature: v1,AAAA\r\n\
         Content-Length: 4\r\nConnection: close\r\n\r\nbody"
    )
    .into_bytes();
    let mut rng = StdRng::seed_from_u64(20_260_122);
    let mut answered = 0;
    for turn in 0..400 {
        let mut damaged = request.clone();
        for _ in 0..rng.random_range(1..6) {
            let at = rng.random_range(0..damaged.len());
            match rng.random_range(0..4) {
                0 => drop(damaged.remove(at)),
                1 => damaged.insert(at, rng.random()),
                2 => damaged.truncate(at.max(1)),
                _ => *damaged.get_mut(at).unwrap() = rng.random(),
            }
        }
        let mut stream = place.server.connect().await;
        stream.write_all(&damaged).await.unwrap();
        // We have said all: what is still missing will not come.
        stream.shutdown().await.unwrap();
        let answer = read_to_end(&mut stream).await;
        let status = answer.get(9..12).unwrap_or("");
        let fine = [
            "", "400", "401", "404", "405", "408", "413", "414", "431", "505",
        ];
        let shown = String::from_utf8_lossy(&damaged);
        assert!(fine.contains(&status), "turn {turn}: {answer} to {shown}");
        answered += u32::from(!answer.is_empty());
    }
    assert!(answered > 200, "only {answered} were answered at all");
    assert!(place.receiver.taken.lock().unwrap().is_empty());
    assert_eq!(seen(place.shared("new")).await.0, 200);
}

/// Collects every log line of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_and_no_body_is_ever_logged() {
    let lines = Lines::default();
    let writer = lines.clone();
    let logger = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // The test's runtime has one thread, so this catches the server's tasks as well. While there is
    // only one subscriber, a line first met by another test's thread is taken to interest nobody;
    // a second subscriber makes tracing ask them all.
    let _guard = tracing::subscriber::set_default(logger);
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let place = Place::open().await;
    let raw = |token: &str, secret: &str, body: &str| {
        format!(
            "POST /hooks/gemini/{token} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {secret}\r\n\
             Authorization: Bearer canary-authorization\r\nCookie: canary-cookie\r\n\
             webhook-signature: v1,canary-signature\r\nwebhook-id: msg_1\r\n\
             webhook-timestamp: 1769083200\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    for (token, secret, body) in [
        (TOKEN, SHARED, "canary-body"),
        (TOKEN, "canary-secret", "canary-body"),
        ("canary-token", SHARED, "canary-body"),
    ] {
        place
            .server
            .exchange(raw(token, secret, body).as_bytes())
            .await;
    }
    for body in ["canary-body", "full", "defect"] {
        seen(place.shared(body)).await;
    }
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("request{id="), "{text}");
    let ours: Vec<&str> = text.lines().filter(|l| l.contains("hookledger")).collect();
    assert!(
        ours.iter().any(|l| l.contains("bad_shared_secret")),
        "{ours:#?}"
    );
    assert!(
        ours.iter().any(|l| l.contains("store_unavailable")),
        "{ours:#?}"
    );
    for canary in ["canary", TOKEN, SHARED, SIGNING] {
        let told: Vec<_> = ours.iter().filter(|l| l.contains(canary)).collect();
        assert!(told.is_empty(), "{canary}: {told:#?}");
    }
}
