//! What a look writes of an operation that has not settled: still running, not found, closed without
//! proof, waiting for a client to act. Every function runs in the transaction of `settle`, whose races
//! are told there.

use sqlx::SqliteConnection;
use uuid::Uuid;

use super::super::Look;
use super::super::error::StoreError;
use super::ledger::{by_id, log};
use super::{alerts, outbox};
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::effect::Trigger;
use crate::domain::ledger::{Operation, PlanEffects};
use crate::domain::operation::OperationState;

/// The API says 404: looked for again, and the day begins after which it is gone.
pub(super) async fn not_found(
    connection: &mut SqliteConnection,
    id: Uuid,
    next_look_at: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET next_check_at_ms = ?2, \
         not_found_since_ms = coalesce(not_found_since_ms, ?3) WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(next_look_at.as_millis())
    .bind(now.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// Done, with neither response nor error.
pub(super) async fn neither(
    connection: &mut SqliteConnection,
    id: Uuid,
    next_look_at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET next_check_at_ms = ?2, neither_looks = neither_looks + 1, \
         not_found_since_ms = NULL WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(next_look_at.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// It goes on.
pub(super) async fn running(
    connection: &mut SqliteConnection,
    before: &Operation,
    requires_action: bool,
    next_look_at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET state = 'pending', closed_at_ms = NULL, requires_action = ?2, next_check_at_ms = ?3, \
         not_found_since_ms = NULL, neither_looks = 0, effects_withheld = 0 WHERE id = ?1",
    )
    .bind(before.id.to_string())
    .bind(requires_action)
    .bind(next_look_at.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// Opens or ends `requires_action`, with the effects that chose it.
pub(super) async fn flag(
    connection: &mut SqliteConnection,
    before: &Operation,
    on: bool,
    look: &Look,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<(), StoreError> {
    let subject = format!("operation/{}/requires_action", before.id);
    let what = if on {
        "requires_action"
    } else {
        "action was taken"
    };
    log(connection, before.id, now, what, look.reason.as_str(), None).await?;
    if on {
        let name = before.name.as_ref().map_or("?", |n| n.as_str());
        let summary = format!("{name} ({}) waits for a client to act", before.job_kind);
        alerts::open(connection, &subject, &summary, now, planner, ids).await?;
        let record = by_id(connection, before.id).await?;
        let effects = planner.plan(&record, Trigger::RequiresAction, now);
        outbox::plan(
            connection,
            Some(&record),
            &effects,
            now,
            look.terms.give_up_at,
            ids,
        )
        .await
        .map(drop)
    } else {
        alerts::recover(connection, &subject, now, planner, ids)
            .await
            .map(drop)
    }
}

/// Closes without proof that it ended; a later look may find that it goes on.
#[expect(
    clippy::too_many_arguments,
    reason = "one transaction's context, used once"
)]
pub(super) async fn close(
    connection: &mut SqliteConnection,
    before: &Operation,
    state: OperationState,
    next_look_at: Timestamp,
    look: &Look,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET state = ?2, closed_at_ms = coalesce(closed_at_ms, ?4), \
         next_check_at_ms = ?3, overdue_at_ms = NULL WHERE id = ?1",
    )
    .bind(before.id.to_string())
    .bind(state.as_str())
    .bind(next_look_at.as_millis())
    .bind(now.as_millis())
    .execute(&mut *connection)
    .await?;
    if before.state == state {
        return Ok(());
    }
    let cause = look.reason.as_str();
    log(
        connection,
        before.id,
        now,
        state.as_str(),
        cause,
        Some("closed without proof"),
    )
    .await?;
    let name = before.name.as_ref().map_or("?", |n| n.as_str());
    let summary = match state {
        OperationState::Gone => {
            format!(
                "{name} ({}): the API keeps saying that it does not exist",
                before.job_kind
            )
        }
        _ => format!(
            "{name} ({}): done, with neither response nor error",
            before.job_kind
        ),
    };
    let subject = format!("operation/{}/{state}", before.id);
    alerts::open(connection, &subject, &summary, now, planner, ids).await?;
    let record = by_id(connection, before.id).await?;
    let effects = planner.plan(&record, Trigger::State(state), now);
    outbox::plan(
        connection,
        Some(&record),
        &effects,
        now,
        look.terms.give_up_at,
        ids,
    )
    .await
    .map(drop)
}
