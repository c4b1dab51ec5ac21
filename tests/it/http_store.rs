//! The door with the real receiver and a real file behind it.

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::{ManualClock, SystemClock};
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::receive;
use hookledger::store::{OpenOptions, Store};
use tokio::task::JoinSet;

use super::http_door::{NOW, Place, SHARED, seen, signed};
use super::http_support::settings;

const DONE: &[u8] = br#"{"type":"batch.succeeded","data":{"id":"batches/b1"}}"#;

pub(crate) struct Stored {
    pub(crate) place: Place<receive::Receiver>,
    group: Shutdown,
    _directory: tempfile::TempDir,
}

pub(crate) async fn stored() -> Stored {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::starting_at(NOW));
    let ids = Arc::new(RandomIds::seeded(1));
    let group = Shutdown::new(Arc::new(SystemClock::new()));
    let options = OpenOptions {
        path: directory.path().join("webhook.db"),
        create: true,
        readers: 2,
        max_waiting: 1 << 20,
        check_at_once: hookledger::store::CHECK_AT_ONCE,
    };
    let store = Store::open(&options, clock.clone(), ids.clone(), &group).await;
    let receiver = receive::Receiver::new(store.unwrap(), clock, ids, Duration::from_hours(168));
    Stored {
        place: Place::new(Arc::new(receiver), settings(), 64).await,
        group,
        _directory: directory,
    }
}

#[tokio::test]
async fn ten_copies_at_once_are_one_delivery() {
    let stored = stored().await;
    let mut copies = JoinSet::new();
    for _ in 0..10 {
        copies.spawn(seen(signed(stored.place.hook(), 0, DONE).body(DONE)));
    }
    let mut answers: Vec<String> = copies.join_all().await.into_iter().map(|a| a.2).collect();
    answers.sort();
    let duplicates = vec![r#"{"status":"duplicate"}"#.to_owned(); 9];
    assert_eq!(answers.first().unwrap(), r#"{"status":"accepted"}"#);
    assert_eq!(answers.get(1..).unwrap(), duplicates);
}

#[tokio::test]
async fn what_names_no_operation_is_kept_and_ignored() {
    let stored = stored().await;
    for body in ["", "ping", "[1]", r#"{"type":"ping"}"#, "\u{feff}{"] {
        let request = stored.place.hook().header("x-hook-secret", SHARED);
        let (status, _, answer) = seen(request.body(body)).await;
        assert_eq!(
            (status, answer.as_str()),
            (200, r#"{"status":"ignored"}"#),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_store_that_is_gone_is_503() {
    let stored = stored().await;
    assert!(stored.group.drain(Duration::from_secs(5)).await);
    let request = signed(stored.place.hook(), 0, DONE).body(DONE);
    let (status, headers, _) = seen(request).await;
    assert_eq!(status, 503);
    assert!(
        headers.iter().any(|h| h.starts_with("retry-after: ")),
        "{headers:?}"
    );
}
