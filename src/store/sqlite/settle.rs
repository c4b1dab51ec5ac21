//! Writing down what a look at the API found.
//!
//! Together or not at all: the ledger's transition, its history, the outbox rows, the alerts it opens or
//! ends, and, in `finish`, the item's own end. Either all of it is on disk or the item is still leased
//! and will be looked at again, which is harmless.
//!
//! Races: two items may look at one operation at the same time (an event arrived during a fetch).
//! The record is read again inside the transaction, so the second finds it settled and changes
//! nothing; a trigger in the schema refuses whatever would slip past that. A worker whose lease was
//! lost is refused at the item's end and its whole transaction rolls back.

use serde_json::Value;
use sqlx::SqliteConnection;
use uuid::Uuid;

use super::super::error::StoreError;
use super::super::{Applied, Change, Look, Settlement, Subject};
use super::ledger::{self, Insert, by_id, by_name, find, log, name_hash};
use super::register;
use super::unsettled::{close, flag, neither, not_found, running};
use super::{alerts, outbox};
use crate::base::clock::Timestamp;
use crate::base::failpoint::failpoint;
use crate::base::ids::Ids;
use crate::domain::effect::Trigger;
use crate::domain::ledger::{Operation, PlanEffects, Told};
use crate::domain::operation::{JobKind, OperationState};
use crate::domain::work::Reason;

