//! The schema as a file really has it.

use sqlx::Row as _;

use super::outside;
use crate::support::{TestStore, options};

async fn rows(base: &TestStore, query: &'static str) -> Vec<(String, String)> {
    let mut file = outside(&options(&base.dir).path).await;
    let rows = sqlx::query(query).fetch_all(&mut file).await.unwrap();
    rows.iter().map(|r| (r.get(0), r.get(1))).collect()
}

#[tokio::test]
async fn every_migration_of_the_tree_is_compiled_in_and_applied_once() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite");
    let mut files: Vec<String> = std::fs::read_dir(root)
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let base = TestStore::open().await;
    let (dir, now) = base.close().await;
    let base = TestStore::open_in(dir, now, 2).await;
    let applied = rows(
        &base,
        "SELECT printf('%04d_%s.sql', version, replace(description, ' ', '_')), hex(checksum) \
         FROM _sqlx_migrations WHERE success ORDER BY version",
    )
    .await;
    let applied: Vec<&String> = applied.iter().map(|(name, _)| name).collect();
    assert_eq!(applied, files.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn every_table_is_strict() {
    let base = TestStore::open().await;
    let tables = rows(
        &base,
        "SELECT name, CAST(strict AS TEXT) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
         AND name NOT LIKE 'sqlite_%' AND name <> '_sqlx_migrations' ORDER BY name",
    )
    .await;
    assert_eq!(tables.len(), 10, "{tables:?}");
    let loose: Vec<_> = tables.iter().filter(|(_, strict)| strict != "1").collect();
    assert!(loose.is_empty(), "{loose:?}");
}

/// Columns with a closed set of words; an unknown word is refused by the file itself.
const CLOSED: [(&str, &str); 11] = [
    ("captured_events", "verdict"),
    ("processed_events", "outcome"),
    ("work_queue", "reason"),
    ("work_queue", "state"),
    ("work_queue", "fresh"),
    ("operations", "kind"),
    ("operations", "state"),
    ("operations", "settled_by"),
    ("operations", "told"),
    ("effects", "state"),
    ("alerts", "state"),
];

#[tokio::test]
async fn every_state_column_has_its_check() {
    let base = TestStore::open().await;
    let tables = rows(
        &base,
        "SELECT m.name, m.sql FROM sqlite_schema m WHERE m.type = 'table'",
    )
    .await;
    let sql = |table: &str| -> String {
        let found = tables.iter().find(|(name, _)| name == table).unwrap();
        found.1.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (table, column) in CLOSED {
        let check = format!("CHECK ({column} IN (");
        assert!(sql(table).contains(&check), "{table}.{column}");
    }
    // No other column that is a state by its name may be missing from the list above.
    let states = rows(
        &base,
        "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c \
         WHERE t.schema = 'main' AND c.name IN ('state', 'verdict', 'outcome', 'told', 'kind', 'reason')",
    )
    .await;
    for (table, column) in &states {
        let listed = CLOSED.contains(&(table, column));
        // A word for people, and a copy of a state that was checked where it was written.
        let free = [("work_queue", "outcome"), ("tombstones", "state")];
        assert!(
            listed || free.contains(&(table, column)),
            "{table}.{column}"
        );
    }
}
