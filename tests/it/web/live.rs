//! The stream that tells a page to fetch itself again.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;
use crate::http_support::{read_to_end, read_until};

/// Opens a stream, and waits for its first words.
async fn listen(visitor: &Visitor<'_>) -> TcpStream {
    let address = visitor.site.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = format!(
        "GET /live HTTP/1.1\r\nHost: x\r\nCookie: {}\r\n\r\n",
        visitor.cookie
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let head = read_until(&mut stream, "retry: 3000").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    stream
}

/// Moves the clock until that has come.
async fn moved<T>(site: &Site, what: impl Future<Output = T>) -> T {
    let moving = async {
        loop {
            site.world.advance(Duration::from_millis(500));
            SystemClock::new().sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        come = what => come,
        () = moving => unreachable!(),
    }
}

async fn ticked(site: &Site, stream: &mut TcpStream) -> String {
    moved(site, read_until(stream, "event: changed")).await
}

#[tokio::test]
async fn a_change_is_told_and_a_quiet_time_too() {
    let site = Site::new().await;
    let visitor = site.sign_in(TOKEN).await;
    let mut stream = listen(&visitor).await;
    site.world.register("batches/a", "nightly").await;
    // Before a quiet time would be told.
    let soon = async {
        for _ in 0..19 {
            site.world.advance(Duration::from_millis(500));
            SystemClock::new().sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = read_until(&mut stream, "event: changed") => {}
        () = soon => unreachable!(),
    }
    let before = site.world.now();
    ticked(&site, &mut stream).await;
    assert!(site.world.now().since(before) >= Duration::from_secs(10));
}

#[tokio::test]
async fn a_stop_ends_every_stream_at_once() {
    let site = Site::new().await;
    let visitor = site.sign_in(TOKEN).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(listen(&visitor).await);
    }
    let began = SystemClock::new();
    let ends = futures_util::future::join_all(streams.iter_mut().map(read_to_end));
    let (clean, ends) = tokio::join!(site.stop.drain(Duration::from_secs(5)), ends);
    assert!(clean && began.monotonic() < Duration::from_secs(3));
    for end in ends {
        assert!(end.contains("0\r\n\r\n"), "{end:?}");
    }
}

#[tokio::test]
async fn streams_are_few_and_end_with_their_session() {
    let site = Site::new().await;
    let visitor = site.sign_in(TOKEN).await;
    let mut first = listen(&visitor).await;
    let mut rest = Vec::new();
    for _ in 0..3 {
        rest.push(listen(&visitor).await);
    }
    assert_eq!(visitor.get("/live").await.status, 503);
    let other = site.sign_in(TOKEN).await;
    drop(listen(&other).await);
    assert_eq!(visitor.press("/logout", &[]).await.status, 303);
    // The answer ends; the connection may be used for another.
    moved(&site, read_until(&mut first, "0\r\n\r\n")).await;
    assert_eq!(visitor.get("/live").await.status, 303);
}

#[tokio::test]
async fn a_stream_is_no_person_and_takes_nothing_that_was_to_be_said() {
    let site = Site::new().await;
    site.world.register("batches/open", "nightly").await;
    let operation = site.world.operation("batches/open").await.unwrap();
    let visitor = site.sign_in(TOKEN).await;
    let here = format!("/operations/{}", operation.id);
    assert_eq!(
        visitor.press(&format!("{here}/fetch"), &[]).await.status,
        303
    );
    drop(listen(&visitor).await);
    visitor.page(&here).await.shows("A fetch is queued");

    // Opened again after hours, with nobody before it.
    site.world.advance(Duration::from_hours(7));
    drop(listen(&visitor).await);
    site.world.advance(Duration::from_hours(6));
    assert_eq!(visitor.get("/").await.status, 303);
}
