//! A backup of a ledger in use, and a pruning, are cut off at every stage of it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::row::{Row, Tier, Verdict};
use crate::support::outside::{self, Told};
use crate::support::stand::{Stand, silent, succeeded};

/// The rows about backups.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T30-backup",
        run: |tier| Box::pin(cut_off(tier)),
    },
    Row {
        name: "T2-p1-prune",
        run: |tier| Box::pin(prune_cut_off(tier)),
    },
];

/// Deliveries in the ledger before the first backup: enough pages to be cut off between.
const FILL: usize = 150;

/// Dies at points spread over the whole backup, from its first page to its answer, while deliveries
/// come in. A file under the final name is whole and holds what was acknowledged before it began.
async fn cut_off(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let stand = Stand::up().await;
    let stored = Mutex::new(Told::default());
    for n in 0..FILL {
        deliver(&stand, &stored, &format!("before-{n}")).await;
    }
    let done = AtomicBool::new(false);
    let load = async {
        let mut n = 0_u32;
        while !done.load(Ordering::Relaxed) {
            deliver(&stand, &stored, &format!("during-{n}")).await;
            n += 1;
        }
        n
    };
    let kills = async { kill_often(&stand, &stored, &done, tier.of(20, 200)).await };
    let (during, (points, cut, whole)) = tokio::join!(load, kills);
    assert!(cut > 0, "none of {points} points cut a backup off");
    assert!(whole > 0, "no backup was cut off after it had its name");
    Verdict::Passed(format!(
        "a backup has {points} points; {cut} were cut off before the file had its name and {whole} \
         after; {during} deliveries meanwhile; nothing acknowledged is missing in a finished one"
    ))
}

async fn deliver(stand: &Stand, stored: &Mutex<Told>, id: &str) {
    let name = stand.gemini.start(silent(false)).unwrap();
    // As large as the largest that the provider is known to send.
    let body = succeeded(&name).replacen('{', &format!("{{\"pad\":\"{}\",", "x".repeat(8000)), 1);
    assert_eq!(stand.deliver(id, body).await.0, 200);
    stored.lock().unwrap().stored.insert(id.to_owned());
}

/// Backs up and dies after `passed` points. Whether a finished file was there; `None`: it was not cut
/// off at all.
async fn backup(stand: &Stand, stored: &Mutex<Told>, passed: usize) -> Option<bool> {
    let file = stand.dir.path().join("backup.db");
    let told = Told {
        stored: stored.lock().unwrap().stored.clone(),
        ..Told::default()
    };
    let points = format!("fp-b1={passed}*off->return");
    let ran = stand
        .cli(
            &["backup", &file.to_string_lossy()],
            &[("FAILPOINTS", &points)],
        )
        .await;
    assert_ne!(ran.status.code(), Some(1), "{ran:?}");
    let whole = file.exists();
    if whole {
        check(&file, &told).await;
        std::fs::remove_file(&file).unwrap();
    }
    match ran.status.code() {
        None => Some(whole),
        Some(code) => {
            assert_eq!(code, 0, "{ran:?}");
            assert!(whole, "it said that it was done");
            None
        }
    }
}

async fn check(file: &Path, told: &Told) {
    outside::check_file(file).await;
    outside::check_stored(file, told).await;
}

/// How many points a backup has, and how many of `rounds` were cut off before and after the rename.
/// `done` ends the load for the last of them, which need a file that grows no more.
async fn kill_often(
    stand: &Stand,
    stored: &Mutex<Told>,
    done: &AtomicBool,
    rounds: usize,
) -> (usize, usize, usize) {
    let mut points = 8;
    while backup(stand, stored, points).await.is_some() {
        points *= 2;
    }
    let (mut cut, mut whole) = (0, 0);
    let mut count = |ended| match ended {
        Some(true) => whole += 1,
        Some(false) => cut += 1,
        None => {}
    };
    for round in 0..rounds {
        count(backup(stand, stored, points * round / rounds).await);
    }
    done.store(true, Ordering::Relaxed);
    // The last ones, one by one: synced, checked, named. The file has grown meanwhile.
    let (mut low, mut high) = (0, points);
    while backup(stand, stored, high).await == Some(false) {
        high *= 2;
    }
    while low + 1 < high {
        let middle = low.midpoint(high);
        match backup(stand, stored, middle).await {
            Some(true) | None => high = middle,
            Some(false) => low = middle,
        }
    }
    for passed in high.saturating_sub(4)..high + 12 {
        count(backup(stand, stored, passed).await);
    }
    assert_eq!(backup(stand, stored, usize::MAX).await, None);
    let left = std::fs::read_dir(stand.dir.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("tmp")),
        "remains: {left:?}"
    );
    (points, cut, whole)
}

/// Dies in the middle of pruning, once and again: what is left is whole, what is pending is untouched.
async fn prune_cut_off(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let rounds = tier.of(3, 20);
    let mut stand = Stand::up().await;
    let pending = stand.gemini.start(silent(true)).unwrap();
    assert_eq!(stand.register(&pending, "nightly").await, 201);
    assert_eq!(stand.deliver("pending", succeeded(&pending)).await.0, 200);
    let over = [
        "--set",
        "ledger.retention=1ms",
        "--set",
        "store.event_retention=1ms",
    ];
    let mut cut = 0;
    for round in 0..rounds {
        let name = stand.gemini.start(silent(false)).unwrap();
        assert_eq!(
            stand
                .deliver(&format!("m{round}"), succeeded(&name))
                .await
                .0,
            200
        );
        stand.settled(&name).await;
        stand.kill().await;
        let prune = [&over[..], &["prune"]].concat();
        let ran = stand.cli(&prune, &[("FAILPOINTS", "fp-p1=return")]).await;
        assert_eq!(ran.status.code(), None, "{ran:?}");
        cut += 1;
        outside::check_file(&stand.db()).await;
        let half = "SELECT (SELECT count(*) FROM operation_log l WHERE NOT EXISTS \
                        (SELECT 1 FROM operations o WHERE o.id = l.operation_id)) \
                    + (SELECT count(*) FROM operations WHERE state <> 'pending' AND NOT EXISTS \
                        (SELECT 1 FROM effects e WHERE e.operation_id = operations.id))";
        assert_eq!(outside::count(&stand.db(), half).await, 0, "half gone");
        let ran = stand.cli(&prune, &[]).await;
        assert!(ran.status.success(), "{ran:?}");
        let left = "SELECT count(*) FROM operations WHERE state <> 'pending'";
        assert_eq!(outside::count(&stand.db(), left).await, 0, "not pruned");
        let kept = Told {
            stored: ["pending".to_owned()].into(),
            ..Told::default()
        };
        outside::check_stored(&stand.db(), &kept).await;
        stand.start().await;
    }
    assert!(stand.operation(&pending).await.is_some());
    Verdict::Passed(format!("{cut} cut off; what was pending was kept"))
}
