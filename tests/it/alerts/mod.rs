//! hookledger's own alerts, each from its cause to its end, through a real receiver and a real program.
//!
//! One table: what causes the alert, the turn that looks for it, what mends it. Each must be told once
//! when it opens and once when it ends, however often is looked in between.

mod rules;
mod stage;

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hookledger::base::shutdown::Shutdown;
use hookledger::domain::effect::EffectState;
use hookledger::reconcile::rescued::RESCUED_ALERT;
use hookledger::reconcile::subscription::{CANARY_ALERT, STATE_ALERT};
use hookledger::reconcile::watch::DISK_ALERT;
use hookledger::simulator::WebhookState;
use hookledger::store::EffectRetry;

use crate::support::world::{running, succeeded};
use stage::Stage;

const A: &str = "batches/a";
const B: &str = "batches/b";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const GIB: u64 = 1 << 30;

type Act = for<'s> fn(&'s Stage) -> BoxFuture<'s, ()>;

struct Row {
    what: &'static str,
    /// How the alert's subject begins.
    subject: &'static str,
    /// Keys of `[subscription]`.
    keys: &'static str,
    cause: Act,
    look: Act,
    mend: Act,
}

const TABLE: &[Row] = &[
    Row {
        what: "a stuck operation",
        subject: "operation/",
        keys: "",
        cause: |s| {
            async {
                s.scene.world.register(A, "nightly").await;
                s.scene.world.api.says(A, running(A));
                s.pass(6 * HOUR + MINUTE);
            }
            .boxed()
        },
        look: reconcile,
        mend: |s| {
            async {
                s.scene.world.api.says(A, succeeded(A));
                s.scene.world.tell("m1", A).await;
                s.scene.world.work().await;
            }
            .boxed()
        },
    },
    Row {
        what: "a rescued webhook",
        subject: RESCUED_ALERT,
        keys: "",
        cause: |s| {
            async {
                s.scene.world.register(A, "nightly").await;
                s.scene.world.api.says(A, succeeded(A));
                s.pass(2 * MINUTE);
                s.scene.world.reconcile().await;
                s.scene.world.work().await;
                s.pass(16 * MINUTE);
            }
            .boxed()
        },
        look: reconcile,
        mend: |s| async { s.told_by_webhook(B, HOUR).await }.boxed(),
    },
    Row {
        what: "a dead effect",
        subject: "effect/",
        keys: "",
        cause: |s| {
            async {
                s.app.answer_next([410]);
                s.scene.world.register(A, "nightly").await;
                s.scene.world.api.says(A, succeeded(A));
                s.scene.world.tell("m1", A).await;
                s.scene.world.work().await;
            }
            .boxed()
        },
        look: |s| async { drop(s.scene.world.send().await) }.boxed(),
        mend: |s| {
            async {
                let dead = s.effect_in(EffectState::Dead, A).await;
                let (store, planner) = (&s.scene.world.base.store, s.scene.world.planner.clone());
                let until = s.scene.world.now().after(HOUR);
                let again = store.resolve_effect(dead, EffectRetry::Again, until, planner);
                assert!(again.await.unwrap());
            }
            .boxed()
        },
    },
    Row {
        what: "a loop that died",
        subject: "loop/worker",
        keys: "",
        cause: |s| async { s.kill_loop().await }.boxed(),
        look: watch,
        mend: |s| {
            async {
                s.loop_lives_again().await;
                s.pass(5 * MINUTE);
                s.loop_turns().await;
            }
            .boxed()
        },
    },
    Row {
        what: "a loop that is silent",
        subject: "loop/worker",
        keys: "",
        cause: |s| async { s.pass(2 * MINUTE + SECOND) }.boxed(),
        look: watch,
        mend: |s| async { s.loop_turns().await }.boxed(),
    },
    Row {
        what: "a disabled subscription",
        subject: STATE_ALERT,
        keys: "reenable = false",
        cause: |s| {
            async {
                let state = WebhookState::DisabledDueToFailedDeliveries;
                s.set_record(state);
            }
            .boxed()
        },
        look: |s| {
            async {
                s.pass(5 * MINUTE);
                s.scene.step().await;
            }
            .boxed()
        },
        mend: |s| async { s.set_record(WebhookState::Enabled) }.boxed(),
    },
    Row {
        what: "a missing canary",
        subject: CANARY_ALERT,
        keys: "ping_interval = '10m'",
        // The look before has sent a ping, and it gets nowhere.
        cause: |s| async { s.pass(MINUTE) }.boxed(),
        look: |s| s.scene.step().map(|_turn| ()).boxed(),
        mend: |s| {
            async {
                s.pass(10 * MINUTE);
                assert_eq!(s.scene.step().await.canary, Some("sent"));
                s.scene.fake.step().await;
            }
            .boxed()
        },
    },
    Row {
        what: "a disk that is nearly full",
        subject: DISK_ALERT,
        keys: "",
        cause: |s| async { s.free.store(GIB - 1, Ordering::Relaxed) }.boxed(),
        look: watch,
        mend: |s| async { s.free.store(GIB + GIB / 4, Ordering::Relaxed) }.boxed(),
    },
];

