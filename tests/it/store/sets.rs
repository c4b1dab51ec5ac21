//! Results and receipts that share a commit go through SQL as sets, and each is told what it would be
//! told alone.
//!
//! On one thread, as in `writer`: what was polled once before a test waits is one set.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::time::Duration;

use futures_util::future::join_all;
use hookledger::base::clock::Clock as _;
use hookledger::domain::effect::{AmbiguousPolicy, EffectState};
use hookledger::domain::ledger::{EffectEnd, Lease, LeasedEffect, Operation};
use hookledger::domain::operation::{OperationName, OperationState};
use hookledger::domain::work::{Outcome, Reason};
use hookledger::store::{
    Applied, Change, Close, Look, NewRegistration, StoreError, Subject, WorkFailure,
};
use sqlx::Connection as _;

use super::outside;
use super::settled::{ending, look, planner, terms};
use super::writer::{Pending, queued};
use crate::support::{NOON, TestStore, options};

const MINUTE: Duration = Duration::from_mins(1);

fn name(n: usize) -> OperationName {
    format!("batches/set-{n}").parse().unwrap()
}

/// That many registered operations, each with an item that is leased.
async fn leased(base: &TestStore, count: usize) -> (Vec<Operation>, Vec<Lease>) {
    let mut records = Vec::new();
    for n in 0..count {
        let new = NewRegistration {
            name: name(n),
            job_kind: "nightly".parse().unwrap(),
            user_metadata: None,
            terms: terms(NOON),
        };
        base.store.register(new, planner()).await.unwrap();
        records.push(record(base, n).await);
        base.store.wake(&name(n), Reason::Operator).await.unwrap();
    }
    (records, claim(base).await)
}

/// What is due, in the order of the operations' names.
async fn claim(base: &TestStore) -> Vec<Lease> {
    let mut leases = base.store.claim(64, 64, 64, MINUTE).await.unwrap();
    leases.sort_by(|a, b| a.raw.cmp(&b.raw));
    leases
}

async fn record(base: &TestStore, n: usize) -> Operation {
    let found = base.store.operation_by_name(&name(n)).await.unwrap();
    found.unwrap()
}

fn of(record: &Operation, change: Change) -> Look {
    Look {
        subject: Subject::Known(record.id),
        ..look(change)
    }
}

fn success(record: &Operation) -> Look {
    of(record, ending(OperationState::Succeeded))
}

async fn finishing(
    base: &TestStore,
    lease: &Lease,
    looks: Vec<Look>,
    close: Close,
) -> Pending<Vec<Applied>> {
    let (store, lease) = (base.store.clone(), lease.clone());
    queued(async move { store.finish_looks(&lease, looks, close, planner()).await }).await
}

async fn settling(base: &TestStore, lease: &Lease, record: &Operation) -> Pending<Vec<Applied>> {
    let close = Close::Done(Outcome::Settled);
    finishing(base, lease, vec![success(record)], close).await
}

/// What an operation's settlement leaves in the file: its state, looks, how many effects it expects and
/// has, and how often its history says so; then the item's state and attempts.
async fn on_disk(base: &TestStore, n: usize) -> String {
    let mut file = outside(&options(&base.dir).path).await;
    let found: String = sqlx::query_scalar(
        "SELECT printf('%s looks=%d expects=%s has=%d told=%d summary=%s | %s attempts=%d', o.state, o.attempts, \
         coalesce(o.effects_expected, '-'), (SELECT count(*) FROM effects e WHERE e.operation_id = o.id), \
         (SELECT count(*) FROM operation_log l WHERE l.operation_id = o.id AND l.what = o.state AND l.detail = o.body_hash), \
         o.summary IS NOT NULL, q.state, q.attempts) \
         FROM operations o JOIN work_queue q ON q.ref_key = o.name WHERE o.name = ?1 ORDER BY q.id LIMIT 1",
    )
    .bind(name(n).as_str())
    .fetch_one(&mut file)
    .await
    .unwrap();
    file.close().await.unwrap();
    found
}

const SETTLED: &str = "succeeded looks=1 expects=1 has=1 told=1 summary=1 | done attempts=0";
const LEASED: &str = "pending looks=0 expects=- has=0 told=0 summary=0 | leased attempts=1";

