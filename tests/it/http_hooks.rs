//! The public door over real connections: the table of answers, and who owns a commit.

use tokio::io::AsyncWriteExt;

use super::http_door::{BODY, MAX_BODY, Place, Receiver, SHARED, TOKEN, seen, signed};
use super::http_support::{PATIENCE, read_until, settings};
use hookledger::http::serve::ServeSettings;

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
