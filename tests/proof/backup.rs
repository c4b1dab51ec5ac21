//! A backup of a ledger in use is cut off at every stage of it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::row::{Row, Tier, Verdict};
use crate::support::outside::{self, Told};
use crate::support::stand::{Stand, silent, succeeded};

/// The rows about backups.
pub(crate) const ROWS: &[Row] = &[Row {
    name: "T30-backup",
    run: |tier| Box::pin(cut_off(tier)),
}];

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
    let kills = async {
        let figures = kill_often(&stand, &stored, tier.of(20, 200)).await;
        done.store(true, Ordering::Relaxed);
        figures
    };
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
    let points = format!("b1={passed}*off->return");
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
async fn kill_often(stand: &Stand, stored: &Mutex<Told>, rounds: usize) -> (usize, usize, usize) {
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
    // The last ones, one by one: synced, checked, named. The file has grown meanwhile.
    let (mut low, mut high) = (0, points * 2);
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
