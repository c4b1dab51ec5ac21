//! The one writer.
//!
//! Problem: SQLite has one write lock and one fsync per commit. Connections that race for the lock
//! fail with `BUSY_SNAPSHOT`, and a commit per delivery caps the receive rate at the disk's fsyncs.
//!
//! Design: one task owns the one write connection. Whatever waits when it wakes shares one
//! `BEGIN IMMEDIATE … COMMIT`: each queued write runs in a savepoint of its own, so that one that
//! fails takes nobody with it, and deliveries, results and receipts go in as sets, each by the same few
//! statements (`deliveries`, `sets`). Every caller is answered after the COMMIT returned, never before.
//! Nothing in here touches the network.
//!
//! Three lanes, in this order: *front* (lease renewals: late is as bad as lost), *deliveries*
//! (bounded in bytes; a full lane is the caller's 503), *normal*.
//!
//! Of the normal ones some are *patient*: claims and results, which come in crowds under a backlog, each
//! with the fsync of a commit of its own if nobody waited. Whoever will bring such a write says so
//! ([`Coming`]); patient writes alone wait for those, [`PATIENCE`] at most, and for nobody else. Anything
//! that is not patient ends the wait at once.
//!
//! Races: a caller that goes away (a client hung up, a timeout) only drops its receiver; the write is
//! the task's and commits all the same. A panic in a write is caught and rolls back to its savepoint.
//! A commit that fails is rolled back and reported to everyone in it, so nobody is told "stored"
//! about something that was not. After an I/O error the file is not trusted again: the writer refuses
//! from then on and the process is expected to end ([`Writer::broken`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::{Semaphore, TryAcquireError, mpsc, oneshot, watch};

use super::super::error::StoreError;
use super::super::{NewDelivery, Received};
use super::commit::Task;
use super::deliveries::Insert;
use super::finish::Finish;
use super::pool::Opened;
use super::receipt::Receipt;
use super::sets::{AsSet, Waiting};
use crate::base::clock::Clock;
use crate::base::shutdown::Shutdown;

/// Tells a caller how its commit ended.
pub(super) type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// A write, ready to run.
pub(super) type Run = Box<
    dyn for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, (Result<(), StoreError>, Answer)>
        + Send,
>;

/// A write that waits.
pub(super) struct Write {
    pub(super) name: &'static str,
    pub(super) lane: Lane,
    pub(super) work: Work,
}

/// What is to be done for it.
pub(super) enum Work {
    /// Statements of its own; and whom to tell when they never ran to their end.
    Own(Run, oneshot::Sender<StoreError>),
    /// A look's result, in a set with the others.
    Finish(Waiting<Finish>),
    /// An effect's receipt, in a set with the others.
    Receipt(Waiting<Receipt>),
}

impl Work {
    /// Tells the caller that nothing was written.
    pub(super) fn refuse(self, error: &StoreError) {
        // The caller may be gone.
        match self {
            Self::Own(_, refuse) => drop(refuse.send(error.clone())),
            Self::Finish(waiting) => drop(waiting.answer.send(Err(error.clone()))),
            Self::Receipt(waiting) => drop(waiting.answer.send(Err(error.clone()))),
        }
    }
}

/// A delivery that waits.
pub(super) struct Arriving {
    pub(super) delivery: NewDelivery,
    pub(super) answer: oneshot::Sender<Result<Received, StoreError>>,
    /// Given back once the commit returned.
    pub(super) room: tokio::sync::OwnedSemaphorePermit,
}

/// Which queue a write waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Before everything else.
    Front,
    /// In turn.
    Normal,
    /// In turn, and a moment later if others are coming.
    Patient,
}

/// Longest that patient writes wait for one another.
pub(super) const PATIENCE: Duration = Duration::from_millis(2);

/// A patient write that is on its way, as long as this lives.
#[derive(Debug)]
pub struct Coming(Arc<Counters>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The handle everybody writes through.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    front: mpsc::Sender<Write>,
    normal: mpsc::Sender<Write>,
    deliveries: mpsc::UnboundedSender<Arriving>,
    room: Arc<Semaphore>,
    room_total: u32,
    broken: watch::Receiver<Option<String>>,
    breaking: watch::Sender<Option<String>>,
    proven: Arc<AtomicBool>,
    news: watch::Receiver<u64>,
    counters: Arc<Counters>,
}

