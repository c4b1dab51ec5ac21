//! A source that takes deliveries from some addresses alone, behind a proxy that says whose they are.

use std::sync::Arc;

use hookledger::base::clock::ManualClock;
use hookledger::http::peers::Peers;
use hookledger::http::serve::ServeSettings;
use tokio::io::AsyncWriteExt;

use super::http_door::{NOW, Place, Receiver, SHARED, TOKEN, seen, verifier_of};
use super::http_support::{read_until, settings};

/// The one network that may deliver; the proxy is loopback.
async fn place(proxies: &[&str], allowed: &str) -> Place {
    let serving = ServeSettings {
        peers: Peers::new(proxies.iter().map(|p| p.parse().unwrap()).collect()),
        ..settings()
    };
    let allowed = vec![allowed.parse().unwrap()];
    let verifier = verifier_of(|source| source.allow_from = allowed);
    let clock = Arc::new(ManualClock::starting_at(NOW));
    let receiver = Receiver::with_gate(1000);
    Place::behind(verifier, clock, receiver, serving, 8).await
}

#[tokio::test]
async fn elsewhere_is_answered_like_any_unknown_path_and_counted_by_its_own_reason() {
    let place = place(&["127.0.0.0/8"], "198.51.100.0/24").await;
    let unknown = seen(place.post("/no/such/path").body("x")).await;
    assert_eq!(unknown.0, 404);
    let from = |hops: &str| place.shared("new").header("x-forwarded-for", hops);
    for inside in [
        "198.51.100.7",
        "203.0.113.9, 198.51.100.7",
        "198.51.100.8:443",
    ] {
        assert_eq!(seen(from(inside)).await.0, 200, "{inside}");
    }
    assert_eq!(place.receiver.refusals(), []);
    // What stands further left was written by whoever wanted to.
    let outside = ["203.0.113.9", "198.51.100.7, 203.0.113.9", "unknown", ""];
    for hops in outside {
        assert_eq!(seen(from(hops)).await, unknown, "{hops}");
    }
    // Without a word of the proxy nobody knows who it is.
    assert_eq!(seen(place.shared("new")).await, unknown);
    let reason = (Some("gemini".to_owned()), "address_not_allowed");
    assert_eq!(place.receiver.refusals(), vec![reason; outside.len() + 1]);
    assert_eq!(place.receiver.taken.lock().unwrap().len(), 3);
    // However often somebody tries, and with whatever token.
    for _ in 0..80 {
        assert_eq!(seen(from("203.0.113.9")).await, unknown);
    }
    let wrong = place.post("/hooks/gemini/wrong");
    let wrong = wrong.header("x-forwarded-for", "203.0.113.9").body("x");
    assert_eq!(seen(wrong).await, unknown);
    let counted = place.receiver.refusals();
    assert_eq!(counted.last().unwrap(), &(None, "wrong_token"));
}

#[tokio::test]
async fn elsewhere_is_refused_before_the_body_is_read() {
    let place = place(&["127.0.0.0/8"], "198.51.100.0/24").await;
    let mut stream = place.server.connect().await;
    let head = format!(
        "POST /hooks/gemini/{TOKEN} HTTP/1.1\r\nhost: a\r\nx-hook-secret: {SHARED}\r\n\
         x-forwarded-for: 203.0.113.9\r\ncontent-length: 100\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, "\"not_found\"").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn without_a_trusted_proxy_the_peer_itself_is_compared() {
    let here = place(&[], "127.0.0.0/8").await;
    let spoofed = |place: &Place| {
        place
            .shared("new")
            .header("x-forwarded-for", "198.51.100.7")
    };
    assert_eq!(seen(spoofed(&here)).await.0, 200);
    let there = place(&[], "198.51.100.0/24").await;
    assert_eq!(seen(spoofed(&there)).await.0, 404);
}
