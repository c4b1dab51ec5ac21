//! Writes that go through SQL together: results of looks, receipts of effects.
//!
//! Problem: each statement is a trip to SQLite's thread and back. Under a backlog a commit holds dozens
//! of results of one kind, and trips for each of them are most of what it costs.
//!
//! Design: a kind of write that can be a set says how ([`AsSet`]). All of a commit go through its
//! statements together, in one savepoint. What cannot go with the others is left out of the set and
//! written alone after it, in a savepoint of its own. A set that fails is undone whole and each of it is
//! written alone: one that fails takes nobody with it, and only then does it cost what it did before.
//!
//! Races: everything is one transaction of the one writer. What a set says of an item holds only if the
//! set was kept, so it is said after that, and to its caller after the commit.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde::Serialize;
use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use super::super::error::StoreError;
use super::write::Work;
use crate::base::shutdown::panic_text;

/// A kind of write of which many can be written by the same statements.
pub(super) trait AsSet: Sized + Send + Sync + 'static {
    /// What it is called in the log.
    const NAME: &'static str;
    /// What its caller is told.
    type Said: Send + 'static;

    /// As the writer's queue takes it.
    fn waiting(waiting: Waiting<Self>) -> Work;

    /// Writes those of a set that can go together and says what became of each; nothing is said of one
    /// that is to be written alone. An error means that nothing of the set may stay.
    fn together(
        connection: &mut SqliteConnection,
        set: &[Self],
    ) -> impl Future<Output = Result<Vec<Said<Self>>, StoreError>> + Send;

    /// Writes this one.
    fn alone(
        &self,
        connection: &mut SqliteConnection,
    ) -> impl Future<Output = Result<Self::Said, StoreError>> + Send;
}

/// What became of one of a set; nothing, when it is to be written alone.
pub(super) type Said<S> = Option<Result<<S as AsSet>::Said, StoreError>>;

/// One of a set that waits for its commit.
pub(super) struct Waiting<S: AsSet> {
    pub(super) item: S,
    pub(super) answer: oneshot::Sender<Result<S::Said, StoreError>>,
}

/// Runs a part of a write; a panic in it is an error like any other.
pub(super) async fn caught<T>(
    name: &'static str,
    part: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    AssertUnwindSafe(part)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| {
            let panic = panic_text(&*panic);
            tracing::error!(write = name, panic, "a write panicked and was rolled back");
            Err(StoreError::Database("the write panicked".to_owned()))
        })
}

/// Rows as the JSON document that a statement takes them out of.
pub(super) fn document(rows: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::Database(error.to_string()))
}
