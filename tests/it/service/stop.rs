//! SIGTERM: in time, with exit code 0, and without losing what was answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::{Fault, FaultKind};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{PATH_TOKEN, SOON, Stand, silent, succeeded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_it_stops_in_time_and_every_answer_was_true() {
    let mut stand = Stand::up().await;
    let names: Vec<String> = (0..20)
        .map(|_| stand.gemini.start(silent(false)).unwrap())
        .collect();
    let mut service = stand.take();
    let stopped = AtomicBool::new(false);
    let sender = async |from: usize| {
        let mut stored = Vec::new();
        for n in 0.. {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("load-{from}-{n}");
            let name = &names[n % names.len()];
            // Refused or cut off: the sender would try again elsewhere.
            if let Ok(answer) = stand.signed(&id, succeeded(name)).send().await
                && answer.status() == 200
            {
                stored.push((id, name.clone()));
            }
        }
        stored
    };
    let clock = SystemClock::new();
    let stopping = async {
        clock.sleep(Duration::from_millis(700)).await;
        service.terminate();
        let status = service.ended(Duration::from_secs(9)).await;
        stopped.store(true, Ordering::Relaxed);
        status
    };
    let (sent, status) = tokio::join!(futures_util::future::join_all((0..8).map(sender)), stopping);
    assert_eq!(status.code(), Some(0), "{}", service.logged());
    assert!(service.logged().contains("hookledger has stopped"));
    let sent: Vec<_> = sent.into_iter().flatten().collect();
    assert!(sent.len() > 20, "only {} were answered", sent.len());
    let told = Told {
        stored: sent.iter().map(|(id, _)| id.clone()).collect(),
        settled: sent.into_iter().map(|(_, name)| name).collect(),
        ..Told::default()
    };
    outside::check_stored(&stand.db(), &told).await;
    outside::check_file(&stand.db()).await;
    // The next one carries all of it to its end.
    stand.start().await;
    eventually("all is settled", SOON, async || {
        outside::is_drained(&stand.db()).await.then_some(())
    })
    .await;
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_api_and_stalled_clients_do_not_delay_it() {
    let mut stand = Stand::up().await;
    let name = stand.gemini.start(silent(false)).unwrap();
    let hang = Fault {
        ms: Some(60_000),
        ..Fault::once(FaultKind::Hang).on(&name).times(0)
    };
    stand.gemini.fault(hang);
    assert_eq!(stand.deliver("hanging", succeeded(&name)).await.0, 200);
    let asked = || {
        stand
            .gemini
            .requests()
            .iter()
            .any(|r| r.path.ends_with(&name))
    };
    eventually("the API is asked", SOON, async || asked().then_some(())).await;
    let mut stalled = Vec::new();
    for n in 0..60 {
        let mut socket = TcpStream::connect(stand.public).await.unwrap();
        let text = match n % 3 {
            0 => String::new(),
            1 => format!("POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: a\r\nX-Half"),
            _ => format!(
                "POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: a\r\nX-Hook-Secret: {}\r\nContent-Length: 50\r\n\r\nhalf",
                crate::support::stand::SHARED
            ),
        };
        socket.write_all(text.as_bytes()).await.unwrap();
        stalled.push(socket);
    }
    let mut service = stand.take();
    service.terminate();
    eventually("it begins to stop", SOON, async || {
        service.logged().contains("\"stopping\"").then_some(())
    })
    .await;
    // The listener closes last: a delivery is still taken, for the next process to work on.
    let late = stand.gemini.start(silent(false)).unwrap();
    let answer = stand.deliver("late", succeeded(&late)).await;
    assert_eq!(answer, (200, "accepted".to_owned()));
    let looks = || {
        stand
            .gemini
            .requests()
            .iter()
            .filter(|r| r.path.ends_with(&late))
            .count()
    };
    // The configured 8 s, and a moment for a busy machine.
    let status = service.ended(Duration::from_millis(9_500)).await;
    assert_eq!(status.code(), Some(0), "{}", service.logged());
    drop(stalled);
    assert_eq!(looks(), 0, "no new work is begun");
    let held = "SELECT count(*) FROM work_queue WHERE state = 'leased'";
    assert_eq!(
        outside::count(&stand.db(), held).await,
        0,
        "the lease was given back"
    );
    let charged = "SELECT coalesce(sum(attempts), 0) FROM work_queue";
    assert_eq!(
        outside::count(&stand.db(), charged).await,
        0,
        "a stop is nobody's fault"
    );
    stand.gemini.clear_faults();
    stand.start().await;
    stand.settled(&name).await;
    stand.settled(&late).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_receiver_does_not_delay_it_and_hears_the_same_again() {
    let mut stand = Stand::with(&[("server.stop_timeout", "'3s'")]).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    stand.sink.answer_after(Duration::from_secs(60));
    assert_eq!(stand.deliver("told", succeeded(&name)).await.0, 200);
    let arrived = || (stand.sink.about(&name).len() == 1).then_some(());
    eventually("the effect arrives", SOON, async || arrived()).await;
    let mut service = stand.take();
    service.terminate();
    let status = service.ended(Duration::from_millis(4_500)).await;
    assert_eq!(status.code(), Some(0), "{}", service.logged());
    stand.sink.answer_after(Duration::ZERO);
    stand.start().await;
    stand.settled(&name).await;
    let got = stand.sink.about(&name);
    assert_eq!(got.len(), 2);
    assert_eq!(got.first(), got.last(), "the same key and the same bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_it_stops_at_once() {
    let mut stand = Stand::up().await;
    // A kept-alive connection is not work.
    assert_eq!(stand.deliver("ping", "{}").await.0, 200);
    let mut service = stand.take();
    service.terminate();
    let status = service.ended(Duration::from_secs(3)).await;
    assert_eq!(status.code(), Some(0), "{}", service.logged());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_while_it_starts_it_goes_as_well() {
    let mut stand = Stand::up().await;
    stand.kill().await;
    for wait in [0, 20, 40, 80] {
        let mut service = stand.spawn("early.log");
        // Until it says so, the kernel answers the signal.
        eventually("it begins", SOON, async || {
            service.logged().contains("hookledger starts").then_some(())
        })
        .await;
        SystemClock::new().sleep(Duration::from_millis(wait)).await;
        service.terminate();
        let status = service.ended(Duration::from_secs(3)).await;
        assert_eq!(status.code(), Some(0), "{}", service.logged());
        std::fs::remove_file(stand.dir.path().join("early.log")).unwrap();
    }
    stand.start().await;
    outside::check_file(&stand.db()).await;
}
