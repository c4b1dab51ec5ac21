//! The public door under guessing, damage and curiosity.

use std::sync::{Arc, Mutex};

use hookledger::http::peers::Peers;
use hookledger::http::serve::ServeSettings;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::AsyncWriteExt;

use super::http_door::{Place, Receiver, SHARED, SIGNING, TOKEN, seen};
use super::http_support::{read_to_end, settings};

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
