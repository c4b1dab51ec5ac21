//! The promises, checked by reading the database file as somebody with a shell would.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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

/// Every acknowledged delivery is on disk; none without a proof is.
pub(crate) async fn check_stored(db: &Path, told: &Told) {
    let events = texts(
        db,
        "SELECT webhook_id FROM captured_events WHERE webhook_id IS NOT NULL",
    )
    .await;
    let events: BTreeSet<String> = events.into_iter().collect();
    let lost: Vec<_> = told.stored.difference(&events).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let kept: Vec<_> = told.refused.intersection(&events).collect();
    assert!(kept.is_empty(), "refused and stored: {kept:?}");
    let remembered = "SELECT count(*) FROM captured_events e WHERE dedupe_key IS NOT NULL AND NOT EXISTS \
                      (SELECT 1 FROM processed_events p WHERE p.event_id = e.id)";
    assert_eq!(
        count(db, remembered).await,
        0,
        "events without their dedupe row"
    );
}

/// Nothing is damaged, nothing is held by nobody, nothing settled twice.
pub(crate) async fn check_file(db: &Path) {
    let report = texts(db, "PRAGMA integrity_check").await;
    assert_eq!(report, ["ok"]);
    let orphans = count(db, "SELECT count(*) FROM pragma_foreign_key_check").await;
    assert_eq!(orphans, 0, "broken references");
    let twice = texts(
        db,
        "SELECT operation_id FROM operation_log WHERE what IN \
         ('succeeded', 'failed', 'cancelled', 'expired', 'filtered', 'incomplete', 'budget_exceeded') \
         GROUP BY operation_id HAVING count(*) > 1",
    )
    .await;
    assert!(twice.is_empty(), "settled more than once: {twice:?}");
}

/// After a drain: all that was acknowledged has settled, and each effect arrived under one key with
/// one body. The effect under test is the only one, and acts on every ending.
pub(crate) async fn check_drained(db: &Path, told: &Told, sink: &Sink) {
    check_stored(db, told).await;
    check_file(db).await;
    let held = "SELECT (SELECT count(*) FROM work_queue WHERE state = 'leased') \
                + (SELECT count(*) FROM effects WHERE state = 'sending')";
    assert_eq!(count(db, held).await, 0, "still held");
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
