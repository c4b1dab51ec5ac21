//! Floor 2: what is on disk, and the only floor that knows SQL.
//!
//! [`Store`] shows domain types only. Every write is a named transaction of the one writer; every
//! read is a short query on a read-only connection. Where the boundaries lie:
//!
//! | transaction | what commits together |
//! |---|---|
//! | `deliver` | dedupe row, captured event, work item (and those of every delivery beside it) |
//! | `claim` | the lease and the attempt it charges |
//! | `finish look` | ledger transition, history, outbox rows, alerts, the work item's end |
//! | `begin send` / `end send` | the intent before an effect leaves; the receipt after |
//! | `register` | the record, the effects it now matches, the wake-up of waiting items |
//!
//! Everything engine-specific is under `sqlite/`; another engine would stand beside it and pass the
//! same tests.

mod audit;
mod error;
mod look;
mod registration;
mod sqlite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

pub use audit::{Bounds, Violation};
pub use error::{OpenError, StoreError};
pub use look::{Applied, Change, Close, Look, Settlement, Subject, WorkFailure};
pub use registration::{Binding, NewRegistration, Registered, Reservation, Terms};
pub use sqlite::backup::{BackupError, back_up, clear_remains};
pub use sqlite::claim::Room;
pub use sqlite::import::{Import, Imported};
pub use sqlite::lists::{EffectFilter, EventFilter, OperationFilter, Page, WorkFilter};
pub use sqlite::over::Over;
pub use sqlite::reports::Gauges;
pub use sqlite::requests::{Begun, KeptAnswer, KeyedRequest};
pub use sqlite::resolve::EffectRetry;
pub use sqlite::restore::{Restored, restore};
pub use sqlite::sweep::{Rescued, Told};
pub use sqlite::upkeep::{Pruned, Retention};
pub use sqlite::write::Coming;

use crate::base::clock::{Clock, Timestamp};
use crate::base::ids::Ids;
use crate::base::shutdown::Shutdown;
use crate::domain::event::Verdict;
use crate::domain::operation::OperationRef;
use crate::domain::work::Reason;

/// Refuses a file system on which SQLite is known to lose data.
///
/// # Errors
/// [`OpenError::NetworkFileSystem`].
pub fn check_file_system(path: &Path) -> Result<(), OpenError> {
    sqlite::pool::refuse_network(sqlite::pool::directory_of(path), path)
}

/// What an unprivileged process may still write beside the file, bytes, when the system tells.
pub fn disk_free(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(sqlite::pool::directory_of(path)).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A verified delivery on its way to disk.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Its event id.
    pub id: Uuid,
    /// The source it came from.
    pub source: String,
    /// When it came.
    pub received_at: Timestamp,
    /// Its type.
    pub event_type: Option<String>,
    /// The operation it names.
    pub operation: Option<OperationRef>,
    /// What redeliveries of it fold by; `None` is always new.
    pub dedupe_key: Option<String>,
    /// Until when they fold.
    pub dedupe_until: Timestamp,
    /// Why there is nothing to do, when that is so.
    pub ignored_because: Option<&'static str>,
    /// Its `webhook-id`.
    pub webhook_id: Option<String>,
    /// The proofs it was accepted by, joined by `+`.
    pub proof: String,
    /// The reservation whose URL it came by.
    pub reservation: Option<Uuid>,
    /// The captured event it repeats, for a replay.
    pub replay_of: Option<Uuid>,
    /// What the submitter attached to the job.
    pub user_metadata: Option<Value>,
    /// Headers to keep.
    pub headers: Vec<(String, Bytes)>,
    /// The raw body.
    pub body: Bytes,
}

impl NewDelivery {
    /// The verdict it gets when it is new.
    pub fn verdict(&self) -> Verdict {
        if self.ignored_because.is_some() || self.operation.is_none() {
            Verdict::Ignored
        } else {
            Verdict::Accepted
        }
    }

    fn reason(&self) -> Reason {
        if self.replay_of.is_some() {
            Reason::Replay
        } else {
            Reason::Webhook
        }
    }

    /// About how much memory it holds while it waits.
    fn bytes(&self) -> usize {
        512 + self.body.len()
            + self
                .headers
                .iter()
                .map(|(n, v)| n.len() + v.len())
                .sum::<usize>()
    }

