//! The restore drill: work, a backup, more work, the file is lost, the backup is put in its place, and
//! the next start finds out what happened since. Every step is printed (`--nocapture`).

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests fail by panicking, and the drill tells its steps"
)]

use std::collections::BTreeSet;

use hookledger::simulator::Outcome;
use serde_json::Value;

use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// What stands at the provider when the file is lost.
struct Scene {
    stand: Stand,
    /// Settled before the backup.
    before: String,
    /// Pending in the backup, settled before the loss.
    since: String,
    /// Pending in the backup, still going on.
    going_on: String,
    /// Not in the backup at all.
    unknown: String,
    /// Delivered before the backup.
    stored: BTreeSet<String>,
}

impl Scene {
    async fn up() -> Self {
        let stand = Stand::up().await;
        let start = |manual| stand.gemini.start(silent(manual)).unwrap();
        let (before, since, going_on, unknown) =
            (start(false), start(true), start(true), start(false));
        println!("work: {before} settles by its webhook; {since} and {going_on} are registered");
        assert_eq!(stand.deliver("before", succeeded(&before)).await.0, 200);
        stand.settled(&before).await;
        for name in [&since, &going_on] {
            assert_eq!(stand.register(name, "nightly").await, 201);
        }
        let made = said(&stand, &["backup", "backup.db"]).await;
        println!("backup while it runs: {} bytes", made["bytes"]);
        Self {
            stored: ["before".to_owned()].into(),
            stand,
            before,
            since,
            going_on,
            unknown,
        }
    }

    /// More work, then the process and its file are gone.
    async fn lose(&mut self) {
        let stand = &mut self.stand;
        stand
            .gemini
            .finish(&self.since, Outcome::Succeeded)
            .unwrap();
        assert_eq!(stand.deliver("since", succeeded(&self.since)).await.0, 200);
        assert_eq!(
            stand.deliver("unknown", succeeded(&self.unknown)).await.0,
            200
        );
        for name in [&self.since, &self.unknown] {
            stand.settled(name).await;
            assert_eq!(stand.sink.about(name).len(), 1);
        }
        println!(
            "more work: {} and {} settle, their effects arrive",
            self.since, self.unknown
        );
        let refused = stand.cli(&["restore", "backup.db"], &[]).await;
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        stand.kill().await;
        for end in ["", "-wal", "-shm"] {
            let path = stand.dir.path().join(format!("webhook.db{end}"));
            std::fs::remove_file(path).unwrap();
        }
        println!("kill -9, and the file is lost");
    }

    async fn restored(&mut self, more: &[&str]) {
        let said = said(&self.stand, &[&["restore", "backup.db"], more].concat()).await;
        println!("restore: {said}");
        assert_eq!(said["operations_open"], 2);
        self.stand.start().await;
        let name = self.since.clone();
        eventually("what ended meanwhile is found", SOON, async || {
            let operation = self.stand.operation(&name).await?;
            (!operation["settled_at"].is_null()).then_some(())
        })
        .await;
        let kept = Told {
            stored: self.stored.clone(),
            ..Told::default()
        };
        outside::check_stored(&self.stand.db(), &kept).await;
        outside::check_file(&self.stand.db()).await;
    }

    fn keys(&self, name: &str) -> BTreeSet<String> {
        self.stand
            .sink
            .about(name)
            .into_iter()
            .map(|got| got.key)
            .collect()
    }
}

async fn said(stand: &Stand, arguments: &[&str]) -> Value {
    let ran = stand.cli(&[&["--json"], arguments].concat(), &[]).await;
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restore_the_next_start_finds_what_happened_and_repeats_no_effect() {
    let mut scene = Scene::up().await;
    scene.lose().await;
    scene.restored(&[]).await;
    let stand = &scene.stand;
    let found = stand.operation(&scene.since).await.unwrap();
    assert_eq!(found["settled_by"], "reconcile");
    assert_eq!(found["effects_withheld"], true);
    assert_eq!(found["side_effect_done"], false, "nobody knows");
    println!(
        "start: {} settles again by reconcile, its effects are withheld",
        scene.since
    );
    // What goes on after the restore is nobody's guess.
    let looked = async || {
        let operation = stand.operation(&scene.going_on).await?;
        (operation["effects_withheld"] == false).then_some(())
    };
    eventually("it is seen going on", SOON, looked).await;
    stand
        .gemini
        .finish(&scene.going_on, Outcome::Succeeded)
        .unwrap();
    stand.settled(&scene.going_on).await;
    assert_eq!(stand.sink.about(&scene.going_on).len(), 1);
    println!(
        "{} ends after the restore: its effect arrives",
        scene.going_on
    );
    assert_eq!(stand.sink.about(&scene.before).len(), 1);
    assert_eq!(stand.sink.about(&scene.since).len(), 1, "it was repeated");
    said(stand, &["operations", "retry", &scene.since]).await;
    stand.settled(&scene.since).await;
    assert_eq!(stand.sink.about(&scene.since).len(), 2);
    assert_eq!(scene.keys(&scene.since).len(), 1, "with another key");
    println!(
        "operations retry {}: sent again with the same key",
        scene.since
    );
    assert!(stand.operation(&scene.unknown).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_asks_for_effects_sends_them_again_with_the_same_keys() {
    let mut scene = Scene::up().await;
    scene.lose().await;
    scene.restored(&["--run-effects"]).await;
    scene.stand.settled(&scene.since).await;
    assert_eq!(scene.stand.sink.about(&scene.since).len(), 2);
    assert_eq!(scene.keys(&scene.since).len(), 1, "with another key");
    assert_eq!(scene.stand.sink.about(&scene.before).len(), 1);
    println!(
        "start: {} settles again, its effect arrives again with the same key",
        scene.since
    );
}
