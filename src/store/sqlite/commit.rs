//! The task behind the writer: what waits becomes one transaction, and everybody in it is answered
//! after its commit. See `write` for the design and its races.

use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, watch};

use super::super::error::StoreError;
use super::deliveries::Insert;
use super::write::{Answer, Arriving, Counters, Lane, PATIENCE, Write};
use crate::base::clock::Clock;
use crate::base::failpoint::failpoint;
use crate::base::shutdown::{Shutdown, panic_text};
use crate::telemetry::metrics;

/// Most deliveries in one commit: bounds how long the first of them waits.
const MAX_GROUP: usize = 256;
/// Most other writes in one commit.
const MAX_WRITES: usize = 64;

/// Each statement is a trip to SQLite's thread and back, so savepoints ride with what they follow: the
/// first with the transaction's begin, each other with the end of the one before, the last ends with the
/// commit.
const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT one";
const NEXT: &str = "RELEASE one; SAVEPOINT one";

/// What the writer's task works with.
pub(super) struct Task {
    pub(super) connection: SqliteConnection,
    /// The instance lock: given up only when nothing can be written any more.
    pub(super) lock: File,
    /// Measures commits, decides nothing.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) front: mpsc::Receiver<Write>,
    pub(super) normal: mpsc::Receiver<Write>,
    pub(super) deliveries: mpsc::UnboundedReceiver<Arriving>,
    pub(super) broken: watch::Sender<Option<String>>,
    pub(super) news: watch::Sender<u64>,
    pub(super) counters: Arc<Counters>,
    pub(super) insert: Insert,
    pub(super) stop: Shutdown,
}

/// Everything that shares one commit.
#[derive(Default)]
struct Group {
    writes: Vec<Write>,
    deliveries: Vec<Arriving>,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deliveries.is_empty()
    }

    /// Whether all in it may wait for others of their kind.
    fn is_patient(&self) -> bool {
        (1..MAX_WRITES).contains(&self.writes.len())
            && self.deliveries.is_empty()
            && self.writes.iter().all(|w| w.lane == Lane::Patient)
    }

    /// Whether nothing in it can make anything due: only renewals and heartbeats.
    fn is_quiet(&self) -> bool {
        self.deliveries.is_empty() && self.writes.iter().all(|w| w.lane == Lane::Front)
    }
}

impl Task {
    /// Commits until the group stops and nothing waits any more.
    pub(super) async fn run(mut self) {
        while let Some(group) = self.next_group().await {
            if let Some(why) = self.broken.borrow().clone() {
                refuse(group, &StoreError::Broken(why));
                continue;
            }
            self.commit(group).await;
        }
        if let Err(error) = self.connection.close().await {
            tracing::warn!(%error, "the database did not close cleanly; the next start recovers it");
        }
        drop(self.lock);
    }

    /// Waits for something to write, then takes all that waits with it. `None` once the group stops
    /// and every lane is empty.
    async fn next_group(&mut self) -> Option<Group> {
        let mut group = Group::default();
        self.take_waiting(&mut group);
        if !group.is_empty() {
            self.wait_for_company(&mut group).await;
            return Some(group);
        }
        tokio::select! {
            biased;
            Some(write) = self.front.recv() => group.writes.push(write),
            Some(arriving) = self.deliveries.recv() => group.deliveries.push(arriving),
            Some(write) = self.normal.recv() => group.writes.push(write),
            () = self.stop.stopping() => {}
            else => {}
        }
        self.take_waiting(&mut group);
        self.wait_for_company(&mut group).await;
        (!group.is_empty()).then_some(group)
    }

    /// Gives patient writes that are on their way a moment to join those that are here.
    async fn wait_for_company(&mut self, group: &mut Group) {
        let all_here = async {
            while group.is_patient()
                && group.writes.len() < self.counters.coming.load(Ordering::Acquire)
            {
                tokio::select! {
                    biased;
                    Some(write) = self.front.recv() => group.writes.push(write),
                    Some(arriving) = self.deliveries.recv() => group.deliveries.push(arriving),
                    Some(write) = self.normal.recv() => group.writes.push(write),
                    else => return,
                }
            }
        };
        if tokio::time::timeout(PATIENCE, all_here).await.is_ok() {
            self.take_waiting(group);
        }
    }

    fn take_waiting(&mut self, group: &mut Group) {
        while group.writes.len() < MAX_WRITES
            && let Ok(write) = self.front.try_recv()
        {
            group.writes.push(write);
        }
        while group.deliveries.len() < MAX_GROUP
            && let Ok(arriving) = self.deliveries.try_recv()
        {
            group.deliveries.push(arriving);
        }
        while group.writes.len() < MAX_WRITES
            && let Ok(write) = self.normal.try_recv()
        {
            group.writes.push(write);
        }
    }

