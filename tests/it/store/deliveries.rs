//! Deliveries against a model: whatever comes, in whatever groups, each is judged as if it had come
//! alone, one after the other.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hookledger::base::clock::{Clock as _, Timestamp};
use hookledger::domain::event::Verdict;
use hookledger::domain::operation::OperationRef;
use hookledger::domain::work::{Outcome, Reason, WorkState};
use hookledger::store::{Close, EventFilter, NewDelivery, NewRegistration, WorkFilter};
use proptest::prelude::*;
use uuid::Uuid;

use super::settled::{planner, settled, terms};
use super::writer::queued;
use crate::support::TestStore;

/// How long an id is remembered.
const MEMORY: Duration = Duration::from_secs(100);
/// Raw name, the queue's key for it, last segment. The first two name a settled operation.
const OPERATIONS: [(&str, &str, &str); 6] = [
    ("batches/a", "batches/a", "a"),
    ("a", "batches/a", "a"),
    ("batches/b", "batches/b", "b"),
    ("c", "c", "c"),
    ("interactions/v1_d", "interactions/v1_d", "v1_d"),
    ("models/m/operations/e", "models/m/operations/e", "e"),
];

#[derive(Debug, Clone, Default)]
struct Item {
    source: &'static str,
    key: Option<u8>,
    operation: Option<usize>,
    ignored: bool,
}

#[derive(Debug, Clone)]
struct Group {
    items: Vec<Item>,
    /// Time until the next group.
    gap: Duration,
    /// Whether all that waits is looked at in between.
    work: bool,
}

fn item() -> impl Strategy<Value = Item> {
    let operation = prop::option::weighted(0.9, 0..OPERATIONS.len());
    (
        prop::sample::select(&["gemini", "proxy"][..]),
        prop::option::weighted(0.9, 0_u8..4),
        operation,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(source, key, operation, ignored)| Item {
            source,
            key,
            operation,
            ignored,
        })
}

fn group() -> impl Strategy<Value = Group> {
    let gap = prop::sample::select(&[0, 1, 60, 99, 100, 101][..]);
    (prop::collection::vec(item(), 1..8), gap, any::<bool>()).prop_map(|(items, gap, work)| Group {
        items,
        gap: Duration::from_secs(gap),
        work,
    })
}

/// What the file should say.
#[derive(Debug, Default)]
struct Model {
    seen: HashMap<(&'static str, u8), Seen>,
    events: BTreeMap<Uuid, Verdict>,
    /// Queue key to its due time.
    ready: BTreeMap<&'static str, Timestamp>,
}

#[derive(Debug)]
struct Seen {
    event: Uuid,
    until: Timestamp,
    duplicates: u64,
}

impl Model {
    fn take(&mut self, item: &Item, id: Uuid, now: Timestamp) -> Verdict {
        let own = match item.operation {
            Some(_) if !item.ignored => Verdict::Accepted,
            _ => Verdict::Ignored,
        };
        let known = item
            .key
            .and_then(|key| self.seen.get_mut(&(item.source, key)));
        if let Some(seen) = known.filter(|seen| seen.until > now) {
            seen.duplicates += 1;
            return Verdict::Duplicate;
        }
        if let Some(key) = item.key {
            let seen = Seen {
                event: id,
                until: now.after(MEMORY),
                duplicates: 0,
            };
            self.seen.insert((item.source, key), seen);
        }
        self.events.insert(id, own);
        own
    }

    fn wake(&mut self, item: &Item, verdict: Verdict, now: Timestamp) {
        let Some((_, key, segment)) = item.operation.map(|o| OPERATIONS[o]) else {
            return;
        };
        if item.ignored || (verdict == Verdict::Duplicate && segment == "a") {
            return;
        }
        self.ready.entry(key).or_insert(now);
    }

