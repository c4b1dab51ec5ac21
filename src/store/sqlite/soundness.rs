//! Whether the file is whole, and when that is asked.
//!
//! Problem: `quick_check` reads every page. Before anything is accepted that is right after a crash, but
//! after a mere restart it turns deliveries away for as long as it takes: sixteen seconds for 3 GB.
//!
//! Design: whoever closes the file says in its header (`user_version`) that it was closed whole, and
//! whoever opens it takes that back. A file that says so and is larger than
//! [`OpenOptions::check_at_once`](super::super::OpenOptions) is opened unread and checked meanwhile, table
//! by table, on a connection of its own; any other is checked first. Damage found late makes the store
//! broken, as an I/O error does: nothing is accepted any more and the process ends. It closes without the
//! mark, so the next start checks first and is refused.
//!
//! Races: the mark is gone, in a commit, before the first write of the new process, so one that dies at
//! any instant leaves none. A check that a stop cuts off has found nothing and begins anew with the next
//! start. Each table is a read of its own, so the write-ahead log can be emptied between two.

use std::path::Path;

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::super::error::{OpenError, StoreError, is_damage};
use super::super::{Reader, Store};
use super::pool::{base_options, check_file, is_ours, sqlite_error};
use crate::base::shutdown::Shutdown;

/// In the header of a file that was closed whole.
const CLOSED_WHOLE: i64 = 1;
/// Steps of SQLite's machine between two looks at whether the process stops.
const STEPS: i32 = 10_000;

/// Checks the file, or says that it is to be checked while it is used.
pub(super) async fn check_or_defer(
    writer: &mut SqliteConnection,
    path: &Path,
    check_at_once: u64,
) -> Result<bool, OpenError> {
    let large = std::fs::metadata(path).is_ok_and(|file| file.len() > check_at_once);
    let whole = large && is_ours(writer, path).await? && mark(writer, path).await? == CLOSED_WHOLE;
    if !whole {
        check_file(writer, path).await?;
    }
    Ok(whole)
}

async fn mark(connection: &mut SqliteConnection, path: &Path) -> Result<i64, OpenError> {
    sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(connection)
        .await
        .map_err(sqlite_error(path))
}

/// Takes the mark back; from here on only an orderly end sets it again. The file must be known as ours.
pub(super) async fn take_mark(writer: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    if mark(writer, path).await? != 0 {
        sqlx::query("PRAGMA user_version = 0")
            .execute(writer)
            .await
            .map_err(sqlite_error(path))?;
    }
    Ok(())
}

/// Says that the file is closed whole. Without it the next start only takes longer.
pub(super) async fn set_mark(writer: &mut SqliteConnection) {
    drop(sqlx::query("PRAGMA user_version = 1").execute(writer).await);
}

impl Store {
    /// Checks what the start has left unchecked, until the process stops. Damage makes the store
    /// [`broken`](Self::broken).
    pub async fn check_the_rest(&self, stop: &Shutdown) {
        if !self.writer.is_unchecked() {
            return;
        }
        tracing::info!("the file was closed whole and is large: it is checked while it is used");
        match self.reader.check_tables(stop).await {
            Ok(()) if stop.is_stopping() => {}
            Ok(()) => tracing::info!("the file is whole"),
            Err(StoreError::Broken(why)) => self.writer.break_with(why),
            Err(error) => {
                tracing::warn!(%error, "the file could not be checked; `hookledger doctor` checks it too");
            }
        }
    }
}

impl Reader {
    async fn check_tables(&self, stop: &Shutdown) -> Result<(), StoreError> {
        let mut connection = base_options(&self.path).read_only(true).connect().await?;
        let stopping = stop.clone();
        connection
            .lock_handle()
            .await?
            .set_progress_handler(STEPS, move || !stopping.is_stopping());
        let tables: Vec<String> =
            sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'")
                .fetch_all(&mut connection)
                .await?;
        for table in tables {
            let report: Result<Vec<String>, sqlx::Error> =
                sqlx::query_scalar("SELECT * FROM pragma_quick_check(?1) LIMIT 1")
                    .bind(&table)
                    .fetch_all(&mut connection)
                    .await;
            match report {
                _ if stop.is_stopping() => return Ok(()),
                Ok(lines) if lines.iter().all(|line| line == "ok") => {}
                Ok(lines) => return Err(StoreError::Broken(lines.join("; "))),
                Err(error) if is_damage(&error) => {
                    return Err(StoreError::Broken(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        connection.close().await?;
        Ok(())
    }
}
