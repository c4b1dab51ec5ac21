//! The provider and the receivers of effects misbehave in every way, at once and for long.

use std::collections::BTreeMap;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::simulator::{Fault, FaultKind};

use crate::crash::{drained, quiet};
use crate::load;
use crate::row::{Row, Tier, Verdict};
use crate::support::outside::{self, Told};
use crate::support::stand::{Stand, silent, succeeded};

/// The rows about other people's servers.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T10-gemini-faults",
        run: |tier| Box::pin(gemini_faults(tier)),
    },
    Row {
        name: "T11-outage",
        run: |tier| Box::pin(outage(tier)),
    },
    Row {
        name: "T17-poison",
        run: |tier| Box::pin(poison(tier)),
    },
    Row {
        name: "T19-receivers",
        run: |tier| Box::pin(receivers(tier)),
    },
];

/// Answers that say nothing about the operation, and how often each is given.
const PASSING: [(FaultKind, u32); 12] = [
    (FaultKind::RateLimited, 3),
    (FaultKind::ServerError, 4),
    (FaultKind::Unavailable, 4),
    (FaultKind::BadGateway, 3),
    (FaultKind::NotFound, 3),
    (FaultKind::HtmlNotFound, 3),
    (FaultKind::Forbidden, 2),
    (FaultKind::Hang, 2),
    (FaultKind::Reset, 3),
    (FaultKind::Truncated, 3),
    (FaultKind::Garbage, 3),
    (FaultKind::WrongName, 3),
];
const NO_RECONCILIATION: (&str, &str) = ("reconcile.grace", "'10m'");

fn gets(stand: &Stand) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for request in stand.gemini.requests() {
        if request.method == "GET" {
            *all.entry(request.path).or_default() += 1;
        }
    }
    all
}

async fn told(stand: &Stand, told: &mut Told, id: String) -> String {
    let name = stand.gemini.start(silent(false)).unwrap();
    assert_eq!(stand.deliver(&id, succeeded(&name)).await.0, 200, "{id}");
    told.stored.insert(id);
    told.settled.insert(name.clone());
    name
}

/// Every operation settles after its faults, and is asked for once more than they were many.
async fn gemini_faults(tier: Tier) -> Verdict {
    let each = tier.of(4, 40);
    let mut stand = Stand::with(&[
        ("gemini.timeout", "'500ms'"),
        ("log.filter", "'info'"),
        NO_RECONCILIATION,
    ])
    .await;
    let mut known = Told::default();
    let mut wanted = BTreeMap::new();
    for n in 0..each {
        for (kind, times) in PASSING {
            let name = stand.gemini.start(silent(false)).unwrap();
            let fault = Fault::once(kind).method("GET").on(&name).times(times);
            stand.gemini.fault(Fault {
                ms: Some(1_500),
                ..fault
            });
            let id = format!("{kind:?}-{n}");
            let answer = stand.deliver(&id, succeeded(&name)).await;
            assert_eq!(answer.0, 200);
            known.stored.insert(id);
            known.settled.insert(name.clone());
            wanted.insert(
                format!("/v1beta/{name}"),
                usize::try_from(times + 1).unwrap(),
            );
        }
    }
    drained(&stand).await;
    outside::check_drained(&stand.db(), &known, &stand.sink).await;
    let asked = gets(&stand);
    for (path, times) in &wanted {
        assert_eq!(asked.get(path), Some(times), "{path}");
    }
    quiet(stand.service());
    Verdict::Passed(format!(
        "{} kinds, {} operations, all settled, no request too many",
        PASSING.len(),
        wanted.len()
    ))
}

