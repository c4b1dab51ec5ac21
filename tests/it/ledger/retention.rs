//! What goes after its time, and what must stay.

use hookledger::domain::operation::OperationState;
use hookledger::domain::work::Outcome;
use hookledger::receive::Replayed;
use hookledger::reconcile::upkeep::Upkeep;
use hookledger::store::{Begun, Imported, KeyedRequest, Over};
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
    let upkeep = Upkeep::new(
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
    let upkeep = Upkeep::new(
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
    let upkeep = Upkeep::new(
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

fn upkeep(w: &World) -> Upkeep {
    let (store, clock) = (w.base.store.clone(), w.base.clock.clone());
    Upkeep::new(store, w.planner.clone(), clock, &w.settings)
}

/// The rows of each table that a dry run counts.
fn counts(over: &[Over]) -> Vec<(&'static str, u64)> {
    over.iter().map(|over| (over.what, over.rows)).collect()
}

#[tokio::test]
async fn a_dry_run_counts_what_pruning_removes_and_removes_nothing() {
    let w = World::new().await;
    let upkeep = upkeep(&w);
    for n in 0..3 {
        let name = format!("batches/n{n}");
        w.register(&name, "nightly").await;
        w.api.says(&name, succeeded(&name));
        w.tell(&format!("m{n}"), &name).await;
    }
    w.register("batches/pending", "nightly").await;
    w.tell("mp", "batches/pending").await;
    w.base
        .store
        .open_alert("queue/dead".to_owned(), "s".to_owned(), w.planner.clone())
        .await
        .unwrap();
    w.base
        .store
        .recover_alert("queue/dead".to_owned(), w.planner.clone())
        .await
        .unwrap();
    let request = KeyedRequest {
        token: "admin".to_owned(),
        key: "k".to_owned(),
        fingerprint: "f".to_owned(),
    };
    let begun = w.base.store.begin_request(request, 24 * HOUR).await;
    assert_eq!(begun.unwrap(), Begun::New);
    w.work().await;
    while !w.send().await.is_empty() {}
    assert!(
        counts(&upkeep.over().await.unwrap())
            .iter()
            .all(|(_, rows)| *rows == 0)
    );
    w.advance(15 * 24 * HOUR);
    let over = upkeep.over().await.unwrap();
    assert_eq!(
        counts(&upkeep.over().await.unwrap()),
        counts(&over),
        "it removed something"
    );
    let events = over.iter().find(|over| over.what == "events").unwrap();
    assert_eq!(events.oldest, Some(crate::support::NOON));
    let pruned = upkeep.step().await.unwrap();
    assert_eq!(
        counts(&over),
        [
            ("operations", pruned.operations),
            ("events", pruned.events),
            ("bodies", pruned.bodies),
            ("dedupe_rows", pruned.dedupe_rows),
            ("work_items", pruned.work_items),
            ("tombstones", pruned.tombstones),
            ("alerts", pruned.alerts),
            ("notices", pruned.notices),
            ("requests", pruned.requests),
        ]
    );
    assert_eq!((pruned.operations, pruned.events), (3, 3), "{pruned:?}");
    assert_eq!(pruned.requests, 1, "{pruned:?}");
    assert!(
        pruned.bodies > 0 && pruned.alerts > 0 && pruned.notices > 0,
        "{pruned:?}"
    );
    assert!(!upkeep.step().await.unwrap().any());
    w.advance(91 * 24 * HOUR);
    let over = upkeep.over().await.unwrap();
    assert!(counts(&over).contains(&("tombstones", 3)), "{over:?}");
    assert!(w.operation("batches/pending").await.is_some());
}

#[tokio::test]
async fn a_delivery_loses_its_body_before_its_row_and_neither_while_its_operation_is_open() {
    let w = World::new().await;
    let upkeep = upkeep(&w);
    w.register("batches/pending", "nightly").await;
    w.api.says(A, succeeded(A));
    let settled = w.tell("m1", A).await.event_id;
    let open = w.tell("m2", "batches/pending").await.event_id;
    w.work().await;
    w.send().await;
    w.advance(8 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().bodies, 1);
    let emptied = w.base.store.event(settled).await.unwrap().unwrap();
    assert_eq!((emptied.body.len(), emptied.record.body_bytes), (0, 0));
    assert_eq!(emptied.headers, []);
    assert_eq!(emptied.record.emptied_at, Some(w.now()));
    let replayed = w.receiver.replay(settled).await.unwrap();
    assert_eq!(replayed, Replayed::Emptied);
    assert_eq!(upkeep.step().await.unwrap().bodies, 0, "emptied twice");
    let whole = w.base.store.event(open).await.unwrap().unwrap();
    assert!(!whole.body.is_empty());
    w.advance(7 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().events, 1);
    assert!(w.base.store.event(settled).await.unwrap().is_none());
    assert!(w.base.store.event(open).await.unwrap().is_some());
}

#[tokio::test]
async fn an_import_brings_back_nothing_that_was_pruned_and_repeats_no_effect() {
    let w = World::new().await;
    let upkeep = upkeep(&w);
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    w.send().await;
    w.advance(15 * 24 * HOUR);
    assert_eq!(upkeep.step().await.unwrap().operations, 1);
    let (old, new) = ("batches/old", "batches/new");
    let names = || [A, old, new].map(|name| name.parse().unwrap()).to_vec();
    let fates =
        |done: Vec<(_, Imported)>| done.into_iter().map(|(_, fate)| fate).collect::<Vec<_>>();
    let first = [Imported::Pruned, Imported::New, Imported::New];
    let would = w.base.store.would_import(names()).await.unwrap();
    assert_eq!(fates(would), first);
    assert!(w.operation(old).await.is_none(), "a dry run");
    let import = async |effects| w.registrar.import(names(), None, effects).await.unwrap();
    assert_eq!(fates(import(false).await), first);
    let again = [Imported::Pruned, Imported::Known, Imported::Known];
    assert_eq!(fates(import(true).await), again);
    w.api.says(old, succeeded(old));
    w.api.says(new, crate::support::world::running(new));
    w.reconcile().await;
    w.work().await;
    let done = w.operation(old).await.unwrap();
    assert_eq!(done.state, OperationState::Succeeded);
    assert!(done.effects_withheld && !done.side_effect_done);
    assert_eq!(w.notify.sent().len(), 1, "of the first, long ago");
    // The audit of the outbox does not plan them either, nor does a registration.
    w.reconcile().await;
    w.register(old, "nightly").await;
    assert_eq!(w.send().await, []);
    // One that was going on is like any other.
    assert!(!w.operation(new).await.unwrap().effects_withheld);
    w.api.says(new, succeeded(new));
    w.tell("m2", new).await;
    w.work().await;
    assert_eq!(w.send().await.len(), 1);
    // A person asks for those of the other.
    assert!(w.registrar.retry(done.id).await.unwrap());
    assert_eq!(w.send().await.len(), 1);
    assert!(w.operation(old).await.unwrap().side_effect_done);
}

#[tokio::test]
async fn a_delivery_that_this_service_answers_releases_withheld_effects() {
    let w = World::new().await;
    w.registrar
        .import(vec![A.parse().unwrap()], None, false)
        .await
        .unwrap();
    w.api.says(A, succeeded(A));
    w.tell("m1", A).await;
    w.work().await;
    assert_eq!(w.send().await.len(), 1);
    assert!(!w.operation(A).await.unwrap().effects_withheld);
}

#[tokio::test]
async fn a_delivery_releases_withheld_effects_also_when_the_look_was_faster() {
    let w = World::new().await;
    w.registrar
        .import(vec![A.parse().unwrap()], None, false)
        .await
        .unwrap();
    w.api.says(A, succeeded(A));
    w.reconcile().await;
    w.work().await;
    assert!(w.operation(A).await.unwrap().effects_withheld);
    let event = w.tell("m1", A).await.event_id;
    w.work().await;
    assert!(!w.operation(A).await.unwrap().effects_withheld);
    assert_eq!(w.send().await.len(), 1);
    assert!(w.operation(A).await.unwrap().side_effect_done);
    w.replay(event).await;
    w.tell("m2", A).await;
    w.work().await;
    assert_eq!(w.send().await, [], "sent once");
}

#[tokio::test]
async fn whoever_registers_what_was_imported_before_its_end_has_its_effects() {
    let w = World::new().await;
    let kind = || Some("nightly".parse().unwrap());
    for (name, kind) in [(A, None), ("batches/b", kind())] {
        let names = vec![name.parse().unwrap()];
        w.registrar.import(names, kind, false).await.unwrap();
        w.register(name, "nightly").await;
        w.api.says(name, succeeded(name));
    }
    w.reconcile().await;
    w.work().await;
    assert_eq!(w.send().await.len(), 2);
}
