//! Ten thousand deliveries that nobody meant to send, through the listener, the door, the receiver
//! and a real file: every one is answered, none with a defect of ours, and none hangs.
//!
//! Payload `n` of a seed is always the same. `HOOKLEDGER_SEED` chooses another seed; a failure prints
//! both and the bytes.

mod generator;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::generator::Payload;
use super::http_door::{NOW, SHARED, seen};
use super::http_store::{Stored, stored};
use super::http_support::PATIENCE;

const PAYLOADS: u64 = 10_000;
const AT_ONCE: usize = 16;
const SEED: u64 = 20_261_130;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_damaged_deliveries_are_each_answered_without_a_defect() {
    let seed = std::env::var("HOOKLEDGER_SEED").map_or(SEED, |text| text.parse().unwrap());
    let stored = Arc::new(stored().await);
    let answers = futures_util::stream::iter(0..PAYLOADS)
        .map(|n| {
            let stored = Arc::clone(&stored);
            async move {
                let payload = generator::payload(seed, n, NOW);
                let answer = exchange(&stored, &payload).await;
                if let Some(why) = complaint(&payload, answer.as_deref()) {
                    let shown = String::from_utf8_lossy(&payload.bytes);
                    panic!("seed {seed}, payload {n}: {why}: {answer:?} to {shown:?}");
                }
                summary(&answer.unwrap_or_default())
            }
        })
        .buffer_unordered(AT_ONCE);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    futures_util::pin_mut!(answers);
    while let Some(answer) = answers.next().await {
        *counts.entry(answer).or_default() += 1;
    }
    // A generator that never gets in, or is never refused, tries nothing.
    for (answer, fewest) in [
        ("accepted", 300),
        ("ignored", 300),
        ("duplicate", 100),
        ("400", 100),
        ("401", 500),
        ("404", 100),
        ("413", 30),
    ] {
        let times = counts.get(answer).copied().unwrap_or(0);
        assert!(times >= fewest, "{answer} only {times} times: {counts:?}");
    }
    let body = r#"{"type":"batch.succeeded","data":{"id":"batches/a-true-one"}}"#;
    let true_one = stored.place.hook().header("x-hook-secret", SHARED);
    let (status, _, answer) = seen(true_one.body(body)).await;
    assert_eq!((status, &*answer), (200, r#"{"status":"accepted"}"#));
}

/// What came back, or `None` when nothing did in time.
async fn exchange(stored: &Stored, payload: &Payload) -> Option<String> {
    let talk = async {
        let mut stream = stored.place.server.connect().await;
        let (mut from, mut to) = stream.split();
        let mut all = Vec::new();
        let say = async {
            // A peer that answers early and closes is free to do so.
            let _ = to.write_all(&payload.bytes).await;
            if !payload.is_framed {
                // What is still missing will not come. A whole request waits for its answer.
                let _ = to.shutdown().await;
            }
        };
        let _ = tokio::join!(say, from.read_to_end(&mut all));
        String::from_utf8_lossy(&all).into_owned()
    };
    tokio::time::timeout(PATIENCE, talk).await.ok()
}

fn complaint(payload: &Payload, answer: Option<&str>) -> Option<&'static str> {
    let Some(answer) = answer else {
        return Some("no end within the bound");
    };
    let status = answer.get(9..12).unwrap_or("");
    if status.is_empty() && payload.is_framed {
        return Some("closed without an answer");
    }
    // 505 blames the sender's version of HTTP.
    (status.starts_with('5') && status != "505").then_some("blamed on us")
}

/// The verdict of a taken delivery, the status of any other.
fn summary(answer: &str) -> String {
    let verdict = answer
        .starts_with("HTTP/1.1 200")
        .then(|| answer.rsplit('"').nth(1))
        .flatten();
    let status = answer.get(9..12).unwrap_or("closed");
    verdict.unwrap_or(status).to_owned()
}
