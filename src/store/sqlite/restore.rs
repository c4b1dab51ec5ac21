//! Putting a backup in the place of the ledger.
//!
//! Problem: what happened after the backup was taken is not in it. Operations that had settled are
//! pending again, and whether their effects went out nobody here knows any more.
//!
//! Design: under the instance lock, so no service runs. The backup is copied beside the ledger,
//! brought to this version's schema and prepared there; only a whole and synced copy takes the
//! ledger's name. The first look at everything open is due at once, so the next start finds out what
//! happened. Unless the operator asks for effects, none is repeated by guess: those that were on
//! their way wait for a person (`held`), and of what is open the effects are *withheld* until a look
//! finds it still going on, or a delivery comes that the restored service itself answered.
//!
//! A crash: before the rename the old ledger stands, after it the new one. Both need the right log:
//! the old one's is emptied into it first; where that fails (it is damaged), it is kept aside with the
//! file and removed before the rename, because SQLite would take it for the new file's.

use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::super::error::OpenError;
use super::backup::{
    BackupError, Scratch, beside, copy, io_error, is_part_of, remove_if_there, sync_directory,
};
use super::pool::{self, sqlite_error};
use crate::base::clock::Timestamp;

/// What was put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Its size in bytes.
    pub bytes: u64,
    /// Operations that are open in it, and looked at when the service starts.
    pub open: u64,
    /// Effects that were on their way in it and wait for a person.
    pub held: u64,
    /// Where the ledger is that was there before.
    pub aside: Option<PathBuf>,
}

