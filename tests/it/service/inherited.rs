//! The listening socket outlives the process: whoever connects between two of them waits for the next.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::stand::{SOON, Stand, silent, succeeded};

const RESTARTS: usize = 3;
/// Deliveries sent while no process runs.
const BETWEEN: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_made_between_two_processes_are_answered_by_the_next() {
    let mut stand = Stand::up().await;
    stand.kill().await;
    let (public, admin) = (
        TcpListener::bind(stand.public).unwrap(),
        TcpListener::bind(stand.admin).unwrap(),
    );
    let name = stand.gemini.start(silent(false)).unwrap();
    let mut service = stand.spawn_on(&public, &admin);
    service.ready(stand.public).await;
    for restart in 0..RESTARTS {
        service.terminate();
        assert!(service.ended(SOON).await.success(), "{}", service.logged());
        let deliveries = (0..BETWEEN).map(|n| {
            let id = format!("between-{restart}-{n}");
            stand.deliver_owned(id, succeeded(&name))
        });
        let waiting = tokio::spawn(futures_util::future::join_all(deliveries));
        // They are connected, and nobody is there to answer.
        let clock = hookledger::base::clock::SystemClock::new();
        hookledger::base::clock::Clock::sleep(&clock, Duration::from_millis(200)).await;
        assert!(!waiting.is_finished(), "somebody answered");
        service = stand.spawn_on(&public, &admin);
        for answer in waiting.await.unwrap() {
            assert_eq!(answer, Ok(200));
        }
        service.ready(stand.public).await;
    }
    assert!(
        stand.operation(&name).await.is_some(),
        "the operator's listener"
    );
    service.kill().await;
}
