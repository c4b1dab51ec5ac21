//! `kill -9` at chosen and at random instants: what was answered survives, what was begun is ended.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::{Fault, FaultKind};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

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

/// A longer run is asked for by `KILL_ROUNDS`, another one by `KILL_SEED`.
const ROUNDS: u64 = 15;
const SEED: u64 = 20_260_122;
const SENDERS: u64 = 4;
/// Between two requests of one sender: together about a hundred a second.
const PACE: Duration = Duration::from_millis(40);

fn asked(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |n| n.parse().unwrap())
}

/// What the senders know. An answer nobody heard leaves its delivery in `unheard`.
#[derive(Default)]
struct Known {
    told: Told,
    unheard: Vec<(String, String)>,
}

/// Sends until told to stop: endings, copies of earlier ones, registrations, and forgeries.
async fn send(stand: &Stand, known: &Mutex<Known>, done: &AtomicBool, seed: u64) {
    let clock = SystemClock::new();
    let mut random = StdRng::seed_from_u64(seed);
    let mut earlier: Vec<(String, String)> = Vec::new();
    for n in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        clock.sleep(PACE).await;
        let id = format!("sender-{seed}-{n}");
        match random.random_range(0..20) {
            0..2 => {
                let mut forged = stand.signed(&id, "{}").build().unwrap();
                *forged.body_mut() = Some("{ }".into());
                if let Ok(answer) = stand.http.execute(forged).await {
                    assert_eq!(answer.status(), 401);
                }
                known.lock().unwrap().told.refused.insert(id);
            }
            2..5 => {
                let name = stand.gemini.start(silent(false)).unwrap();
                if let Some(201) = stand.try_register(&name, "nightly").await {
                    known.lock().unwrap().told.settled.insert(name);
                }
            }
            kind => {
                let copied = earlier.get(random.random_range(0..=earlier.len())).cloned();
                let (id, name) = match copied.filter(|_| kind < 8) {
                    Some(copied) => copied,
                    None => (id, stand.gemini.start(silent(false)).unwrap()),
                };
                let answer = stand.signed(&id, succeeded(&name)).send().await;
                let mut known = known.lock().unwrap();
                match answer.map(|a| a.status().as_u16()) {
                    Ok(200) => {
                        known.told.stored.insert(id.clone());
                        known.told.settled.insert(name.clone());
                    }
                    Ok(503) | Err(_) => known.unheard.push((id.clone(), name.clone())),
                    Ok(other) => panic!("a good delivery was answered {other}"),
                }
                drop(known);
                earlier.push((id, name));
            }
        }
    }
}

/// Starts and kills the program at seeded instants, and reads the file each time it is dead.
async fn kill_often(stand: &Stand, known: &Mutex<Known>, done: &AtomicBool) {
    let clock = SystemClock::new();
    let mut random = StdRng::seed_from_u64(asked("KILL_SEED", SEED));
    for round in 0..asked("KILL_ROUNDS", ROUNDS) {
        let mut service = stand.spawn("service.log");
        // Every fourth one dies while it starts.
        if round % 4 != 3 {
            service.ready(stand.public).await;
        }
        let instant = Duration::from_millis(random.random_range(0..500));
        clock.sleep(instant).await;
        assert!(
            service.is_running(),
            "round {round}: it ended by itself:\n{}",
            service.logged()
        );
        service.kill().await;
        let told = {
            let known = known.lock().unwrap();
            Told {
                stored: known.told.stored.clone(),
                refused: known.told.refused.clone(),
                settled: BTreeSet::new(),
            }
        };
        outside::check_stored(&stand.db(), &told).await;
        outside::check_file(&stand.db()).await;
    }
    done.store(true, Ordering::Relaxed);
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
    let (known, done) = (Mutex::new(Known::default()), AtomicBool::new(false));
    let senders = (1..=SENDERS).map(|seed| send(&stand, &known, &done, seed));
    tokio::join!(
        futures_util::future::join_all(senders),
        kill_often(&stand, &known, &done)
    );
    let Known { mut told, unheard } = known.into_inner().unwrap();
    stand.gemini.clear_faults();
    stand.start().await;
    // A sender that heard nothing tries again, and is not turned away.
    for (id, name) in unheard {
        let (status, word) = stand.deliver(&id, succeeded(&name)).await;
        assert_eq!(status, 200, "{word}");
        told.stored.insert(id);
        told.settled.insert(name);
    }
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
    let mut service = stand.take();
    service.terminate();
    assert_eq!(service.ended(SOON).await.code(), Some(0));
}
