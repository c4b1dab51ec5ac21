//! Each way in which the API fails to answer: the operation settles all the same, by one common path,
//! and its work item is charged only for answers that were Google's own and made no sense.

use std::collections::BTreeMap;
use std::time::Duration;

use hookledger::simulator::{Fault, FaultKind};

use crate::support::outside::{self, Told};
use crate::support::process::eventually;
use crate::support::stand::{SOON, Stand, silent, succeeded};

/// What goes wrong, how often, and what each time costs the work item.
const FAULTS: [(FaultKind, u32, u32); 12] = [
    (FaultKind::RateLimited, 3, 0),
    (FaultKind::ServerError, 4, 0),
    (FaultKind::Unavailable, 4, 0),
    (FaultKind::BadGateway, 3, 0),
    (FaultKind::NotFound, 3, 0),
    (FaultKind::HtmlNotFound, 3, 0),
    (FaultKind::Forbidden, 2, 0),
    (FaultKind::Hang, 2, 0),
    (FaultKind::Reset, 3, 0),
    (FaultKind::Truncated, 3, 0),
    (FaultKind::Garbage, 3, 1),
    (FaultKind::WrongName, 3, 1),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_api_does_wrong_the_operation_settles_afterwards() {
    // Nobody but the webhook's work item may settle it.
    let stand = Stand::with(&[("gemini.timeout", "'500ms'"), ("reconcile.grace", "'10m'")]).await;
    let mut told = Told::default();
    let mut names = Vec::new();
    for (kind, times, cost) in FAULTS {
        let name = stand.gemini.start(silent(false)).unwrap();
        let fault = Fault::once(kind).method("GET").on(&name).times(times);
        stand.gemini.fault(Fault {
            ms: Some(2_000),
            ..fault
        });
        let id = format!("{kind:?}");
        assert_eq!(stand.deliver(&id, succeeded(&name)).await.0, 200);
        told.stored.insert(id);
        told.settled.insert(name.clone());
        names.push((kind, times, cost, name));
    }
    let asked = |name: &str| {
        let all = stand.gemini.requests();
        all.iter()
            .filter(|r| r.method == "GET" && r.path.ends_with(name))
            .count()
    };
    let mut charged = BTreeMap::new();
    for (kind, times, cost, name) in names {
        let operation = stand.settled(&name).await;
        assert_eq!(operation["state"], "succeeded", "{kind:?}");
        assert_eq!(operation["settled_by"], "webhook", "{kind:?}");
        let looks = usize::try_from(times + 1).unwrap();
        assert_eq!(
            asked(&name),
            looks,
            "{kind:?}: asked until it answered, and no more"
        );
        charged.insert(name, format!("{} {times}", times * cost));
    }
    let items = "SELECT raw || ' ' || attempts || ' ' || failures FROM work_queue";
    for item in outside::texts(&stand.db(), items).await {
        let (name, counts) = item.split_once(' ').unwrap();
        assert_eq!(counts, charged[name], "attempts and failures of {name}");
    }
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
}

/// What `RetryInfo` asks for is waited for, although our own back-off is shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wait_that_the_api_asks_for_is_kept() {
    let stand = Stand::with(&[("reconcile.grace", "'10m'")]).await;
    let name = stand.gemini.start(silent(false)).unwrap();
    let fault = Fault::once(FaultKind::RateLimited).method("GET").on(&name);
    stand.gemini.fault(Fault {
        retry_after_ms: Some(2_000),
        ..fault
    });
    assert_eq!(stand.deliver("patience", succeeded(&name)).await.0, 200);
    stand.settled(&name).await;
    let looks: Vec<_> = stand
        .gemini
        .requests()
        .into_iter()
        .filter(|r| r.path.ends_with(&name))
        .collect();
    assert_eq!(looks.len(), 2);
    let waited = looks[1].at.since(looks[0].at);
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
}

/// An answer that never makes sense ends as a dead letter that is told, keeps nobody else waiting, and
/// is one command away from another try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_never_makes_sense_is_a_dead_letter_and_its_neighbours_settle() {
    let stand = Stand::with(&[
        ("reconcile.grace", "'10m'"),
        ("worker.max_attempts", "3"),
        ("worker.retry_cap", "'200ms'"),
    ])
    .await;
    let poison = stand.gemini.start(silent(false)).unwrap();
    let garbage = Fault::once(FaultKind::Garbage).method("GET").on(&poison);
    stand.gemini.fault(garbage.times(0));
    assert_eq!(stand.deliver("poison", succeeded(&poison)).await.0, 200);
    let mut told = Told::default();
    for n in 0..5 {
        let name = stand.gemini.start(silent(false)).unwrap();
        let id = format!("neighbour-{n}");
        assert_eq!(stand.deliver(&id, succeeded(&name)).await.0, 200);
        stand.settled(&name).await;
        told.settled.insert(name);
    }
    let dead = "SELECT count(*) FROM work_queue WHERE state = 'dead' AND attempts = 3";
    let alert = "SELECT count(*) FROM alerts WHERE subject = 'queue/dead' AND state = 'open'";
    eventually("it is given up, and told", SOON, async || {
        let both =
            outside::count(&stand.db(), dead).await + outside::count(&stand.db(), alert).await;
        (both == 2).then_some(())
    })
    .await;
    stand.gemini.clear_faults();
    let again = stand.command(&["queue", "retry"]).await;
    assert!(again.status.success(), "{again:?}");
    stand.settled(&poison).await;
    told.settled.insert(poison);
    let over = "SELECT count(*) FROM alerts WHERE subject = 'queue/dead' AND state = 'recovered'";
    eventually("the alert ends", SOON, async || {
        (outside::count(&stand.db(), over).await == 1).then_some(())
    })
    .await;
    outside::check_drained(&stand.db(), &told, &stand.sink).await;
}
