//! Operations taken over from the provider's list.
//!
//! The list says what exists, never what became of it: a record that is new here is pending, and its
//! first look is due at once. One that is known is left alone, one that was pruned stays pruned.
//! Unless effects are asked for, those of an ending that the first look finds are withheld: somebody
//! may have acted on it long ago.

use sqlx::SqliteConnection;

use super::super::error::StoreError;
use super::super::{Reader, Store, Terms};
use super::ledger::{Insert, by_name, log, name_hash};
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::operation::{JobKind, OperationName};

/// What importing one name does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Imported {
    /// It enters the ledger.
    New,
    /// It is in the ledger already, and stays as it is.
    Known,
    /// It was in the ledger, ended and was pruned.
    Pruned,
}

/// Names to be taken over, each with its terms.
#[derive(Debug, Clone)]
pub struct Import {
    /// Them.
    pub names: Vec<(OperationName, Terms)>,
    /// What they are for, when that is known; otherwise they are as if adopted.
    pub job_kind: Option<JobKind>,
    /// Whether an ending found by the first look has its effects.
    pub run_effects: bool,
}

impl Store {
    /// Takes operations over, in one transaction. Harmless to repeat.
    pub async fn import(
        &self,
        import: Import,
    ) -> Result<Vec<(OperationName, Imported)>, StoreError> {
        let (now, ids) = (self.clock.now(), std::sync::Arc::clone(&self.ids));
        self.writer
            .write("import", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let mut done = Vec::with_capacity(import.names.len());
                    for (name, terms) in &import.names {
                        let fate = fate(connection, name).await?;
                        if fate == Imported::New {
                            enter(connection, name, terms, &import, now, &*ids).await?;
                        }
                        done.push((name.clone(), fate));
                    }
                    Ok(done)
                })
            })
            .await
    }
}

impl Reader {
    /// What [`Store::import`] would do with these.
    pub async fn would_import(
        &self,
        names: Vec<OperationName>,
    ) -> Result<Vec<(OperationName, Imported)>, StoreError> {
        let mut connection = self.pool.acquire().await?;
        let mut fates = Vec::with_capacity(names.len());
        for name in names {
            let fate = fate(&mut connection, &name).await?;
            fates.push((name, fate));
        }
        Ok(fates)
    }
}

async fn fate(
    connection: &mut SqliteConnection,
    name: &OperationName,
) -> Result<Imported, StoreError> {
    if by_name(connection, name).await?.is_some() {
        return Ok(Imported::Known);
    }
    let pruned: bool =
        sqlx::query_scalar("SELECT count(*) > 0 FROM tombstones WHERE name_hash = ?1")
            .bind(name_hash(name))
            .fetch_one(connection)
            .await?;
    Ok(if pruned {
        Imported::Pruned
    } else {
        Imported::New
    })
}

async fn enter(
    connection: &mut SqliteConnection,
    name: &OperationName,
    terms: &Terms,
    import: &Import,
    now: Timestamp,
    ids: &dyn Ids,
) -> Result<(), StoreError> {
    let id = ids.uuid(now);
    let unregistered = JobKind::unregistered();
    let record = Insert {
        id,
        name,
        job_kind: import.job_kind.as_ref().unwrap_or(&unregistered),
        registered: import.job_kind.is_some(),
        user_metadata: None,
        terms,
    };
    record.run(connection, now).await?;
    // Nobody registered it in time for a webhook, so its ending does not count as a lost one.
    sqlx::query(
        "UPDATE operations SET registered_at_ms = NULL, effects_withheld = ?2 WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(!import.run_effects)
    .execute(&mut *connection)
    .await?;
    let why = Some("imported from the provider's list");
    log(connection, id, now, "pending", "operator", why).await
}
