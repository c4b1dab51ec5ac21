//! What goes after its time, and what must stay.

use hookledger::domain::operation::OperationState;
use hookledger::domain::work::Outcome;
use hookledger::work::ItemEnd;

use crate::support::world::{World, succeeded};

use super::{A, HOUR, MINUTE};

#[tokio::test]
async fn what_is_gone_for_good_is_pruned_and_its_alerts_end() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    while w.operation(A).await.unwrap().state == OperationState::Pending {
        w.advance(31 * MINUTE);
        w.reconcile().await;
        w.work().await;
    }
    let upkeep = hookledger::reconcile::upkeep::Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    w.advance(13 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 0);
    w.advance(2 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 1);
    assert!(w.operation(A).await.is_none());
    assert_eq!(w.base.store.open_alerts().await.unwrap(), []);
}

#[tokio::test]
async fn a_settled_operation_is_pruned_into_a_tombstone_that_late_events_cannot_wake() {
    let w = World::new().await;
    let upkeep = hookledger::reconcile::upkeep::Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    w.register(A, "nightly").await;
    w.register("batches/pending", "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    w.advance(13 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 0);
    w.advance(2 * 24 * HOUR);
    let pruned = upkeep.step().await.unwrap();
    assert_eq!(pruned.operations, 1);
    assert!(w.operation(A).await.is_none());
    assert!(
        w.operation("batches/pending").await.is_some(),
        "pending is never pruned"
    );
    w.tell("m2", A).await;
    let ends = w.work().await;
    assert!(ends.contains(&ItemEnd::Done(Outcome::Pruned)), "{ends:?}");
    assert!(w.operation(A).await.is_none());
}

#[tokio::test]
async fn an_effect_that_is_not_over_keeps_its_operation() {
    let w = World::new().await;
    let upkeep = hookledger::reconcile::upkeep::Upkeep::new(
        w.base.store.clone(),
        w.planner.clone(),
        w.base.clock.clone(),
        &w.settings,
    );
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.advance(20 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 0);
    assert!(w.operation(A).await.is_some());
}
