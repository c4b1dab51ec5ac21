//! Names by their beginnings.

use sqlx::SqlitePool;

use super::super::super::error::StoreError;
use super::{FEW, Piece, Sql, Text};
use crate::domain::operation::NamePrefix;

/// The ids that `statement` finds from a prefix on, when they are few; its parameters are the prefix,
/// what sorts behind it, and a limit.
pub(super) async fn few(
    pool: &SqlitePool,
    statement: &'static str,
    prefix: &NamePrefix,
) -> Result<Option<Vec<String>>, StoreError> {
    let found: Vec<String> = sqlx::query_scalar(statement)
        .bind(prefix.as_str())
        .bind(prefix.end())
        .bind(i64::from(FEW) + 1)
        .fetch_all(pool)
        .await?;
    let limit = usize::try_from(FEW).unwrap_or(usize::MAX);
    Ok((found.len() <= limit).then_some(found))
}

/// ` AND column begins with prefix`; `from` and `to` are the two comparisons.
pub(super) fn begins(from: &'static str, to: &'static str, prefix: &NamePrefix) -> [Piece; 4] {
    [
        Sql(from),
        Text(prefix.as_str().to_owned()),
        Sql(to),
        Text(prefix.end()),
    ]
}

/// `FROM` the rows of these ids; `joined` is the table, which is looked into once for each.
pub(super) fn among(ids: &[String], joined: Piece) -> Vec<Piece> {
    let ids = serde_json::Value::from(ids);
    vec![
        Sql("json_each("),
        Text(ids.to_string()),
        Sql(") named"),
        joined,
    ]
}
