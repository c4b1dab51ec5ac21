//! Copies of the file: a consistent one of a file that is being written, and one put in its place.
//!
//! Problem: a copy made by `cp` of a file in use is damaged or lacks what stands in the write-ahead
//! log, and one that was cut off looks like a whole one until the day it is needed.
//!
//! Design: `VACUUM INTO` reads one snapshot, log included, without a lock that the service would feel
//! (the log cannot be emptied meanwhile, so it grows by what is written). The copy is made under
//! `FILE.tmp`, checked, synced, and only then takes its name; the directory is synced after that. So a
//! file under its final name is whole, whatever happened.
//!
//! Races: two copies to one name meet at the lock (`flock`) on `FILE.tmp`; it dies with its process,
//! and what a dead one left is emptied and used again. A lock is only good if the name still means the
//! locked file: the other process may have given it its final name in between.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::super::error::{OpenError, is_damage};
use super::pool::{check_file, check_readable, sqlite_error};
use crate::base::failpoint::failpoint;

/// Steps of SQLite's machine between two looks at how far it is: well under a millisecond.
const STEPS: i32 = 1000;

/// Why there is no copy. What stands under its final name is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is a file of that name.
    #[error("{path} exists; choose another name, or replace it with --overwrite")]
    Exists {
        /// Its name.
        path: String,
    },
    /// It would take the place of the ledger itself.
    #[error("{path} belongs to the ledger itself; a backup is another file")]
    Itself {
        /// Its name.
        path: String,
    },
    /// The backup to be restored is not whole.
    #[error("{path} is damaged ({what}); restore another backup, the ledger is as it was")]
    Unusable {
        /// The backup.
        path: String,
        /// What the check said.
        what: String,
    },
    /// Another one is being made under that name.
    #[error("another backup is being written to {path}")]
    InProgress {
        /// Its temporary name.
        path: String,
    },
    /// What is to be copied cannot be used.
    #[error(transparent)]
    Source(#[from] OpenError),
    /// The copy that was made is not whole.
    #[error("the copy {path} is damaged ({what}); is its disk sound?")]
    BadCopy {
        /// Its temporary name.
        path: String,
        /// What the check said.
        what: String,
    },
    /// SQLite could not write it.
    #[error("cannot write {path}: {what}")]
    Sqlite {
        /// Its temporary name.
        path: String,
        /// Why.
        what: String,
    },
    /// The operating system said no.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// Copies the ledger at `from`, in use or not, to `to`; gives the copy's size in bytes. `progress` is
/// told how many bytes are written, of about how many.
///
/// # Errors
/// See [`BackupError`]; nothing is under the final name then that was not there before.
pub async fn back_up(
    from: &Path,
    to: &Path,
    overwrite: bool,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<u64, BackupError> {
    if !overwrite && to.symlink_metadata().is_ok() {
        return Err(exists(to));
    }
    for path in [to, &scratch_of(to)] {
        if is_part_of(from, path) {
            let path = path.display().to_string();
            return Err(BackupError::Itself { path });
        }
    }
    let scratch = Scratch::take(to)?;
    let bytes = copy(from, &scratch, progress).await?;
    let flags = if overwrite {
        rustix::fs::RenameFlags::empty()
    } else {
        // Whoever made such a file meanwhile keeps it.
        rustix::fs::RenameFlags::NOREPLACE
    };
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, &scratch.path, cwd, to, flags) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST) => return Err(exists(to)),
        // A file system without the flag: the name was free a moment ago.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::rename(&scratch.path, to).map_err(io_error(to))?;
        }
        Err(errno) => return Err(io_error(to)(errno.into())),
    }
    failpoint!("fp-b1");
    sync_directory(to)?;
    failpoint!("fp-b1");
    Ok(bytes)
}

/// Removes the remains of a copy to `to` that was cut off. False when one is being made right now.
///
/// # Errors
/// The operating system said no.
pub fn clear_remains(to: &Path) -> Result<bool, BackupError> {
    match Scratch::take(to) {
        Ok(scratch) => {
            std::fs::remove_file(&scratch.path).map_err(io_error(&scratch.path))?;
            Ok(true)
        }
        Err(BackupError::InProgress { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether `to` is the ledger at `from` or one of the files beside it, whatever it is called.
pub(super) fn is_part_of(from: &Path, to: &Path) -> bool {
    let id = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino()))
    };
    let mut parts = ["", "-wal", "-shm", ".lock"]
        .map(|end| beside(from, end))
        .into_iter();
    id(to).is_some_and(|to| parts.any(|part| id(&part) == Some(to)))
}

fn exists(to: &Path) -> BackupError {
    BackupError::Exists {
        path: to.display().to_string(),
    }
}

pub(super) fn io_error(path: &Path) -> impl Fn(io::Error) -> BackupError + '_ {
    move |source| BackupError::Io {
        path: path.display().to_string(),
        source,
    }
}

