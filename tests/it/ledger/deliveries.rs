//! Copies, wake-ups, and the queue's one ready row.

use hookledger::domain::event::Verdict;
use hookledger::domain::work::Outcome;
use hookledger::store::{EventFilter, WorkFilter};
use hookledger::work::ItemEnd;

use crate::support::world::{World, running, succeeded};

use super::{A, HOUR, MINUTE};

#[tokio::test]
async fn copies_of_one_delivery_fold_into_one_even_in_one_commit() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    let copies = futures_util::future::join_all((0..10).map(|_| w.tell("same", A))).await;
    let accepted = copies
        .iter()
        .filter(|r| r.verdict == Verdict::Accepted)
        .count();
    let duplicate = copies
        .iter()
        .filter(|r| r.verdict == Verdict::Duplicate)
        .count();
    assert_eq!((accepted, duplicate), (1, 9));
    w.work().await;
    w.send().await;
    assert_eq!(w.notify.sent().len(), 1);
    let events = w
        .base
        .store
        .events(&EventFilter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(events.items.len(), 1);
    assert_eq!(events.items[0].duplicates, 9);
}

#[tokio::test]
async fn a_duplicate_never_swallows_a_wake_up() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, running(A));
    w.tell("m1", A).await;
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::NotTerminal)]);
    w.api.says(A, succeeded(A));
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Duplicate);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Duplicate);
    assert_eq!(w.work().await, [], "settled: there is nothing to wake");
}

#[tokio::test]
async fn an_id_is_new_again_after_its_dedupe_row_expired() {
    let w = World::new().await;
    w.tell("m1", A).await;
    w.advance(167 * HOUR);
    w.advance(59 * MINUTE);
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Duplicate);
    w.advance(MINUTE);
    assert_eq!(w.tell("m1", A).await.verdict, Verdict::Accepted);
}

#[tokio::test]
async fn a_leased_item_of_a_dead_process_runs_again_at_once_and_stays_charged() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.tell("m1", A).await;
    let held = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap();
    assert_eq!((held.len(), held[0].attempts), (1, 1));
    let w = w.restart().await;
    let ready = w
        .base
        .store
        .work_items(&WorkFilter::default(), None, 9)
        .await
        .unwrap()
        .items;
    assert_eq!(ready[0].attempts, 1, "a crash counts");
    // The worker of before cannot write any more.
    let late = w
        .base
        .store
        .close_lease(&held[0], hookledger::store::Close::Release)
        .await;
    assert!(matches!(
        late,
        Err(hookledger::store::StoreError::Fenced { .. })
    ));
    w.api.says(A, succeeded(A));
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Settled)]);
}

#[tokio::test]
async fn an_expired_lease_is_taken_back_and_its_old_holder_is_fenced_off() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.tell("m1", A).await;
    let held = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap().remove(0);
    w.base.clock.jump_to(w.now().after(24 * HOUR));
    assert_eq!(
        w.reconcile().await.leases_freed,
        0,
        "a jump of the wall clock expires nothing"
    );
    w.advance(2 * MINUTE);
    assert_eq!(w.reconcile().await.leases_freed, 1);
    let again = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap().remove(0);
    assert!(again.epoch > held.epoch);
    assert!(w.base.store.renew(&held, MINUTE).await.is_err());
    let done = hookledger::store::Close::Done(Outcome::Settled);
    assert!(
        w.base
            .store
            .finish_looks(&held, Vec::new(), done, w.planner.clone())
            .await
            .is_err()
    );
    w.base.store.renew(&again, MINUTE).await.unwrap();
}

#[tokio::test]
async fn an_event_during_a_fetch_is_not_lost_and_never_makes_two_ready_rows() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.tell("m1", A).await;
    let held = w.base.store.claim(8, 8, 4, MINUTE).await.unwrap().remove(0);
    w.tell("m2", A).await;
    let failure = hookledger::store::WorkFailure {
        again_at: w.now(),
        why: "x".into(),
        charged: true,
    };
    w.base
        .store
        .close_lease(&held, hookledger::store::Close::Again(failure, 10))
        .await
        .unwrap();
    let items = w
        .base
        .store
        .work_items(&WorkFilter::default(), None, 9)
        .await
        .unwrap()
        .items;
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0].attempts, 1, "poison cannot launder its count");
}
