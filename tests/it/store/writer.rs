//! The writer: what shares a commit, what falls alone, and who is told what.
//!
//! These tests run on one thread: the writer cannot run before a test waits, so whatever was polled
//! once by then is in one group.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::poll;
use hookledger::base::clock::{Clock as _, ManualClock, SystemClock, Timestamp};
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::domain::effect::Trigger;
use hookledger::domain::event::Verdict;
use hookledger::domain::ledger::{NewEffect, Operation, PlanEffects};
use hookledger::domain::operation::OperationRef;
use hookledger::domain::work::Reason;
use hookledger::store::{
    EventFilter, NewDelivery, OpenOptions, Received, Reservation, Store, StoreError,
};
use sqlx::Connection as _;
use uuid::Uuid;

use super::{outside, settled::planner};
use crate::support::{NOON, TestStore, options, sql};

pub(super) type Pending<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>>>>;

/// Queues a write without waiting for it.
pub(super) async fn queued<T: 'static>(
    write: impl Future<Output = Result<T, StoreError>> + 'static,
) -> Pending<T> {
    // Not interrupted by the runtime's budget for cooperative tasks: it is queued when this returns.
    let mut write: Pending<T> = Box::pin(tokio::task::unconstrained(write));
    assert!(poll!(write.as_mut()).is_pending());
    write
}

fn delivery(base: &TestStore, key: &str, body: usize) -> NewDelivery {
    NewDelivery {
        id: base.ids.uuid(NOON),
        source: "gemini".to_owned(),
        received_at: NOON,
        event_type: Some("batch.succeeded".to_owned()),
        operation: OperationRef::parse(&format!("batches/{key}"), None),
        dedupe_key: Some(format!("id:{key}")),
        dedupe_until: NOON.after(Duration::from_hours(24)),
        ignored_because: None,
        webhook_id: Some(key.to_owned()),
        proof: "hmac".to_owned(),
        reservation: None,
        replay_of: None,
        user_metadata: None,
        headers: Vec::new(),
        body: Bytes::from(vec![b'x'; body]),
    }
}

fn deliver(
    base: &TestStore,
    key: &str,
    body: usize,
) -> impl Future<Output = Result<Received, StoreError>> + use<> {
    let (store, delivery) = (base.store.clone(), delivery(base, key, body));
    async move { store.deliver(delivery).await }
}

fn alert(
    base: &TestStore,
    subject: &str,
    planner: Arc<dyn PlanEffects>,
) -> impl Future<Output = Result<bool, StoreError>> + use<> {
    let (store, subject) = (base.store.clone(), subject.to_owned());
    async move { store.open_alert(subject.clone(), subject, planner).await }
}

fn reserve(base: &TestStore, id: Uuid) -> impl Future<Output = Result<(), StoreError>> + use<> {
    let store = base.store.clone();
    let job_kind = "nightly".parse().unwrap();
    async move {
        let reservation = Reservation {
            id,
            job_kind,
            user_metadata: None,
        };
        store.reserve(reservation).await
    }
}

async fn alerts(store: &Store) -> Vec<String> {
    let open = store.open_alerts().await.unwrap();
    open.into_iter().map(|a| a.subject).collect()
}

async fn events(store: &Store) -> usize {
    let page = store.events(&EventFilter::default(), None, 1000).await;
    page.unwrap().items.len()
}

/// Panics in the middle of the transaction that asks it.
#[derive(Debug)]
struct Bomb;

impl PlanEffects for Bomb {
    fn plan(&self, _: &Operation, _: Trigger, _: Timestamp) -> Vec<NewEffect> {
        panic!("as planned")
    }

    fn plan_alert(&self, _: &str, _: &str, _: Timestamp, _: bool, _: Timestamp) -> Vec<NewEffect> {
        panic!("as planned")
    }
}