#[tokio::test]
async fn a_stale_lease_settles_nothing_and_its_neighbours_do() {
    let base = TestStore::open().await;
    let (records, mut leases) = leased(&base, 3).await;
    leases[1].epoch -= 1;
    let before = base.store.commits().0;
    let mut set = Vec::new();
    for (lease, record) in leases.iter().zip(&records) {
        set.push(settling(&base, lease, record).await);
    }
    let said = join_all(set).await;
    assert_eq!(base.store.commits().0 - before, 1, "they are no set");
    assert!(
        matches!(said[1], Err(StoreError::Fenced { .. })),
        "{:?}",
        said[1]
    );
    assert_eq!(base.store.sets_undone(), 0);
    assert_eq!(on_disk(&base, 1).await, LEASED);
    for n in [0, 2] {
        let Ok([Applied::Settled(told)]) = said[n].as_deref() else {
            panic!("{:?}", said[n]);
        };
        assert_eq!(
            **told,
            record(&base, n).await,
            "what it is told is what is there"
        );
        assert_eq!(on_disk(&base, n).await, SETTLED);
    }
    // Its holder may still finish it.
    leases[1].epoch += 1;
    let late = settling(&base, &leases[1], &records[1]).await.await;
    assert!(
        matches!(late.as_deref(), Ok([Applied::Settled(_)])),
        "{late:?}"
    );
}

#[tokio::test]
async fn a_stale_lease_that_goes_back_does_not_take_the_place_of_the_one_that_is_held() {
    let base = TestStore::open().await;
    let (records, leases) = leased(&base, 1).await;
    let stale = Lease {
        epoch: leases[0].epoch - 1,
        ..leases[0].clone()
    };
    let back = finishing(&base, &stale, Vec::new(), Close::Release).await;
    let held = settling(&base, &leases[0], &records[0]).await;
    let (back, held) = (back.await, held.await);
    assert!(matches!(back, Err(StoreError::Fenced { .. })), "{back:?}");
    assert!(
        matches!(held.as_deref(), Ok([Applied::Settled(_)])),
        "{held:?}"
    );
    assert_eq!(on_disk(&base, 0).await, SETTLED);
}

