//! The power goes: what was not yet written back is lost, and every acknowledged delivery is there.
//!
//! A kill cannot show this, because the page cache outlives the process. The database lies on an ext4
//! image that lies on XFS; at a random instant the image is cloned (`FICLONE`: atomic, no copy), and the
//! clone holds exactly what had reached the disk by then. Mounting it is what a machine does that comes
//! back. The same with `synchronous=NORMAL` must lose, or this harness shows nothing.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;

use crate::crash::come_to_an_end;
use crate::row::{Row, Tier, Verdict, seed};
use crate::support::load::Load;
use crate::support::outside;
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand};

/// The row about the power.
pub(crate) const ROWS: &[Row] = &[Row {
    name: "T3-power-cut",
    run: |tier| Box::pin(power_cut(tier)),
}];

/// Cuts of the run that must lose.
const CONTROL: u64 = 50;

async fn power_cut(tier: Tier) -> Verdict {
    if !cfg!(feature = "failpoints") {
        return Verdict::Skipped("built without --features failpoints".to_owned());
    }
    let disk = match Disk::make() {
        Ok(disk) => disk,
        Err(why) => return Verdict::Skipped(why),
    };
    let (seed, cuts) = (seed(), tier.of(40, 1_000));
    let full = run(&disk, "full", &[], seed, cuts, 0).await;
    assert_eq!(full.cuts_with_loss, 0, "acknowledged and lost: {full:?}");
    // The control ends as soon as it has lost.
    let weak = [("FAILPOINTS", "fp-normal=return")];
    let normal = run(&disk, "normal", &weak, seed, CONTROL, tier.of(1, CONTROL)).await;
    assert!(normal.cuts_with_loss > 0, "NORMAL lost nothing: {normal:?}");
    Verdict::Passed(format!(
        "seed {seed}: FULL {} cuts, {} acknowledged, 0 lost, every file that was read whole was good; NORMAL lost in {} of {} cuts, \
         at worst {} deliveries",
        full.cuts, full.acknowledged, normal.cuts_with_loss, normal.cuts, normal.worst
    ))
}

/// What one run saw.
#[derive(Debug, Default)]
struct Seen {
    cuts: u64,
    cuts_with_loss: u64,
    worst: usize,
    acknowledged: usize,
}

/// Cuts the power so often under load, or until it has lost `enough` times (0: never enough).
async fn run(
    disk: &Disk,
    name: &str,
    environment: &[(&str, &str)],
    seed: u64,
    cuts: u64,
    enough: u64,
) -> Seen {
    let path = format!("'{}/{name}.db'", disk.mounted().display());
    let mut stand = Stand::with(&[("store.path", &path), ("log.filter", "'info'")]).await;
    stand.kill().await;
    stand.start_with(environment).await;
    let load = Load::new(Duration::from_millis(8));
    let mut random = StdRng::seed_from_u64(seed);
    let clock = SystemClock::new();
    let mut outcome = Seen::default();
    let cutting = async {
        while outcome.cuts < cuts && (enough == 0 || outcome.cuts_with_loss < enough) {
            clock
                .sleep(Duration::from_millis(random.random_range(20..250)))
                .await;
            let told = load.told();
            let clone = disk.cut();
            let file = clone.path().join(format!("{name}.db"));
            let lost = outside::lost(&file, &told).await.len();
            // All of a growing file takes ever longer to read.
            if outcome.cuts < 40 || outcome.cuts.is_multiple_of(10) {
                outside::check_file(&file).await;
            }
            clone.unmount().await;
            outcome.cuts += 1;
            outcome.cuts_with_loss += u64::from(lost > 0);
            outcome.worst = outcome.worst.max(lost);
            outcome.acknowledged = told.stored.len();
        }
        load.stop();
    };
    tokio::join!(cutting, load.run(&stand, seed..seed + 4));
    assert!(stand.service().is_running(), "{}", stand.service().logged());
    stand.kill().await;
    come_to_an_end(&mut stand, &load).await;
    stand.kill().await;
    outcome
}

/// An ext4 image on an XFS image, both mounted. Unmounted when dropped.
struct Disk {
    dir: TempDir,
    undo: Vec<PathBuf>,
    cuts: Cell<u64>,
}

impl Disk {
    /// What this machine lacks, if it cannot be made.
    fn make() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting needs root".to_owned());
        }
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let at = |name: &str| dir.path().join(name);
        for name in ["xfs", "ext4", "clone"] {
            std::fs::create_dir(at(name)).map_err(|e| e.to_string())?;
        }
        let (outer, inner) = (at("xfs.img"), at("xfs/ext4.img"));
        let (xfs, ext4) = (at("xfs"), at("ext4"));
        let mut disk = Self {
            dir,
            undo: Vec::new(),
            cuts: Cell::new(0),
        };
        image(&outer, 4 << 30)?;
        sh("mkfs.xfs", &["-q", "-f", "-m", "reflink=1", text(&outer)])?;
        disk.mount(&outer, &xfs)?;
        image(&inner, 512 << 20)?;
        sh("mkfs.ext4", &["-q", "-F", text(&inner)])?;
        disk.mount(&inner, &ext4)?;
        // Whether this kernel clones files at all.
        drop(disk.try_cut()?);
        Ok(disk)
    }

    fn mount(&mut self, what: &Path, at: &Path) -> Result<(), String> {
        sh("mount", &["-o", "loop", text(what), text(at)])?;
        self.undo.push(at.to_owned());
        Ok(())
    }

    fn mounted(&self) -> PathBuf {
        self.dir.path().join("ext4")
    }

    /// The disk as it would be found if the power went now.
    fn cut(&self) -> Mounted {
        self.try_cut().unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_cut(&self) -> Result<Mounted, String> {
        let at = |name: &str| self.dir.path().join(name);
        // The kernel may keep a loop device a moment longer, so each clone has a name of its own.
        let cut = self.cuts.get();
        self.cuts.set(cut + 1);
        let (from, to) = (at("xfs/ext4.img"), at(&format!("xfs/clone-{cut}.img")));
        let from = std::fs::File::open(from).map_err(|e| e.to_string())?;
        let clone = std::fs::File::create(&to).map_err(|e| e.to_string())?;
        rustix::fs::ioctl_ficlone(&clone, &from).map_err(|e| format!("no reflink: {e}"))?;
        drop(clone);
        let place = at("clone");
        sh("mount", &["-o", "loop", text(&to), text(&place)])?;
        Ok(Mounted(place, to))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for place in self.undo.iter().rev() {
            drop(sh("umount", &[text(place)]));
        }
    }
}

/// A clone, mounted.
struct Mounted(PathBuf, PathBuf);

impl Mounted {
    fn path(&self) -> &Path {
        &self.0
    }

    /// Whoever read it may take a moment to close it.
    async fn unmount(self) {
        eventually("the clone is let go", SOON, async || {
            sh("umount", &[text(&self.0)]).ok()
        })
        .await;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(sh("umount", &["--lazy", text(&self.0)]));
        drop(std::fs::remove_file(&self.1));
    }
}

fn image(path: &Path, bytes: u64) -> Result<(), String> {
    let file = std::fs::File::create(path).map_err(|e| e.to_string())?;
    file.set_len(bytes).map_err(|e| e.to_string())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a program of the system's; what it says when it fails.
pub(crate) fn sh(program: &str, arguments: &[&str]) -> Result<(), String> {
    let ran = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{program}: {}", said.trim()))
}
