//! The disk fails: at every call in turn, once and for ever; and it fills up and has room again.

use std::path::Path;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};

use crate::crash::{DRAIN, come_to_an_end, drained, quiet};
use crate::power::sh;
use crate::row::{Row, Tier, Verdict, seed};
use crate::support::load::Load;
use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// The rows about the disk.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T4-io-errors",
        run: |tier| Box::pin(io_errors(tier)),
    },
    Row {
        name: "T5-disk-full",
        run: |tier| Box::pin(disk_full(tier)),
    },
];

/// System calls that write a database, and what each may say.
const FAULTS: &[(&str, &str)] = &[
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("fsync,fdatasync", "EIO"),
    ("fsync,fdatasync", "ENOSPC"),
];

/// For each call of each kind, up to a bound: it fails once, or from then on. Whatever is answered with
/// 2xx in spite of it is there after a start without faults, and everything drains.
async fn io_errors(tier: Tier) -> Verdict {
    if sh("strace", &["-V"]).is_err() {
        return Verdict::Skipped("strace is not installed".to_owned());
    }
    if let Err(why) = sh(
        "strace",
        &["-f", "-D", "-e", "inject=fsync:error=EIO", "true"],
    ) {
        return Verdict::Skipped(format!("strace may not trace here: {why}"));
    }
    let (most, step) = tier.of((21, 4), (40, 1));
    let (mut runs, mut acknowledged, mut unheard, mut ended) = (0, 0, 0, 0);
    for (call, error) in FAULTS {
        for nth in (1..=most).step_by(step) {
            for forever in ["", "+"] {
                let inject = format!("inject={call}:error={error}:when={nth}{forever}");
                let seen = under(call, &inject).await;
                runs += 1;
                acknowledged += seen.acknowledged;
                unheard += seen.unheard;
                ended += usize::from(seen.ended);
            }
        }
    }
    assert!(unheard > 0 && ended > 0, "no fault was ever met");
    Verdict::Passed(format!(
        "{runs} runs ({} kinds of fault, call 1 to {most} by {step}, once and for ever): {acknowledged} acknowledged, \
         0 lost; {unheard} refused or unheard, delivered after; {ended} times the process ended by itself",
        FAULTS.len()
    ))
}

struct Seen {
    acknowledged: usize,
    unheard: usize,
    ended: bool,
}

/// One life under a fault, and the next one without.
#[expect(clippy::too_many_lines, reason = "one story, told in its order")]
async fn under(call: &str, inject: &str) -> Seen {
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    stand.kill().await;
    let traced = format!("trace={call}");
    let strace = [
        "strace",
        "-f",
        "-D",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &traced,
        "-e",
        inject,
    ];
    let mut service = stand.spawn_under("faulty.log", &strace, &[]);
    let clock = SystemClock::new();
    let (mut told, mut unheard) = (Told::default(), Vec::new());
    let listens = async || tokio::net::TcpStream::connect(stand.public).await.is_ok();
    while service.is_running() && !listens().await {
        assert!(clock.monotonic() < DRAIN, "{inject}: neither up nor gone");
        clock.sleep(Duration::from_millis(10)).await;
    }
    for n in 0..12 {
        let name = stand.gemini.start(silent(false)).unwrap();
        let id = format!("fault-{n}");
        if n % 3 == 2 {
            if stand.try_register(&name, "nightly").await == Some(201) {
                told.settled.insert(name);
            }
            continue;
        }
        match stand
            .signed(&id, succeeded(&name))
            .send()
            .await
            .map(|a| a.status().as_u16())
        {
            Ok(200) => {
                told.stored.insert(id);
                told.settled.insert(name);
            }
            Ok(503) | Err(_) => unheard.push((id, name)),
            Ok(other) => panic!("{inject}: answered {other}"),
        }
    }
    let acknowledged = told.stored.len();
    // An error of the disk ends it; a full one does not, nor one that was never met.
    let broken = service.logged().contains("cannot be trusted any more");
    let patience = if broken {
        SOON
    } else {
        Duration::from_millis(100)
    };
    let ended = tokio::time::timeout(patience, service.ended(DRAIN)).await;
    assert!(
        ended.is_ok() || !broken,
        "{inject}: it goes on with a file it does not trust"
    );
    if let Ok(status) = &ended {
        assert!(!status.success(), "{inject}: it ended as if all were well");
    } else {
        service.kill().await;
    }
    outside::check_stored(&stand.db(), &told).await;
    outside::check_file(&stand.db()).await;
    stand.start().await;
    let refused = unheard.len();
    for (id, name) in unheard {
        assert_eq!(
            stand.deliver(&id, succeeded(&name)).await.0,
            200,
            "{inject}"
        );
        told.stored.insert(id);
        told.settled.insert(name);
    }
    drained(&stand).await;
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
    quiet(stand.service());
    Seen {
        acknowledged,
        unheard: refused,
        ended: ended.is_ok(),
    }
}