fn reconcile(s: &Stage) -> BoxFuture<'_, ()> {
    s.scene.world.reconcile().map(|_turn| ()).boxed()
}

fn watch(s: &Stage) -> BoxFuture<'_, ()> {
    async { drop(s.watch.step().await.unwrap()) }.boxed()
}

/// What a row's alert did that it should not have done.
async fn wrong(row: &Row) -> Vec<String> {
    let stage = Stage::new(row.keys).await;
    let mut wrong = Vec::new();
    let mut check = |when: &str, told: Vec<String>, wanted: &[&str]| {
        if told != wanted {
            wrong.push(format!("{}, {when}: {told:?}", row.what));
        }
    };
    (row.look)(&stage).await;
    stage.send_all().await;
    check("before", stage.told(row.subject), &[]);
    (row.cause)(&stage).await;
    for _ in 0..3 {
        (row.look)(&stage).await;
        stage.send_all().await;
        check("caused", stage.told(row.subject), &["alert.opened"]);
    }
    (row.mend)(&stage).await;
    for _ in 0..3 {
        (row.look)(&stage).await;
        stage.send_all().await;
    }
    let both = ["alert.opened", "alert.recovered"];
    check("mended", stage.told(row.subject), &both);
    check("the program", stage.told_the_program(row.subject), &both);
    let mut open = stage.scene.open_alerts().await;
    open.retain(|subject| subject.starts_with(row.subject));
    check("at last", open, &[]);
    wrong
}

#[tokio::test]
async fn each_alert_is_told_once_when_it_opens_and_once_when_it_ends() {
    let mut all = Vec::new();
    for row in TABLE {
        all.extend(wrong(row).await);
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[tokio::test]
async fn a_disk_at_its_threshold_does_not_alert_over_and_over() {
    let stage = Stage::new("").await;
    for free in [GIB - 1, GIB, GIB + 1, GIB - 1, GIB + GIB / 4 - 1] {
        stage.free.store(free, Ordering::Relaxed);
        stage.watch.step().await.unwrap();
    }
    stage.send_all().await;
    assert_eq!(stage.told(DISK_ALERT), ["alert.opened"]);
}

#[tokio::test]
async fn webhooks_that_are_lost_now_and_then_alert_once() {
    let stage = Stage::new("").await;
    for n in 0..4 {
        let (lost, told) = (format!("batches/lost{n}"), format!("batches/told{n}"));
        stage.scene.world.register(&lost, "nightly").await;
        stage.scene.world.api.says(&lost, succeeded(&lost));
        stage.told_by_webhook(&told, 2 * MINUTE).await;
        for _ in 0..2 {
            stage.scene.world.reconcile().await;
            stage.scene.world.work().await;
            stage.pass(16 * MINUTE);
        }
    }
    stage.scene.world.reconcile().await;
    stage.send_all().await;
    assert_eq!(stage.told(RESCUED_ALERT), ["alert.opened"]);
}

#[tokio::test]
async fn what_the_process_before_alerted_ends_in_the_next_one() {
    let stage = Stage::new("").await;
    stage.free.store(0, Ordering::Relaxed);
    stage.kill_loop().await;
    let turn = stage.watch.step().await.unwrap();
    assert_eq!(turn.opened, ["loop/worker", DISK_ALERT]);
    stage.free.store(2 * GIB, Ordering::Relaxed);
    let group = Shutdown::new(stage.scene.world.base.clock.clone());
    let next = stage.watch_over(&group);
    let stop = group.clone();
    group.spawn_loop("worker", move |_heart| {
        let stop = stop.clone();
        async move { stop.stopping().await }
    });
    assert_eq!(
        next.step().await.unwrap().recovered,
        ["loop/worker", DISK_ALERT]
    );
    assert_eq!(next.step().await.unwrap().recovered, [] as [&str; 0]);
}

#[tokio::test]
async fn an_alert_of_a_loop_that_is_not_started_any_more_ends() {
    let stage = Stage::new("").await;
    for subject in ["loop/gone", "subscription/canary", "queue/dead"] {
        stage.opened_before(subject).await;
    }
    let turn = stage.watch.step().await.unwrap();
    assert_eq!(turn.recovered, ["loop/gone", "subscription/canary"]);
}
