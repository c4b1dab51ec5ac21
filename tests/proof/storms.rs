//! Too much of the same, too much at once, and nothing at all.

use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::Mode;

use crate::crash::{drained, quiet};
use crate::row::{Row, Tier, Verdict};
use crate::support::outside::{self, Told};
use crate::support::stand::{Stand, job, silent, succeeded};

/// The rows about crowds.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T12-lost-webhooks",
        run: |tier| Box::pin(lost_webhooks(tier)),
    },
    Row {
        name: "T14-duplicate-storm",
        run: |tier| Box::pin(duplicate_storm(tier)),
    },
    Row {
        name: "T33-second-instance",
        run: |tier| Box::pin(second_instance(tier)),
    },
];

/// At once, over as many connections.
const CONNECTIONS: usize = 64;

/// Every webhook of many operations is dropped: reconciliation settles all of them, and what
/// comes too late changes nothing.
async fn lost_webhooks(tier: Tier) -> Verdict {
    let operations = tier.of(200, 1_000);
    let mut told = Told::default();
    let mut late = 0;
    for round in 0..tier.of(1, 10) {
        let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
        told.settled.clear();
        told.stored.clear();
        for _ in 0..operations {
            let name = stand.gemini.start(silent(false)).unwrap();
            assert_eq!(stand.register(&name, "nightly").await, 201);
            told.settled.insert(name);
        }
        drained(&stand).await;
        for (n, name) in told.settled.iter().take(100).enumerate() {
            let id = format!("late-{round}-{n}");
            assert_eq!(stand.deliver(&id, succeeded(name)).await.0, 200);
            told.stored.insert(id);
            late += 1;
        }
        drained(&stand).await;
        outside::check_drained(&stand.db(), &told, &stand.sink).await;
        for name in &told.settled {
            assert_eq!(stand.sink.about(name).len(), 1, "{name}");
        }
        let by_timer = "SELECT count(*) FROM operations WHERE settled_by = 'reconcile'";
        assert_eq!(outside::count(&stand.db(), by_timer).await, operations);
        quiet(stand.service());
    }
    Verdict::Passed(format!(
        "{operations} operations a round, all settled by the timer; {late} late webhooks changed nothing"
    ))
}

/// One delivery over and over, and many of them twenty times each.
async fn duplicate_storm(tier: Tier) -> Verdict {
    let (copies_of_one, ids) = tier.of((2_000, 200), (10_000, 1_000));
    let (mut sent, mut refused) = (0, 0);
    for _ in 0..tier.of(1, 10) {
        let stand = Stand::with(&[("log.filter", "'warn'"), ("server.max_in_flight", "512")]).await;
        let one = stand.gemini.start(silent(false)).unwrap();
        let many: Vec<String> = (0..ids)
            .map(|_| stand.gemini.start(silent(false)).unwrap())
            .collect();
        let copies = (0..copies_of_one).map(|_| ("storm".to_owned(), one.clone()));
        let each = (0..20).flat_map(|_| many.iter().enumerate());
        let each = each.map(|(n, name)| (format!("storm-{n}"), name.clone()));
        let all: Vec<(String, String)> = copies.chain(each).collect();
        let share = all.len().div_ceil(CONNECTIONS);
        let senders = all.chunks(share).map(async |chunk| {
            let mut busy = 0;
            for (id, name) in chunk {
                match stand.deliver(id, succeeded(name)).await {
                    (200, _) => {}
                    (503, _) => busy += 1,
                    other => panic!("{id}: {other:?}"),
                }
            }
            busy
        });
        refused += futures_util::future::join_all(senders)
            .await
            .into_iter()
            .sum::<usize>();
        sent += all.len();
        drained(&stand).await;
        let told = Told {
            stored: all.iter().map(|(id, _)| id.clone()).collect(),
            settled: all.into_iter().map(|(_, name)| name).collect(),
            ..Told::default()
        };
        outside::check_drained(&stand.db(), &told, &stand.sink).await;
        for name in &told.settled {
            assert_eq!(stand.sink.about(name).len(), 1, "{name}");
        }
        let rows = "SELECT count(*) FROM captured_events";
        assert_eq!(outside::count(&stand.db(), rows).await, ids + 1);
    }
    assert_eq!(refused, 0, "answered 503");
    Verdict::Passed(format!(
        "{sent} deliveries of {} ids over {CONNECTIONS} connections, all 2xx; one row, one settlement, one effect each",
        ids + 1
    ))
}

/// A second process on the file goes at once, while the first takes deliveries.
async fn second_instance(tier: Tier) -> Verdict {
    let rounds = tier.of(5, 50);
    let mut stand = Stand::with(&[("log.filter", "'info'")]).await;
    let clock = SystemClock::new();
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let since = clock.monotonic();
        let mut second = stand.spawn("second.log");
        let name = stand.gemini.start(job(false, Mode::Once)).unwrap();
        let status = second.ended(Duration::from_secs(10)).await;
        slowest = slowest.max(clock.monotonic().saturating_sub(since));
        assert_eq!(status.code(), Some(1), "round {round}");
        let said = second
            .logged()
            .matches("in use by another hookledger")
            .count();
        assert_eq!(said, round + 1);
        stand.settled(&name).await;
        assert!(stand.service().is_running());
    }
    outside::check_file(&stand.db()).await;
    Verdict::Passed(format!(
        "{rounds} second instances refused, slowest {} ms; the first settled meanwhile",
        slowest.as_millis()
    ))
}