/// A small disk is filled under load, stays full, and has room again: 503 meanwhile, no restart, and it
/// goes on by itself.
async fn disk_full(tier: Tier) -> Verdict {
    if !rustix::process::geteuid().is_root() {
        return Verdict::Skipped("mounting needs root".to_owned());
    }
    let (rounds, hold) = (tier.of(3, 20), tier.of(3, 20));
    // What the load itself keeps must have room when the ballast is gone.
    let size = format!("size={}m", tier.of(24, 256));
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    if let Err(why) = sh("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", place]) {
        return Verdict::Skipped(why);
    }
    let mounted = Unmount(place);
    let path = format!("'{place}/full.db'");
    let mut stand = Stand::with(&[("store.path", &path), ("log.filter", "'info'")]).await;
    let (load, clock) = (Load::new(Duration::from_millis(15)), SystemClock::new());
    let ballast = dir.path().join("ballast");
    let (mut refusals, mut slowest) = (0, Duration::ZERO);
    let filling = async {
        for round in 0..rounds {
            clock.sleep(Duration::from_millis(500)).await;
            fill(&ballast);
            let until = clock.monotonic() + Duration::from_secs(hold);
            let mut n = 0;
            while clock.monotonic() < until {
                // Large enough to need a page of its own.
                let body = format!(
                    "{{\"type\":\"webhook.ping\",\"pad\":\"{}\"}}",
                    "x".repeat(8_000)
                );
                let answer = stand
                    .signed(&format!("full-{round}-{n}"), body)
                    .send()
                    .await
                    .unwrap();
                n += 1;
                if answer.status() == 503 {
                    assert!(answer.headers().contains_key("retry-after"));
                    refusals += 1;
                }
                clock.sleep(Duration::from_millis(50)).await;
            }
            std::fs::remove_file(&ballast).unwrap();
            let free = clock.monotonic();
            eventually("it takes deliveries again", SOON, async || {
                let id = format!("room-{round}-{n}");
                n += 1;
                (stand.signed(&id, "{}").send().await.ok()?.status() == 200).then_some(())
            })
            .await;
            slowest = slowest.max(clock.monotonic().saturating_sub(free));
        }
        load.stop();
    };
    tokio::join!(filling, load.run(&stand, seed()..seed() + 4));
    assert!(refusals > 0, "the disk was never full");
    assert!(stand.service().is_running(), "{}", stand.service().logged());
    stand.kill().await;
    let told = come_to_an_end(&mut stand, &load).await;
    stand.kill().await;
    drop(mounted);
    Verdict::Passed(format!(
        "full {rounds} times for {hold} s: {refusals} answers 503 with Retry-After, {} acknowledged, 0 lost, \
         no restart, taking again after {} ms at most",
        told.stored.len(),
        slowest.as_millis()
    ))
}

/// Takes every byte there is.
fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(ballast).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
}

struct Unmount<'a>(&'a str);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        drop(sh("umount", &["--lazy", self.0]));
    }
}