#[tokio::test]
async fn a_write_that_fails_or_panics_falls_alone() {
    let base = TestStore::open().await;
    let id = base.ids.uuid(NOON);
    reserve(&base, id).await.unwrap();
    let (before, _) = base.store.commits();

    let first = queued(alert(&base, "first", planner())).await;
    let fails = queued(reserve(&base, id)).await;
    let panics = queued(alert(&base, "bomb", Arc::new(Bomb))).await;
    let told = queued(deliver(&base, "m1", 10)).await;
    let last = queued(alert(&base, "last", planner())).await;

    assert!(first.await.unwrap());
    let error = fails.await.unwrap_err();
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    let error = panics.await.unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    assert_eq!(told.await.unwrap().verdict, Verdict::Accepted);
    assert!(last.await.unwrap());

    assert_eq!(base.store.commits().0, before + 1, "one commit for all");
    assert_eq!(alerts(&base.store).await, ["first", "last"]);
    assert_eq!(events(&base.store).await, 1);
    assert!(alert(&base, "bomb", planner()).await.unwrap(), "it goes on");
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_take_its_write_with_it() {
    let base = TestStore::open().await;
    drop(queued(deliver(&base, "m1", 10)).await);
    drop(queued(alert(&base, "left", planner())).await);
    base.store.beat().await.unwrap();
    assert_eq!(alerts(&base.store).await, ["left"]);
    assert_eq!(events(&base.store).await, 1);
    assert_eq!(base.store.waiting_bytes(), 0, "its room is given back");
}

/// Everything in the group is told, nothing of it is stored, and the next group commits.
async fn nothing_is_stored_and_everybody_is_told(
    base: &TestStore,
    spoil: &'static str,
    heal: &'static str,
) {
    sql(&base.dir, spoil).await;
    let (before, _) = base.store.commits();
    let news = *base.store.news().borrow();
    let first = queued(alert(base, "first", planner())).await;
    let told = queued(deliver(base, "m1", 10)).await;
    let spoiled = queued(reserve(base, base.ids.uuid(NOON))).await;
    let last = queued(alert(base, "last", planner())).await;
    let answers = [
        first.await.map(drop),
        told.await.map(drop),
        spoiled.await.map(drop),
        last.await.map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(
            matches!(error, StoreError::Database(_)) && !error.to_string().contains("savepoint"),
            "not why it failed: {error}"
        );
    }
    assert_eq!(base.store.commits().0, before);
    assert_eq!(*base.store.news().borrow(), news);
    assert_eq!(base.store.waiting_bytes(), 0);
    assert_eq!(alerts(&base.store).await, [""; 0]);
    assert_eq!(events(&base.store).await, 0);

    sql(&base.dir, heal).await;
    assert!(alert(base, "first", planner()).await.unwrap());
    let again = deliver(base, "m1", 10).await.unwrap();
    assert_eq!(again.verdict, Verdict::Accepted, "it was never stored");
}

#[tokio::test]
async fn a_transaction_lost_in_the_middle_is_lost_for_everyone_in_it() {
    // As on a full disk, the database ends the transaction by itself.
    nothing_is_stored_and_everybody_is_told(
        &TestStore::open().await,
        "CREATE TRIGGER spoil AFTER INSERT ON operations BEGIN SELECT RAISE(ROLLBACK, 'no room'); END",
        "DROP TRIGGER spoil",
    )
    .await;
}

#[tokio::test]
async fn a_commit_that_fails_stores_nothing() {
    let base = TestStore::open().await;
    sql(
        &base.dir,
        "CREATE TABLE checked_last (id TEXT REFERENCES heartbeat (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    nothing_is_stored_and_everybody_is_told(
        &base,
        "CREATE TRIGGER spoil AFTER INSERT ON operations BEGIN INSERT INTO checked_last VALUES (77); END",
        "DROP TRIGGER spoil",
    )
    .await;
}

#[tokio::test]
async fn a_file_held_by_somebody_else_refuses_all_that_waits_and_resumes() {
    let base = TestStore::open().await;
    let mut other = outside(&options(&base.dir).path).await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .unwrap();
    let first = queued(deliver(&base, "m1", 10)).await;
    // It waits for the lock by now; who comes meanwhile is refused with it, not after another wait.
    let clock = SystemClock::new();
    clock.sleep(Duration::from_millis(500)).await;
    let later = queued(deliver(&base, "m2", 10)).await;
    let write = queued(alert(&base, "later", planner())).await;
    let began = clock.monotonic();
    let refused = [
        first.await.map(drop),
        later.await.map(drop),
        write.await.map(drop),
    ];
    for answer in refused {
        assert!(matches!(answer, Err(StoreError::Locked)), "{answer:?}");
    }
    assert!(clock.monotonic() < began + Duration::from_secs(8));
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let again = deliver(&base, "m1", 10).await.unwrap();
    assert_eq!(again.verdict, Verdict::Accepted);
    assert_eq!(events(&base.store).await, 1);
    assert_eq!(base.store.waiting_bytes(), 0);
}

#[tokio::test]
async fn a_file_that_is_damaged_under_the_writer_is_never_written_again() {
    let base = TestStore::open().await;
    let path = options(&base.dir).path;
    deliver(&base, "m1", 10).await.unwrap();
    // Somebody else's write makes the writer read its pages again, and they are gone.
    sql(&base.dir, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    sql(&base.dir, "UPDATE heartbeat SET at_ms = 7").await;
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() - 4096;
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xff; usize::try_from(pages).unwrap()])
        .unwrap();
    let mut refusals = Vec::new();
    for key in ["m2", "m3"] {
        refusals.push(deliver(&base, key, 10).await.map(drop));
        refusals.push(alert(&base, key, planner()).await.map(drop));
    }
    for refused in refusals {
        assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    }
    let why = base.store.broken().await;
    assert!(why.contains("malformed"), "{why}");
    assert_eq!(base.store.commits(), (1, 1));
    assert_eq!(base.store.waiting_bytes(), 0);
}

