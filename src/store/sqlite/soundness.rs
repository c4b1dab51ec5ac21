//! Whether the file is whole, and when that is asked.
//!
//! Problem: `quick_check` reads every page. Before anything is accepted that is right after a crash, but
//! after a mere restart it turns deliveries away for as long as it takes: sixteen seconds for 3 GB.
//!
//! Design: whoever has checked the file and closes it says so in its header (`user_version`), and whoever
//! opens it takes that back. A file that says so, needs no migration and is larger than
//! [`OpenOptions::check_at_once`](super::super::OpenOptions) is opened without reading its tables, which
//! are checked meanwhile, one by one, on a connection of their own; any other is checked first. Schema and
//! free list always are: whoever writes takes pages from the list, and that is quick. Damage found late
//! makes the store broken, as an I/O error does: nothing is accepted any more and the process ends. It
//! closes without the mark, so the next start checks first and is refused.
//!
//! Races: the mark is gone, in a commit, before the first write of the new process. One that dies leaves
//! none, unless it dies in the last steps of its orderly end, when all is committed that ever will be. A
//! check that a stop or an error cuts off has proven nothing: no mark, and the next start checks first.
//! Each table is a read of its own, so the write-ahead log can be emptied between two.

use std::path::Path;

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::super::error::{OpenError, StoreError, is_damage};
use super::super::{Reader, Store};
use super::pool::{base_options, check_by, check_file, is_current, sqlite_error};
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
    let whole =
        large && is_current(writer, path).await? && mark(writer, path).await? == CLOSED_WHOLE;
    if whole {
        // Of a check by table, this one looks at the free list.
        check_by(writer, path, "PRAGMA quick_check(sqlite_schema)").await?;
    } else {
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
            Ok(()) => {
                self.writer.prove();
                tracing::info!("the file is whole");
            }
            Err(StoreError::Broken(why)) => self.writer.break_with(why),
            Err(error) => {
                tracing::warn!(%error, "the file could not be checked; the next start does it first");
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
