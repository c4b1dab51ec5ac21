//! `kill -9` at chosen and at random instants: what was answered survives, what was begun is ended.

use std::time::Duration;

use hookledger::simulator::{Fault, FaultKind};

use crate::support::load::{CutOff, Kills, Load, kill_often};
use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

fn hanging(ms: u64) -> Fault {
    Fault {
        ms: Some(ms),
        ..Fault::once(FaultKind::Hang).method("GET").times(0)
    }
}

fn about(name: &str) -> Told {
    Told {
        settled: [name.to_owned()].into(),
        ..Told::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_accept_and_settle_it_settles_after_the_restart() {
    // No reconciliation before the test is over: the work item alone must carry it.
    let mut stand = Stand::with(&[("reconcile.grace", "'10m'")]).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    stand.gemini.fault(hanging(60_000));
    assert_eq!(
        stand.deliver("cut", succeeded(&name)).await,
        (200, "accepted".to_owned())
    );
    let asked = || {
        stand
            .gemini
            .requests()
            .iter()
            .any(|r| r.path.ends_with(&name))
    };
    eventually("the API is asked", SOON, async || asked().then_some(())).await;
    stand.kill().await;
    let leased = "SELECT count(*) FROM work_queue WHERE state = 'leased'";
    assert_eq!(
        outside::count(&stand.db(), leased).await,
        1,
        "cut off in the middle"
    );
    assert!(stand.sink.by_operation().is_empty());
    stand.gemini.clear_faults();
    stand.start().await;
    let operation = stand.settled(&name).await;
    assert_eq!(operation["settled_by"], "webhook");
    assert_eq!(stand.sink.about(&name).len(), 1);
    // The sender tries again what it may not have heard the answer to.
    assert_eq!(
        stand.deliver("cut", succeeded(&name)).await,
        (200, "duplicate".to_owned())
    );
    outside::check_drained(&stand.db(), &about(&name), &stand.sink).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_an_effect_is_on_its_way_it_sends_the_same_again() {
    let mut stand = Stand::up().await;
    let name = stand.gemini.start(silent(false)).unwrap();
    stand.sink.answer_after(Duration::from_secs(60));
    assert_eq!(stand.deliver("sent", succeeded(&name)).await.0, 200);
    let arrived = || (stand.sink.about(&name).len() == 1).then_some(());
    eventually("the effect arrives", SOON, async || arrived()).await;
    stand.kill().await;
    let sending = "SELECT count(*) FROM effects WHERE state = 'sending'";
    assert_eq!(
        outside::count(&stand.db(), sending).await,
        1,
        "cut off in the middle"
    );
    stand.sink.answer_after(Duration::ZERO);
    stand.start().await;
    stand.settled(&name).await;
    let got = stand.sink.about(&name);
    assert_eq!(got.len(), 2);
    assert_eq!(got[0], got[1], "the same key and the same bytes");
    outside::check_drained(&stand.db(), &about(&name), &stand.sink).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_instants_under_load_it_loses_nothing() {
    let mut stand = Stand::up().await;
    stand.kill().await;
    // Slow enough on both sides that a kill finds something half done.
    stand.gemini.fault(hanging(30));
    stand.sink.answer_after(Duration::from_millis(20));
    stand
        .sink
        .answer_next((0..400).map(|n| if n % 9 == 0 { 500 } else { 200 }));
    let (load, mut cut_off) = (Load::new(Duration::from_millis(40)), CutOff::default());
    let kills = Kills {
        rounds: 15,
        seed: 20_260_122,
        judge_each: 1,
    };
    tokio::join!(
        load.run(&stand, 1..=4),
        kill_often(&stand, &load, kills, &mut cut_off)
    );
    stand.gemini.clear_faults();
    stand.start().await;
    let told = load.settle_up(&stand).await;
    assert!(
        told.settled.len() > 100,
        "too little load: {}",
        told.settled.len()
    );
    eventually("all is settled", SOON, async || {
        outside::is_drained(&stand.db()).await.then_some(())
    })
    .await;
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
    cut_off.check(&stand.sink);
    let mut service = stand.take();
    service.terminate();
    assert_eq!(service.ended(SOON).await.code(), Some(0));
}
