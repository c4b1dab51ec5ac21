//! Who is charged for a death, and who is buried.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::time::Duration;

use hookledger::domain::ledger::Lease;
use hookledger::domain::operation::OperationName;
use hookledger::domain::work::{Outcome, Reason, WorkState};
use hookledger::store::{Close, WorkFilter};

use crate::support::TestStore;

const CAP: u32 = 10;

fn batch(n: usize) -> OperationName {
    format!("batches/{n}").parse().unwrap()
}

async fn queued(base: &TestStore, items: std::ops::Range<usize>) {
    for n in items {
        let reason = [Reason::Reconcile, Reason::Webhook][n % 2];
        base.store.wake(&batch(n), reason).await.unwrap();
    }
}

async fn claimed(base: &TestStore) -> Vec<Lease> {
    let lease = Duration::from_secs(60);
    base.store.claim(64, 64, 64, lease).await.unwrap()
}

/// The process dies and another starts.
async fn dies(base: &TestStore) {
    base.store.rescue_leases(CAP, true).await.unwrap();
}

async fn done(base: &TestStore, held: &Lease) {
    let close = Close::Done(Outcome::NotTerminal);
    base.store.close_lease(held, close).await.unwrap();
}

fn names(leases: &[Lease]) -> Vec<&str> {
    let mut names: Vec<&str> = leases.iter().map(|held| held.raw.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn poison_is_buried_and_nothing_that_was_in_hand_with_it() {
    let base = TestStore::open().await;
    queued(&base, 0..40).await;
    let poison = "batches/17";
    let (mut deaths, mut ended) = (0, 0);
    loop {
        base.clock.advance(Duration::from_secs(1));
        let held = claimed(&base).await;
        if held.is_empty() {
            break;
        }
        if held.iter().any(|held| held.raw == poison) {
            deaths += 1;
            dies(&base).await;
            continue;
        }
        for held in &held {
            done(&base, held).await;
            assert!(held.attempts <= 4, "{} was charged on and on", held.raw);
            ended += 1;
        }
    }
    assert_eq!((deaths, ended), (CAP, 39));
    let dead = base.store.dead_items().await.unwrap();
    assert_eq!(dead, 1);
}

#[tokio::test]
async fn of_the_suspects_one_is_in_hand_and_the_others_hide_nothing() {
    let base = TestStore::open().await;
    queued(&base, 0..3).await;
    for _ in 0..2 {
        assert_eq!(claimed(&base).await.len(), 3);
        dies(&base).await;
    }
    let first = claimed(&base).await;
    assert_eq!(first.len(), 1);
    assert_eq!(claimed(&base).await.len(), 0);
    let due = base.store.next_work_due_by_lane().await.unwrap();
    assert_eq!(due, (None, None), "a wait that no sleep would end");

    // Whoever was never in hand at a death is in nobody's way.
    queued(&base, 3..5).await;
    assert_eq!(names(&claimed(&base).await), ["batches/3", "batches/4"]);

    done(&base, &first[0]).await;
    let (fresh, old) = base.store.next_work_due_by_lane().await.unwrap();
    assert!(fresh.is_some() || old.is_some());
    let second = claimed(&base).await;
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].raw, first[0].raw);
}

#[tokio::test]
async fn a_freed_suspect_waits_behind_the_others_of_its_lane() {
    let base = TestStore::open().await;
    for n in 0..3 {
        let reason = Reason::Reconcile;
        base.store.wake(&batch(n), reason).await.unwrap();
    }
    let mut alone = Vec::new();
    for death in 0..5 {
        base.clock.advance(Duration::from_secs(1));
        let held = claimed(&base).await;
        if death >= 2 {
            alone.extend(names(&held).into_iter().map(str::to_owned));
        }
        dies(&base).await;
    }
    alone.sort_unstable();
    assert_eq!(alone, ["batches/0", "batches/1", "batches/2"]);
}

#[tokio::test]
async fn a_suspect_without_a_slot_in_its_lane_holds_up_nobody_in_the_other() {
    let base = TestStore::open().await;
    queued(&base, 0..2).await;
    for _ in 0..2 {
        assert_eq!(claimed(&base).await.len(), 2);
        dies(&base).await;
    }
    // One is fresh, the other is not, and the one that is first in line has no slot.
    let lease = Duration::from_secs(60);
    let fresh = base.store.claim(1, 1, 0, lease).await.unwrap();
    assert_eq!(names(&fresh), ["batches/1"]);
    done(&base, &fresh[0]).await;
    let old = base.store.claim(1, 0, 1, lease).await.unwrap();
    assert_eq!(names(&old), ["batches/0"]);
}

#[tokio::test]
async fn an_event_does_not_make_an_innocent_of_a_suspect() {
    let base = TestStore::open().await;
    queued(&base, 0..2).await;
    for _ in 0..2 {
        assert_eq!(claimed(&base).await.len(), 2);
        dies(&base).await;
    }
    let held = claimed(&base).await;
    assert_eq!(held.len(), 1);
    let name: OperationName = held[0].raw.parse().unwrap();
    base.store.wake(&name, Reason::Webhook).await.unwrap();
    dies(&base).await;
    assert_eq!(claimed(&base).await.len(), 1, "both are suspects still");
}

#[tokio::test]
async fn a_person_who_retries_forgets_the_deaths() {
    let base = TestStore::open().await;
    queued(&base, 0..1).await;
    for _ in 0..CAP {
        assert_eq!(claimed(&base).await.len(), 1);
        dies(&base).await;
    }
    assert_eq!(claimed(&base).await.len(), 0);
    queued(&base, 1..2).await;
    for _ in 0..2 {
        claimed(&base).await;
        dies(&base).await;
    }
    assert_eq!(names(&claimed(&base).await), ["batches/1"]);
    assert_eq!(retried(&base).await, 1);
    assert_eq!(names(&claimed(&base).await), ["batches/0"]);
}

/// Puts every dead item back, and says how many there were.
async fn retried(base: &TestStore) -> u64 {
    let dead = WorkFilter {
        state: Some(WorkState::Dead),
        ..WorkFilter::default()
    };
    let page = base.store.work_items(&dead, None, 50).await.unwrap();
    let ids = page.items.iter().map(|item| item.id).collect();
    base.store.retry_dead(ids).await.unwrap()
}