#[tokio::test]
async fn one_settlement_that_fails_undoes_none_of_its_neighbours() {
    let base = TestStore::open().await;
    let (records, leases) = leased(&base, 3).await;
    let mut file = outside(&options(&base.dir).path).await;
    sqlx::query(
        "CREATE TRIGGER refused BEFORE UPDATE ON operations WHEN OLD.name = 'batches/set-1' AND NEW.settled_at_ms IS NOT NULL \
         BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    )
    .execute(&mut file)
    .await
    .unwrap();
    file.close().await.unwrap();
    let mut set = Vec::new();
    for (lease, record) in leases.iter().zip(&records) {
        set.push(settling(&base, lease, record).await);
    }
    let said = join_all(set).await;
    let refused = said[1].as_ref().unwrap_err().to_string();
    assert!(refused.contains("not this one"), "{refused}");
    assert_eq!(base.store.sets_undone(), 1);
    assert_eq!(on_disk(&base, 1).await, LEASED);
    for n in [0, 2] {
        assert!(
            matches!(said[n].as_deref(), Ok([Applied::Settled(_)])),
            "{:?}",
            said[n]
        );
        assert_eq!(on_disk(&base, n).await, SETTLED);
    }
}

#[tokio::test]
async fn two_items_of_one_operation_settle_it_once() {
    let base = TestStore::open().await;
    let (records, mut leases) = leased(&base, 2).await;
    // An event came while the first was looked at.
    base.store.wake(&name(0), Reason::Webhook).await.unwrap();
    leases.extend(claim(&base).await);
    let (first, second) = (&leases[0], &leases[2]);
    assert_eq!(
        (first.raw.as_str(), second.raw.as_str()),
        ("batches/set-0", "batches/set-0")
    );
    let failed = of(&records[0], ending(OperationState::Failed));
    let close = Close::Done(Outcome::Settled);
    let set = [
        settling(&base, first, &records[0]).await,
        finishing(&base, second, vec![failed], close.clone()).await,
        settling(&base, &leases[1], &records[1]).await,
        // And a lease that is named twice.
        settling(&base, first, &records[0]).await,
    ];
    let said = join_all(set).await;
    assert_eq!(base.store.sets_undone(), 0);
    let Ok([Applied::Settled(settled)]) = said[0].as_deref() else {
        panic!("{:?}", said[0]);
    };
    assert_eq!(settled.state, OperationState::Succeeded);
    assert_eq!(
        said[1].as_ref().unwrap()[..],
        [Applied::AlreadySettled(settled.clone())]
    );
    assert!(
        matches!(said[2].as_deref(), Ok([Applied::Settled(_)])),
        "{:?}",
        said[2]
    );
    assert!(
        matches!(said[3], Err(StoreError::Fenced { .. })),
        "{:?}",
        said[3]
    );
    assert_eq!(on_disk(&base, 0).await, SETTLED);
    assert_eq!(on_disk(&base, 1).await, SETTLED);
    let log = base.store.operation_log(records[0].id).await.unwrap();
    assert_eq!(log.len(), 2, "registered and settled: {log:?}");
}

/// One that settles, one that is tried again, one that dies, one that goes on, one that settles, one that
/// is adopted.
async fn mixed(
    base: &TestStore,
    leases: &[Lease],
    records: &[Operation],
    adopted: &OperationName,
) -> [Pending<Vec<Applied>>; 6] {
    let failure = |charged| WorkFailure {
        again_at: NOON.after(MINUTE),
        why: "undecodable".to_owned(),
        charged,
    };
    let goes_on = Change::Running {
        requires_action: false,
        next_look_at: NOON.after(MINUTE),
    };
    let found = Look {
        subject: Subject::Found {
            name: adopted.clone(),
            reservation: None,
        },
        ..look(ending(OperationState::Succeeded))
    };
    let done = Close::Done(Outcome::Settled);
    [
        settling(base, &leases[0], &records[0]).await,
        finishing(
            base,
            &leases[1],
            Vec::new(),
            Close::Again(failure(false), 10),
        )
        .await,
        finishing(base, &leases[2], Vec::new(), Close::Again(failure(true), 1)).await,
        finishing(
            base,
            &leases[3],
            vec![of(&records[3], goes_on)],
            Close::Done(Outcome::NotTerminal),
        )
        .await,
        settling(base, &leases[4], &records[4]).await,
        finishing(base, &leases[5], vec![found], done).await,
    ]
}

#[tokio::test]
async fn a_mixed_set_ends_each_item_as_it_would_end_alone() {
    let base = TestStore::open().await;
    let (records, _) = leased(&base, 5).await;
    base.store.rescue_leases(10, true).await.unwrap();
    let adopted: OperationName = "batches/set-5".parse().unwrap();
    base.store.wake(&adopted, Reason::Webhook).await.unwrap();
    let summary = "it is late".to_owned();
    let subject = format!("operation/{}/overdue", records[0].id);
    base.store
        .open_alert(subject.clone(), summary, planner())
        .await
        .unwrap();
    let leases = claim(&base).await;
    assert_eq!(leases.len(), 6);
    let before = base.store.commits().0;
    let set = mixed(&base, &leases, &records, &adopted).await;
    let said: Vec<_> = join_all(set)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(base.store.commits().0 - before, 1, "they are no set");
    assert_eq!(base.store.sets_undone(), 0);
    let shapes = said.iter().map(|applied| match applied.as_slice() {
        [] => "nothing",
        [Applied::Settled(_)] => "settled",
        [Applied::Open(_)] => "open",
        _ => "something else",
    });
    let shapes: Vec<_> = shapes.collect();
    assert_eq!(
        shapes,
        [
            "settled", "nothing", "nothing", "open", "settled", "settled"
        ]
    );
    // The rescue before charged each once more.
    let settled = SETTLED.replace("attempts=0", "attempts=1");
    for n in [0, 4] {
        assert_eq!(on_disk(&base, n).await, settled);
    }
    let untouched = "pending looks=0 expects=- has=0 told=0 summary=0";
    assert_eq!(
        on_disk(&base, 1).await,
        format!("{untouched} | ready attempts=1")
    );
    assert_eq!(
        on_disk(&base, 2).await,
        format!("{untouched} | dead attempts=2")
    );
    assert_eq!(
        on_disk(&base, 3).await,
        "pending looks=1 expects=- has=0 told=0 summary=1 | done attempts=1"
    );
    assert_eq!(on_disk(&base, 5).await, SETTLED);
    let adopted = base
        .store
        .operation_by_name(&adopted)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(said[5], [Applied::Settled(Box::new(adopted.clone()))]);
    assert!(!adopted.registered);
    assert!(
        !base.store.is_alert_open(&subject).await.unwrap(),
        "it has ended"
    );
}

async fn sends(base: &TestStore, count: usize) -> Vec<LeasedEffect> {
    let (records, leases) = leased(base, count).await;
    for (lease, record) in leases.iter().zip(&records) {
        settling(base, lease, record).await.await.unwrap();
    }
    let quotas = vec![("notify".to_owned(), 64)];
    let mut sends = base.store.begin_sends(quotas, MINUTE).await.unwrap();
    sends.sort_by_key(|sent| sent.record.operation_name.as_ref().map(ToString::to_string));
    sends
}

async fn receipt(base: &TestStore, sent: &LeasedEffect, end: EffectEnd) -> Pending<EffectState> {
    let (store, sent) = (base.store.clone(), sent.clone());
    queued(async move { store.end_send(&sent, end, planner()).await }).await
}

#[tokio::test]
async fn receipts_of_one_commit_end_each_as_it_would_end_alone() {
    let base = TestStore::open().await;
    let mut sends = sends(&base, 5).await;
    assert_eq!(sends.len(), 5);
    let subject = |n: usize, sends: &[LeasedEffect]| format!("effect/{}", sends[n].record.id);
    let over = subject(0, &sends);
    let open = base
        .store
        .open_alert(over.clone(), "it was held".to_owned(), planner());
    assert!(open.await.unwrap());
    sends[3].epoch -= 1;
    let why = "refused".to_owned();
    let again = EffectEnd::Again {
        at: base.clock.now().after(MINUTE),
        why: why.clone(),
    };
    let unknown = EffectEnd::Unknown {
        policy: AmbiguousPolicy::Retry,
        at: base.clock.now().after(MINUTE),
        why: why.clone(),
    };
    let before = base.store.commits().0;
    let set = [
        receipt(&base, &sends[0], EffectEnd::Done).await,
        receipt(&base, &sends[1], EffectEnd::Dead { why }).await,
        receipt(&base, &sends[2], again).await,
        receipt(&base, &sends[3], EffectEnd::Done).await,
        receipt(&base, &sends[4], unknown).await,
        receipt(&base, &sends[0], EffectEnd::Done).await,
    ];
    let said = join_all(set).await;
    assert_eq!(base.store.commits().0 - before, 1, "they are no set");
    assert_eq!(base.store.sets_undone(), 0);
    let states = [EffectState::Done, EffectState::Dead, EffectState::Planned];
    for (said, state) in said.iter().zip(states) {
        assert_eq!(*said.as_ref().unwrap(), state);
    }
    for n in [3, 5] {
        assert!(
            matches!(said[n], Err(StoreError::Fenced { .. })),
            "{:?}",
            said[n]
        );
    }
    assert_eq!(*said[4].as_ref().unwrap(), EffectState::Ambiguous);
    let mut found = Vec::new();
    for sent in &sends {
        let of = base
            .store
            .effects_of(sent.record.operation_id.unwrap())
            .await
            .unwrap();
        found.push((
            of[0].state,
            of[0].finished_at.is_some(),
            of[0].last_error.clone(),
        ));
    }
    let refused = Some("refused".to_owned());
    assert_eq!(
        found,
        [
            (EffectState::Done, true, None),
            (EffectState::Dead, true, refused.clone()),
            (EffectState::Planned, false, refused.clone()),
            (EffectState::Sending, false, None),
            (EffectState::Ambiguous, false, refused),
        ]
    );
    assert!(
        !base.store.is_alert_open(&over).await.unwrap(),
        "it is done"
    );
    assert!(
        base.store.is_alert_open(&subject(1, &sends)).await.unwrap(),
        "it is dead"
    );
}