    fn duplicates(&self, event: Uuid) -> u64 {
        let seen = self.seen.values().find(|s| s.event == event);
        seen.map_or(0, |s| s.duplicates)
    }
}

fn delivery(base: &TestStore, item: &Item) -> NewDelivery {
    let now = base.clock.now();
    NewDelivery {
        id: base.ids.uuid(now),
        source: item.source.to_owned(),
        received_at: now,
        event_type: None,
        operation: item
            .operation
            .and_then(|o| OperationRef::parse(OPERATIONS[o].0, None)),
        dedupe_key: item.key.map(|k| format!("id:{k}")),
        dedupe_until: now.after(MEMORY),
        ignored_because: item.ignored.then_some("nothing to do"),
        webhook_id: None,
        proof: "shared".to_owned(),
        reservation: None,
        replay_of: None,
        user_metadata: None,
        headers: vec![("x".to_owned(), Bytes::from_static(b"\xff\x00"))],
        body: Bytes::from_static(b"{}"),
    }
}

#[tokio::test]
async fn a_duplicate_wakes_its_operation_whatever_became_of_another_with_the_same_last_segment() {
    let (base, _) = settled().await;
    let store = &base.store;
    let twin = NewRegistration {
        name: "models/m/operations/a".parse().unwrap(),
        job_kind: "nightly".parse().unwrap(),
        user_metadata: None,
        terms: terms(base.clock.now()),
    };
    store.register(twin, planner()).await.unwrap();
    let mut key = 0;
    for raw in ["models/m/operations/a", "a"] {
        for other_waits in [false, true] {
            key += 1;
            let mut copies = Vec::new();
            for _ in 0..2 {
                copies.push(NewDelivery {
                    operation: OperationRef::parse(raw, None),
                    dedupe_key: Some(format!("id:{key}")),
                    ..delivery(&base, &Item::default())
                });
            }
            let copy = copies.pop().unwrap();
            store.deliver(copies.pop().unwrap()).await.unwrap();
            look_at_all(&base).await;
            if other_waits {
                let settled = "batches/a".parse().unwrap();
                store.wake(&settled, Reason::Operator).await.unwrap();
            }
            let again = store.deliver(copy).await.unwrap();
            assert_eq!(again.verdict, Verdict::Duplicate);
            let page = store.work_items(&ready(), None, 10).await.unwrap();
            let woken = page.items.iter().any(|w| w.operation == raw);
            assert!(woken, "{raw}, {other_waits}: {:?}", page.items);
        }
    }
}

/// A set too large for one statement, with a duplicate at its end: what came before it was inserted when
/// the duplicate shows.
#[tokio::test]
async fn a_duplicate_at_the_end_of_a_large_set_swallows_nothing_before_it() {
    let base = TestStore::open().await;
    let large = |key| NewDelivery {
        body: Bytes::from(vec![b'x'; 2_200_000]),
        ..delivery(
            &base,
            &Item {
                source: "gemini",
                key: Some(key),
                operation: Some(usize::from(key)),
                ignored: false,
            },
        )
    };
    base.store.deliver(large(0)).await.unwrap();
    let mut waiting = Vec::new();
    for key in [1, 2, 0] {
        let (store, delivery) = (base.store.clone(), large(key));
        waiting.push(queued(async move { store.deliver(delivery).await }).await);
    }
    let mut verdicts = Vec::new();
    for answer in join_all(waiting).await {
        verdicts.push(answer.unwrap().verdict);
    }
    let accepted = Verdict::Accepted;
    let expected = [accepted, accepted, Verdict::Duplicate];
    assert_eq!(verdicts, expected);
    let filter = EventFilter::default();
    let page = base.store.events(&filter, None, 10).await.unwrap();
    let duplicates: Vec<_> = page.items.iter().rev().map(|e| e.duplicates).collect();
    assert_eq!(duplicates, [1, 0, 0]);
    base.close().await;
}

/// Claims what waits and closes it without an ending.
async fn look_at_all(base: &TestStore) {
    for lease in base.store.claim(100, 100, 100, MEMORY).await.unwrap() {
        let close = Close::Done(Outcome::NotTerminal);
        base.store.close_lease(&lease, close).await.unwrap();
    }
}

async fn run(groups: &[Group]) -> Result<(), TestCaseError> {
    let (base, _) = settled().await;
    let mut model = Model::default();
    for group in groups {
        let now = base.clock.now();
        let deliveries: Vec<_> = group.items.iter().map(|i| delivery(&base, i)).collect();
        let ids: Vec<Uuid> = deliveries.iter().map(|d| d.id).collect();
        let (before, _) = base.store.commits();
        let mut waiting = Vec::new();
        for delivery in deliveries {
            let store = base.store.clone();
            waiting.push(queued(async move { store.deliver(delivery).await }).await);
        }
        let answers = join_all(waiting).await;
        prop_assert_eq!(base.store.commits().0, before + 1, "one group");
        for ((item, id), answer) in group.items.iter().zip(ids).zip(answers) {
            let verdict = model.take(item, id, now);
            prop_assert_eq!(answer.unwrap().verdict, verdict, "{:?}", item);
            model.wake(item, verdict, now);
        }
        check(&base, &model).await?;
        if group.work {
            look_at_all(&base).await;
            model.ready.clear();
        }
        base.clock.advance(group.gap);
    }
    base.close().await;
    Ok(())
}

async fn check(base: &TestStore, model: &Model) -> Result<(), TestCaseError> {
    let filter = EventFilter::default();
    let page = base.store.events(&filter, None, 1000).await.unwrap();
    let stored: BTreeMap<_, _> = page
        .items
        .iter()
        .map(|e| (e.id, (e.verdict, e.duplicates)))
        .collect();
    let expected: BTreeMap<_, _> = model
        .events
        .iter()
        .map(|(id, verdict)| (*id, (*verdict, model.duplicates(*id))))
        .collect();
    prop_assert_eq!(stored, expected);
    let page = base.store.work_items(&ready(), None, 1000).await.unwrap();
    let stored: BTreeMap<_, _> = page
        .items
        .iter()
        .map(|w| (w.operation.as_str(), w.available_at))
        .collect();
    prop_assert_eq!(
        stored.len(),
        page.items.len(),
        "two ready rows of one operation"
    );
    prop_assert_eq!(stored, model.ready.clone());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn groups_are_judged_as_if_each_delivery_had_come_alone(
        groups in prop::collection::vec(group(), 1..7),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&groups))?;
    }
}

fn ready() -> WorkFilter {
    WorkFilter {
        state: Some(WorkState::Ready),
        ..WorkFilter::default()
    }
}
