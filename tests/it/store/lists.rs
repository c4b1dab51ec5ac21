//! Lists: whatever they are narrowed to, their pages together are what a look at every row finds.

use hookledger::base::clock::Timestamp;
use hookledger::domain::effect::EffectState;
use hookledger::domain::event::Verdict;
use hookledger::domain::ledger::Told;
use hookledger::domain::operation::{Kind, OperationName, OperationState};
use hookledger::domain::work::{Reason, WorkState};
use hookledger::store::{EffectFilter, EventFilter, OperationFilter, Reader, WorkFilter};

use crate::support::{TestStore, sql};

/// The millisecond of the id of row `i`.
fn made(i: i64) -> Timestamp {
    Timestamp::from_millis((0x01a2_2c53 << 16) + i)
}

/// Every page of a list, one after the other: the rows, and how many pages there were.
macro_rules! all {
    ($reader:expr, $list:ident, $filter:expr, $limit:expr) => {{
        let (mut rows, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = $reader.$list($filter, cursor, $limit).await.unwrap();
            assert!(page.items.len() <= $limit as usize);
            rows.extend(page.items);
            pages += 1;
            match page.next_cursor {
                Some(next) => cursor = Some(next.parse().unwrap()),
                None => break (rows, pages),
            }
        }
    }};
}

async fn ledger() -> TestStore {
    let base = TestStore::open().await;
    sql(&base.dir, include_str!("lists.sql")).await;
    base
}

async fn operations_are(reader: &Reader, filter: OperationFilter, pages: usize, wanted: usize) {
    let (all, _) = all!(reader, operations, &OperationFilter::default(), 500);
    assert_eq!(all.len(), 12_000);
    let begins = |name: Option<&str>, q: &str| {
        let whole = q.contains('/');
        let part = name.map(|n| {
            if whole {
                n
            } else {
                n.rsplit('/').next().unwrap()
            }
        });
        part.is_some_and(|part| part.starts_with(q))
    };
    let expected: Vec<_> = all
        .into_iter()
        .filter(|o| {
            let ms = i64::from_str_radix(&o.id.simple().to_string()[..12], 16).unwrap();
            let name = o.name.as_ref().map(OperationName::as_str);
            filter.q.as_ref().is_none_or(|q| begins(name, q.as_str()))
                && filter.kind.is_none_or(|k| o.kind == Some(k))
                && filter.job_kind.as_ref().is_none_or(|k| o.job_kind == *k)
                && filter.state.is_none_or(|s| o.state == s)
                && filter.settled_by.is_none_or(|s| o.settled_by == Some(s))
                && filter.overdue.is_none_or(|wanted| o.overdue == wanted)
                && filter.told.is_none_or(|t| o.told == t)
                && filter.since.is_none_or(|at| ms >= at.as_millis())
                && filter.until.is_none_or(|at| ms < at.as_millis())
        })
        .collect();
    assert_eq!(expected.len(), wanted, "{filter:?}");
    let (found, read) = all!(reader, operations, &filter, 50);
    assert!(found == expected, "{filter:?}: {} of {wanted}", found.len());
    assert!(read <= pages, "{filter:?}: {read} pages");
}

#[tokio::test]
async fn operations_that_an_index_knows_take_no_more_pages_than_they_fill() {
    let base = ledger().await;
    let none = OperationFilter::default;
    let job_kind = Some("rare".parse().unwrap());
    let q = |text: &str| Some(text.parse().unwrap());
    for (filter, pages, wanted) in [
        (OperationFilter { job_kind, ..none() }, 1, 2),
        (
            OperationFilter {
                overdue: Some(true),
                ..none()
            },
            1,
            5,
        ),
        (
            OperationFilter {
                q: q("n119"),
                ..none()
            },
            3,
            111,
        ),
        (
            OperationFilter {
                q: q("models/veo/operations/n119"),
                ..none()
            },
            1,
            36,
        ),
        (
            OperationFilter {
                q: q("nothing"),
                ..none()
            },
            1,
            0,
        ),
    ] {
        operations_are(&base.store, filter, pages, wanted).await;
    }
}

#[tokio::test]
async fn operations_that_no_index_knows_are_found_all_the_same() {
    let base = ledger().await;
    let none = OperationFilter::default;
    let job_kind = Some("rare".parse().unwrap());
    let q = |text: &str| Some(text.parse().unwrap());
    for (filter, pages, wanted) in [
        // Pages of 5,000 rows each, most of them empty.
        (
            OperationFilter {
                settled_by: Some(Reason::Operator),
                ..none()
            },
            3,
            2,
        ),
        (
            OperationFilter {
                told: Some(Told::Late),
                ..none()
            },
            3,
            0,
        ),
        (
            OperationFilter {
                kind: Some(Kind::Interaction),
                ..none()
            },
            3,
            0,
        ),
        // Both, and bounds.
        (
            OperationFilter {
                state: Some(OperationState::Pending),
                kind: Some(Kind::Video),
                ..none()
            },
            17,
            800,
        ),
        (
            OperationFilter {
                state: Some(OperationState::Succeeded),
                job_kind,
                ..none()
            },
            1,
            2,
        ),
        (
            OperationFilter {
                since: Some(made(100)),
                until: Some(made(110)),
                ..none()
            },
            1,
            10,
        ),
        (
            OperationFilter {
                q: q("batches/n1"),
                overdue: Some(false),
                since: Some(made(1000)),
                until: Some(made(1500)),
                ..none()
            },
            8,
            334,
        ),
        // So many that no index is asked.
        (
            OperationFilter {
                q: q("n1"),
                told: Some(Told::Rescued),
                ..none()
            },
            14,
            355,
        ),
    ] {
        operations_are(&base.store, filter, pages, wanted).await;
    }
}

