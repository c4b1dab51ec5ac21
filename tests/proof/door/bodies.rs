//! T21: bodies that are too long, end too early, or are not what they say.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::Duration;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hookledger::base::clock::{Clock as _, SystemClock};
use http::Method;
use sha2::Sha256;

use crate::load;
use crate::row::{Tier, Verdict};
use crate::support::stand::{PATH_TOKEN, SHARED, SIGNING, Stand};

const GROWTH: u64 = 16 << 20;
const PART: usize = 64 << 10;
const GIB: usize = 1 << 30;
const PATIENCE: Duration = Duration::from_secs(20);

/// Nothing is a 5xx, nothing is read for longer than needed, and memory stays.
pub(super) async fn run(tier: Tier) -> Verdict {
    let stand = Stand::with(&[("log.filter", "'warn'")]).await;
    // Once, so that what every request needs is there before memory is measured.
    signed_oddities(&stand).await;
    let before = load::peak_memory(&stand);
    let rounds = tier.of(3, 30);
    let all = async {
        let mut odd = 0;
        for _ in 0..rounds {
            for chunked in [false, true] {
                flood(&stand, chunked).await;
            }
            wrong_lengths(&stand).await;
            odd += signed_oddities(&stand).await;
        }
        odd
    };
    let (odd, accepted) = load::beside(&stand, "127.0.0.3", 50, all).await;
    let grown = load::peak_memory(&stand) - before;
    assert!(grown < GROWTH, "memory grew by {grown} bytes");
    Verdict::Passed(format!(
        "{} bodies of 1 GiB refused, {odd} signed oddities answered 200, {accepted} true deliveries \
         accepted meanwhile, memory +{} MiB",
        rounds * 2,
        grown >> 20
    ))
}

/// Sends one GiB for as long as somebody takes it.
async fn flood(stand: &Stand, chunked: bool) {
    let address = stand.public;
    let sender = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let framing = if chunked {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {GIB}")
        };
        let head = format!(
            "POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {SHARED}\r\n{framing}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut part = vec![b' '; PART];
        if chunked {
            part.splice(0..0, format!("{PART:x}\r\n").into_bytes());
            part.extend_from_slice(b"\r\n");
        }
        let mut sent = 0;
        while sent < GIB && stream.write_all(&part).is_ok() {
            sent += PART;
        }
        let mut answer = String::new();
        drop(std::io::Read::read_to_string(&mut stream, &mut answer));
        (sent, answer)
    });
    let (sent, answer) = sender.await.unwrap();
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    // A sender that goes on writing may lose the answer to a reset; if it has one, it is this.
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
}

/// Declares more than it sends, and less.
async fn wrong_lengths(stand: &Stand) {
    for (declared, body) in [("1000", "short"), ("3", "longer than that")] {
        let address = stand.public;
        let answer = tokio::task::spawn_blocking(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let request = format!(
                "POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: x\r\nX-Hook-Secret: {SHARED}\r\n\
                 Content-Length: {declared}\r\n\r\n{body}"
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            drop(std::io::Read::read_to_string(&mut stream, &mut answer));
            answer
        });
        let answer = answer.await.unwrap();
        assert!(!answer.starts_with("HTTP/1.1 5"), "{declared}: {answer}");
    }
}

/// True signatures over bodies that are no event. Each is stored or set aside, never an error.
async fn signed_oddities(stand: &Stand) -> usize {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let number = format!(
        "{{\"type\":\"batch.succeeded\",\"n\":{}}}",
        "9".repeat(100_000)
    );
    let bodies: [Vec<u8>; 10] = [
        Vec::new(),
        b"\xff\xfe not text".to_vec(),
        b"{\"type\":\"a\0b\"}".to_vec(),
        deep.into_bytes(),
        number.into_bytes(),
        b"{\"type\":\"x\",\"type\":\"batch.succeeded\",\"data\":{\"id\":\"batches/a\",\"id\":\"batches/b\"}}".to_vec(),
        br#"{"type":"\ud800"}"#.to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"null".to_vec(),
        vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
    ];
    for (n, body) in bodies.iter().enumerate() {
        let answer = signed(stand, &format!("odd-{n}"), body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "oddity {n}");
    }
    let ready = stand.request(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 200);
    bodies.len()
}

/// Signed here: the library of the tests refuses what is not UTF-8.
fn signed(stand: &Stand, id: &str, body: &[u8]) -> reqwest::RequestBuilder {
    let now = SystemClock::new().now().as_seconds();
    let key = BASE64
        .decode(SIGNING.trim_start_matches("whsec_").as_bytes())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{now}.").as_bytes());
    mac.update(body);
    let signature = BASE64.encode(&mac.finalize().into_bytes());
    stand
        .request(Method::POST, &format!("/hooks/gemini/{PATH_TOKEN}"))
        .header("x-hook-secret", SHARED)
        .header("content-encoding", "gzip")
        .header("webhook-id", id)
        .header("webhook-timestamp", now)
        .header("webhook-signature", format!("v1,{signature}"))
        .body(body.to_vec())
}
