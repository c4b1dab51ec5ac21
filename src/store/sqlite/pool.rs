//! Opening the file, and refusing to when a promise could not be kept on it.
//!
//! Order: file system, instance lock, write connection (WAL, `synchronous=FULL`, both read back),
//! SQLite's version, `quick_check` (or its promise, see `soundness`), schema version, migrations, readers. The lock is `flock` on
//! `<db>.lock`: it dies with the process, so a crash never leaves it behind, and two containers on
//! one volume cannot both win it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, SqlitePool};

use super::super::OpenOptions;
use super::super::error::{OpenError, is_damage};
use super::soundness;
#[cfg(feature = "failpoints")]
use crate::base::failpoint::{hit, is_on};

/// Every schema this program knows, in order.
pub(crate) static MIGRATOR: Migrator = sqlx::migrate!("migrations/sqlite");

/// 3.7.0 to 3.51.2 can corrupt a WAL file when two connections write or checkpoint.
const OLDEST_SQLITE: (&str, u32) = ("3.51.3", 3_051_003);
/// Truncated back to this after a checkpoint, so that one long reader does not cost disk for ever.
const WAL_LIMIT_BYTES: u32 = 16 * 1024 * 1024;

/// The parts of an opened file.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) writer: SqliteConnection,
    pub(crate) readers: SqlitePool,
    pub(crate) lock: File,
    /// Whether the file is still to be checked.
    pub(crate) unchecked: bool,
}

pub(super) fn base_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging()
}

/// Every commit is on the platter before it is acknowledged.
fn synchronous() -> SqliteSynchronous {
    #[cfg(feature = "failpoints")]
    if is_on("fp-normal") {
        return SqliteSynchronous::Normal;
    }
    SqliteSynchronous::Full
}

pub(super) fn sqlite_error(path: &Path) -> impl Fn(sqlx::Error) -> OpenError + '_ {
    move |e| {
        let (path, what) = (path.display().to_string(), e.to_string());
        // A file may be too damaged for `quick_check` even to begin.
        if is_damage(&e) {
            OpenError::Damaged { path, what }
        } else {
            OpenError::Sqlite { path, what }
        }
    }
}

/// Opens the file for the one process that writes it; makes a missing one only with `create`.
pub(crate) async fn open(asked: &OpenOptions) -> Result<Opened, OpenError> {
    let (path, create) = (asked.path.as_path(), asked.create);
    let new = !path.exists();
    if new && !create {
        return Err(missing(path));
    }
    let lock = lock(path)?;
    let mut options = base_options(path);
    if std::fs::metadata(path).map_or(true, |file| file.len() == 0) {
        // Only an empty file takes it; on any other the pragma would write before the file is judged.
        options = options.auto_vacuum(SqliteAutoVacuum::Incremental);
    }
    let options = options
        .create_if_missing(create)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous())
        .pragma("journal_size_limit", WAL_LIMIT_BYTES.to_string())
        .optimize_on_close(true, None);
    let mut writer = SqliteConnection::connect_with(&options)
        .await
        .map_err(sqlite_error(path))?;
    read_back(&mut writer, path).await?;
    let unchecked = soundness::check_or_defer(&mut writer, path, asked.check_at_once).await?;
    migrate(&mut writer, path).await?;
    if new {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        tracing::info!(path = %absolute.display(), "new ledger");
    }
    let readers = open_readers(path, asked.readers).await?;
    Ok(Opened {
        writer,
        readers,
        lock,
        unchecked,
    })
}

fn missing(path: &Path) -> OpenError {
    OpenError::Missing {
        path: path.display().to_string(),
    }
}

/// Opens the file for reading only, beside whoever writes it.
pub(crate) async fn open_readers(path: &Path, readers: u32) -> Result<SqlitePool, OpenError> {
    if !path.exists() {
        return Err(missing(path));
    }
    SqlitePoolOptions::new()
        .max_connections(readers.max(1))
        .acquire_timeout(Duration::from_secs(2))
        .idle_timeout(None)
        .max_lifetime(None)
        // A file does not hang up; the check would be a second trip to SQLite's thread for each read.
        .test_before_acquire(false)
        .connect_with(base_options(path).read_only(true).pragma("query_only", "1"))
        .await
        .map_err(sqlite_error(path))
}

/// Refuses a file whose schema is not exactly ours: a reader cannot migrate it.
pub(crate) async fn check_schema(readers: &SqlitePool, path: &Path) -> Result<(), OpenError> {
    let mut reader = readers.acquire().await.map_err(sqlite_error(path))?;
    let found = newest_found(&mut reader, path).await?;
    let known = newest_known();
    match found {
        Some(found) if found == known => Ok(()),
        Some(found) if found > known => Err(OpenError::NewerSchema {
            path: path.display().to_string(),
            found,
            known,
        }),
        _ => Err(OpenError::Migration {
            path: path.display().to_string(),
            what: "an older hookledger wrote it; start `hookledger serve` once".to_owned(),
        }),
    }
}

