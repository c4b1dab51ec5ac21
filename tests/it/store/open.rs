//! Opening: what is refused, in which words, and what an opened file really is.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::ManualClock;
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::store::{OpenError, OpenOptions, Reader, Store, StoreError};
use sqlx::Connection as _;
use tempfile::TempDir;

use super::outside;
use crate::support::{NOON, TestStore, options, sql};

/// Opens a store and gives it back with the group that must be drained to close it.
async fn open(path: &Path) -> Result<(Store, Shutdown), OpenError> {
    let clock = Arc::new(ManualClock::starting_at(NOON));
    let group = Shutdown::new(clock.clone());
    let options = OpenOptions {
        path: path.to_owned(),
        create: true,
        readers: 2,
        max_waiting: 1 << 20,
        check_at_once: hookledger::store::CHECK_AT_ONCE,
    };
    let store = Store::open(&options, clock, Arc::new(RandomIds::seeded(1)), &group).await?;
    Ok((store, group))
}

/// Why the file cannot be opened.
async fn refusal(path: &Path) -> OpenError {
    match open(path).await {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

fn file(dir: &TempDir) -> PathBuf {
    options(dir).path
}

/// A closed file with some thousand rows, so that its pages are many.
async fn filled() -> TempDir {
    let base = TestStore::open().await;
    sql(
        &base.dir,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
         INSERT INTO operation_log (operation_id, at_ms, what, cause, detail) \
         SELECT 'operation-' || i, i, 'pending', 'register', hex(randomblob(40)) FROM n",
    )
    .await;
    let (dir, _) = base.close().await;
    // A reader's connection ends on a thread of its own and may outlive the writer's, which then leaves
    // its log behind: what a test damages must be all there is.
    sql(&dir, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    dir
}

async fn pragma<T>(path: &Path, statement: &'static str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + Unpin,
{
    let mut file = outside(path).await;
    let value = sqlx::query_scalar(statement)
        .fetch_one(&mut file)
        .await
        .unwrap();
    file.close().await.unwrap();
    value
}

#[tokio::test]
async fn a_second_instance_is_refused_until_the_first_has_closed() {
    let base = TestStore::open().await;
    let path = file(&base.dir);
    let text = refusal(&path).await.to_string();
    assert!(
        text.contains("in use by another hookledger") && text.contains("test.db.lock"),
        "{text}"
    );
    base.store
        .beat()
        .await
        .expect("the refused one disturbed the first");

    let (dir, _) = base.close().await;
    let (store, group) = open(&file(&dir)).await.unwrap();
    store.beat().await.unwrap();
    assert!(group.drain(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn a_lock_held_by_somebody_else_is_respected_and_its_leftover_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let lock = dir.path().join("test.db.lock");
    // flock(2) belongs to the open file, so another one in this process is as good as another process.
    let other = File::create(&lock).unwrap();
    other.try_lock().unwrap();
    assert!(matches!(refusal(&path).await, OpenError::InUse { .. }));
    assert!(!path.exists(), "it touched a file it had no lock for");
    drop(other);
    assert!(lock.exists());
    let (_, group) = open(&path).await.unwrap();
    assert!(group.drain(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn closing_gives_up_the_lock_only_after_the_last_write() {
    let base = TestStore::open().await;
    let path = file(&base.dir);
    let store = base.store.clone();
    let mut last =
        Box::pin(async move { store.open_alert("s".into(), "s".into(), planner()).await });
    assert!(futures_util::poll!(last.as_mut()).is_pending());
    let (dir, _) = base.close().await;
    assert!(last.await.unwrap(), "a write that was queued is written");
    let (store, group) = open(&path).await.unwrap();
    assert_eq!(store.open_alerts().await.unwrap().len(), 1);
    assert!(group.drain(Duration::from_secs(5)).await);
    let late = store.beat().await;
    assert!(matches!(late, Err(StoreError::Busy)), "{late:?}");
    drop(dir);
}

fn planner() -> Arc<dyn hookledger::domain::ledger::PlanEffects> {
    Arc::new(hookledger::effects::plan::Planner::new(
        Vec::new(),
        Vec::new(),
    ))
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_writer_and_reader_and_left_alone() {
    let base = TestStore::open().await;
    let (dir, _) = base.close().await;
    let path = file(&dir);
    sql(
        &dir,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'from the future', 1, x'00', 0)",
    )
    .await;
    for error in [refusal(&path).await, Reader::open(&path).await.unwrap_err()] {
        let text = error.to_string();
        assert!(
            text.contains("written by a newer hookledger (schema 9999, this one knows ")
                && text.contains("restore a backup"),
            "{text}"
        );
    }
    sql(&dir, "DELETE FROM _sqlx_migrations WHERE version = 9999").await;
    open(&path).await.expect("it is ours again");
}

#[tokio::test]
async fn a_reader_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let missing = Reader::open(&path).await.unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }));
    assert!(missing.to_string().contains("does not exist"), "{missing}");
    assert!(!path.exists(), "a reader made the file");
}

#[tokio::test]
async fn a_writer_that_may_not_create_makes_neither_file_nor_lock() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::starting_at(NOON));
    let group = Shutdown::new(clock.clone());
    let options = OpenOptions {
        create: false,
        ..options(&dir)
    };
    let opened = Store::open(&options, clock, Arc::new(RandomIds::seeded(1)), &group).await;
    assert!(matches!(opened, Err(OpenError::Missing { .. })));
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "something was left behind");
}

#[tokio::test]
async fn a_reader_names_the_command_that_migrates() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    File::create(&path).unwrap();
    let text = Reader::open(&path).await.unwrap_err().to_string();
    assert!(text.contains("start `hookledger serve` once"), "{text}");
    sql(
        &dir,
        "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY)",
    )
    .await;
    let text = Reader::open(&path).await.unwrap_err().to_string();
    assert!(text.contains("start `hookledger serve` once"), "{text}");
}

#[tokio::test]
async fn a_database_of_another_program_is_not_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    File::create(&path).unwrap();
    sql(&dir, "CREATE TABLE somebody_elses (x)").await;
    let text = refusal(&path).await.to_string();
    assert!(text.contains("another program"), "{text}");
    let tables = pragma::<i64>(&path, "SELECT count(*) FROM sqlite_schema").await;
    assert_eq!(tables, 1);
    sql(&dir, "DROP TABLE somebody_elses").await;
    open(&path).await.expect("an empty file is as good as none");
}