/// Writes the looks of an item whose lease has been ended.
pub(super) async fn write_down(
    connection: &mut SqliteConnection,
    reservation: Option<Uuid>,
    looks: &[Look],
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<Vec<Applied>, StoreError> {
    // A short id that means two operations says nothing about which one was reserved.
    if let (Some(reserved), [look]) = (reservation, looks) {
        bind_adopted(connection, reserved, look, now, planner, ids).await?;
    }
    let mut applied = Vec::with_capacity(looks.len());
    for look in looks {
        applied.push(apply(connection, look, now, planner, ids).await?);
    }
    Ok(applied)
}

/// A delivery by a reserved URL may name what another delivery had adopted before: the adopted record
/// takes over what was reserved. That the API confirmed the name is what adopted it.
async fn bind_adopted(
    connection: &mut SqliteConnection,
    reserved: Uuid,
    look: &Look,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<(), StoreError> {
    let adopted = match &look.subject {
        Subject::Known(id) => find(connection, *id).await?,
        Subject::Found { name, .. } => by_name(connection, name).await?,
    };
    let Some(adopted) = adopted.filter(|record| !record.registered) else {
        return Ok(());
    };
    let reserved = find(connection, reserved).await?;
    if let Some(reserved) = reserved.filter(|r| r.state == OperationState::Reserved) {
        register::fold(
            connection,
            &reserved,
            &adopted,
            &look.terms,
            planner,
            ids,
            now,
        )
        .await?;
    }
    Ok(())
}

async fn apply(
    connection: &mut SqliteConnection,
    look: &Look,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<Applied, StoreError> {
    let Some(before) = record(connection, look, now, ids).await? else {
        return Ok(Applied::Pruned);
    };
    let id = before.id;
    if before.state.is_settled() {
        if look.reason == Reason::Webhook && before.told == Told::Rescued {
            set_told(connection, id, Told::Late).await?;
        }
        if look.reason == Reason::Webhook && before.effects_withheld {
            // The look that the restore or the import made due was faster than the delivery.
            release(connection, &before, look, now, planner, ids).await?;
        }
        return Ok(Applied::AlreadySettled(Box::new(before)));
    }
    if let Change::Settle(settlement) = &look.change {
        let settled = settle(connection, &before, look, settlement, now, planner, ids).await?;
        return Ok(Applied::Settled(Box::new(settled)));
    }
    count_look(connection, &before, look).await?;
    match &look.change {
        Change::Nothing | Change::Settle(_) => {}
        Change::Running {
            requires_action,
            next_look_at,
        } => {
            running(connection, &before, *requires_action, *next_look_at).await?;
            if before.effects_withheld {
                // It may have become overdue while they were withheld, and it does so only once.
                let record = by_id(connection, id).await?;
                let give_up_at = look.terms.give_up_at;
                register::plan(connection, &record, give_up_at, planner, ids, now).await?;
            }
            if *requires_action != before.requires_action {
                flag(
                    connection,
                    &before,
                    *requires_action,
                    look,
                    now,
                    planner,
                    ids,
                )
                .await?;
            }
            if before.state.is_closed_unproven() {
                let subject = format!("operation/{id}/{}", before.state);
                alerts::recover(connection, &subject, now, planner, ids).await?;
                log(
                    connection,
                    id,
                    now,
                    "pending",
                    look.reason.as_str(),
                    Some("seen again"),
                )
                .await?;
            }
        }
        Change::NotFound { next_look_at } => {
            not_found(connection, id, *next_look_at, now).await?;
        }
        Change::Neither { next_look_at } => neither(connection, id, *next_look_at).await?,
        Change::Close {
            state,
            next_look_at,
        } => {
            close(
                connection,
                &before,
                *state,
                *next_look_at,
                look,
                now,
                planner,
                ids,
            )
            .await?;
        }
    }
    Ok(Applied::Open(Box::new(by_id(connection, id).await?)))
}

/// The record a look is about, made now if the API has just confirmed it. `None`: pruned.
async fn record(
    connection: &mut SqliteConnection,
    look: &Look,
    now: Timestamp,
    ids: &dyn Ids,
) -> Result<Option<Operation>, StoreError> {
    let (name, reservation) = match &look.subject {
        Subject::Known(id) => return find(connection, *id).await,
        Subject::Found { name, reservation } => (name, reservation),
    };
    if let Some(known) = by_name(connection, name).await? {
        return Ok(Some(known));
    }
    let pruned: bool =
        sqlx::query_scalar("SELECT count(*) > 0 FROM tombstones WHERE name_hash = ?1")
            .bind(name_hash(name))
            .fetch_one(&mut *connection)
            .await?;
    if pruned {
        return Ok(None);
    }
    if let Some(reservation) = reservation
        && let Some(reserved) = find(connection, *reservation).await?
        && reserved.state == OperationState::Reserved
    {
        let cause = look.reason.as_str();
        ledger::bind_name(connection, *reservation, name, &look.terms, now, cause).await?;
        return find(connection, *reservation).await;
    }
    let id = ids.uuid(now);
    let job_kind = JobKind::unregistered();
    let terms = &look.terms;
    Insert {
        id,
        name,
        job_kind: &job_kind,
        registered: false,
        user_metadata: None,
        terms,
    }
    .run(connection, now)
    .await?;
    log(
        connection,
        id,
        now,
        "pending",
        look.reason.as_str(),
        Some("adopted"),
    )
    .await?;
    find(connection, id).await
}

async fn count_look(
    connection: &mut SqliteConnection,
    before: &Operation,
    look: &Look,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET attempts = attempts + 1, looks_since_event = ?2, \
         summary = coalesce(?3, summary) WHERE id = ?1",
    )
    .bind(before.id.to_string())
    .bind(looks_since_event(before, look))
    .bind(look.summary.as_ref().map(Value::to_string))
    .execute(connection)
    .await?;
    Ok(())
}

/// An event starts the count of close looks; looks nobody's event caused go on with it.
pub(super) fn looks_since_event(before: &Operation, look: &Look) -> Option<u32> {
    match (look.reason, before.looks_since_event) {
        (Reason::Webhook | Reason::Replay, _) => Some(1),
        (_, Some(n)) => Some(n.saturating_add(1)),
        (_, None) => None,
    }
}

/// The look, the transition and its history, its outbox rows, and the alerts it ends. Answers the
/// record as it is then.
async fn settle(
    connection: &mut SqliteConnection,
    before: &Operation,
    look: &Look,
    settlement: &Settlement,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<Operation, StoreError> {
    if !before.state.may_become(settlement.state) {
        return Err(StoreError::Inconsistent {
            table: "operations",
            column: "state",
            row: before.id.to_string(),
        });
    }
    let cause = look.reason.as_str();
    sqlx::query(
        "UPDATE operations SET state = ?2, settled_at_ms = ?3, settled_by = ?4, body_hash = ?5, \
         decide_at_ms = ?6, attempts = attempts + 1, looks_since_event = ?7, summary = coalesce(?8, summary), \
         closed_at_ms = NULL, next_check_at_ms = NULL, overdue_at_ms = NULL, overdue = 0, \
         requires_action = 0, not_found_since_ms = NULL WHERE id = ?1 AND settled_at_ms IS NULL; \
         INSERT INTO operation_log (operation_id, what, at_ms, cause, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
    )
    .bind(before.id.to_string())
    .bind(settlement.state.as_str())
    .bind(now.as_millis())
    .bind(cause)
    .bind(&settlement.body_hash)
    .bind(settlement.decide_at.as_millis())
    .bind(looks_since_event(before, look))
    .bind(look.summary.as_ref().map(Value::to_string))
    .execute(&mut *connection)
    .await?;
    if before.effects_withheld {
        if look.reason == Reason::Webhook {
            // This service answered the delivery, so nobody acted on the ending before it.
            outbox::release(connection, before.id).await?;
        } else {
            let why =
                Some("imported or restored: it may have had them; `operations retry` sends them");
            log(connection, before.id, now, "effects withheld", cause, why).await?;
        }
    }
    let mut settled = ended(before, look, settlement, now);
    let effects = planner.plan(&settled, Trigger::State(settled.state), now);
    let give_up_at = look.terms.give_up_at;
    settled.effects_expected =
        outbox::plan(connection, Some(&settled), &effects, now, give_up_at, ids).await?;
    failpoint!("fp-w4");
    let over = alerts::of_operation(before.id);
    alerts::recover_all(connection, &over, now, planner, ids).await?;
    Ok(settled)
}

/// The record as the transition leaves it.
pub(super) fn ended(
    before: &Operation,
    look: &Look,
    settlement: &Settlement,
    now: Timestamp,
) -> Operation {
    let told = look.reason == Reason::Webhook;
    Operation {
        state: settlement.state,
        settled_at: Some(now),
        settled_by: Some(look.reason),
        body_hash: Some(settlement.body_hash.clone()),
        attempts: before.attempts.saturating_add(1),
        looks_since_event: looks_since_event(before, look),
        summary: look.summary.clone().or_else(|| before.summary.clone()),
        next_check_at: None,
        overdue: false,
        requires_action: false,
        not_found_since: None,
        // What a delivery told of is released in the same transaction.
        effects_withheld: before.effects_withheld && !told,
        ..before.clone()
    }
}

/// Sends what was withheld of a settled operation: this service answered a delivery of the ending, so
/// nobody acted on it before.
async fn release(
    connection: &mut SqliteConnection,
    settled: &Operation,
    look: &Look,
    now: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn Ids,
) -> Result<(), StoreError> {
    outbox::release(connection, settled.id).await?;
    let record = by_id(connection, settled.id).await?;
    let give_up_at = look.terms.give_up_at;
    register::plan(connection, &record, give_up_at, planner, ids, now).await?;
    let (what, cause) = ("effects released", look.reason.as_str());
    let why = Some("a delivery of the ending came after the restore or the import");
    log(connection, settled.id, now, what, cause, why).await
}

pub(super) async fn set_told(
    connection: &mut SqliteConnection,
    id: Uuid,
    told: Told,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE operations SET told = ?2 WHERE id = ?1")
        .bind(id.to_string())
        .bind(told.as_str())
        .execute(connection)
        .await?;
    Ok(())
}