/// Refuses a file that is not ours, or that a newer version wrote; an older schema is as good.
pub(super) async fn check_readable(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<(), OpenError> {
    let (found, known) = (newest_found(connection, path).await?, newest_known());
    let path = path.display().to_string();
    match found {
        Some(found) if found > known => Err(OpenError::NewerSchema { path, found, known }),
        Some(_) => Ok(()),
        None => Err(OpenError::Foreign { path }),
    }
}

/// Whether the file is one of this program's, and needs no migration.
pub(super) async fn is_current(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<bool, OpenError> {
    let found = newest_found(connection, path).await?;
    Ok(found == Some(newest_known()))
}

fn newest_known() -> i64 {
    MIGRATOR.iter().map(|m| m.version).max().unwrap_or(0)
}

/// The newest migration the file has seen; `None` when it never saw one.
async fn newest_found(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<Option<i64>, OpenError> {
    let has_table: bool = sqlx::query_scalar(
        "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(sqlite_error(path))?;
    if !has_table {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
        .map_err(sqlite_error(path))
}

pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Io {
        path: path.display().to_string(),
        source,
    };
    let directory = directory_of(path);
    if !directory.is_dir() {
        return Err(OpenError::NoDirectory {
            path: path.display().to_string(),
            directory: directory.display().to_string(),
        });
    }
    refuse_network(directory, path)?;
    let mut lock_path = PathBuf::from(path).into_os_string();
    lock_path.push(".lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: path.display().to_string(),
        }),
        Err(std::fs::TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Where the file lies, or would.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Magic numbers of `statfs(2)`; on these, locks or fsync are known to lie.
pub(crate) fn refuse_network(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let Ok(stat) = rustix::fs::statfs(directory) else {
        return Ok(());
    };
    let kind = match u64::from_ne_bytes(stat.f_type.to_ne_bytes()) & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b | 0xfe53_4d42 => "SMB",
        0xff53_4d42 => "CIFS",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE or virtiofs",
        _ => return Ok(()),
    };
    Err(OpenError::NetworkFileSystem {
        path: path.display().to_string(),
        kind,
    })
}

async fn read_back(writer: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let version: String = sqlx::query_scalar("SELECT sqlite_version()")
        .fetch_one(&mut *writer)
        .await
        .map_err(sqlite_error(path))?;
    let number = version
        .split('.')
        .fold(0, |n, part| n * 1000 + part.parse::<u32>().unwrap_or(0));
    if number < OLDEST_SQLITE.1 {
        return Err(OpenError::OldSqlite {
            got: version,
            wanted: OLDEST_SQLITE.0,
        });
    }
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *writer)
        .await
        .map_err(sqlite_error(path))?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(&mut *writer)
        .await
        .map_err(sqlite_error(path))?;
    let path = path.display().to_string();
    if journal != "wal" {
        return Err(OpenError::Pragma {
            path,
            pragma: "journal_mode",
            wanted: "wal",
            got: journal,
        });
    }
    #[cfg(feature = "failpoints")]
    let synchronous = if is_on("fp-normal") { 2 } else { synchronous };
    if synchronous != 2 {
        let got = synchronous.to_string();
        return Err(OpenError::Pragma {
            path,
            pragma: "synchronous",
            wanted: "2 (FULL)",
            got,
        });
    }
    Ok(())
}

pub(super) async fn check_file(
    writer: &mut SqliteConnection,
    path: &Path,
) -> Result<(), OpenError> {
    check_by(writer, path, "PRAGMA quick_check(1)").await
}

/// Refuses the file unless what the pragma reports first is `ok`.
pub(super) async fn check_by(
    writer: &mut SqliteConnection,
    path: &Path,
    pragma: &'static str,
) -> Result<(), OpenError> {
    let report: String = sqlx::query_scalar(pragma)
        .fetch_one(&mut *writer)
        .await
        .map_err(sqlite_error(path))?;
    if report == "ok" {
        Ok(())
    } else {
        Err(OpenError::Damaged {
            path: path.display().to_string(),
            what: report,
        })
    }
}

pub(super) async fn migrate(writer: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let shown = path.display().to_string();
    let (found, known) = (newest_found(writer, path).await?, newest_known());
    if let Some(found) = found.filter(|found| *found > known) {
        return Err(OpenError::NewerSchema {
            path: shown,
            found,
            known,
        });
    }
    let foreign: bool = sqlx::query_scalar(
        "SELECT count(*) > 0 FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND NOT EXISTS \
         (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')",
    )
    .fetch_one(&mut *writer)
    .await
    .map_err(sqlite_error(path))?;
    if foreign {
        return Err(OpenError::Migration {
            path: shown,
            what: "it holds the tables of another program".to_owned(),
        });
    }
    soundness::take_mark(writer, path).await?;
    // Every so many steps of SQLite's own machine, so that a test can stop in the middle of one.
    #[cfg(feature = "failpoints")]
    writer
        .lock_handle()
        .await
        .map_err(sqlite_error(path))?
        .set_progress_handler(10, || {
            hit("fp-m1");
            true
        });
    let done = MIGRATOR
        .run_direct(None, &mut *writer, false)
        .await
        .map_err(|e| OpenError::Migration {
            path: shown,
            what: e.to_string(),
        });
    #[cfg(feature = "failpoints")]
    writer
        .lock_handle()
        .await
        .map_err(sqlite_error(path))?
        .remove_progress_handler();
    done
}
