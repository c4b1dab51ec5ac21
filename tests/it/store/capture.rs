//! Sets of every size: each value of each delivery is in its own row and column.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hookledger::base::clock::Clock as _;
use hookledger::domain::operation::{Kind, OperationRef};
use hookledger::store::NewDelivery;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Column as _, Connection as _, Row as _, TypeInfo as _, ValueRef as _};
use uuid::Uuid;

use super::outside;
use super::writer::queued;
use crate::support::{TestStore, options};

/// A row as columns and values, in words.
type Words = BTreeMap<String, String>;

/// The `n`th delivery of a set. No two values are alike, and every optional one is missing in some.
fn delivery(base: &TestStore, set: usize, n: usize) -> NewDelivery {
    let now = base.clock.now();
    let some =
        |every: usize, name: &str| (!n.is_multiple_of(every)).then(|| format!("{name}-{set}-{n}"));
    NewDelivery {
        id: base.ids.uuid(now),
        source: format!("source-{}", n % 3),
        received_at: now.after(Duration::from_millis(n as u64)),
        event_type: some(7, "type"),
        operation: some(5, "batches/b").and_then(|name| {
            OperationRef::parse(&name, n.is_multiple_of(2).then_some(Kind::Batch))
        }),
        dedupe_key: some(4, "id:"),
        dedupe_until: now.after(Duration::from_hours(n as u64 + 1)),
        ignored_because: (n % 6 == 1).then_some("nothing to do"),
        webhook_id: some(8, "msg"),
        proof: format!("proof-{n}"),
        reservation: (n % 9 == 2).then(|| base.ids.uuid(now)),
        replay_of: (n % 10 == 3).then(|| base.ids.uuid(now)),
        user_metadata: (n % 11 == 4).then(|| json!({ "n": n })),
        headers: vec![("x".to_owned(), Bytes::from(n.to_string()))],
        body: Bytes::from(format!("{{\"n\": {n}}}")),
    }
}

fn words<const N: usize>(pairs: [(&str, Option<String>); N]) -> Words {
    pairs
        .into_iter()
        .map(|(column, value)| (column.to_owned(), value.unwrap_or_else(|| "-".to_owned())))
        .collect()
}

fn id(id: Option<Uuid>) -> Option<String> {
    id.map(|id| id.to_string())
}

fn event(d: &NewDelivery) -> Words {
    let operation = d.operation.as_ref();
    words([
        ("id", id(Some(d.id))),
        ("source", Some(d.source.clone())),
        (
            "received_at_ms",
            Some(d.received_at.as_millis().to_string()),
        ),
        ("verdict", Some(d.verdict().as_str().to_owned())),
        ("why", d.ignored_because.map(str::to_owned)),
        ("event_type", d.event_type.clone()),
        ("operation", operation.map(|o| o.raw().to_owned())),
        ("segment", operation.map(|o| o.segment().to_owned())),
        ("webhook_id", d.webhook_id.clone()),
        ("dedupe_key", d.dedupe_key.clone()),
        ("proof", Some(d.proof.clone())),
        ("reservation", id(d.reservation)),
        ("replay_of", id(d.replay_of)),
        (
            "user_metadata",
            d.user_metadata.as_ref().map(ToString::to_string),
        ),
        (
            "headers",
            d.headers.first().map(|(name, value)| {
                format!(r#"[["{name}","{}"]]"#, String::from_utf8_lossy(value))
            }),
        ),
        ("body", Some(String::from_utf8_lossy(&d.body).into_owned())),
        ("emptied_at_ms", None),
    ])
}

fn key(d: &NewDelivery) -> Option<Words> {
    let key = d.dedupe_key.clone()?;
    Some(words([
        ("source", Some(d.source.clone())),
        ("dedupe_key", Some(key)),
        ("event_id", id(Some(d.id))),
        (
            "received_at_ms",
            Some(d.received_at.as_millis().to_string()),
        ),
        ("outcome", Some(d.verdict().as_str().to_owned())),
        ("duplicates", Some("0".to_owned())),
        (
            "expires_at_ms",
            Some(d.dedupe_until.as_millis().to_string()),
        ),
    ]))
}

fn item(d: &NewDelivery) -> Option<Words> {
    let operation = d.operation.as_ref()?;
    if d.ignored_because.is_some() {
        return None;
    }
    let reason = d.replay_of.map_or("webhook", |_| "replay");
    let at = d.received_at.as_millis().to_string();
    Some(words([
        ("ref_key", Some(operation.raw().to_owned())),
        ("raw", Some(operation.raw().to_owned())),
        ("segment", Some(operation.segment().to_owned())),
        (
            "kind_hint",
            operation.kind_hint().map(|k| k.as_str().to_owned()),
        ),
        ("reservation", id(d.reservation)),
        ("event_id", id(Some(d.id))),
        ("reason", Some(reason.to_owned())),
        ("fresh", Some("1".to_owned())),
        ("state", Some("ready".to_owned())),
        ("created_at_ms", Some(at.clone())),
        ("available_at_ms", Some(at)),
    ]))
}

fn read(row: &SqliteRow) -> Words {
    let value = |column: &sqlx::sqlite::SqliteColumn| {
        let raw = row.try_get_raw(column.ordinal()).unwrap();
        match raw.type_info().name() {
            _ if raw.is_null() => "-".to_owned(),
            "INTEGER" => row.get::<i64, _>(column.ordinal()).to_string(),
            "BLOB" => String::from_utf8_lossy(row.get::<&[u8], _>(column.ordinal())).into_owned(),
            _ => row.get::<String, _>(column.ordinal()),
        }
    };
    row.columns()
        .iter()
        .map(|column| (column.name().to_owned(), value(column)))
        .collect()
}

#[tokio::test]
async fn each_value_of_a_set_of_any_size_is_in_its_row_and_column() {
    let base = TestStore::open().await;
    let mut all: Vec<NewDelivery> = Vec::new();
    for size in [
        1, 2, 3, 4, 5, 7, 9, 15, 17, 31, 33, 63, 65, 97, 129, 193, 256,
    ] {
        let deliveries: Vec<_> = (0..size).map(|n| delivery(&base, size, n)).collect();
        all.extend(deliveries.iter().cloned());
        let (before, _) = base.store.commits();
        let mut waiting = Vec::new();
        for delivery in deliveries {
            let store = base.store.clone();
            waiting.push(queued(async move { store.deliver(delivery).await }).await);
        }
        for answer in join_all(waiting).await {
            answer.unwrap();
        }
        assert_eq!(base.store.commits().0, before + 1, "one set of {size}");
    }
    base.store.close().await;
    let mut file = outside(&options(&base.dir).path).await;
    let mut stored = async |statement: &'static str| -> Vec<Words> {
        let rows = sqlx::query(statement).fetch_all(&mut file).await.unwrap();
        rows.iter().map(read).collect()
    };
    let events = stored("SELECT * FROM captured_events ORDER BY id").await;
    assert_eq!(events, all.iter().map(event).collect::<Vec<_>>());
    let keys = stored("SELECT * FROM processed_events ORDER BY event_id").await;
    assert_eq!(keys, all.iter().filter_map(key).collect::<Vec<_>>());
    let items = stored(
        "SELECT ref_key, raw, segment, kind_hint, reservation, event_id, reason, fresh, state, \
         created_at_ms, available_at_ms FROM work_queue ORDER BY id",
    )
    .await;
    assert_eq!(items, all.iter().filter_map(item).collect::<Vec<_>>());
    file.close().await.unwrap();
}
