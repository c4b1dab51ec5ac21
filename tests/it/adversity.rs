//! Orders, collisions and texts that nobody sends on purpose.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hookledger::base::ids::Ids;
use hookledger::base::shutdown::Shutdown;
use hookledger::domain::effect::{AmbiguousPolicy, Delivery, EffectState};
use hookledger::domain::event::Verdict;
use hookledger::domain::fault::Fault;
use hookledger::domain::operation::OperationState;
use hookledger::domain::work::{Outcome, Reason};
use hookledger::receive::parse;
use hookledger::reconcile::upkeep::Upkeep;
use hookledger::store::{Binding, NewDelivery, Received, StoreError};
use hookledger::work::ItemEnd;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::world::{Says, World, running, succeeded};

const A: &str = "batches/a";
const MINUTE: Duration = Duration::from_secs(60);

/// A delivery whose id, reservation and body are all chosen.
async fn deliver(w: &World, id: Option<&str>, reserved: Option<Uuid>, body: &Value) -> Received {
    let facts = parse::read(body.to_string().as_bytes(), id);
    let now = w.now();
    let delivery = NewDelivery {
        id: Ids::uuid(&*w.base.ids, now),
        source: "gemini".to_owned(),
        received_at: now,
        event_type: facts.event_type,
        operation: facts.operation,
        dedupe_key: facts.dedupe_key,
        dedupe_until: now.after(w.settings.hooks.dedupe_ttl),
        ignored_because: facts.ignored_because,
        webhook_id: id.map(ToOwned::to_owned),
        proof: "test".to_owned(),
        reservation: reserved,
        replay_of: None,
        user_metadata: facts.user_metadata,
        headers: Vec::new(),
        body: Bytes::from(body.to_string()),
    };
    w.base.store.deliver(delivery).await.unwrap()
}

async fn alerts(w: &World) -> Vec<String> {
    let open = w.base.store.open_alerts().await.unwrap();
    open.into_iter().map(|a| a.subject).collect()
}

async fn reserve(w: &World, job_kind: &str) -> Uuid {
    let kind = job_kind.parse().unwrap();
    w.registrar.reserve(kind, None).await.unwrap()
}

fn ended(operation: &str) -> Value {
    json!({"type": "batch.succeeded", "data": {"id": operation}})
}

fn undecodable() -> Says {
    Says::Fault(Fault::Undecodable {
        what: "as planned".to_owned(),
    })
}

#[tokio::test]
async fn a_key_that_holds_a_nul_is_still_new_the_first_time_and_a_duplicate_the_second() {
    let w = World::new().await;
    for body in [
        json!({"event_id": "e\u{0}1", "data": {"id": A}}),
        json!({"data": {"id": "batches/b", "state": "DONE\u{0}"}}),
    ] {
        let first = deliver(&w, None, None, &body).await;
        assert_eq!(first.verdict, Verdict::Accepted, "{body}");
        let stored = w.base.store.event(first.event_id).await.unwrap();
        assert!(stored.is_some(), "{body} was answered, so it is on disk");
        let second = deliver(&w, None, None, &body).await;
        assert_eq!(second.verdict, Verdict::Duplicate, "{body}");
    }
    let other = json!({"event_id": "e\u{0}2", "data": {"id": A}});
    let other = deliver(&w, None, None, &other).await;
    assert_eq!(
        other.verdict,
        Verdict::Accepted,
        "another id is another event"
    );
}

#[tokio::test]
async fn a_full_name_never_takes_the_place_of_another_operation_with_its_last_segment() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    // Nobody knows this one: it waits for days.
    deliver(&w, Some("m1"), None, &ended("projects/p/operations/a")).await;
    w.work().await;
    deliver(&w, Some("m2"), None, &ended(A)).await;
    w.work().await;
    let settled = w.operation(A).await.unwrap();
    assert_eq!(settled.state, OperationState::Succeeded);
}

#[tokio::test]
async fn a_delivery_is_not_swallowed_by_the_item_of_another_operation_with_its_last_segment() {
    const B: &str = "interactions/a";
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, running(A));
    w.api
        .says(B, Says::Body(json!({"id": "a", "status": "completed"})));
    deliver(&w, Some("m1"), None, &ended(A)).await;
    deliver(&w, Some("m2"), None, &ended(B)).await;
    w.work().await;
    let adopted = w.operation(B).await.expect("its delivery was accepted");
    assert_eq!(adopted.state, OperationState::Succeeded);
}