#[tokio::test]
async fn a_reader_reads_beside_the_writer_and_cannot_write() {
    let base = TestStore::open().await;
    let reader = Reader::open(&file(&base.dir)).await.unwrap();
    base.store.beat().await.unwrap();
    assert_eq!(reader.ping().await.unwrap(), NOON);
}

#[tokio::test]
async fn a_damaged_page_is_found_before_anything_is_written_and_the_text_says_restore() {
    let dir = filled().await;
    let path = file(&dir);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size > 100 * 4096, "{size}");
    let mut db = File::options().read(true).write(true).open(&path).unwrap();
    let middle = size / 2 / 4096 * 4096;
    db.seek(SeekFrom::Start(middle)).unwrap();
    db.write_all(&[0xff; 4096]).unwrap();
    drop(db);
    let before = std::fs::read(&path).unwrap();
    let error = refusal(&path).await;
    let text = error.to_string();
    assert!(matches!(error, OpenError::Damaged { .. }), "{text}");
    assert!(text.contains("restore it from a backup"), "{text}");
    let after = std::fs::read(&path).unwrap();
    let changed: Vec<_> = (0..before.len().max(after.len()))
        .filter(|i| before.get(*i) != after.get(*i))
        .take(20)
        .collect();
    assert_eq!(
        changed,
        Vec::<usize>::new(),
        "it wrote to it (size {} to {}, middle {middle})",
        before.len(),
        after.len()
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_says_restore_too() {
    let dir = filled().await;
    let path = file(&dir);
    let whole = std::fs::read(&path).unwrap();
    // The header, the schema's page, and a file cut off in the middle.
    let mut header = whole.clone();
    header[..16].fill(b'x');
    let mut schema = whole.clone();
    schema[100..200].fill(0xff);
    let half = whole[..whole.len() / 2 / 4096 * 4096].to_vec();
    for damaged in [
        header,
        schema,
        half,
        b"not a database, not at all".repeat(100),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let text = refusal(&path).await.to_string();
        assert!(text.contains("restore it from a backup"), "{text}");
    }
    std::fs::write(&path, whole).unwrap();
    open(&path).await.expect("the whole file opens");
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), b"").unwrap();
    // A file where the directory should be; a directory where the file should be; the kernel's own.
    for path in [
        dir.path().join("file").join("test.db"),
        dir.path().to_owned(),
        PathBuf::from("/proc/hookledger/test.db"),
    ] {
        let error = refusal(&path).await;
        let text = error.to_string();
        let expected = format!("cannot open {}: ", path.display());
        assert!(text.starts_with(&expected), "{text}");
    }
    let missing = dir.path().join("mistyped").join("test.db");
    let text = refusal(&missing).await.to_string();
    assert!(text.contains("there is no directory"), "{text}");
    assert!(text.contains("store.path (HOOK_DB)"), "{text}");
    assert!(!dir.path().join("mistyped").exists(), "it was made");
}

#[tokio::test]
async fn the_file_is_wal_incremental_and_fully_synchronous_and_stays_so() {
    let base = TestStore::open().await;
    let path = file(&base.dir);
    for _ in 0..2 {
        assert_eq!(pragma::<String>(&path, "PRAGMA journal_mode").await, "wal");
        assert_eq!(pragma::<i64>(&path, "PRAGMA auto_vacuum").await, 2);
    }
    assert!(dir_has(&base.dir, "test.db-wal"));
    let (dir, now) = base.close().await;
    assert!(
        !dir_has(&dir, "test.db-wal"),
        "a clean close leaves one file behind"
    );
    let base = TestStore::open_in(dir, now, 2).await;
    assert_eq!(pragma::<String>(&path, "PRAGMA journal_mode").await, "wal");
    assert_eq!(pragma::<i64>(&path, "PRAGMA auto_vacuum").await, 2);
    base.close().await;
}

fn dir_has(dir: &TempDir, name: &str) -> bool {
    dir.path().join(name).exists()
}

#[tokio::test]
async fn space_is_given_back_in_steps() {
    let dir = filled().await;
    let path = file(&dir);
    let full = std::fs::metadata(&path).unwrap().len();
    sql(&dir, "DELETE FROM operation_log").await;
    let base = TestStore::open_in(dir, NOON, 2).await;
    base.store.tidy().await.unwrap();
    let (_dir, _) = base.close().await;
    let tidied = std::fs::metadata(&path).unwrap().len();
    assert!(tidied < full / 2, "{full} bytes became {tidied}");
}
