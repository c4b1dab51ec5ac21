//! The clock of the machine jumps, and a long quiet run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::Mode;
use http::Method;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::crash::{come_to_an_end, drained, quiet};
use crate::row::{Row, Tier, Verdict, seed};
use crate::support::load::Load;
use crate::support::outside;
use crate::support::stand::{PATH_TOKEN, SHARED, Stand, job, silent, succeeded};

/// The rows about time.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T9-clock-jumps",
        run: |tier| Box::pin(clock_jumps(tier)),
    },
    Row {
        name: "T28-soak",
        run: |tier| Box::pin(soak(tier)),
    },
];

/// Seconds from the true time, or an absolute one.
const JUMPS: &[&str] = &[
    "+3600",
    "-3600",
    "+86400",
    "-86400",
    "@1970-01-02 00:00:00",
    "+0",
    "@2106-02-07 06:28:16",
    "+0",
];

/// The wall clock jumps under the running process: a signature is judged by the time it then is, and
/// whatever was queued before or during a jump is carried to its end.
async fn clock_jumps(tier: Tier) -> Verdict {
    let Some(library) = faketime() else {
        return Verdict::Skipped("libfaketime is not installed".to_owned());
    };
    let mut random = StdRng::seed_from_u64(seed());
    let mut jumps: Vec<String> = JUMPS.iter().map(|jump| (*jump).to_owned()).collect();
    while jumps.len() < tier.of(8, 100) {
        jumps.push(format!("{:+}", random.random_range(-90_000..90_000)));
    }
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    stand.kill().await;
    let setting = stand.dir.path().join("faketime");
    set(&setting, "+0");
    let library = library.to_str().unwrap().to_owned();
    let file = setting.to_str().unwrap().to_owned();
    let faked = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", file.as_str()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    stand.start_with(&faked).await;
    let (mut settled, mut stale) = (0, 0);
    for (n, jump) in jumps.iter().enumerate() {
        // One is under way when the clock jumps, one comes after.
        let before = stand.gemini.start(silent(false)).unwrap();
        assert_eq!(stand.register(&before, "nightly").await, 201);
        set(&setting, jump);
        let after = stand.gemini.start(silent(false)).unwrap();
        let id = format!("jump-{n}");
        let true_time = stand.signed(&id, succeeded(&after)).send().await.unwrap();
        let off = jump.starts_with('@') || jump.parse::<i64>().unwrap().abs() > 300;
        assert_eq!(
            true_time.status().as_u16(),
            if off { 401 } else { 200 },
            "{jump}"
        );
        stale += usize::from(off);
        if off {
            // What proves itself without a time is taken at any.
            let unsigned = stand
                .request(Method::POST, &format!("/hooks/gemini/{PATH_TOKEN}"))
                .header("x-hook-secret", SHARED)
                .body(succeeded(&after));
            assert_eq!(unsigned.send().await.unwrap().status(), 200, "{jump}");
        }
        stand.settled(&before).await;
        stand.settled(&after).await;
        settled += 2;
        assert!(stand.service().is_running());
    }
    set(&setting, "+0");
    let last = stand.gemini.start(job(false, Mode::Drop)).unwrap();
    assert_eq!(stand.register(&last, "nightly").await, 201);
    stand.settled(&last).await;
    drained(&stand).await;
    outside::check_file(&stand.db()).await;
    quiet(stand.service());
    Verdict::Passed(format!(
        "{} jumps: {settled} operations settled across them, {stale} signatures refused outside the window",
        jumps.len()
    ))
}

/// Replaced as a whole: the process reads it at any moment.
fn set(file: &Path, jump: &str) {
    let next = file.with_extension("next");
    std::fs::write(&next, format!("{jump}\n")).unwrap();
    std::fs::rename(next, file).unwrap();
}

fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?;
    let mut folders = folders.filter_map(Result::ok);
    folders.find_map(|folder| {
        let library = folder.path().join("faketime/libfaketimeMT.so.1");
        library.exists().then_some(library)
    })
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Holds {
    rss_kib: u64,
    threads: u64,
    files: u64,
}

/// A steady load for a while: nothing that should stay level rises.
async fn soak(tier: Tier) -> Verdict {
    let seconds = tier.of(30, 3_600);
    let seed = seed();
    let mut stand = Stand::with(&[("log.filter", "'warn'")]).await;
    let (load, clock) = (Load::new(Duration::from_millis(40)), SystemClock::new());
    let id = stand.service().id();
    let watching = async {
        // The first third warms up.
        clock.sleep(Duration::from_secs(seconds / 3)).await;
        let warm = holds(id);
        let mut wal = 0;
        for _ in 0..seconds * 2 / 3 {
            clock.sleep(Duration::from_secs(1)).await;
            let log = format!("{}-wal", stand.db().display());
            wal = wal.max(std::fs::metadata(log).map_or(0, |file| file.len()));
        }
        load.stop();
        (warm, wal)
    };
    let ((warm, wal), ()) = tokio::join!(watching, load.run(&stand, seed..seed + 4));
    drained(&stand).await;
    let end = holds(id);
    assert!(end.threads <= warm.threads + 4, "{warm:?} {end:?}");
    assert!(end.files <= warm.files + 20, "{warm:?} {end:?}");
    assert!(end.rss_kib < warm.rss_kib + 32 * 1024, "{warm:?} {end:?}");
    assert!(wal <= 16 << 20, "the log grew to {wal} bytes");
    stand.kill().await;
    let told = come_to_an_end(&mut stand, &load).await;
    Verdict::Passed(format!(
        "{seconds} s, {} acknowledged: memory {} → {} KiB, threads {} → {}, open files {} → {}, log at most {} KiB",
        told.stored.len(),
        warm.rss_kib,
        end.rss_kib,
        warm.threads,
        end.threads,
        warm.files,
        end.files,
        wal >> 10
    ))
}

fn holds(id: u32) -> Holds {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    Holds {
        rss_kib: field("VmRSS:"),
        threads: field("Threads:"),
        files: std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count() as u64,
    }
}