/// `path` with `end` behind its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The name under which the copy to `to` is made.
fn scratch_of(to: &Path) -> PathBuf {
    beside(to, ".tmp")
}

/// The file a copy is made in, ours for as long as this lives.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    file: File,
}

impl Scratch {
    /// Takes `to` with `.tmp` behind it, empty, readable by its owner alone.
    pub(super) fn take(to: &Path) -> Result<Self, BackupError> {
        let path = scratch_of(to);
        let file = lock(&path)?;
        file.set_len(0).map_err(io_error(&path))?;
        for end in ["-journal", "-wal", "-shm"] {
            remove_if_there(&beside(&path, end))?;
        }
        Ok(Self { path, file })
    }

    pub(super) fn sync(&self) -> Result<u64, BackupError> {
        let io = io_error(&self.path);
        self.file.sync_all().map_err(&io)?;
        Ok(self.file.metadata().map_err(&io)?.len())
    }
}

fn lock(path: &Path) -> Result<File, BackupError> {
    let io = io_error(path);
    let busy = || BackupError::InProgress {
        path: path.display().to_string(),
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        // What a link of that name points to is somebody's file, and would be emptied.
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(&io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Err(busy()),
        Err(std::fs::TryLockError::Error(error)) => return Err(io(error)),
    }
    let named = std::fs::metadata(path).map_err(|_| busy())?;
    if named.ino() == file.metadata().map_err(&io)?.ino() {
        Ok(file)
    } else {
        Err(busy())
    }
}

pub(super) fn remove_if_there(path: &Path) -> Result<(), BackupError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

pub(super) fn sync_directory(of: &Path) -> Result<(), BackupError> {
    let directory = match of.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let opened = File::open(directory).and_then(|directory| directory.sync_all());
    opened.map_err(io_error(directory))
}

/// Copies what `from` holds as of one instant into `scratch`, checked and synced.
pub(super) async fn copy(
    from: &Path,
    scratch: &Scratch,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<u64, BackupError> {
    let options = SqliteConnectOptions::new()
        .filename(from)
        .read_only(true)
        .busy_timeout(std::time::Duration::from_secs(5))
        .disable_statement_logging();
    if !from.exists() {
        let path = from.display().to_string();
        return Err(OpenError::Missing { path }.into());
    }
    let mut source = SqliteConnection::connect_with(&options)
        .await
        .map_err(sqlite_error(from))?;
    check_readable(&mut source, from).await?;
    watch(&mut source, scratch, progress)
        .await
        .map_err(sqlite_error(from))?;
    sqlx::query("VACUUM INTO ?1")
        .bind(scratch.path.to_string_lossy())
        .execute(&mut source)
        .await
        .map_err(|error| failed(&error, from, &scratch.path))?;
    source.close().await.map_err(sqlite_error(from))?;
    failpoint!("fp-b1");
    scratch.sync()?;
    failpoint!("fp-b1");
    let options = SqliteConnectOptions::new()
        .filename(&scratch.path)
        .read_only(true)
        .disable_statement_logging();
    let bad = |what: String| BackupError::BadCopy {
        path: scratch.path.display().to_string(),
        what,
    };
    let mut made = SqliteConnection::connect_with(&options)
        .await
        .map_err(|error| bad(error.to_string()))?;
    let checked = check_file(&mut made, &scratch.path).await;
    checked.map_err(|error| bad(error.to_string()))?;
    made.close().await.map_err(|error| bad(error.to_string()))?;
    failpoint!("fp-b1");
    scratch.sync()
}

/// Damage is the source's: a copy that is being written cannot be damaged yet.
fn failed(error: &sqlx::Error, from: &Path, scratch: &Path) -> BackupError {
    let what = error.to_string();
    if is_damage(error) {
        let path = from.display().to_string();
        OpenError::Damaged { path, what }.into()
    } else {
        let path = scratch.display().to_string();
        BackupError::Sqlite { path, what }
    }
}

/// Has `progress` told while `source` is being copied.
async fn watch(
    source: &mut SqliteConnection,
    scratch: &Scratch,
    mut progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<(), sqlx::Error> {
    let whole: i64 = sqlx::query_scalar(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    )
    .fetch_one(&mut *source)
    .await?;
    let (whole, path) = (u64::try_from(whole).unwrap_or(0), scratch.path.clone());
    let mut handle = source.lock_handle().await?;
    handle.set_progress_handler(STEPS, move || {
        failpoint!("fp-b1");
        let written = std::fs::metadata(&path).map_or(0, |file| file.len());
        progress(written.min(whole), whole);
        true
    });
    Ok(())
}