    /// Its headers as they are stored: a JSON list of pairs, values that are no text in base64.
    fn stored_headers(&self) -> serde_json::Result<String> {
        serde_json::to_string(&StoredHeaders(&self.headers))
    }
}

struct StoredHeaders<'a>(&'a [(String, Bytes)]);

impl Serialize for StoredHeaders<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0
                .iter()
                .map(|(name, value)| (name, HeaderValue(value))),
        )
    }
}

/// The value of a header, as it is stored.
struct HeaderValue<'a>(&'a [u8]);

impl Serialize for HeaderValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            serializer.serialize_str(text)
        } else {
            let encoded = data_encoding::BASE64.encode(self.0);
            serializer.collect_map([("base64", encoded)])
        }
    }
}

/// What became of a delivery, once its commit returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The event id it was given (not stored when it is a duplicate).
    pub event_id: Uuid,
    /// The verdict.
    pub verdict: Verdict,
}

/// How to open the store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The database file.
    pub path: PathBuf,
    /// Whether a missing file is made. Its directory never is: a mistyped path would look like an
    /// empty ledger.
    pub create: bool,
    /// Read-only connections.
    pub readers: u32,
    /// Bytes of deliveries that may wait for their commit.
    pub max_waiting: u64,
    /// Bytes above which a file that was closed whole is checked while it is used and not before.
    pub check_at_once: u64,
}

/// What a disk reads in a second or less.
pub const CHECK_AT_ONCE: u64 = 128 << 20;

/// The store, for the one process that writes it.
#[derive(Debug, Clone)]
pub struct Store {
    reader: Reader,
    writer: sqlite::write::Writer,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// The store, read only: also beside the process that writes it.
#[derive(Debug, Clone)]
pub struct Reader {
    pool: sqlx::SqlitePool,
    path: PathBuf,
}

impl Store {
    /// Opens (and if need be migrates, and if `options` say so makes) the file, and starts the writer
    /// in `group`.
    ///
    /// # Errors
    /// [`OpenError::Missing`] when there is no such file and none is to be made, anything else when
    /// a promise could not be kept on it.
    pub async fn open(
        options: &OpenOptions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        group: &Shutdown,
    ) -> Result<Self, OpenError> {
        let opened = sqlite::pool::open(options).await?;
        let pool = opened.readers.clone();
        let writer =
            sqlite::write::Writer::start(opened, options.max_waiting, Arc::clone(&clock), group);
        Ok(Self {
            reader: Reader {
                pool,
                path: options.path.clone(),
            },
            writer,
            clock,
            ids,
        })
    }

    /// The reading half.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Writes a delivery; answers after the commit it shares with those beside it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many bytes wait, anything else when nothing was stored.
    pub async fn deliver(&self, delivery: NewDelivery) -> Result<Received, StoreError> {
        self.writer.deliver(delivery).await
    }

    /// Completes with the reason once the file cannot be trusted any more; the process should end.
    pub async fn broken(&self) -> String {
        self.writer.broken().await
    }

    /// Changes after every commit that may have made something due; loops wait on it. The value only
    /// rises, so a commit between two looks at it is never missed.
    pub fn news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.writer.news()
    }

    /// Bytes of deliveries that wait for their commit.
    pub fn waiting_bytes(&self) -> u64 {
        self.writer.waiting_bytes()
    }

    /// Commits so far, and deliveries committed by them.
    pub fn commits(&self) -> (u64, u64) {
        use std::sync::atomic::Ordering::Relaxed;
        let counters = self.writer.counters();
        (
            counters.commits.load(Relaxed),
            counters.grouped_deliveries.load(Relaxed),
        )
    }

    /// Sets of results and receipts that failed, so that each of them was tried alone.
    pub fn sets_undone(&self) -> u64 {
        let undone = &self.writer.counters().sets_undone;
        undone.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Says that a patient write is on its way, until what this answers is dropped: those that are there
    /// wait for it a moment, to share their commit with it.
    pub fn write_coming(&self) -> Coming {
        self.writer.coming()
    }

    /// Closes the read connections. The writer closes with its group.
    pub async fn close(&self) {
        self.reader.pool.close().await;
    }
}

impl std::ops::Deref for Store {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Reader {
    /// Opens an existing file for reading only. Takes no lock.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let pool = sqlite::pool::open_readers(path, 2).await?;
        sqlite::pool::check_schema(&pool, path).await?;
        Ok(Self {
            pool,
            path: path.to_owned(),
        })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
