//! The process dies: at random instants, at named ones, and at the same one again and again.

use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::{Fault, FaultKind};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::net::TcpStream;

use crate::row::{Row, Tier, Verdict, seed};
use crate::support::load::{CutOff, Kills, Load, kill_often};
use crate::support::outside;
use crate::support::process::{Service, eventually};
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// The rows about crashes.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T1-kill-9",
        run: |tier| Box::pin(kill_9(tier)),
    },
    Row {
        name: "T2-fail-points",
        run: |tier| Box::pin(fail_points(tier)),
    },
    Row {
        name: "T18-poison-crash",
        run: |tier| Box::pin(poison_crash(tier)),
    },
];

/// Attempts of a job before it is dead.
const ATTEMPTS: usize = 3;

/// How long a drain may take on a busy machine.
pub(crate) const DRAIN: Duration = Duration::from_secs(60);

/// Waits until nothing is left to do.
pub(crate) async fn drained(stand: &Stand) {
    eventually("all is settled", DRAIN, async || {
        outside::is_drained(&stand.db()).await.then_some(())
    })
    .await;
}

/// Starts the program without faults, hears out the senders, drains, and judges everything.
pub(crate) async fn come_to_an_end(stand: &mut Stand, load: &Load) -> outside::Told {
    stand.gemini.clear_faults();
    stand.sink.answer_after(Duration::ZERO);
    stand.start().await;
    let told = load.settle_up(stand).await;
    drained(stand).await;
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
    quiet(stand.service());
    told
}

/// I12, as far as the log tells: nothing panicked.
pub(crate) fn quiet(service: &Service) {
    let logged = service.logged();
    let panic = logged.lines().find(|line| line.contains("panicked"));
    assert_eq!(panic, None);
}

/// Slow enough on both sides that a kill finds something half done.
fn slow(stand: &Stand) {
    stand.gemini.fault(Fault {
        ms: Some(30),
        ..Fault::once(FaultKind::Hang).method("GET").times(0)
    });
    stand.sink.answer_after(Duration::from_millis(20));
}

async fn kill_9(tier: Tier) -> Verdict {
    let rounds = tier.of(40, 1_000);
    let seed = seed();
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    stand.kill().await;
    slow(&stand);
    stand
        .sink
        .answer_next((0..rounds * 10).map(|n| if n % 9 == 0 { 500 } else { 200 }));
    let (load, mut cut_off) = (Load::new(Duration::from_millis(40)), CutOff::default());
    let kills = Kills {
        rounds,
        seed,
        judge_each: tier.of(4, 20),
    };
    let (slowest, ()) = tokio::join!(
        kill_often(&stand, &load, kills, &mut cut_off),
        load.run(&stand, seed..seed + 4)
    );
    let told = come_to_an_end(&mut stand, &load).await;
    let repeats = cut_off.check(&stand.sink);
    Verdict::Passed(format!(
        "seed {seed}: {rounds} kills, {} acknowledged, {} refused, {} settled, 0 lost, {repeats} effects sent \
         twice (each cut off between intent and receipt), slowest start {} ms",
        told.stored.len(),
        told.refused.len(),
        told.settled.len(),
        slowest.as_millis(),
    ))
}

/// Each with how many passages at most are let through first.
const POINTS: &[(&str, u32)] = &[
    ("fp-in1", 8),
    ("fp-in2", 8),
    ("fp-in3", 8),
    ("fp-in4", 8),
    ("fp-w1", 5),
    ("fp-w2", 8),
    ("fp-w3", 8),
    ("fp-w4", 5),
    ("fp-w5", 5),
    ("fp-w6", 5),
    ("fp-w7", 5),
    ("fp-r1", 2),
    ("fp-r2", 3),
    ("fp-s1", 3),
];