#[tokio::test]
async fn deliveries_beyond_the_bound_are_refused_at_once_and_taken_again_after_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::starting_at(NOON));
    let ids = Arc::new(RandomIds::seeded(1));
    let group = Shutdown::new(clock.clone());
    let opened = OpenOptions {
        max_waiting: 64 << 10,
        check_at_once: hookledger::store::CHECK_AT_ONCE,
        ..options(&dir)
    };
    let store = Store::open(&opened, clock.clone(), ids.clone(), &group).await;
    let base = TestStore {
        store: store.unwrap(),
        clock,
        ids,
        group,
        dir,
    };
    let mut waiting = Vec::new();
    for i in 0..5 {
        waiting.push(queued(deliver(&base, &format!("m{i}"), 10 << 10)).await);
    }
    let held = base.store.waiting_bytes();
    assert!((50 << 10..=64 << 10).contains(&held), "{held}");
    let mut one_more = Box::pin(deliver(&base, "more", 10 << 10));
    let refused = poll!(one_more.as_mut());
    assert!(
        matches!(refused, std::task::Poll::Ready(Err(StoreError::Busy))),
        "{refused:?}"
    );
    // Other writes do not wait behind the bound.
    let write = queued(alert(&base, "s", planner())).await;
    for taken in join_all(waiting).await {
        assert_eq!(taken.unwrap().verdict, Verdict::Accepted);
    }
    write.await.unwrap();
    assert_eq!(base.store.waiting_bytes(), 0);
    deliver(&base, "more", 10 << 10).await.unwrap();
    deliver(&base, "larger than all the room", 100 << 10)
        .await
        .expect("a delivery the door let in is never too large when nothing waits");
    assert_eq!(events(&base.store).await, 7);
}

#[tokio::test]
async fn deliveries_side_by_side_share_commits() {
    let base = TestStore::open().await;
    let (commits, grouped) = base.store.commits();
    let all = join_all((0..200).map(|i| deliver(&base, &format!("m{i}"), 100))).await;
    assert!(
        all.iter()
            .all(|r| r.as_ref().unwrap().verdict == Verdict::Accepted)
    );
    let after = base.store.commits();
    assert_eq!(after.1 - grouped, 200);
    assert!(after.0 - commits <= 4, "{} commits", after.0 - commits);
    assert_eq!(events(&base.store).await, 200);
}

#[tokio::test]
async fn renewals_go_before_everything_that_waits() {
    let base = TestStore::open().await;
    base.store
        .wake(&"batches/held".parse().unwrap(), Reason::Operator)
        .await
        .unwrap();
    let leases = base.store.claim(1, 1, 0, Duration::from_secs(60)).await;
    let lease = leases.unwrap().remove(0);
    let mut waiting = Vec::new();
    for i in 0..200 {
        waiting.push(queued(alert(&base, &format!("s{i:03}"), planner())).await);
    }
    let (before, _) = base.store.commits();
    // The writer takes its first group; the renewal comes while that is being written.
    tokio::task::yield_now().await;
    let store = base.store.clone();
    let renewal = queued(async move { store.renew(&lease, Duration::from_secs(90)).await }).await;
    renewal.await.unwrap();
    let commits = base.store.commits().0 - before;
    assert!(commits <= 2, "in commit {commits}, not the next");
    let mut late = 0;
    for write in &mut waiting {
        late += usize::from(poll!(write.as_mut()).is_pending());
    }
    assert!(late >= 70, "only {late} of 200 came after the renewal");
}

#[tokio::test]
async fn news_rises_with_what_may_be_due_and_not_with_renewals() {
    let base = TestStore::open().await;
    let mut news = base.store.news();
    news.mark_unchanged();
    base.store.beat().await.unwrap();
    assert!(!news.has_changed().unwrap(), "a heartbeat is no news");
    deliver(&base, "m1", 10).await.unwrap();
    assert!(news.has_changed().unwrap());
    let lease = base.store.claim(1, 1, 0, Duration::from_secs(60)).await;
    let lease = lease.unwrap().remove(0);
    news.mark_unchanged();
    base.store
        .renew(&lease, Duration::from_secs(60))
        .await
        .unwrap();
    assert!(!news.has_changed().unwrap(), "a renewal is no news");
    let quiet = queued({
        let store = base.store.clone();
        async move { store.beat().await }
    })
    .await;
    let loud = queued(deliver(&base, "m2", 10)).await;
    quiet.await.unwrap();
    loud.await.unwrap();
    assert!(
        news.has_changed().unwrap(),
        "a heartbeat beside it hides nothing"
    );
}
