//! The task behind the writer: what waits becomes one transaction, and everybody in it is answered
//! after its commit. See `write` for the design and its races.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use super::super::error::StoreError;
use super::deliveries::Insert;
use super::sets::{AsSet, Waiting, caught};
use super::soundness;
use super::write::{Answer, Arriving, Counters, Lane, PATIENCE, Run, Work, Write};
use crate::base::clock::Clock;
use crate::base::failpoint::failpoint;
use crate::base::shutdown::Shutdown;
use crate::telemetry::metrics;

/// Most deliveries in one commit: bounds how long the first of them waits.
pub(super) const MAX_GROUP: usize = 256;
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
    /// Whether the file was checked, by its start or since.
    pub(super) proven: Arc<AtomicBool>,
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

/// The transaction that is open.
#[derive(Default)]
struct Open {
    /// Whom to answer after its commit.
    answers: Vec<Answer>,
    /// Whether something ran in the savepoint.
    used: bool,
    /// Why it is gone.
    lost: Option<StoreError>,
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
        if self.proven.load(Ordering::Acquire) && self.broken.borrow().is_none() {
            soundness::set_mark(&mut self.connection).await;
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
        let mut open = Open::default();
        let (mut finished, mut receipts, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for write in group.writes {
            match write.work {
                Work::Finish(waiting) => finished.push(waiting),
                Work::Receipt(waiting) => receipts.push(waiting),
                // A renewal comes before the end that it is to make possible.
                Work::Own(run, refuse) if write.lane == Lane::Front => {
                    self.run_own(&mut open, write.name, run, refuse).await;
                }
                Work::Own(run, refuse) => others.push((write.name, run, refuse)),
            }
        }
        self.run_set(&mut open, finished).await;
        self.run_set(&mut open, receipts).await;
        for (name, run, refuse) in others {
            self.run_own(&mut open, name, run, refuse).await;
        }
        let size = group.deliveries.len();
        self.insert(&mut open, group.deliveries).await;
        let Open { answers, lost, .. } = open;
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

    /// Makes a savepoint for what comes next. False when the transaction is gone.
    async fn begin_next(&mut self, open: &mut Open) -> bool {
        if std::mem::replace(&mut open.used, true) && open.lost.is_none() {
            open.lost = execute(&mut self.connection, NEXT).await.err();
        }
        open.lost.is_none()
    }

    /// Undoes what was written since, because of `why`.
    async fn undo(&mut self, open: &mut Open, why: &StoreError) {
        if matches!(why, StoreError::Broken(_)) {
            self.note(why);
        }
        if execute(&mut self.connection, "ROLLBACK TO one")
            .await
            .is_err()
        {
            // The savepoint is gone, and the transaction with it: a full disk ends it by itself.
            // What did it is what everybody in it is told.
            open.lost = Some(why.clone());
        }
    }

    /// Runs one write in a savepoint of its own.
    async fn run_own(
        &mut self,
        open: &mut Open,
        name: &'static str,
        run: Run,
        refuse: oneshot::Sender<StoreError>,
    ) {
        if !self.begin_next(open).await {
            drop(refuse.send(open.lost.clone().unwrap_or(StoreError::Busy)));
            return;
        }
        let done = caught(name, async { Ok(run(&mut self.connection).await) }).await;
        let (keep, answer) = done.unwrap_or_else(|panicked| {
            let why = panicked.clone();
            let answer: Answer = Box::new(move |_| drop(refuse.send(why)));
            (Err(panicked), answer)
        });
        if let Err(error) = keep {
            self.undo(open, &error).await;
        }
        open.answers.push(answer);
    }

    /// Writes a set together; and alone whom it leaves out, or all of them when it fails.
    async fn run_set<S: AsSet>(&mut self, open: &mut Open, waiting: Vec<Waiting<S>>) {
        let (set, askers): (Vec<S>, Vec<_>) =
            waiting.into_iter().map(|w| (w.item, w.answer)).unzip();
        let mut said = Vec::new();
        if !set.is_empty() && self.begin_next(open).await {
            match caught(S::NAME, S::together(&mut self.connection, &set)).await {
                Ok(all) => said = all,
                Err(error) => {
                    self.undo(open, &error).await;
                    if open.lost.is_none() {
                        self.counters.sets_undone.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(write = S::NAME, %error, "a set could not be written; each is tried alone");
                    }
                }
            }
        }
        said.resize_with(set.len(), || None);
        for ((item, asker), said) in set.iter().zip(askers).zip(said) {
            let said = match said {
                Some(said) => said,
                None => self.run_alone(open, item).await,
            };
            open.answers.push(Box::new(move |commit| {
                // The caller may be gone; the write is committed all the same.
                drop(asker.send(commit.and(said)));
            }));
        }
    }

    async fn run_alone<S: AsSet>(
        &mut self,
        open: &mut Open,
        item: &S,
    ) -> Result<S::Said, StoreError> {
        if !self.begin_next(open).await {
            return Err(open.lost.clone().unwrap_or(StoreError::Busy));
        }
        let said = caught(S::NAME, item.alone(&mut self.connection)).await;
        if let Err(error) = &said {
            self.undo(open, error).await;
        }
        said
    }

    async fn insert(&mut self, open: &mut Open, arriving: Vec<Arriving>) {
        if arriving.is_empty() {
            return;
        }
        let (deliveries, askers): (Vec<_>, Vec<_>) = arriving
            .into_iter()
            .map(|a| (a.delivery, (a.answer, a.room)))
            .unzip();
        let result = if self.begin_next(open).await {
            self.insert.set(&mut self.connection, &deliveries).await
        } else {
            Err(open.lost.clone().unwrap_or(StoreError::Busy))
        };
        match result {
            Ok(received) => {
                for ((asker, room), received) in askers.into_iter().zip(received) {
                    open.answers.push(Box::new(move |commit| {
                        drop(asker.send(commit.map(|()| received)));
                        drop(room);
                    }));
                }
            }
            Err(error) => {
                for (asker, _) in askers {
                    drop(asker.send(Err(error.clone())));
                }
                if open.lost.is_none() {
                    self.undo(open, &error).await;
                }
                // What ended the whole commit is told of at its end.
                if open.lost.is_none() && !matches!(error, StoreError::Broken(_)) {
                    self.note(&error);
                }
            }
        }
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
        write.work.refuse(error);
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
