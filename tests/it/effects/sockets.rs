//! What cannot be told by a status: receivers that hang, break off or were never there.
//!
//! Each receiver is a thread that ends when its client does, so nothing here waits for time but the
//! effect's own limit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use hookledger::domain::effect::Delivery;

use super::http::http;
use super::{LIMIT, effect, message, told};

/// Takes one connection, and does with it what the test says.
fn receiver<T: Send + 'static>(
    then: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || then(listener.accept().unwrap().0));
    (at, thread)
}

/// What the receiver saw. Waits beside the runtime: the client's side must go on meanwhile.
async fn ended<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let joined = tokio::task::spawn_blocking(|| thread.join().unwrap());
    joined.await.unwrap()
}

/// Reads a request up to the end of its body, which is `{}` in every test here.
fn read_request(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n{}") && stream.read(&mut byte).unwrap() == 1 {
        seen.push(byte[0]);
    }
    String::from_utf8(seen).unwrap()
}

async fn deliver(url: &str, timeout: Duration) -> (&'static str, String) {
    told(
        effect(http(url, None, true), timeout)
            .deliver(&message("{}"))
            .await,
    )
}

#[tokio::test]
async fn a_connection_lost_after_the_request_is_ambiguous() {
    let (at, thread) = receiver(|mut stream| read_request(&mut stream));
    let (word, why) = deliver(&format!("http://{at}/"), LIMIT).await;
    assert_eq!(word, "ambiguous", "{why}");
    assert!(ended(thread).await.starts_with("POST / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn half_an_answer_is_ambiguous() {
    let (at, thread) = receiver(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap();
    });
    let (word, why) = deliver(&format!("http://{at}/"), LIMIT).await;
    assert_eq!(word, "ambiguous", "{why}");
    ended(thread).await;
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_ambiguous() {
    let (at, thread) = receiver(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").unwrap();
    });
    let (word, why) = deliver(&format!("http://{at}/"), LIMIT).await;
    assert_eq!(word, "ambiguous", "{why}");
    ended(thread).await;
}

#[tokio::test]
async fn a_receiver_that_hangs_is_ambiguous_at_the_time_limit() {
    let (at, thread) = receiver(|mut stream| {
        read_request(&mut stream);
        // Ends when the client has given up and closed.
        stream.read(&mut [0]).unwrap_or(0)
    });
    let (word, why) = deliver(&format!("http://{at}/"), Duration::from_secs(1)).await;
    assert_eq!((word, why.as_str()), ("ambiguous", "no answer in time"));
    assert_eq!(ended(thread).await, 0);
}

#[tokio::test]
async fn a_status_decides_even_if_its_body_never_ends() {
    let (at, thread) = receiver(|mut stream| {
        read_request(&mut stream);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx")
            .unwrap();
        stream.read(&mut [0]).unwrap_or(0)
    });
    let (word, why) = deliver(&format!("http://{at}/"), Duration::from_secs(1)).await;
    assert_eq!(word, "done", "{why}");
    ended(thread).await;
}

#[tokio::test]
async fn an_endless_body_is_cut_at_its_bound() {
    const BODY: usize = 256 << 20;
    let (at, thread) = receiver(|mut stream| {
        read_request(&mut stream);
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n").unwrap();
        let chunk = vec![b'x'; 1 << 16];
        let mut written = 0;
        while written < BODY && stream.write_all(&chunk).is_ok() {
            written += chunk.len();
        }
        written
    });
    assert_eq!(deliver(&format!("http://{at}/"), LIMIT).await.0, "done");
    assert!(ended(thread).await < BODY / 4, "the rest was not read");
}

#[tokio::test]
async fn what_never_left_is_a_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let (word, why) = deliver(&format!("http://{closed}/"), LIMIT).await;
    assert_eq!(word, "retry", "{why}");

    // Not a TLS server: the handshake fails before a request exists.
    let (at, thread) = receiver(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let mut seen = Vec::new();
        let _ = stream.read_to_end(&mut seen);
        seen
    });
    let (word, why) = deliver(&format!("https://{at}/"), LIMIT).await;
    assert_eq!(word, "retry", "{why}");
    let seen = String::from_utf8_lossy(&ended(thread).await).into_owned();
    assert!(!seen.contains("POST"), "{seen}");

    let (word, why) = deliver("http://no-such-host.invalid/", Duration::from_secs(2)).await;
    assert_eq!(word, "retry", "{why}");
}

#[tokio::test]
async fn a_silent_handshake_is_a_retry_because_nothing_left() {
    let (at, thread) = receiver(|mut stream| {
        let mut seen = Vec::new();
        let _ = stream.read_to_end(&mut seen);
    });
    let (word, why) = deliver(&format!("https://{at}/"), Duration::from_secs(1)).await;
    assert_eq!((word, why.as_str()), ("retry", "no connection in time"));
    ended(thread).await;
}

#[tokio::test]
async fn a_dropped_attempt_closes_its_connection() {
    let (told_tx, told_rx) = tokio::sync::oneshot::channel();
    let (at, thread) = receiver(|mut stream| {
        read_request(&mut stream);
        told_tx.send(()).unwrap();
        stream.read(&mut [0]).unwrap_or(0)
    });
    let target = effect(http(&format!("http://{at}/"), None, true), LIMIT);
    let one = message("{}");
    tokio::select! {
        delivery = target.deliver(&one) => assert_eq!(delivery, Delivery::Done, "it hangs"),
        arrived = told_rx => arrived.unwrap(),
    }
    assert_eq!(
        ended(thread).await,
        0,
        "end of stream, long before the limit"
    );
}
