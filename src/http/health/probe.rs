//! Looking: one write through the writer, one read of the file, the disk beside it.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::store::{Gauges, Reader, Store, StoreError, disk_free};

/// Longest wait for the store's answer. A write is never cut off by it: only the wait is.
const PATIENCE: Duration = Duration::from_secs(2);

/// How one half of the store answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It works.
    Ok,
    /// It did not answer in time.
    Silent,
    /// It takes nothing: too much waits, or it has ended.
    Busy,
    /// The disk is full.
    DiskFull,
    /// The file cannot be trusted any more.
    Broken,
    /// The database said something else.
    Failed,
}

/// What a probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Whether a write was committed.
    pub writer: Answer,
    /// Whether a read came back.
    pub reader: Answer,
    /// Free bytes for the database, when the system tells.
    pub disk_free: Option<u64>,
}

/// What is stored, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Counts.
    pub gauges: Gauges,
    /// When the next effect is due.
    pub next_effect_due: Option<Timestamp>,
    /// Size of the database file, bytes.
    pub db_bytes: u64,
    /// Size of its write-ahead log, bytes.
    pub wal_bytes: u64,
    /// Free bytes beside it, when the system tells.
    pub disk_free: Option<u64>,
}

/// Probes the store. A failure is logged when it begins, not once a second.
pub(super) async fn probe(store: &Store, before: Option<Probe>) -> Probe {
    let (writer, reader) = tokio::join!(answer(store.beat()), answer(store.ping()));
    let found = Probe {
        writer,
        reader,
        disk_free: disk_free(store.path()),
    };
    let was = before.map(|b| (b.writer, b.reader));
    if (writer, reader) != (Answer::Ok, Answer::Ok) && was != Some((writer, reader)) {
        tracing::error!(?writer, ?reader, "the store does not work");
    }
    found
}

async fn answer<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Answer {
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(_)) => Answer::Ok,
        Ok(Err(StoreError::Busy | StoreError::Locked)) => Answer::Busy,
        Ok(Err(StoreError::Full)) => Answer::DiskFull,
        Ok(Err(StoreError::Broken(_))) => Answer::Broken,
        Ok(Err(_)) => Answer::Failed,
        Err(_) => Answer::Silent,
    }
}

/// Reads the figures; `None` when the store does not give them in time.
pub(super) async fn figures(reader: &Reader) -> Option<Figures> {
    let read = async {
        let gauges = reader.gauges().await?;
        Ok::<_, StoreError>((gauges, reader.next_effect_due().await?))
    };
    let (gauges, next_effect_due) = tokio::time::timeout(PATIENCE, read).await.ok()?.ok()?;
    let path = reader.path();
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    Some(Figures {
        gauges,
        next_effect_due,
        db_bytes: size(path),
        wal_bytes: size(Path::new(&wal)),
        disk_free: disk_free(path),
    })
}
