//! Stopping the accept loop, gently and by force.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hookledger::base::clock::{Clock, SystemClock};
use hookledger::http::serve::ServeSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::http_serve::router;
use super::http_support::{SHORT, Server, read_to_end, read_until, settings};

/// What the listener of the next test told last, and at most.
static OPEN: AtomicU64 = AtomicU64::new(0);
static MOST_OPEN: AtomicU64 = AtomicU64::new(0);

#[tokio::test]
async fn a_stop_finishes_what_is_asked_and_closes_the_rest() {
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        router().route(
            "/slow",
            get(async move || {
                entered.notify_one();
                leave.notified().await;
                "done"
            }),
        )
    };
    let counting = ServeSettings {
        on_connections: |open| {
            OPEN.store(open, Ordering::Relaxed);
            MOST_OPEN.fetch_max(open, Ordering::Relaxed);
        },
        ..settings()
    };
    let server = Server::start(slow, counting).await;
    let mut silent = server.connect().await;
    let mut late = server.connect().await;
    let mut idle = server.connect().await;
    let ask = b"GET /hi HTTP/1.1\r\nHost: x\r\n\r\n";
    idle.write_all(ask).await.unwrap();
    read_until(&mut idle, "hi").await;
    let mut busy = server.connect().await;
    let ask = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
    busy.write_all(ask).await.unwrap();
    entered.notified().await;

    server.stop.begin();
    assert_eq!(read_to_end(&mut idle).await, "");
    // Connected before the stop, asks a moment after it.
    let ask = b"GET /hi HTTP/1.1\r\nHost: x\r\n\r\n";
    late.write_all(ask).await.unwrap();
    let answer = read_to_end(&mut late).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(read_to_end(&mut silent).await, "");
    leave.notify_one();
    let answer = read_to_end(&mut busy).await;
    assert!(answer.ends_with("done"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    drop((silent, late, idle, busy));
    assert!(server.stop.drain(Duration::from_secs(5)).await);
    assert_eq!(MOST_OPEN.load(Ordering::Relaxed), 4);
    assert_eq!(OPEN.load(Ordering::Relaxed), 0);
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_forced_stop_drops_what_does_not_end() {
    let entered = Arc::new(Notify::new());
    let stuck = {
        let entered = Arc::clone(&entered);
        Router::new().route(
            "/stuck",
            get(async move || {
                entered.notify_one();
                std::future::pending::<()>().await;
            }),
        )
    };
    let server = Server::start(stuck, settings()).await;
    let mut stream = server.connect().await;
    let ask = b"GET /stuck HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    entered.notified().await;
    let clock = SystemClock::new();
    assert!(!server.stop.drain(SHORT).await);
    assert!(clock.monotonic() < Duration::from_secs(3));
    let left = stream.read(&mut [0; 1]).await;
    assert!(matches!(left, Ok(0) | Err(_)), "{left:?}");
}