    async fn commit(&mut self, mut group: Group) {
        if let Err(error) = execute(&mut self.connection, BEGIN).await {
            self.note(&error);
            drop(execute(&mut self.connection, "ROLLBACK").await);
            // Somebody else holds the file. Whoever came while this waited has waited for the same
            // thing and is refused with it, so that nobody waits through two busy time-outs.
            self.take_waiting(&mut group);
            refuse(group, &error);
            return;
        }
        let quiet = group.is_quiet();
        let count = u32::try_from(group.writes.len() + group.deliveries.len()).unwrap_or(u32::MAX);
        let mut answers: Vec<Answer> = Vec::new();
        let (mut lost, mut untouched) = (None, true);
        for write in group.writes {
            if !std::mem::take(&mut untouched) && lost.is_none() {
                lost = execute(&mut self.connection, NEXT).await.err();
            }
            if let Some(error) = &lost {
                drop(write.refuse.send(StoreError::clone(error)));
                continue;
            }
            match self.run_one(write).await {
                Ok(answer) => answers.push(answer),
                Err(error) => lost = Some(error),
            }
        }
        let size = group.deliveries.len();
        if size > 0 && !untouched && lost.is_none() {
            lost = execute(&mut self.connection, NEXT).await.err();
        }
        if size > 0 && lost.is_none() {
            match self.insert(group.deliveries).await {
                Ok(more) => answers.extend(more),
                Err(error) => lost = Some(error),
            }
        } else {
            refuse(
                Group {
                    writes: Vec::new(),
                    deliveries: group.deliveries,
                },
                lost.as_ref().unwrap_or(&StoreError::Busy),
            );
        }
        failpoint!("fp-in2", if size > 0);
        let end = match lost {
            None => self.commit_now(count).await,
            Some(error) => Err(error),
        };
        if let Err(error) = &end {
            self.note(error);
            // SQLite rolls back by itself on a full disk or an I/O error; then this one fails.
            drop(execute(&mut self.connection, "ROLLBACK").await);
        } else {
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
            let size = u64::try_from(size).unwrap_or(u64::MAX);
            self.counters
                .grouped_deliveries
                .fetch_add(size, Ordering::Relaxed);
            if !quiet {
                self.news.send_modify(|n| *n += 1);
            }
        }
        for answer in answers {
            answer(end.clone());
        }
    }

    async fn commit_now(&mut self, writes: u32) -> Result<(), StoreError> {
        let began = self.clock.monotonic();
        execute(&mut self.connection, "COMMIT").await?;
        metrics::commit(writes, self.clock.monotonic().saturating_sub(began));
        Ok(())
    }

    /// Runs one write in the savepoint that is open. An error means that the whole transaction is gone.
    async fn run_one(&mut self, write: Write) -> Result<Answer, StoreError> {
        let run = AssertUnwindSafe((write.run)(&mut self.connection));
        let (keep, answer) = match run.catch_unwind().await {
            Ok(done) => done,
            Err(panic) => {
                let panic = panic_text(&*panic);
                tracing::error!(
                    write = write.name,
                    panic,
                    "a write panicked and was rolled back"
                );
                let refuse = write.refuse;
                let answer: Answer = Box::new(move |_| {
                    drop(refuse.send(StoreError::Database("the write panicked".to_owned())));
                });
                (Err(StoreError::Busy), answer)
            }
        };
        if let Err(error) = keep {
            if matches!(error, StoreError::Broken(_)) {
                self.note(&error);
            }
            if execute(&mut self.connection, "ROLLBACK TO one")
                .await
                .is_err()
            {
                // The savepoint is gone, and the transaction with it: a full disk ends it by itself.
                // What did it is what everybody in it is told.
                answer(Err(error.clone()));
                return Err(error);
            }
        }
        Ok(answer)
    }

    async fn insert(&mut self, arriving: Vec<Arriving>) -> Result<Vec<Answer>, StoreError> {
        let (deliveries, askers): (Vec<_>, Vec<_>) = arriving
            .into_iter()
            .map(|a| (a.delivery, (a.answer, a.room)))
            .unzip();
        let result = self.insert.set(&mut self.connection, &deliveries).await;
        let answers: Vec<Answer> = match result {
            Ok(received) => askers
                .into_iter()
                .zip(received)
                .map(|((asker, room), received)| -> Answer {
                    Box::new(move |commit| {
                        drop(asker.send(commit.map(|()| received)));
                        drop(room);
                    })
                })
                .collect(),
            Err(error) => {
                for (asker, _) in askers {
                    drop(asker.send(Err(error.clone())));
                }
                if execute(&mut self.connection, "ROLLBACK TO one")
                    .await
                    .is_err()
                {
                    return Err(error);
                }
                self.note(&error);
                Vec::new()
            }
        };
        Ok(answers)
    }

    fn note(&self, error: &StoreError) {
        metrics::write_failure();
        match error {
            StoreError::Broken(why) => {
                tracing::error!(error = %why, "the database file cannot be trusted any more");
                self.broken.send_replace(Some(why.clone()));
            }
            error => tracing::error!(%error, "a commit failed"),
        }
    }
}

fn refuse(group: Group, error: &StoreError) {
    for write in group.writes {
        drop(write.refuse.send(error.clone()));
    }
    for arriving in group.deliveries {
        drop(arriving.answer.send(Err(error.clone())));
    }
}

async fn execute(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<(), StoreError> {
    sqlx::query(statement).execute(connection).await?;
    Ok(())
}
