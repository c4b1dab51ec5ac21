//! When the file is checked: first after a crash, meanwhile after an orderly end, and what follows from
//! damage that is found late.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::ManualClock;
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::store::{OpenError, OpenOptions, Store, StoreError};
use tempfile::TempDir;

use crate::support::{NOON, options, sql};

/// A store on a file that counts as large.
struct Large {
    store: Store,
    group: Shutdown,
}

impl Large {
    async fn open(dir: &TempDir) -> Result<Self, OpenError> {
        let clock = Arc::new(ManualClock::starting_at(NOON));
        let group = Shutdown::new(clock.clone());
        let options = OpenOptions {
            check_at_once: 0,
            ..options(dir)
        };
        let store = Store::open(&options, clock, Arc::new(RandomIds::seeded(1)), &group).await?;
        Ok(Self { store, group })
    }

    async fn close(self) {
        self.store.close().await;
        assert!(self.group.drain(Duration::from_secs(5)).await);
    }
}

/// A file of a few hundred pages, closed by its last user.
async fn filled() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let large = Large::open(&dir).await.unwrap();
    sql(
        &dir,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
         INSERT INTO operation_log (operation_id, at_ms, what, cause, detail) \
         SELECT 'operation-' || i, i, 'pending', 'register', hex(randomblob(40)) FROM n",
    )
    .await;
    large.close().await;
    // What a test damages must be all there is.
    sql(&dir, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    dir
}

/// Damages a page in the middle, which no start reads for itself.
fn damage(path: &Path) {
    let mut file = std::fs::File::options().write(true).open(path).unwrap();
    let middle = file.metadata().unwrap().len() / 2 / 4096 * 4096;
    file.seek(SeekFrom::Start(middle)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
}

#[tokio::test]
async fn a_file_that_was_closed_whole_is_checked_while_it_is_used() {
    let dir = filled().await;
    let large = Large::open(&dir).await.unwrap();
    large.store.check_the_rest(&large.group).await;
    large.store.beat().await.unwrap();
    damage(&options(&dir).path);
    large.close().await;

    // Nobody has seen it yet, so it is opened again; and found.
    let large = Large::open(&dir).await.unwrap();
    large.store.beat().await.unwrap();
    large.store.check_the_rest(&large.group).await;
    let why = large.store.broken().await;
    let refused = large.store.beat().await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    large.close().await;

    // From then on it is refused, with what was found.
    let Err(OpenError::Damaged { what, .. }) = Large::open(&dir).await.map(drop) else {
        panic!("a file that is known to be damaged was opened ({why})");
    };
    assert!(!what.is_empty());
}

#[tokio::test]
async fn after_a_crash_the_file_is_checked_before_anything_is_taken() {
    let dir = filled().await;
    let large = Large::open(&dir).await.unwrap();
    // As it stands while a process has it: what a crash would leave.
    let (left, path) = (tempfile::tempdir().unwrap(), options(&dir).path);
    let crashed = options(&left).path;
    std::fs::copy(&path, &crashed).unwrap();
    let log = |path: &Path| format!("{}-wal", path.display());
    std::fs::copy(log(&path), log(&crashed)).unwrap();
    large.close().await;
    damage(&crashed);
    let refused = Large::open(&left).await.map(drop);
    assert!(
        matches!(refused, Err(OpenError::Damaged { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_stop_cuts_the_check_off() {
    let dir = filled().await;
    damage(&options(&dir).path);
    let large = Large::open(&dir).await.unwrap();
    let stopped = Shutdown::new(Arc::new(ManualClock::starting_at(NOON)));
    assert!(stopped.drain(Duration::from_secs(1)).await);
    large.store.check_the_rest(&stopped).await;
    large.store.beat().await.unwrap();
    large.close().await;
    // Nothing was proven, so the next start checks first.
    let refused = Large::open(&dir).await.map(drop);
    assert!(
        matches!(refused, Err(OpenError::Damaged { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_damaged_free_list_is_found_before_anybody_takes_a_page_from_it() {
    let dir = filled().await;
    sql(
        &dir,
        "DELETE FROM operation_log WHERE at_ms % 2 = 0 OR at_ms > 1000",
    )
    .await;
    sql(&dir, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    let large = Large::open(&dir).await.unwrap();
    large.close().await;
    sql(&dir, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    // How many free pages there are stands in the header (https://www.sqlite.org/fileformat.html).
    let path = options(&dir).path;
    let mut file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut count = [0; 4];
    file.seek(SeekFrom::Start(36)).unwrap();
    file.read_exact(&mut count).unwrap();
    let count = u32::from_be_bytes(count);
    assert!(count > 1, "nothing is free");
    file.seek(SeekFrom::Start(36)).unwrap();
    file.write_all(&(count - 1).to_be_bytes()).unwrap();
    drop(file);
    let refused = Large::open(&dir).await.map(drop);
    let Err(OpenError::Damaged { what, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(what.contains("reelist"), "{what}");
}
