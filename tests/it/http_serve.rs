//! The accept loop, spoken to over raw sockets.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use hookledger::base::clock::{Clock, SystemClock};
use hookledger::http::body::read_capped;
use hookledger::http::error::Problem;
use hookledger::http::peers::Peers;
use hookledger::http::serve::ServeSettings;
use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::http_support::{PATIENCE, SHORT, Server, read_to_end, read_until, settings};

pub(crate) fn router() -> Router {
    Router::new()
        .route("/hi", get(|| async { "hi" }))
        .route(
            "/panic",
            get(|| async {
                let planned = true;
                assert!(!planned, "as planned");
            }),
        )
        .route("/refuse", post(|| async { Problem::TOO_LARGE }))
        .route(
            "/capped",
            post(|headers: HeaderMap, body: Body| async move {
                match read_capped(&headers, body, 256 * 1024, SHORT).await {
                    Ok(whole) => whole.len().to_string().into_response(),
                    Err(error) => Problem::from(error).into_response(),
                }
            }),
        )
}

async fn server() -> Server {
    Server::start(router(), settings()).await
}

#[tokio::test]
async fn stalled_and_silent_connections_are_closed_by_the_header_deadline() {
    let quick = ServeSettings {
        header_timeout: SHORT,
        ..settings()
    };
    let server = Server::start(router(), quick).await;
    let clock = SystemClock::new();
    let silent = async { read_to_end(&mut server.connect().await).await };
    let partial = server.exchange(b"GET /hi HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    let idle = server.exchange(b"GET /hi HTTP/1.1\r\nHost: x\r\n\r\n");
    let (silent, partial, idle) = tokio::join!(silent, partial, idle);
    let took = clock.monotonic();
    assert!(took >= SHORT && took < Duration::from_secs(3), "{took:?}");
    assert_eq!(silent, "");
    assert!(!partial.contains("200"), "{partial}");
    assert!(idle.starts_with("HTTP/1.1 200"), "{idle}");
}

#[tokio::test]
async fn dribbling_headers_does_not_move_the_deadline() {
    let quick = ServeSettings {
        header_timeout: SHORT,
        ..settings()
    };
    let server = Server::start(router(), quick).await;
    let (mut read, mut write) = server.connect().await.into_split();
    let clock = SystemClock::new();
    let dribble = async {
        write.write_all(b"GET /hi HTTP/1.1\r\n").await.unwrap();
        loop {
            let pause = std::future::pending::<()>();
            let _ = tokio::time::timeout(Duration::from_millis(20), pause).await;
            if write.write_all(b"X: y\r\n").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut rest = Vec::new();
    tokio::select! {
        () = dribble => {}
        _ = read.read_to_end(&mut rest) => {}
    }
    assert!(
        clock.monotonic() < Duration::from_secs(1),
        "{:?}",
        clock.monotonic()
    );
}

#[tokio::test]
async fn a_large_body_refused_early_still_sees_its_413() {
    let server = server().await;
    let body = vec![b'x'; 3 * 1024 * 1024];
    for path in ["/refuse", "/capped"] {
        for framing in ["length", "chunked"] {
            let head = if framing == "length" {
                format!("Content-Length: {}", body.len())
            } else {
                "Transfer-Encoding: chunked".to_owned()
            };
            let mut request =
                format!("POST {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n").into_bytes();
            if framing == "chunked" {
                request.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
            }
            request.extend_from_slice(&body);
            if framing == "chunked" {
                request.extend_from_slice(b"\r\n0\r\n\r\n");
            }
            for turn in 0..20 {
                let (address, request) = (server.address, request.clone());
                let answer = tokio::task::spawn_blocking(move || simple_client(address, &request));
                let answer = answer.await.unwrap();
                let what = format!("{path} {framing} {turn}: {answer}");
                assert!(answer.starts_with("HTTP/1.1 413"), "{what}");
                assert!(answer.contains("connection: close"), "{what}");
            }
        }
    }
}

/// A client on a thread of its own that writes all it has, and only then looks at the answer. Small
/// buffers keep the kernel from taking the request whole before the server has seen any of it.
fn simple_client(address: SocketAddr, request: &[u8]) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for part in request.chunks(16 * 1024) {
        if let Err(error) = stream.write_all(part) {
            return format!("(writing failed: {error})");
        }
        std::thread::yield_now();
    }
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Ok(_) => answer,
        Err(error) => format!("(reading failed: {error}) {answer}"),
    }
}

#[tokio::test]
async fn a_refusal_does_not_wait_for_the_body_nor_ask_for_it() {
    let server = server().await;
    let clock = SystemClock::new();
    for head in [
        "Content-Length: 3000000",
        "Content-Length: 3000000\r\nExpect: 100-continue",
    ] {
        let mut stream = server.connect().await;
        let head = format!("POST /refuse HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
    assert!(
        clock.monotonic() < Duration::from_secs(1),
        "{:?}",
        clock.monotonic()
    );
}

#[tokio::test]
async fn a_body_that_never_ends_is_not_read_for_ever() {
    let server = server().await;
    let mut stream = server.connect().await;
    let head = b"POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let part = vec![b'x'; 65536];
    let mut sent = 0_usize;
    while stream.write_all(&part).await.is_ok() {
        sent += 65536;
        assert!(sent < 64 * 1024 * 1024, "the server reads on and on");
    }
    assert!(sent >= 3 * 1024 * 1024, "only {sent} bytes were taken");
}

#[tokio::test]
async fn a_body_is_bounded_in_time() {
    let server = server().await;
    let slow = b"POST /capped HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345";
    let answer = server.exchange(slow).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn headers_are_bounded_in_number_and_size() {
    let server = server().await;
    let request = |headers: String| format!("GET /hi HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
    let many = |n: usize| "X-Many: y\r\n".repeat(n);
    let long = |n: usize| format!("X-Long: {}\r\n", "y".repeat(n));
    for (headers, status) in [
        (many(62), "200"),
        (many(64), "431"),
        (long(15 * 1024), "200"),
        (long(17 * 1024), "431"),
        (long(300 * 1024), "431"),
    ] {
        let closing = format!("{headers}Connection: close\r\n");
        let answer = server.exchange(request(closing).as_bytes()).await;
        let what = &headers[..20];
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{what}: {answer}"
        );
    }
    // Not finished, but already too long.
    let endless = format!(
        "GET /hi HTTP/1.1\r\nHost: x\r\nX: {}",
        "y".repeat(20 * 1024)
    );
    let answer = server.exchange(endless.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let server = server().await;
    for head in [
        "GET /hi HTTP/1.1\r\n",
        "GET /hi HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        "GET /hi HTTP/1.1\r\nHost: a b\r\n",
        "GET /hi HTTP/1.0\r\n",
        "POST /capped HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "POST /capped HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n",
        "GET /hi HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n",
        "GET /hi HTTP/1.1\r\nHost : x\r\n",
    ] {
        let request = format!("{head}Connection: close\r\n\r\n");
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.contains(" 400 "), "{head}: {answer}");
    }
    // The preface of HTTP/2 is no request.
    let answer = server.exchange(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!answer.contains(" 200 "), "{answer}");
}

#[tokio::test]
async fn unknown_paths_panics_and_methods_answer_with_documents() {
    let server = server().await;
    let ask = async |line: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        server.exchange(request.as_bytes()).await
    };
    for (line, status, code) in [
        ("GET /nothing", "404", "\"code\":\"not_found\""),
        ("DELETE /hi", "405", "\"code\":\"method_not_allowed\""),
        ("GET /panic", "500", "\"code\":\"internal\""),
    ] {
        let answer = ask(line).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains(code), "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains("x-request-id: 0"), "{answer}");
        assert!(!answer.contains("as planned"), "{answer}");
    }
    assert!(ask("GET /hi").await.ends_with("hi"));
}

#[tokio::test]
async fn connections_are_bounded_in_all_and_per_address() {
    let few = ServeSettings {
        max_connections: 2,
        ..settings()
    };
    let server = Server::start(router(), few).await;
    let ask = b"GET /hi HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for stream in [&mut first, &mut second] {
        stream.write_all(ask).await.unwrap();
        read_until(stream, "hi").await;
    }
    // The third waits in the backlog until a place is free.
    let mut third = server.connect().await;
    third.write_all(ask).await.unwrap();
    let waited = tokio::time::timeout(SHORT, third.read(&mut [0; 1])).await;
    assert!(waited.is_err(), "a third connection was served");
    drop(first);
    read_until(&mut third, "hi").await;

    // A loopback peer is limited only once a proxy is named, and it is not that proxy.
    let narrow = ServeSettings {
        max_connections_per_address: 1,
        peers: Peers::new(vec!["192.0.2.1/32".parse().unwrap()]),
        ..settings()
    };
    let server = Server::start(router(), narrow.clone()).await;
    let mut first = server.connect().await;
    first.write_all(ask).await.unwrap();
    read_until(&mut first, "hi").await;
    let refused = server.connect().await.read(&mut [0; 1]).await;
    assert!(matches!(refused, Ok(0) | Err(_)), "{refused:?}");
    for trusting in [
        Peers::default(),
        Peers::new(vec!["127.0.0.0/8".parse().unwrap()]),
    ] {
        let open = ServeSettings {
            peers: trusting,
            ..narrow.clone()
        };
        let server = Server::start(router(), open).await;
        let mut kept = Vec::new();
        for _ in 0..3 {
            let mut stream = server.connect().await;
            stream.write_all(ask).await.unwrap();
            read_until(&mut stream, "hi").await;
            kept.push(stream);
        }
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_let_go() {
    let quick = ServeSettings {
        write_timeout: SHORT,
        ..settings()
    };
    let big = Router::new().route("/big", get(|| async { vec![b'x'; 32 << 20] }));
    let server = Server::start(big, quick).await;
    let mut stream = server.connect().await;
    let ask = b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    // The stop waits for the connection, which ends only if the write gives up.
    stream.readable().await.unwrap();
    assert!(server.stop.drain(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn no_connection_is_for_ever() {
    let server = server().await;
    let mut stream = server.connect().await;
    let asks = "GET /hi HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1001);
    stream.write_all(asks.as_bytes()).await.unwrap();
    let answers = read_to_end(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 1000);
    assert_eq!(answers.matches("connection: close").count(), 1);
}
