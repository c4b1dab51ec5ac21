//! The promises, checked by reading the database file as somebody with a shell would.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use hookledger::base::clock::{Clock as _, SystemClock};
use hookledger::store::{Bounds, Reader};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};

use super::sink::Sink;

/// What the clients were told, and so what must be true.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// `webhook-id`s answered with 2xx.
    pub(crate) stored: BTreeSet<String>,
    /// `webhook-id`s refused for lack of a proof.
    pub(crate) refused: BTreeSet<String>,
    /// Operations that an answered delivery or registration named, and that have ended.
    pub(crate) settled: BTreeSet<String>,
}

pub(crate) async fn open(db: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(db).read_only(true);
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// Column one, as text.
pub(crate) async fn texts(db: &Path, query: &'static str) -> Vec<String> {
    let mut file = open(db).await;
    let rows = sqlx::query_scalar(query)
        .fetch_all(&mut file)
        .await
        .unwrap();
    file.close().await.unwrap();
    rows
}

/// How many there are.
pub(crate) async fn count(db: &Path, query: &'static str) -> i64 {
    let mut file = open(db).await;
    let n = sqlx::query_scalar(query)
        .fetch_one(&mut file)
        .await
        .unwrap();
    file.close().await.unwrap();
    n
}

/// Whether nothing is left to do.
pub(crate) async fn is_drained(db: &Path) -> bool {
    let open = "SELECT (SELECT count(*) FROM work_queue WHERE state IN ('ready', 'leased')) \
                + (SELECT count(*) FROM effects WHERE state IN ('planned', 'sending', 'ambiguous')) \
                + (SELECT count(*) FROM operations WHERE state = 'pending')";
    count(db, open).await == 0
}

/// Acknowledged deliveries that are not on disk.
pub(crate) async fn lost(db: &Path, told: &Told) -> Vec<String> {
    let events = stored(db).await;
    told.stored.difference(&events).cloned().collect()
}

async fn stored(db: &Path) -> BTreeSet<String> {
    let ids = "SELECT webhook_id FROM captured_events WHERE webhook_id IS NOT NULL";
    texts(db, ids).await.into_iter().collect()
}

/// Every acknowledged delivery is on disk; none without a proof is.
pub(crate) async fn check_stored(db: &Path, told: &Told) {
    let lost = lost(db, told).await;
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let events = stored(db).await;
    let kept: Vec<_> = told.refused.intersection(&events).collect();
    assert!(kept.is_empty(), "refused and stored: {kept:?}");
}

/// What the file alone is judged by.
pub(crate) fn bounds(drained: bool) -> Bounds {
    let week = Duration::from_hours(24 * 7);
    Bounds {
        now: SystemClock::new().now(),
        dedupe_ttl: week,
        items_kept: week,
        max_attempts: 10,
        longest_pause: Duration::from_mins(30),
        drained,
    }
}

/// The file keeps every promise that can be read from it.
pub(crate) async fn check_file(db: &Path) {
    check_against(db, &bounds(false)).await;
}

pub(crate) async fn check_against(db: &Path, bounds: &Bounds) {
    let broken = Reader::open(db).await.unwrap().audit(bounds).await.unwrap();
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "broken promises:\n{}", lines.join("\n"));
}

/// After a drain: all that was acknowledged has settled, and each effect arrived under one key with
/// one body. The effect under test is the only one, and acts on every ending.
pub(crate) async fn check_drained(db: &Path, told: &Told, sink: &Sink) {
    check_stored(db, told).await;
    check_against(db, &bounds(true)).await;
    let dead = texts(
        db,
        "SELECT ref_key || ': ' || coalesce(last_error, '') FROM work_queue WHERE state = 'dead'",
    )
    .await;
    assert!(dead.is_empty(), "dead letters: {dead:?}");
    let settled = texts(
        db,
        "SELECT name FROM operations WHERE settled_at_ms IS NOT NULL",
    )
    .await;
    let settled: BTreeSet<String> = settled.into_iter().collect();
    let lost: Vec<_> = told.settled.difference(&settled).collect();
    assert!(lost.is_empty(), "acknowledged and not settled: {lost:?}");

    let mut file = open(db).await;
    let rows: Vec<(String, String, String, Vec<u8>)> = sqlx::query_as(
        "SELECT o.name, f.state, f.idempotency_key, f.payload FROM operations o \
         JOIN effects f ON f.operation_id = o.id WHERE o.settled_at_ms IS NOT NULL",
    )
    .fetch_all(&mut file)
    .await
    .unwrap();
    file.close().await.unwrap();
    let planned: BTreeMap<_, _> = rows.iter().map(|row| (&row.0, row)).collect();
    assert_eq!(
        planned.len(),
        rows.len(),
        "an operation has its effect twice"
    );
    let arrived = sink.by_operation();
    for name in &settled {
        let (_, state, key, payload) = planned
            .get(name)
            .unwrap_or_else(|| panic!("{name} settled without its effect"));
        assert_eq!(state, "done", "{name}");
        let got = arrived
            .get(name)
            .unwrap_or_else(|| panic!("the effect of {name} never arrived"));
        for got in got {
            assert_eq!(&got.key, key, "{name}: another key");
            assert_eq!(got.body, payload.as_slice(), "{name}: another body");
        }
    }
    let invented: Vec<_> = arrived
        .keys()
        .filter(|name| !settled.contains(*name))
        .collect();
    assert!(
        invented.is_empty(),
        "effects of unsettled operations: {invented:?}"
    );
}
