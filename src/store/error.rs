//! What can go wrong on disk, and who must know.
//!
//! | error | the caller sees | what happens next |
//! |---|---|---|
//! | `Busy` | 503 with `Retry-After` | the sender tries again; nothing was stored |
//! | `Locked` | 503 with `Retry-After` | resumes when the other process lets go of the file |
//! | `Full` | 503, not ready | resumes by itself when there is room |
//! | `Broken` | 503, then the process ends | a supervisor restarts it; start-up checks the file |
//! | `Fenced` | nothing | the lease was lost: somebody else owns the row now |
//! | `Database`, `Inconsistent` | 500 or 503 | logged once where it is handled |

use sqlx::error::DatabaseError as _;

/// A read or write that did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Too much waits to be committed, or the store is closing.
    #[error("the store is busy: too much waits to be committed")]
    Busy,
    /// Another process has held the file for longer than the busy time-out.
    #[error("another process holds the database file")]
    Locked,
    /// The disk is full. SQLite rolled the transaction back.
    #[error("the disk that holds the database is full")]
    Full,
    /// The file or its disk is damaged: this process must not go on writing.
    #[error("the database file cannot be trusted any more ({0})")]
    Broken(String),
    /// The row is no longer held under this epoch.
    #[error("the lease on {table} row {row} was lost")]
    Fenced {
        /// The table.
        table: &'static str,
        /// The row.
        row: String,
    },
    /// A row holds something that no version of this program writes.
    #[error("table {table}, column {column}, row {row}: unexpected value")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        row: String,
    },
    /// Anything else the database said.
    #[error("database error: {0}")]
    Database(String),
}

impl StoreError {
    /// Whether the same write may well succeed a moment later: nothing is wrong with it, nor with the
    /// file.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Busy | Self::Locked | Self::Full)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match primary_code(&error) {
            Some(5) => Self::Locked,
            Some(13) => Self::Full,
            Some(10 | 11 | 26) => Self::Broken(error.to_string()),
            _ => Self::Database(error.to_string()),
        }
    }
}

/// SQLite's primary code, the low byte of what it says: 5 BUSY, 10 IOERR, 11 CORRUPT, 13 FULL, 26 NOTADB.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let sqlx::Error::Database(db) = error else {
        return None;
    };
    let code = db.try_downcast_ref::<sqlx::sqlite::SqliteError>()?.code()?;
    code.parse::<i32>().ok().map(|code| code & 0xff)
}

/// Whether the file is no database, or one that cannot be read.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(11 | 26))
}

/// Why the store could not be opened. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the instance lock.
    #[error("{path} is in use by another hookledger (it holds {path}.lock); stop that one first")]
    InUse {
        /// The database file.
        path: String,
    },
    /// The file system does not keep its promises about locks and fsync.
    #[error("{path} lies on a {kind} file system, where SQLite loses data; use a local disk")]
    NetworkFileSystem {
        /// The database file.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A pragma did not read back as set.
    #[error(
        "SQLite refused {pragma}={wanted} on {path} (it says {got}); is the directory writable?"
    )]
    Pragma {
        /// The database file.
        path: String,
        /// Its name.
        pragma: &'static str,
        /// What was set.
        wanted: &'static str,
        /// What it says.
        got: String,
    },
    /// The linked SQLite has a known corruption bug.
    #[error("the linked SQLite {got} is older than {wanted}, which fixes a corruption bug")]
    OldSqlite {
        /// What is linked.
        got: String,
        /// What is needed.
        wanted: &'static str,
    },
    /// A newer version of this program wrote the file.
    #[error(
        "{path} was written by a newer hookledger (schema {found}, this one knows {known}); install that version or restore a backup"
    )]
    NewerSchema {
        /// The database file.
        path: String,
        /// Its newest migration.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// There is no such backup.
    #[error("{path} does not exist")]
    NoBackup {
        /// The backup.
        path: String,
    },
    /// No hookledger wrote it.
    #[error("{path} is no ledger: no hookledger wrote it")]
    Foreign {
        /// The file.
        path: String,
    },
    /// `quick_check` found damage.
    #[error("{path} is damaged ({what}); restore it from a backup")]
    Damaged {
        /// The database file.
        path: String,
        /// The first line of the report.
        what: String,
    },
    /// There is no such file, and this command makes none.
    #[error("{path} does not exist; is store.path (HOOK_DB) right?")]
    Missing {
        /// The database file.
        path: String,
    },
    /// The file is to be made, but not the directory it should lie in.
    #[error(
        "cannot open {path}: there is no directory {directory}; make it, or correct store.path (HOOK_DB)"
    )]
    NoDirectory {
        /// The database file.
        path: String,
        /// Its directory.
        directory: String,
    },
    /// The operating system said no.
    #[error("cannot open {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A migration failed; the file is as it was before it.
    #[error("cannot bring {path} to this version's schema: {what}")]
    Migration {
        /// The database file.
        path: String,
        /// Why.
        what: String,
    },
    /// SQLite said no.
    #[error("cannot open {path}: {what}")]
    Sqlite {
        /// The database file.
        path: String,
        /// Why.
        what: String,
    },
}