async fn fail_points(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (rounds, drain_each) = (tier.of(3, 100), tier.of(3, 20));
    let (mut deaths, mut repeats_at_w6, mut repeats_elsewhere) = (0, 0, 0);
    for (point, most) in POINTS {
        let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
        stand.kill().await;
        let mut cut_off = CutOff::default();
        let load = Load::new(Duration::from_millis(10));
        for round in 0..rounds {
            let passages = random.random_range(0..*most);
            let what = match passages {
                0 => format!("{point}=return"),
                n => format!("{point}={n}*off->return"),
            };
            let mut service = stand.spawn_with("service.log", &[("FAILPOINTS", &what)]);
            let senders = [0, 1].map(|n| seed + 1_000 * round + n);
            let dying = async {
                if *point == "fp-s1" {
                    until_it_listens(&stand, &mut service).await;
                    SystemClock::new().sleep(Duration::from_millis(50)).await;
                    service.terminate();
                }
                let status = tokio::time::timeout(SOON, service.ended(DRAIN)).await;
                load.stop();
                status.unwrap_or_else(|_| panic!("{what} was never reached"))
            };
            let (status, ()) = tokio::join!(dying, load.run(&stand, senders));
            assert_eq!(status.code(), None, "{what}: ended by a signal: {status}");
            deaths += 1;
            cut_off.note(&stand).await;
            outside::check_stored(&stand.db(), &load.told()).await;
            outside::check_file(&stand.db()).await;
            if (round + 1) % drain_each == 0 {
                come_to_an_end(&mut stand, &load).await;
                stand.kill().await;
            }
        }
        come_to_an_end(&mut stand, &load).await;
        let repeats = cut_off.check(&stand.sink);
        if *point == "fp-w6" {
            repeats_at_w6 += repeats;
        } else {
            repeats_elsewhere += repeats;
        }
        stand.kill().await;
    }
    deaths += migrations_cut_off(rounds, &mut random).await;
    assert!(repeats_at_w6 > 0, "no kill hit between sending and receipt");
    Verdict::Passed(format!(
        "seed {seed}: {deaths} deaths at {} points; effects sent twice: {repeats_at_w6} by deaths at fp-w6, \
         {repeats_elsewhere} of others that were between intent and receipt at another point",
        POINTS.len() + 1
    ))
}

/// Dies in the middle of making a new file: the next start makes it whole.
async fn migrations_cut_off(rounds: u64, random: &mut StdRng) -> u64 {
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    stand.kill().await;
    for round in 0..rounds {
        for end in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(format!(
                "{}{end}",
                stand.db().display()
            )));
        }
        let what = format!("fp-m1={}*off->return", random.random_range(1..60));
        let mut service = stand.spawn_with("service.log", &[("FAILPOINTS", &what)]);
        let status = tokio::time::timeout(SOON, service.ended(DRAIN)).await;
        assert_eq!(
            status
                .unwrap_or_else(|_| panic!("{what} was never reached"))
                .code(),
            None
        );
        stand.start().await;
        let name = stand.gemini.start(silent(false)).unwrap();
        stand
            .deliver(&format!("new-{round}"), succeeded(&name))
            .await;
        stand.settled(&name).await;
        outside::check_file(&stand.db()).await;
        stand.kill().await;
    }
    rounds
}

/// Waits for the listener without asking it anything: an answer may be what it dies of.
async fn until_it_listens(stand: &Stand, service: &mut Service) {
    let mut listens =
        async || TcpStream::connect(stand.public).await.is_ok() || !service.is_running();
    eventually("it listens", SOON, async || listens().await.then_some(())).await;
}

/// A job that takes the process down each time is dead after as many starts as it has attempts, and
/// nobody else's is.
async fn poison_crash(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let rounds = tier.of(5, 50);
    let mut stand = Stand::with(&[
        ("worker.max_attempts", "3"),
        ("reconcile.grace", "'10m'"),
        ("log.filter", "'info'"),
    ])
    .await;
    let mut deaths = 0;
    for round in 0..rounds {
        let name = stand.gemini.start(silent(false)).unwrap();
        stand.kill().await;
        let mut service = stand.spawn_with("service.log", &[("FAILPOINTS", "fp-w2=return")]);
        service.ready(stand.public).await;
        // It may be gone before it has answered.
        let poison = stand.signed(&format!("poison-{round}"), succeeded(&name));
        drop(poison.send().await);
        let mut starts = 1;
        let dead = "SELECT count(*) FROM work_queue WHERE state = 'dead'";
        loop {
            let given_up = eventually("it is given up, or dies", DRAIN, async || {
                (outside::count(&stand.db(), dead).await == 1).then_some(())
            });
            tokio::select! {
                () = given_up => break,
                _ = service.ended(DRAIN) => {}
            }
            deaths += 1;
            assert!(starts <= ATTEMPTS, "round {round}: it dies for ever");
            service = stand.spawn_with("service.log", &[("FAILPOINTS", "fp-w2=return")]);
            starts += 1;
        }
        assert_eq!(
            starts,
            ATTEMPTS + 1,
            "round {round}: each attempt was charged before it ran"
        );
        service.kill().await;
        // A person may ask for it once more, and others were never in its way.
        stand.start().await;
        let other = stand.gemini.start(silent(false)).unwrap();
        stand
            .deliver(&format!("well-{round}"), succeeded(&other))
            .await;
        stand.settled(&other).await;
        let retried = stand
            .admin(http::Method::POST, "/queue/retry")
            .json(&serde_json::json!({}));
        assert_eq!(retried.send().await.unwrap().status(), 200);
        stand.settled(&name).await;
    }
    outside::check_file(&stand.db()).await;
    Verdict::Passed(format!(
        "{rounds} poisoned jobs, {deaths} deaths, {ATTEMPTS} each, then none"
    ))
}
