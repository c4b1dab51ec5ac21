//! Told to stop, or stopped in the middle and left for too long.

use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::{Fault, FaultKind};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::crash::{come_to_an_end, drained, quiet};
use crate::row::{Row, Tier, Verdict, seed};
use crate::support::load::Load;
use crate::support::outside;
use crate::support::process::eventually;
use crate::support::stand::{PATH_TOKEN, SHARED, SOON, Stand, silent, succeeded};

/// The rows about stopping.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T6-terminate",
        run: |tier| Box::pin(terminate(tier)),
    },
    Row {
        name: "T7-terminate-stalled",
        run: |tier| Box::pin(terminate_stalled(tier)),
    },
    Row {
        name: "T8-stale-lease",
        run: |tier| Box::pin(stale_lease(tier)),
    },
];

/// What a stop may take at most; the configured deadline is 8 s.
const STOPPED: Duration = Duration::from_secs(20);

/// SIGTERM at random instants under load: exit 0, nothing held, nobody charged, nothing lost.
async fn terminate(tier: Tier) -> Verdict {
    let (rounds, seed) = (tier.of(20, 100), seed());
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    stand.kill().await;
    let load = Load::new(Duration::from_millis(10));
    let (mut random, clock) = (StdRng::seed_from_u64(seed), SystemClock::new());
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let mut service = stand.spawn("service.log");
        service.ready(stand.public).await;
        let senders = (0..4).map(|n| seed + 100 * round + n);
        let stopping = async {
            clock
                .sleep(Duration::from_millis(random.random_range(0..600)))
                .await;
            let since = clock.monotonic();
            service.terminate();
            let status = service.ended(STOPPED).await;
            load.stop();
            (status, clock.monotonic().saturating_sub(since))
        };
        let ((status, took), ()) = tokio::join!(stopping, load.run(&stand, senders));
        assert_eq!(
            status.code(),
            Some(0),
            "round {round}:\n{}",
            service.logged()
        );
        slowest = slowest.max(took);
        let held = "SELECT (SELECT count(*) FROM work_queue WHERE state = 'leased') + \
                    (SELECT count(*) FROM effects WHERE state = 'sending')";
        let logged = service.logged();
        assert_eq!(
            outside::count(&stand.db(), held).await,
            0,
            "round {round}: still held:\n{logged}"
        );
        let charged = "SELECT coalesce(sum(attempts), 0) FROM work_queue";
        assert_eq!(
            outside::count(&stand.db(), charged).await,
            0,
            "round {round}: a stop is nobody's fault"
        );
        outside::check_stored(&stand.db(), &load.told()).await;
        outside::check_file(&stand.db()).await;
    }
    let told = come_to_an_end(&mut stand, &load).await;
    Verdict::Passed(format!(
        "seed {seed}: {rounds} stops with exit code 0, {} acknowledged, 0 lost, 0 attempts charged, slowest {} ms",
        told.stored.len(),
        slowest.as_millis()
    ))
}

/// The same with clients that never finish and an API that never answers.
async fn terminate_stalled(tier: Tier) -> Verdict {
    let rounds = tier.of(5, 20);
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    let clock = SystemClock::new();
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let name = stand.gemini.start(silent(false)).unwrap();
        let hang = Fault {
            ms: Some(60_000),
            ..Fault::once(FaultKind::Hang).on(&name).times(0)
        };
        stand.gemini.fault(hang);
        assert_eq!(
            stand
                .deliver(&format!("hung-{round}"), succeeded(&name))
                .await
                .0,
            200
        );
        asked(&stand, &name, 1).await;
        let mut sockets = Vec::new();
        for n in 0..200 {
            let mut socket = TcpStream::connect(stand.public).await.unwrap();
            let text = match n % 3 {
                0 => String::new(),
                1 => format!("POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: a\r\nX-Half"),
                _ => format!(
                    "POST /hooks/gemini/{PATH_TOKEN} HTTP/1.1\r\nHost: a\r\nX-Hook-Secret: {SHARED}\r\n\
                     Content-Length: 50\r\n\r\nhalf"
                ),
            };
            socket.write_all(text.as_bytes()).await.unwrap();
            sockets.push(socket);
        }
        let mut service = stand.take();
        let since = clock.monotonic();
        service.terminate();
        let status = service.ended(STOPPED).await;
        slowest = slowest.max(clock.monotonic().saturating_sub(since));
        assert_eq!(
            status.code(),
            Some(0),
            "round {round}:\n{}",
            service.logged()
        );
        drop(sockets);
        stand.gemini.clear_faults();
        stand.start().await;
        stand.settled(&name).await;
    }
    drained(&stand).await;
    outside::check_file(&stand.db()).await;
    Verdict::Passed(format!(
        "{rounds} stops with 200 stalled sockets and a hung call each, exit code 0, slowest {} ms",
        slowest.as_millis()
    ))
}

async fn asked(stand: &Stand, name: &str, times: usize) {
    let asked = || {
        stand
            .gemini
            .requests()
            .iter()
            .filter(|r| r.path.ends_with(name))
            .count()
    };
    eventually("the API is asked", SOON, async || {
        (asked() >= times).then_some(())
    })
    .await;
}

/// A worker that sleeps through its lease: somebody else ends the job, and what the sleeper brings is
/// refused. One half of the rounds holds the worker between fetch and settlement (the lease is not
/// renewed there), the other stops the whole process while the API hangs.
async fn stale_lease(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let rounds = tier.of(5, 50);
    let mut stand = Stand::with(&[
        ("gemini.timeout", "'1500ms'"),
        ("worker.lease", "'7s'"),
        ("log.filter", "'info'"),
    ])
    .await;
    stand.kill().await;
    let clock = SystemClock::new();
    let (mut fenced, mut stopped) = (0, 0);
    for round in 0..rounds {
        let name = stand.gemini.start(silent(false)).unwrap();
        let id = format!("stale-{round}");
        if round % 2 == 0 {
            stand
                .start_with(&[("FAILPOINTS", "fp-w3=1*sleep(9000)->off")])
                .await;
            assert_eq!(stand.deliver(&id, succeeded(&name)).await.0, 200);
            asked(&stand, &name, 2).await;
            stand.settled(&name).await;
            eventually("the sleeper is refused", SOON, async || {
                let lost = "a lease was lost; its result is dropped";
                (stand_log(&stand).matches(lost).count() > fenced).then_some(())
            })
            .await;
            fenced += 1;
        } else {
            stand.start().await;
            stand.gemini.fault(Fault {
                ms: Some(1_000),
                ..Fault::once(FaultKind::Hang).on(&name)
            });
            assert_eq!(stand.deliver(&id, succeeded(&name)).await.0, 200);
            asked(&stand, &name, 1).await;
            stand.service().signal(Signal::STOP);
            clock.sleep(Duration::from_millis(7_500)).await;
            stand.service().signal(Signal::CONT);
            stand.settled(&name).await;
            stopped += 1;
        }
        drained(&stand).await;
        outside::check_file(&stand.db()).await;
        assert_eq!(
            stand.sink.about(&name).len(),
            1,
            "one settlement, one effect"
        );
        quiet(stand.service());
        stand.kill().await;
    }
    Verdict::Passed(format!(
        "{fenced} workers slept through their lease and were refused, {stopped} processes were stopped past it; \
         one settlement and one effect each"
    ))
}

fn stand_log(stand: &Stand) -> String {
    std::fs::read_to_string(stand.dir.path().join("service.log")).unwrap()
}