/// The API is down while deliveries come in. Each is accepted; nobody hammers the API; afterwards all
/// settle.
async fn outage(tier: Tier) -> Verdict {
    let operations: u32 = tier.of(300, 10_000);
    let lasts = Duration::from_secs(tier.of(5, 60));
    let mut stand = Stand::with(&[("log.filter", "'warn'"), NO_RECONCILIATION]).await;
    stand
        .gemini
        .fault(Fault::once(FaultKind::Unavailable).method("GET").times(0));
    let mut known = Told::default();
    for n in 0..operations {
        told(&stand, &mut known, format!("outage-{n}")).await;
    }
    let clock = SystemClock::new();
    let before = stand.gemini.asked();
    let ((), meanwhile) = load::beside(&stand, "127.0.0.3", 20, clock.sleep(lasts)).await;
    let asked = stand.gemini.asked() - before;
    // Each is asked for at its own back-off, a second at the longest here, and not more often.
    let most = u64::from(operations + meanwhile) * (lasts.as_secs() + 1) * 2;
    assert!(
        (1..most).contains(&asked),
        "asked {asked} times in {lasts:?}"
    );
    stand.gemini.clear_faults();
    let unknown = "SELECT count(*) FROM operations WHERE state = 'pending'";
    crate::support::process::eventually("all settle", Duration::from_secs(300), async || {
        let settled = "SELECT count(*) FROM operations WHERE settled_at_ms IS NOT NULL";
        let all = i64::from(operations);
        (outside::count(&stand.db(), settled).await == all
            && outside::count(&stand.db(), unknown).await == 0)
            .then_some(())
    })
    .await;
    outside::check_stored(&stand.db(), &known).await;
    outside::check_file(&stand.db()).await;
    let dead = "SELECT count(*) FROM work_queue WHERE state = 'dead' OR (state <> 'leased' AND attempts > 0)";
    assert_eq!(
        outside::count(&stand.db(), dead).await,
        0,
        "an outage was charged"
    );
    quiet(stand.service());
    Verdict::Passed(format!(
        "{operations} operations through {lasts:?} of outage, {meanwhile} deliveries accepted meanwhile, \
         {asked} requests made, all settled, none charged"
    ))
}

/// Jobs whose answer never makes sense are given up, one by one; their neighbours settle.
async fn poison(tier: Tier) -> Verdict {
    let each = tier.of(5, 50);
    let mut stand = Stand::with(&[
        ("worker.max_attempts", "3"),
        ("log.filter", "'info'"),
        NO_RECONCILIATION,
    ])
    .await;
    let (mut known, mut ill) = (Told::default(), Told::default());
    for n in 0..each {
        for kind in [FaultKind::Garbage, FaultKind::WrongName] {
            let name = stand.gemini.start(silent(false)).unwrap();
            stand
                .gemini
                .fault(Fault::once(kind).method("GET").on(&name).times(0));
            let id = format!("poison-{kind:?}-{n}");
            assert_eq!(stand.deliver(&id, succeeded(&name)).await.0, 200);
            ill.settled.insert(name);
        }
        for neighbour in 0..4 {
            told(&stand, &mut known, format!("well-{n}-{neighbour}")).await;
        }
    }
    let dead = "SELECT count(*) FROM work_queue WHERE state = 'dead' AND attempts = 3";
    let all = i64::try_from(ill.settled.len()).unwrap();
    crate::support::process::eventually("all are given up", Duration::from_secs(120), async || {
        (outside::count(&stand.db(), dead).await == all).then_some(())
    })
    .await;
    for name in &known.settled {
        stand.settled(name).await;
    }
    // Cured, one command takes all of them up again.
    stand.gemini.clear_faults();
    let again = stand.command(&["queue", "retry"]).await;
    assert!(again.status.success(), "{again:?}");
    drained(&stand).await;
    known.settled.append(&mut ill.settled);
    outside::check_drained(&stand.db(), &known, &stand.sink).await;
    quiet(stand.service());
    Verdict::Passed(format!(
        "{all} poisoned jobs dead after 3 attempts each, {} neighbours settled, all settled once cured",
        each * 4
    ))
}

/// Every answer short of "gone for good": each effect arrives in the end, always with its own key and
/// bytes.
async fn receivers(tier: Tier) -> Verdict {
    let each = tier.of(40, 400);
    let statuses = [500, 503, 429, 408, 301, 307, 401, 404, 502, 504];
    let mut stand = Stand::with(&[
        ("each_effect.timeout", "'1s'"),
        ("log.filter", "'info'"),
        NO_RECONCILIATION,
    ])
    .await;
    let mut known = Told::default();
    stand.sink.answer_next(
        (0..each * statuses.len()).map(|n| statuses.get(n % statuses.len()).copied().unwrap()),
    );
    for n in 0..each {
        told(&stand, &mut known, format!("receiver-{n}")).await;
    }
    drained(&stand).await;
    // Answers that come after our patience ends: taken, and not known to be.
    stand.sink.answer_after(Duration::from_millis(1_500));
    for n in 0..each {
        told(&stand, &mut known, format!("late-{n}")).await;
    }
    SystemClock::new().sleep(Duration::from_secs(3)).await;
    stand.sink.answer_after(Duration::ZERO);
    drained(&stand).await;
    outside::check_drained(&stand.db(), &known, &stand.sink).await;
    let arrived: usize = stand.sink.by_operation().values().map(Vec::len).sum();
    quiet(stand.service());
    Verdict::Passed(format!(
        "{} effects arrived {arrived} times and ended done, each under one key",
        known.settled.len()
    ))
}
