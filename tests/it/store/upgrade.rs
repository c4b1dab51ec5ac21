//! A file of any earlier version is taken over whole.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

use super::outside;
use crate::support::{NOON, TestStore, options};

async fn ours() -> Migrator {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite");
    Migrator::new(root).await.unwrap()
}

/// How many rows each table of the ledger holds.
async fn counted(file: &mut SqliteConnection) -> BTreeMap<String, i64> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
         AND name NOT LIKE 'sqlite_%' AND name <> '_sqlx_migrations'",
    )
    .fetch_all(&mut *file)
    .await
    .unwrap();
    let mut counted = BTreeMap::new();
    for table in tables {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let rows = sqlx::query(count).fetch_one(&mut *file).await.unwrap();
        counted.insert(table, rows.get(0));
    }
    counted
}

#[tokio::test]
async fn every_earlier_version_is_brought_up_with_its_rows() {
    let newest = ours().await.migrations.len();
    for version in 1..newest {
        let dir = tempfile::tempdir().unwrap();
        let path = options(&dir).path;
        let made = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true);
        let mut file = SqliteConnection::connect_with(&made).await.unwrap();
        let mut then = ours().await;
        then.migrations = Cow::Owned(then.migrations.iter().take(version).cloned().collect());
        then.run(&mut file).await.unwrap();
        sqlx::raw_sql(include_str!("ledger.sql"))
            .execute(&mut file)
            .await
            .unwrap();
        let before = counted(&mut file).await;
        file.close().await.unwrap();

        let base = TestStore::open_in(dir, NOON, 1).await;
        let mut file = outside(&path).await;
        let mut after = counted(&mut file).await;
        after.retain(|table, _| before.contains_key(table));
        assert_eq!(after, before, "from version {version}");
        let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations")
            .fetch_one(&mut file)
            .await
            .unwrap();
        assert_eq!(usize::try_from(applied).unwrap(), newest);
        let (dir, now) = base.close().await;
        TestStore::open_in(dir, now, 2).await.close().await;
    }
}