#[tokio::test]
async fn events_are_found_by_anything() {
    let base = ledger().await;
    let none = EventFilter::default;
    let q = |text: &str| Some(text.parse().unwrap());
    for (filter, pages, wanted) in [
        (
            EventFilter {
                verdict: Some(Verdict::Ignored),
                ..none()
            },
            3,
            120,
        ),
        (
            EventFilter {
                source: Some("other".to_owned()),
                ..none()
            },
            3,
            1,
        ),
        (
            EventFilter {
                event_type: Some("video.generated".to_owned()),
                q: q("n119"),
                ..none()
            },
            1,
            36,
        ),
        (
            EventFilter {
                q: q("batches/n119"),
                ..none()
            },
            2,
            75,
        ),
        // Its own index does not know it.
        (
            EventFilter {
                q: q("models/veo/op"),
                until: Some(made(31)),
                ..none()
            },
            1,
            10,
        ),
        (
            EventFilter {
                segment: Some("n7".to_owned()),
                q: q("models/"),
                ..none()
            },
            1,
            0,
        ),
        (
            EventFilter {
                segment: Some("n7".to_owned()),
                since: Some(made(7)),
                ..none()
            },
            1,
            1,
        ),
        (
            EventFilter {
                verdict: Some(Verdict::Accepted),
                since: Some(made(11_000)),
                ..none()
            },
            20,
            990,
        ),
    ] {
        let (found, read) = all!(base.store, events, &filter, 50);
        assert_eq!(found.len(), wanted, "{filter:?}");
        assert!(read <= pages, "{filter:?}: {read} pages");
        assert!(found.is_sorted_by(|a, b| a.id > b.id));
    }
}

#[tokio::test]
async fn work_items_are_found_by_anything() {
    let base = ledger().await;
    let q = |text: &str| Some(text.parse().unwrap());
    let none = WorkFilter::default;
    let at = |ms| Some(Timestamp::from_millis(ms));
    for (filter, pages, wanted) in [
        (
            WorkFilter {
                state: Some(WorkState::Dead),
                ..none()
            },
            27,
            1333,
        ),
        (
            WorkFilter {
                reason: Some(Reason::Operator),
                ..none()
            },
            3,
            1,
        ),
        (
            WorkFilter {
                state: Some(WorkState::Dead),
                reason: Some(Reason::Operator),
                ..none()
            },
            1,
            0,
        ),
        (
            WorkFilter {
                state: Some(WorkState::Done),
                since: at(100),
                until: at(109),
                ..none()
            },
            3,
            8,
        ),
        (
            WorkFilter {
                q: q("n119"),
                ..none()
            },
            4,
            111,
        ),
        (
            WorkFilter {
                q: q("batches/n119"),
                state: Some(WorkState::Dead),
                ..none()
            },
            1,
            12,
        ),
    ] {
        let (found, read) = all!(base.store, work_items, &filter, 50);
        assert_eq!(found.len(), wanted, "{filter:?}");
        assert!(read <= pages, "{filter:?}: {read} pages");
        assert!(found.is_sorted_by(|a, b| a.id > b.id));
    }
}

#[tokio::test]
async fn effects_are_found_by_anything() {
    let base = ledger().await;
    let q = |text: &str| Some(text.parse().unwrap());
    let none = EffectFilter::default;
    for (filter, pages, wanted) in [
        (
            EffectFilter {
                state: Some(EffectState::Dead),
                since: Some(made(11_901)),
                ..none()
            },
            1,
            11,
        ),
        (
            EffectFilter {
                effect: Some("page".to_owned()),
                ..none()
            },
            3,
            1,
        ),
        (
            EffectFilter {
                cause: Some("alert".to_owned()),
                ..none()
            },
            3,
            0,
        ),
        (
            EffectFilter {
                q: q("n119"),
                state: Some(EffectState::Done),
                ..none()
            },
            4,
            99,
        ),
        (
            EffectFilter {
                q: q("models/veo/"),
                until: Some(made(31)),
                ..none()
            },
            1,
            10,
        ),
    ] {
        let (found, read) = all!(base.store, effects, &filter, 50);
        assert_eq!(found.len(), wanted, "{filter:?}");
        assert!(read <= pages, "{filter:?}: {read} pages");
        assert!(found.is_sorted_by(|a, b| a.id > b.id));
    }
}
