//! The listening socket outlives the process: whoever connects between two of them waits for the next.

use std::net::TcpListener;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use tokio::task::JoinSet;

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
        let mut waiting = JoinSet::new();
        for n in 0..BETWEEN {
            let id = format!("between-{restart}-{n}");
            waiting.spawn(stand.deliver_owned(&id, succeeded(&name)));
        }
        // They are connected, and nobody is there to answer.
        SystemClock::new().sleep(Duration::from_millis(200)).await;
        assert!(waiting.try_join_next().is_none(), "somebody answered");
        service = stand.spawn_on(&public, &admin);
        for answer in waiting.join_all().await {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_only_has_an_address_is_refused_at_the_start() {
    let mut stand = Stand::up().await;
    stand.kill().await;
    let deaf = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&deaf, &stand.public).unwrap();
    let admin = TcpListener::bind(stand.admin).unwrap();
    let mut service = stand.spawn_on(&deaf.into(), &admin);
    assert_eq!(service.ended(SOON).await.code(), Some(1));
    let log = service.logged();
    assert!(log.contains("socket 0 that was handed down"), "{log}");
    assert!(log.contains("it does not listen"), "{log}");
}