/// What the writer has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) grouped_deliveries: AtomicU64,
    /// Sets that failed, so that each write of them was tried alone.
    pub(crate) sets_undone: AtomicU64,
    /// Patient writes on their way.
    pub(super) coming: AtomicUsize,
}

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Arriving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arriving").finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the writer task in `group`; it ends when the group stops and nothing waits any more.
    pub(crate) fn start(
        opened: Opened,
        max_waiting: u64,
        clock: Arc<dyn Clock>,
        group: &Shutdown,
    ) -> Self {
        let (front, front_rx) = mpsc::channel(1024);
        let (normal, normal_rx) = mpsc::channel(1024);
        let (deliveries, deliveries_rx) = mpsc::unbounded_channel();
        let (broken_tx, broken) = watch::channel(None);
        let breaking = broken_tx.clone();
        let proven = Arc::new(AtomicBool::new(!opened.unchecked));
        let (news_tx, news) = watch::channel(0);
        let counters = Arc::new(Counters::default());
        // One permit a KiB: a semaphore counts to u32::MAX.
        let room_total = u32::try_from(max_waiting.div_ceil(1024))
            .unwrap_or(u32::MAX >> 4)
            .max(1);
        let room = Arc::new(Semaphore::new(
            usize::try_from(room_total).unwrap_or(usize::MAX >> 4),
        ));
        let task = Task {
            connection: opened.writer,
            lock: opened.lock,
            clock,
            front: front_rx,
            normal: normal_rx,
            deliveries: deliveries_rx,
            broken: broken_tx,
            proven: Arc::clone(&proven),
            news: news_tx,
            counters: Arc::clone(&counters),
            insert: Insert::default(),
            stop: group.clone(),
        };
        group.spawn("store writer", task.run());
        Self {
            front,
            normal,
            deliveries,
            room,
            room_total,
            broken,
            breaking,
            proven,
            news,
            counters,
        }
    }

    /// Runs `write` in a transaction and answers after its commit.
    pub(crate) async fn write<T, F>(
        &self,
        name: &'static str,
        lane: Lane,
        write: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>>
            + Send
            + 'static,
    {
        let (tell, told) = oneshot::channel();
        let (refuse, refused) = oneshot::channel();
        let run: Run = Box::new(move |connection| {
            Box::pin(async move {
                let result = write(connection).await;
                let keep = result.as_ref().map(drop).map_err(StoreError::clone);
                let answer: Answer = Box::new(move |commit| {
                    // The caller may be gone; the write is committed all the same.
                    drop(tell.send(commit.and(result)));
                });
                (keep, answer)
            })
        });
        self.queue(Write {
            name,
            lane,
            work: Work::Own(run, refuse),
        })
        .await?;
        match told.await {
            Ok(result) => result,
            // Not run to its end: refused, panicked, or the writer is gone.
            Err(_) => Err(refused.await.unwrap_or(StoreError::Busy)),
        }
    }

    /// Writes `item` in a set with others of its kind and answers after the commit. It is patient.
    pub(in crate::store::sqlite) async fn write_in_set<S: AsSet>(
        &self,
        item: S,
    ) -> Result<S::Said, StoreError> {
        let (answer, told) = oneshot::channel();
        self.queue(Write {
            name: S::NAME,
            lane: Lane::Patient,
            work: S::waiting(Waiting { item, answer }),
        })
        .await?;
        told.await.unwrap_or(Err(StoreError::Busy))
    }

    async fn queue(&self, write: Write) -> Result<(), StoreError> {
        let queue = match write.lane {
            Lane::Front => &self.front,
            Lane::Normal | Lane::Patient => &self.normal,
        };
        queue.send(write).await.map_err(|_| StoreError::Busy)
    }

    /// Queues a delivery; answers after the commit it is part of. `Busy` when too many bytes wait.
    pub(crate) async fn deliver(&self, delivery: NewDelivery) -> Result<Received, StoreError> {
        let cost = u32::try_from(delivery.bytes().div_ceil(1024)).unwrap_or(u32::MAX);
        let permits = cost.clamp(1, self.room_total);
        let room = match Arc::clone(&self.room).try_acquire_many_owned(permits) {
            Ok(room) => room,
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => {
                return Err(StoreError::Busy);
            }
        };
        let (answer, told) = oneshot::channel();
        self.deliveries
            .send(Arriving {
                delivery,
                answer,
                room,
            })
            .map_err(|_| StoreError::Busy)?;
        told.await.unwrap_or(Err(StoreError::Busy))
    }

    /// Completes with the reason once the file cannot be trusted any more.
    pub(crate) async fn broken(&self) -> String {
        let mut broken = self.broken.clone();
        loop {
            if let Some(why) = broken.borrow_and_update().clone() {
                return why;
            }
            if broken.changed().await.is_err() {
                // The writer ended in good order.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether the file was opened without reading it, and nobody has since.
    pub(super) fn is_unchecked(&self) -> bool {
        !self.proven.load(Ordering::Acquire)
    }

    /// The file has been read, and is whole.
    pub(super) fn prove(&self) {
        self.proven.store(true, Ordering::Release);
    }

    /// From now on nothing is written any more: somebody has found the file damaged.
    pub(super) fn break_with(&self, why: String) {
        tracing::error!(error = %why, "the database file cannot be trusted any more");
        self.breaking.send_replace(Some(why));
    }

    /// Changes after every commit that may have made something due: what a loop waits on. The value
    /// only rises, so a commit between two looks at it is never missed.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.clone()
    }

    /// Bytes of deliveries that wait for their commit, to the KiB.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let free = u64::try_from(self.room.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.room_total).saturating_sub(free) * 1024
    }

    pub(crate) fn coming(&self) -> Coming {
        self.counters.coming.fetch_add(1, Ordering::AcqRel);
        Coming(Arc::clone(&self.counters))
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}