/// Puts `backup` in the place of the ledger at `to`. `run_effects`: effects are sent as if nothing had
/// happened, with the same keys as before.
///
/// # Errors
/// See [`BackupError`]; the ledger is as it was.
pub async fn restore(
    backup: &Path,
    to: &Path,
    run_effects: bool,
    now: Timestamp,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<Restored, BackupError> {
    let _lock = pool::lock(to)?;
    if is_part_of(to, backup) {
        let path = backup.display().to_string();
        return Err(BackupError::Itself { path });
    }
    let scratch = Scratch::take(&beside(to, ".restoring"))?;
    let made = fill(backup, &scratch, run_effects, now, progress).await;
    let (open, held) = match made {
        Ok(counts) => counts,
        Err(error) => {
            remove_if_there(&scratch.path)?;
            return Err(error);
        }
    };
    let bytes = scratch.sync()?;
    let aside = put_aside(to, now).await?;
    std::fs::rename(&scratch.path, to).map_err(io_error(to))?;
    sync_directory(to)?;
    Ok(Restored {
        bytes,
        open,
        held,
        aside,
    })
}

async fn fill(
    backup: &Path,
    scratch: &Scratch,
    run_effects: bool,
    now: Timestamp,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<(u64, u64), BackupError> {
    let unusable = |error| match error {
        BackupError::Source(OpenError::Damaged { path, what }) => {
            BackupError::Unusable { path, what }
        }
        other => other,
    };
    check(backup)
        .await
        .map_err(|error| unusable(error.into()))?;
    copy(backup, scratch, progress).await.map_err(unusable)?;
    let mut made = connect(&scratch.path, false).await?;
    pool::migrate(&mut made, &scratch.path).await?;
    let counts = prepare(&mut made, run_effects, now).await;
    let counts = counts.map_err(sqlite_error(&scratch.path))?;
    pool::check_file(&mut made, &scratch.path).await?;
    made.close().await.map_err(sqlite_error(&scratch.path))?;
    Ok(counts)
}

/// The whole file, before a byte of it is used: copying alone would pass over a broken index.
async fn check(backup: &Path) -> Result<(), OpenError> {
    if !backup.exists() {
        return Err(OpenError::NoBackup {
            path: backup.display().to_string(),
        });
    }
    let mut source = connect(backup, true).await?;
    pool::check_readable(&mut source, backup).await?;
    pool::check_file(&mut source, backup).await?;
    source.close().await.map_err(sqlite_error(backup))
}

async fn connect(path: &Path, read_only: bool) -> Result<SqliteConnection, OpenError> {
    SqliteConnectOptions::new()
        .filename(path)
        .read_only(read_only)
        .disable_statement_logging()
        .connect()
        .await
        .map_err(sqlite_error(path))
}

/// Operations that are open, whatever became of them since.
const OPEN: &str =
    "SELECT count(*) FROM operations WHERE state IN ('pending', 'gone', 'anomalous')";

/// Writes into the copy what the next start must know.
async fn prepare(
    made: &mut SqliteConnection,
    run_effects: bool,
    now: Timestamp,
) -> Result<(u64, u64), sqlx::Error> {
    let mut held = 0;
    // Not our writer: nobody else knows this file yet.
    let mut all = made.begin_with("BEGIN IMMEDIATE").await?;
    let open: i64 = sqlx::query_scalar(OPEN).fetch_one(&mut *all).await?;
    sqlx::query("UPDATE operations SET next_check_at_ms = ?1 WHERE next_check_at_ms IS NOT NULL")
        .bind(now.as_millis())
        .execute(&mut *all)
        .await?;
    if !run_effects {
        held = sqlx::query(
            "UPDATE effects SET state = 'held', lease_until_ms = NULL, last_error = \
             'the ledger was restored from a backup: it may have been sent after that was taken' \
             WHERE state IN ('planned', 'sending', 'ambiguous') AND operation_id IS NOT NULL",
        )
        .execute(&mut *all)
        .await?
        .rows_affected();
        sqlx::query(
            "INSERT INTO operation_log (operation_id, at_ms, what, cause, detail) \
             SELECT id, ?1, 'restored', 'operator', 'from a backup; effects withheld' \
             FROM operations WHERE state IN ('pending', 'gone', 'anomalous')",
        )
        .bind(now.as_millis())
        .execute(&mut *all)
        .await?;
        for statement in [
            "UPDATE operations SET effects_withheld = 1 WHERE state IN ('pending', 'gone', 'anomalous')",
            // A delivery from before the backup is not one that the restored service answered.
            "UPDATE work_queue SET reason = 'reconcile' WHERE state <> 'done' AND state IN ('ready', 'leased')",
        ] {
            sqlx::query(statement).execute(&mut *all).await?;
        }
    }
    all.commit().await?;
    Ok((u64::try_from(open).unwrap_or(0), held))
}

/// Keeps the ledger that is there under another name, with its log, and frees its name's log.
async fn put_aside(ledger: &Path, now: Timestamp) -> Result<Option<PathBuf>, BackupError> {
    let parts = |of: &Path| ["", "-wal", "-shm"].map(|end| beside(of, end));
    let [file, wal, shm] = parts(ledger);
    let mut kept = None;
    if file.exists() {
        let aside = beside(ledger, &format!(".before-restore-{}", now.as_millis()));
        let [aside_file, aside_wal, _] = parts(&aside);
        keep(&file, &aside_file)?;
        if std::fs::metadata(&wal).is_ok_and(|wal| wal.len() > 0) {
            // A copy: opening a damaged file may cost its log.
            copy_whole(&wal, &aside_wal)?;
        }
        if empty_log(ledger).await {
            remove_if_there(&aside_wal)?;
        }
        sync_directory(ledger)?;
        kept = Some(aside);
    }
    remove_if_there(&wal)?;
    remove_if_there(&shm)?;
    Ok(kept)
}

/// Works the log into the file. False when that cannot be: it is damaged.
async fn empty_log(ledger: &Path) -> bool {
    let Ok(mut old) = connect(ledger, false).await else {
        return false;
    };
    let done: Result<i64, _> = sqlx::query_scalar("PRAGMA wal_checkpoint(TRUNCATE)")
        .fetch_one(&mut old)
        .await;
    drop(old.close().await);
    matches!(done, Ok(0))
}

/// A second name for the same bytes, or a copy where the file system has no such names.
fn keep(from: &Path, to: &Path) -> Result<(), BackupError> {
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    copy_whole(from, to)
}

fn copy_whole(from: &Path, to: &Path) -> Result<(), BackupError> {
    std::fs::copy(from, to)
        .and_then(|_| std::fs::File::open(to)?.sync_all())
        .map_err(io_error(to))
}
