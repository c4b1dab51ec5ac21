//! T22: heads that are too large, ambiguous, or two requests in one.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::load;
use crate::row::{Tier, Verdict};
use crate::support::outside;
use crate::support::stand::{PATH_TOKEN, SHARED, Stand};

const PATIENCE: Duration = Duration::from_secs(20);

/// Every one is answered with a 4xx or closed, and none is stored.
pub(super) async fn run(tier: Tier) -> Verdict {
    let stand = Stand::with(&[("log.filter", "'warn'")]).await;
    let rounds = tier.of(20, 1_000);
    let heads = heads();
    let all = async {
        for _ in 0..rounds {
            for (what, head) in &heads {
                let answer = exchange(&stand, head).await;
                let status = answer.get(9..12).unwrap_or("");
                assert!(
                    status.is_empty() || status.starts_with('4'),
                    "{what}: {answer}"
                );
            }
            two_framings(&stand).await;
        }
    };
    let ((), accepted) = load::beside(&stand, "127.0.0.3", 50, all).await;
    let strange = "SELECT count(*) FROM captured_events WHERE webhook_id IS NULL OR webhook_id NOT LIKE 'beside-%'";
    assert_eq!(
        outside::count(&stand.db(), strange).await,
        0,
        "one was stored"
    );
    Verdict::Passed(format!(
        "{} kinds of head {rounds} times each refused, {accepted} true deliveries accepted meanwhile",
        heads.len()
    ))
}

/// A name for each, and its bytes. The body of each would be accepted without what is wrong.
#[expect(clippy::too_many_lines, reason = "a table")]
fn heads() -> Vec<(&'static str, Vec<u8>)> {
    let line = format!("POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\n");
    let proof = format!("X-Hook-Secret: {SHARED}\r\n");
    let body = r#"{"type":"batch.succeeded","data":{"id":"batches/smuggled"}}"#;
    let length = format!("Content-Length: {}\r\n", body.len());
    let whole = |head: &str| format!("{line}{proof}{head}\r\n{body}").into_bytes();
    let host = "Host: x\r\n";
    let hooks = |name: &str| format!("{host}{length}{name}: one\r\n{name}: two\r\n");
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let chunked = |head: &str| format!("{line}{proof}{host}{head}\r\n{chunk}").into_bytes();
    let extension = format!(
        "{:x};{}\r\n{body}\r\n0\r\n\r\n",
        body.len(),
        "e".repeat(64 << 10)
    );
    vec![
        (
            "101 headers",
            whole(&format!("{host}{length}{}", "X: y\r\n".repeat(101))),
        ),
        (
            "300 KiB of header",
            whole(&format!("{host}{length}X: {}\r\n", "y".repeat(300 << 10))),
        ),
        (
            "a URI of 70 KiB",
            format!(
                "POST /hooks/gemini/{} HTTP/1.1\r\n{host}{proof}{length}\r\n{body}",
                "u".repeat(70 << 10)
            )
            .into_bytes(),
        ),
        ("webhook-id twice", whole(&hooks("webhook-id"))),
        (
            "webhook-timestamp twice",
            whole(&hooks("webhook-timestamp")),
        ),
        (
            "webhook-signature twice",
            whole(&hooks("webhook-signature")),
        ),
        (
            "x-hook-secret twice",
            whole(&format!("{host}{length}{proof}")),
        ),
        (
            "an id that is not ASCII",
            whole(&format!(
                "{host}{length}webhook-id: \u{e9}\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AA==\r\n"
            )),
        ),
        (
            "a folded header",
            whole(&format!("{host}{length}X: a\r\n b\r\n")),
        ),
        (
            "two lengths",
            whole(&format!("{host}{length}Content-Length: 3\r\n")),
        ),
        (
            "a length with a sign",
            whole(&format!("{host}Content-Length: +{}\r\n", body.len())),
        ),
        (
            "a transfer coding we do not know",
            chunked("Transfer-Encoding: xchunked\r\n"),
        ),
        (
            "a space before the colon",
            whole(&format!("{host}{length}X : y\r\n")),
        ),
        (
            "a chunk extension of 64 KiB",
            format!("{line}{proof}{host}Transfer-Encoding: chunked\r\n\r\n{extension}")
                .into_bytes(),
        ),
        ("no Host", whole(&length)),
        ("two Hosts", whole(&format!("{host}Host: y\r\n{length}"))),
        (
            "HTTP/2 by prior knowledge",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        ),
    ]
}

/// A length and chunks: the chunks count (RFC 9112, 6.3), and the connection ends with the answer, so what
/// a proxy may have taken for a second request is never read as one.
async fn two_framings(stand: &Stand) {
    let body = "1\r\n{\r\n0\r\n\r\n";
    let one = format!(
        "POST /hooks/gemini/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n{body}GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        body.len() + 37
    );
    let mut stream = TcpStream::connect(stand.public).await.unwrap();
    stream.write_all(one.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(end.is_ok(), "it was left open");
    let answer = String::from_utf8_lossy(&answer);
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

/// What it is answered, or nothing when the connection is closed without an answer. Our side stays open:
/// whoever hangs up is owed no answer.
async fn exchange(stand: &Stand, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(stand.public).await.unwrap();
    // It may be refused before it has said all.
    drop(stream.write_all(request).await);
    let mut answer = Vec::new();
    let whole = async {
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            if !matches!(stream.read_buf(&mut answer).await, Ok(1..)) {
                break;
            }
        }
    };
    let end = tokio::time::timeout(PATIENCE, whole).await;
    assert!(end.is_ok(), "it was left open");
    String::from_utf8_lossy(&answer).into_owned()
}
