//! The ledger's records: making, finding, naming them, and their history.

use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::SqliteConnection;
use uuid::Uuid;

use super::super::Reader;
use super::super::Terms;
use super::super::error::StoreError;
use super::rows::{operation, select_operations};
use crate::base::clock::Timestamp;
use crate::domain::ledger::Operation;
use crate::domain::operation::{JobKind, OperationName, OperationRef};

impl Reader {
    /// The operation of that ledger id.
    pub async fn operation(&self, id: Uuid) -> Result<Option<Operation>, StoreError> {
        let row = sqlx::query(select_operations!("WHERE o.id = ?1"))
            .bind(id.to_string())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(operation).transpose()
    }

    /// The operation of that name.
    pub async fn operation_by_name(
        &self,
        name: &OperationName,
    ) -> Result<Option<Operation>, StoreError> {
        let row = sqlx::query(select_operations!("WHERE o.name = ?1"))
            .bind(name.as_str())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(operation).transpose()
    }

    /// Every operation that a delivery may mean: the one of that name, else those whose last
    /// segment matches (a short id may match two, and wakes both).
    pub async fn resolve(&self, reference: &OperationRef) -> Result<Vec<Operation>, StoreError> {
        if let Some(name) = reference.name()
            && let Some(found) = self.operation_by_name(&name).await?
        {
            return Ok(vec![found]);
        }
        if reference.raw().contains('/') {
            return Ok(Vec::new());
        }
        for segment in reference.ledger_segments() {
            let rows = sqlx::query(select_operations!(
                "WHERE o.segment = ?1 ORDER BY o.id LIMIT 16"
            ))
            .bind(segment)
            .fetch_all(&self.pool)
            .await?;
            if !rows.is_empty() {
                return rows.iter().map(operation).collect();
            }
        }
        Ok(Vec::new())
    }

    /// Whether an operation of that name was settled and pruned.
    pub async fn is_pruned(&self, name: &OperationName) -> Result<bool, StoreError> {
        let found: bool =
            sqlx::query_scalar("SELECT count(*) > 0 FROM tombstones WHERE name_hash = ?1")
                .bind(name_hash(name))
                .fetch_one(&self.pool)
                .await?;
        Ok(found)
    }
}

/// Tombstones know names only by their hash: what was pruned stays pruned.
pub(super) fn name_hash(name: &OperationName) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(name.as_str().as_bytes()))
}

/// A record to insert.
pub(super) struct Insert<'a> {
    pub(super) id: Uuid,
    pub(super) name: &'a OperationName,
    pub(super) job_kind: &'a JobKind,
    pub(super) registered: bool,
    pub(super) user_metadata: Option<&'a Value>,
    pub(super) terms: &'a Terms,
}

impl Insert<'_> {
    pub(super) async fn run(
        &self,
        connection: &mut SqliteConnection,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO operations (id, name, segment, kind, job_kind, registered, state, submitted_at_ms, \
             registered_at_ms, next_check_at_ms, overdue_at_ms, deadline_at_ms, user_metadata) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, iif(?6, ?7, NULL), ?8, ?9, ?10, ?11)",
        )
        .bind(self.id.to_string())
        .bind(self.name.as_str())
        .bind(self.name.segment())
        .bind(self.name.kind().as_str())
        .bind(self.job_kind.as_str())
        .bind(self.registered)
        .bind(now.as_millis())
        .bind(self.terms.first_look_at.as_millis())
        .bind(self.terms.overdue_at.as_millis())
        .bind(self.terms.deadline_at.map(Timestamp::as_millis))
        .bind(self.user_metadata.map(Value::to_string))
        .execute(connection)
        .await?;
        Ok(())
    }
}

pub(super) async fn find(
    connection: &mut SqliteConnection,
    id: Uuid,
) -> Result<Option<Operation>, StoreError> {
    let row = sqlx::query(select_operations!("WHERE o.id = ?1"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(operation).transpose()
}

pub(super) async fn by_id(
    connection: &mut SqliteConnection,
    id: Uuid,
) -> Result<Operation, StoreError> {
    find(connection, id)
        .await?
        .ok_or_else(|| StoreError::Inconsistent {
            table: "operations",
            column: "id",
            row: id.to_string(),
        })
}

pub(super) async fn by_name(
    connection: &mut SqliteConnection,
    name: &OperationName,
) -> Result<Option<Operation>, StoreError> {
    let row = sqlx::query(select_operations!("WHERE o.name = ?1"))
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(operation).transpose()
}

/// Appends to an operation's history.
pub(super) async fn log(
    connection: &mut SqliteConnection,
    id: Uuid,
    now: Timestamp,
    what: &str,
    cause: &str,
    detail: Option<&str>,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO operation_log (operation_id, at_ms, what, cause, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
    )
    .bind(id.to_string())
    .bind(now.as_millis())
    .bind(what)
    .bind(cause)
    .bind(detail)
    .execute(connection)
    .await?;
    Ok(())
}

/// Gives a reserved record its name.
pub(super) async fn bind_name(
    connection: &mut SqliteConnection,
    id: Uuid,
    name: &OperationName,
    terms: &Terms,
    now: Timestamp,
    cause: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET name = ?2, segment = ?3, kind = ?4, state = 'pending', \
         next_check_at_ms = ?5, overdue_at_ms = ?6, deadline_at_ms = ?7 WHERE id = ?1 AND state = 'reserved'",
    )
    .bind(id.to_string())
    .bind(name.as_str())
    .bind(name.segment())
    .bind(name.kind().as_str())
    .bind(terms.first_look_at.as_millis())
    .bind(terms.overdue_at.as_millis())
    .bind(terms.deadline_at.map(Timestamp::as_millis))
    .execute(&mut *connection)
    .await?;
    log(
        connection,
        id,
        now,
        "pending",
        cause,
        Some("bound to its name"),
    )
    .await
}