#[tokio::test]
async fn a_dead_letter_stops_no_other_operation_with_its_last_segment() {
    const POISON: &str = "interactions/a";
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.api.says(POISON, undecodable());
    deliver(&w, Some("m1"), None, &ended(POISON)).await;
    for _ in 0..10 {
        w.work().await;
        w.advance(11 * MINUTE);
    }
    assert_eq!(w.base.store.dead_items().await.unwrap(), 1);
    w.reconcile().await;
    w.work().await;
    let settled = w.operation(A).await.unwrap();
    assert_eq!(settled.state, OperationState::Succeeded);
}

#[tokio::test]
async fn the_alert_about_the_key_ends_when_the_next_process_has_a_better_one() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    let refused = Fault::KeyRefused {
        what: "expired".to_owned(),
    };
    w.api.says(A, Says::Fault(refused));
    deliver(&w, Some("m1"), None, &ended(A)).await;
    w.work().await;
    assert_eq!(alerts(&w).await, ["gemini/key"]);

    let w = w.restart().await;
    w.api.says(A, succeeded(A));
    w.advance(11 * MINUTE);
    w.work().await;
    let settled = w.operation(A).await.unwrap();
    assert_eq!(settled.state, OperationState::Succeeded);
    assert_eq!(alerts(&w).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_unreachable_api_says_nothing_about_a_refused_key() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    let refused = Fault::KeyRefused {
        what: "expired".to_owned(),
    };
    w.api.says(A, Says::Fault(refused));
    deliver(&w, Some("m1"), None, &ended(A)).await;
    w.work().await;
    let silence = Fault::Unavailable {
        retry_after: None,
        what: "no route".to_owned(),
    };
    w.api.probe_says(Some(silence.clone()));
    w.api.says(A, Says::Fault(silence));
    w.advance(MINUTE);
    w.work().await;
    assert_eq!(alerts(&w).await, ["gemini/key"]);
    w.api.probe_says(None);
    w.api.says(A, succeeded(A));
    w.advance(11 * MINUTE);
    w.work().await;
    assert_eq!(alerts(&w).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_alert_about_a_dead_effect_ends_when_its_operation_is_pruned() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    deliver(&w, Some("m1"), None, &ended(A)).await;
    w.work().await;
    w.notify.answer_next(Delivery::Refused {
        why: "no".to_owned(),
    });
    assert_eq!(w.send().await, [EffectState::Dead]);
    assert_eq!(alerts(&w).await.len(), 1);
    w.advance(Duration::from_hours(24 * 15));
    let (store, clock) = (w.base.store.clone(), w.base.clock.clone());
    let upkeep = Upkeep::new(store, w.planner.clone(), clock, &w.settings);
    assert_eq!(upkeep.step().await.unwrap().operations, 1);
    assert_eq!(alerts(&w).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_cut_off_alert_raises_no_alert_about_itself() {
    let w = World::on(
        crate::support::TestStore::open().await,
        "",
        AmbiguousPolicy::Retry,
    );
    let store = w.base.store.clone();
    store
        .open_alert("x".to_owned(), "x".to_owned(), w.planner.clone())
        .await
        .unwrap();
    let sending = store
        .begin_sends(vec![("pager".to_owned(), 8)], MINUTE)
        .await
        .unwrap();
    assert_eq!(sending.len(), 1);
    let policies = vec![("pager".to_owned(), AmbiguousPolicy::Hold)];
    store
        .free_sends(true, policies, w.planner.clone())
        .await
        .unwrap();
    assert_eq!(alerts(&w).await, ["x"]);
}

#[tokio::test]
async fn a_reserved_url_binds_what_another_delivery_had_adopted() {
    for settled_first in [true, false] {
        let w = World::new().await;
        let id = reserve(&w, "nightly").await;
        w.api.says(
            A,
            if settled_first {
                succeeded(A)
            } else {
                running(A)
            },
        );
        deliver(&w, Some("m1"), None, &ended(A)).await;
        w.work().await;
        assert!(!w.operation(A).await.unwrap().registered);
        deliver(&w, Some("m2"), Some(id), &ended(A)).await;
        w.work().await;
        let bound = w.operation(A).await.unwrap();
        assert!(bound.registered, "settled first: {settled_first}");
        assert_eq!(bound.job_kind.as_str(), "nightly");
        let gauges = w.base.store.gauges().await.unwrap();
        assert_eq!(gauges.reserved, 0, "the reservation is used up");
    }
}

#[tokio::test]
async fn binding_again_after_the_answer_was_lost_is_the_same_record() {
    let w = World::new().await;
    let id = reserve(&w, "nightly").await;
    w.api.says(A, succeeded(A));
    deliver(&w, Some("m1"), None, &ended(A)).await;
    w.work().await;
    let name = || A.parse().unwrap();
    let Binding::Bound(bound) = w.registrar.bind(id, name()).await.unwrap() else {
        panic!("not bound");
    };
    match w.registrar.bind(id, name()).await.unwrap() {
        Binding::Same(again) => assert_eq!(again.id, bound.id),
        other => panic!("{other:?}"),
    }
    let other = "batches/other".parse().unwrap();
    assert_eq!(w.registrar.bind(id, other).await.unwrap(), Binding::Unknown);
}

#[tokio::test]
async fn a_replay_keeps_the_reservation_that_its_delivery_came_by() {
    let w = World::with("[worker]\nunresolved_ttl = \"1h\"").await;
    let id = reserve(&w, "nightly").await;
    let event = deliver(&w, Some("m1"), Some(id), &ended(A)).await.event_id;
    w.work().await;
    w.advance(61 * MINUTE);
    assert_eq!(w.work().await, [ItemEnd::Done(Outcome::Unresolved)]);
    w.api.says(A, succeeded(A));
    w.replay(event).await;
    w.work().await;
    let bound = w.operation(A).await.unwrap();
    assert_eq!((bound.id, bound.settled_by), (id, Some(Reason::Replay)));
}

#[tokio::test]
async fn a_worker_whose_slots_are_full_does_not_write_while_it_waits() {
    let w = World::with("[worker]\nconcurrency = 2\nfresh_slots = 1").await;
    for name in [A, "batches/b"] {
        w.register(name, "nightly").await;
        w.api.says(name, Says::Hang);
    }
    w.advance(2 * MINUTE);
    assert_eq!(w.reconcile().await.looks_queued, 2);
    let (group, worker) = (Shutdown::new(w.base.clock.clone()), w.worker.clone());
    let stop = group.clone();
    group.spawn_loop("worker", move |heart| {
        worker.clone().run_loop(stop.clone(), heart)
    });
    while w.api.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    // Whatever the loop would write by itself stands between these marks.
    for _ in 0..20 {
        w.base.store.ping().await.unwrap();
    }
    let (before, _) = w.base.store.commits();
    for _ in 0..200 {
        w.base.store.ping().await.unwrap();
    }
    let (after, _) = w.base.store.commits();
    assert_eq!(
        after, before,
        "nothing can be claimed, so nothing is written"
    );
    group.begin();
}

#[tokio::test]
async fn a_file_that_somebody_holds_for_a_while_costs_neither_the_answer_nor_an_attempt() {
    use sqlx::Connection as _;
    let w = World::new().await;
    w.register(A, "nightly").await;
    let told = Arc::new(tokio::sync::Notify::new());
    let Says::Body(body) = succeeded(A) else {
        unreachable!()
    };
    w.api.says(A, Says::Held(told.clone(), body));
    deliver(&w, Some("m1"), None, &ended(A)).await;
    let work = w.work();
    tokio::pin!(work);
    while w.api.asked().is_empty() {
        assert!(futures_util::poll!(work.as_mut()).is_pending());
        w.base.store.ping().await.unwrap();
    }
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(w.dir().path().join("test.db"));
    let mut other = sqlx::SqliteConnection::connect_with(&file).await.unwrap();
    let held = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    told.notify_one();
    assert!(futures_util::poll!(work.as_mut()).is_pending());
    // Refused together with the look.
    let refused = w.base.store.beat().await;
    assert!(matches!(refused, Err(StoreError::Locked)), "{refused:?}");
    assert!(futures_util::poll!(work.as_mut()).is_pending());
    held.rollback().await.unwrap();
    let end = loop {
        w.advance(Duration::from_secs(1));
        if let std::task::Poll::Ready(end) = futures_util::poll!(work.as_mut()) {
            break end;
        }
        w.base.store.ping().await.unwrap();
    };
    assert_eq!(end, [ItemEnd::Done(Outcome::Settled)]);
    assert_eq!(w.api.asked().len(), 1, "what was learned is kept");
}

#[tokio::test]
async fn a_clock_set_back_by_hours_puts_no_look_off_for_hours() {
    let w = World::new().await;
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    w.base.clock.jump_to(w.now().before(3 * 60 * MINUTE));
    w.reconcile().await;
    w.work().await;
    let settled = w.operation(A).await.unwrap();
    assert_eq!(settled.state, OperationState::Succeeded);
    // What may well be so far away is left alone.
    let w = World::new().await;
    w.register(A, "nightly").await;
    assert_eq!(w.reconcile().await.looks_queued, 0, "the grace is not over");
}

#[tokio::test]
async fn a_clock_set_back_by_a_month_makes_nothing_wait_for_a_month() {
    const B: &str = "batches/b";
    let w = World::new().await;
    let back = || {
        let month = Duration::from_hours(24 * 30);
        w.base.clock.jump_to(w.now().before(month));
    };
    w.register(A, "nightly").await;
    w.api.says(A, succeeded(A));
    deliver(&w, Some("m1"), None, &ended(B)).await;
    w.work().await;
    w.api.says(B, succeeded(B));
    back();
    w.reconcile().await;
    w.work().await;
    for name in [A, B] {
        let settled = w.operation(name).await.expect(name);
        assert_eq!(settled.state, OperationState::Succeeded, "{name}");
    }
    back();
    w.reconcile().await;
    assert_eq!(w.send().await, [EffectState::Done, EffectState::Done]);
}

#[tokio::test]
async fn registering_an_adopted_operation_that_waits_for_a_client_runs_the_effect_of_that() {
    const I: &str = "interactions/v1_i";
    let w = World::new().await;
    // Effects of the world match every job kind, so the planner of this one is its own.
    let rule = hookledger::domain::effect::EffectRule {
        name: "notify".to_owned(),
        job_kind: "nightly".to_owned(),
        on: vec![hookledger::domain::effect::Trigger::RequiresAction],
        ambiguous: AmbiguousPolicy::Retry,
    };
    let planner = Arc::new(hookledger::effects::plan::Planner::new(
        vec![rule],
        Vec::new(),
    ));
    let registrar = hookledger::work::Registrar::new(
        w.base.store.clone(),
        planner,
        w.base.clock.clone(),
        w.base.ids.clone(),
        hookledger::work::Policy::new(&w.settings),
    );
    w.api.says(
        I,
        Says::Body(json!({"id": "v1_i", "status": "requires_action"})),
    );
    let asks = json!({"type": "interaction.requires_action", "data": {"id": I}});
    deliver(&w, Some("m1"), None, &asks).await;
    w.work().await;
    assert!(w.operation(I).await.unwrap().requires_action);
    let (name, kind) = (I.parse().unwrap(), "nightly".parse().unwrap());
    registrar.register(name, kind, None).await.unwrap();
    w.send().await;
    assert_eq!(w.notify.sent().len(), 1);
}

/// A receiver that answers only when told.
#[derive(Debug)]
struct Hanging(tokio::sync::Notify);

#[async_trait::async_trait]
impl hookledger::effects::Effect for Hanging {
    async fn deliver(&self, _message: &hookledger::effects::Message) -> Delivery {
        self.0.notified().await;
        Delivery::Done
    }

    fn timeout(&self) -> Duration {
        60 * MINUTE
    }

    fn kind(&self) -> &'static str {
        "hanging"
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_keeps_no_other_effect_waiting() {
    use hookledger::effects::Registry;
    let w = World::new().await;
    for i in 0..20 {
        let name = format!("batches/h{i}");
        w.register(&name, "nightly").await;
        w.api.says(&name, succeeded(&name));
        w.tell(&format!("m{i}"), &name).await;
    }
    while !w.work().await.is_empty() {}
    // "notify" hangs with far more due than it has slots; "pager" must still be told.
    let mut registry = Registry::default();
    let rule = |name: &str| hookledger::domain::effect::EffectRule {
        name: name.to_owned(),
        job_kind: "*".to_owned(),
        on: Vec::new(),
        ambiguous: AmbiguousPolicy::Retry,
    };
    let hanging = Hanging(tokio::sync::Notify::new());
    registry.add(rule("notify"), Arc::new(hanging)).unwrap();
    registry.add(rule("pager"), w.pager.clone()).unwrap();
    let sender = Arc::new(hookledger::work::Sender::new(
        w.base.store.clone(),
        Arc::new(registry),
        w.planner.clone(),
        w.base.clock.clone(),
        w.base.ids.clone(),
        &w.settings.delivery,
    ));
    let group = Shutdown::new(w.base.clock.clone());
    let stop = group.clone();
    group.spawn_loop("sender", move |heart| {
        Arc::clone(&sender).run_loop(stop.clone(), heart)
    });
    let mut news = w.base.store.news();
    let told = async {
        // First the one that hangs takes all it may; then something else falls due.
        while w.base.store.gauges().await.unwrap().effects_sending < 8 {
            news.changed().await.unwrap();
        }
        let planner = w.planner.clone();
        let alert = w
            .base
            .store
            .open_alert("x".to_owned(), "x".to_owned(), planner);
        alert.await.unwrap();
        while w.pager.sent().is_empty() {
            news.changed().await.unwrap();
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(20), told).await;
    assert!(told.is_ok(), "the alert waits behind the one that hangs");
    // Eight of the hanging one; the alert's own receipt may not be written yet.
    let sending = w.base.store.gauges().await.unwrap().effects_sending;
    assert!((8..=9).contains(&sending), "{sending}");
    group.begin();
}
