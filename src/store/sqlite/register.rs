//! Registration, reservation, binding.
//!
//! Races: a webhook may come before, during or after the registration of its operation, and adoption
//! may make the record first. All of them meet in the one writer, and effects are planned by
//! insert-if-absent on a stable key inside the same transaction, both when an operation settles and
//! when it is registered: whichever comes second finds the other's work and adds what is missing.

use serde_json::Value;
use sqlx::SqliteConnection;
use std::sync::Arc;
use uuid::Uuid;

use super::super::Store;
use super::super::error::StoreError;
use super::super::{Binding, NewRegistration, Registered, Reservation, Terms};
use super::ledger::{Insert, bind_name, by_id, by_name, find, log};
use super::outbox;
use super::queue::enqueue;
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::domain::effect::Trigger;
use crate::domain::ledger::{Operation, PlanEffects};
use crate::domain::operation::OperationName;
use crate::domain::work::Reason;

impl Store {
    /// Registers an operation, or completes the record of one that was adopted.
    pub async fn register(
        &self,
        new: NewRegistration,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<Registered, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("register", Lane::Normal, move |connection| {
                Box::pin(async move {
                    if let Some(known) = by_name(connection, &new.name).await? {
                        if known.registered && known.job_kind != new.job_kind {
                            return Ok(Registered::Conflict(known.job_kind));
                        }
                        if !known.registered {
                            complete(connection, &known, &new, now).await?;
                        }
                        if known.registered_at.is_none() && !known.state.is_settled() {
                            // Imported before whoever started it came to say so: it is theirs to act
                            // on, however soon it ends.
                            outbox::release(connection, known.id).await?;
                        }
                        let record = by_id(connection, known.id).await?;
                        plan(
                            connection,
                            &record,
                            new.terms.give_up_at,
                            &*planner,
                            &*ids,
                            now,
                        )
                        .await?;
                        wake_waiting(connection, &new.name, now).await?;
                        return Ok(Registered::Same(by_id(connection, known.id).await?));
                    }
                    let id = ids.uuid(now);
                    let record = Insert {
                        id,
                        name: &new.name,
                        job_kind: &new.job_kind,
                        registered: true,
                        user_metadata: new.user_metadata.as_ref(),
                        terms: &new.terms,
                    };
                    record.run(connection, now).await?;
                    log(connection, id, now, "pending", "register", None).await?;
                    first_look(connection, &new.name, now).await?;
                    Ok(Registered::New(by_id(connection, id).await?))
                })
            })
            .await
    }

    /// Makes a record with an id of ours before the provider knows the job.
    pub async fn reserve(&self, reservation: Reservation) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.writer
            .write("reserve", Lane::Normal, move |connection| {
                Box::pin(async move {
                    sqlx::query(
                        "INSERT INTO operations (id, kind, job_kind, registered, state, submitted_at_ms, \
                         registered_at_ms, user_metadata) VALUES (?1, 'unknown', ?2, 1, 'reserved', ?3, ?3, ?4)",
                    )
                    .bind(reservation.id.to_string())
                    .bind(reservation.job_kind.as_str())
                    .bind(now.as_millis())
                    .bind(reservation.user_metadata.map(|m| m.to_string()))
                    .execute(&mut *connection)
                    .await?;
                    log(connection, reservation.id, now, "reserved", "register", None).await
                })
            })
            .await
    }

    /// Binds a reservation to the name the provider gave.
    pub async fn bind(
        &self,
        id: Uuid,
        name: OperationName,
        terms: Terms,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<Binding, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("bind", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let Some(reserved) = find(connection, id).await? else {
                        let folded = folded_into(connection, id, &name).await?;
                        return Ok(folded.map_or(Binding::Unknown, Binding::Same));
                    };
                    if reserved.name.as_ref() == Some(&name) {
                        return Ok(Binding::Same(reserved));
                    }
                    if let Some(other) = &reserved.name {
                        return Ok(Binding::Conflict(format!("it is bound to {other}")));
                    }
                    if let Some(known) = by_name(connection, &name).await? {
                        if known.registered {
                            return Ok(Binding::Conflict(format!(
                                "{name} is registered as operation {}",
                                known.id
                            )));
                        }
                        // Adopted meanwhile: the adopted record goes on, with what was reserved.
                        fold(connection, &reserved, &known, &terms, &*planner, &*ids, now).await?;
                        return Ok(Binding::Bound(by_id(connection, known.id).await?));
                    }
                    bind_name(connection, id, &name, &terms, now, "register").await?;
                    first_look(connection, &name, now).await?;
                    Ok(Binding::Bound(by_id(connection, id).await?))
                })
            })
            .await
    }

    /// Plans what is missing of an operation's effects, makes the dead and held ones due again, and
    /// queues a look at one that is not settled; the operator's "go on". False when there is no such
    /// operation.
    pub async fn retry_operation(
        &self,
        id: Uuid,
        give_up_at: Timestamp,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<bool, StoreError> {
        let (now, ids) = (self.clock.now(), Arc::clone(&self.ids));
        self.writer
            .write("retry operation", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let Some(record) = find(connection, id).await? else {
                        return Ok(false);
                    };
                    outbox::release(connection, id).await?;
                    let record = by_id(connection, record.id).await?;
                    plan(connection, &record, give_up_at, &*planner, &*ids, now).await?;
                    outbox::revive(connection, id, now, give_up_at).await?;
                    if let Some(name) = record.name.as_ref().filter(|_| !record.state.is_settled())
                    {
                        enqueue(connection, name, Reason::Operator, now).await?;
                    }
                    log(connection, id, now, "retried", "operator", None).await?;
                    Ok(true)
                })
            })
            .await
    }
}

/// Folds a reservation into the record that adoption made of the same job, and plans what that record
/// now matches.
pub(super) async fn fold(
    connection: &mut SqliteConnection,
    reserved: &Operation,
    adopted: &Operation,
    terms: &Terms,
    planner: &dyn PlanEffects,
    ids: &dyn crate::base::ids::Ids,
    now: Timestamp,
) -> Result<(), StoreError> {
    merge(connection, reserved, adopted, now).await?;
    let record = by_id(connection, adopted.id).await?;
    plan(connection, &record, terms.give_up_at, planner, ids, now).await
}

/// The record of that name, if this reservation was folded into it: a caller whose answer was lost
/// binds once more.
async fn folded_into(
    connection: &mut SqliteConnection,
    reservation: Uuid,
    name: &OperationName,
) -> Result<Option<Operation>, StoreError> {
    let Some(record) = by_name(connection, name).await? else {
        return Ok(None);
    };
    let folded: bool = sqlx::query_scalar(
        "SELECT count(*) > 0 FROM operation_log WHERE operation_id = ?1 AND detail = ?2",
    )
    .bind(record.id.to_string())
    .bind(folded_detail(reservation))
    .fetch_one(connection)
    .await?;
    Ok(folded.then_some(record))
}

fn folded_detail(reservation: Uuid) -> String {
    format!("reservation {reservation} was folded in")
}

/// The record's part of [`fold`].
async fn merge(
    connection: &mut SqliteConnection,
    reserved: &Operation,
    adopted: &Operation,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET job_kind = ?2, registered = 1, registered_at_ms = ?3, \
         user_metadata = coalesce(user_metadata, ?4) WHERE id = ?1",
    )
    .bind(adopted.id.to_string())
    .bind(reserved.job_kind.as_str())
    .bind(now.as_millis())
    .bind(reserved.user_metadata.as_ref().map(Value::to_string))
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM operations WHERE id = ?1 AND state = 'reserved'")
        .bind(reserved.id.to_string())
        .execute(&mut *connection)
        .await?;
    let detail = folded_detail(reserved.id);
    log(
        connection,
        adopted.id,
        now,
        "registered",
        "register",
        Some(&detail),
    )
    .await
}

/// Turns an adopted record into a registered one.
async fn complete(
    connection: &mut SqliteConnection,
    known: &Operation,
    new: &NewRegistration,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET job_kind = ?2, registered = 1, registered_at_ms = ?3, \
         user_metadata = coalesce(?4, user_metadata), deadline_at_ms = coalesce(deadline_at_ms, ?5) \
         WHERE id = ?1",
    )
    .bind(known.id.to_string())
    .bind(new.job_kind.as_str())
    .bind(now.as_millis())
    .bind(new.user_metadata.as_ref().map(Value::to_string))
    .bind(new.terms.deadline_at.map(Timestamp::as_millis))
    .execute(&mut *connection)
    .await?;
    let detail = format!("job kind {}", new.job_kind);
    log(
        connection,
        known.id,
        now,
        "registered",
        "register",
        Some(&detail),
    )
    .await
}

/// Plans the effects a record now matches: of its ending, or of what it waits for. With a planner that
/// does not decide, a settled record is marked as never planned: the repair sweep plans it by the rules
/// of the service that runs it. What the outbox holds stays, and keys keep it from being doubled.
pub(super) async fn plan(
    connection: &mut SqliteConnection,
    record: &Operation,
    give_up_at: Timestamp,
    planner: &dyn PlanEffects,
    ids: &dyn crate::base::ids::Ids,
    now: Timestamp,
) -> Result<(), StoreError> {
    if !planner.decides() {
        return if record.state.is_settled() {
            outbox::unplan(connection, record.id).await
        } else {
            Ok(())
        };
    }
    let ended = record.state.is_settled() || record.state.is_closed_unproven();
    let triggers = [
        ended.then_some(Trigger::State(record.state)),
        record.requires_action.then_some(Trigger::RequiresAction),
        record.overdue.then_some(Trigger::Overdue),
    ];
    for trigger in triggers.into_iter().flatten() {
        let effects = planner.plan(record, trigger, now);
        outbox::plan(connection, Some(record), &effects, now, give_up_at, ids).await?;
    }
    Ok(())
}

/// A registration waits its grace, unless a delivery that names it was captured: then at once.
async fn first_look(
    connection: &mut SqliteConnection,
    name: &OperationName,
    now: Timestamp,
) -> Result<(), StoreError> {
    if wake_waiting(connection, name, now).await? {
        return Ok(());
    }
    let told: bool = sqlx::query_scalar(
        "SELECT count(*) > 0 FROM captured_events \
         WHERE verdict = 'accepted' AND segment IN (?1, 'batch_' || ?1)",
    )
    .bind(name.segment())
    .fetch_one(&mut *connection)
    .await?;
    if told {
        enqueue(connection, name, Reason::Register, now).await?;
    }
    Ok(())
}

/// Items that wait under a short id for somebody to say whose it is become this operation's, due now.
async fn wake_waiting(
    connection: &mut SqliteConnection,
    name: &OperationName,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let waiting: Vec<(i64, String)> = sqlx::query_as(
        "SELECT id, ref_key FROM work_queue WHERE segment IN (?1, 'batch_' || ?1) \
         AND state IN ('ready', 'leased') AND state = 'ready' \
         ORDER BY ref_key = ?2 DESC, id",
    )
    .bind(name.segment())
    .bind(name.as_str())
    .fetch_all(&mut *connection)
    .await?;
    let mut woken = false;
    for (id, ref_key) in waiting {
        // Another operation may share the segment: its full name is not ours to take.
        if ref_key != name.as_str() && ref_key.contains('/') {
            continue;
        }
        if woken {
            sqlx::query("DELETE FROM work_queue WHERE id = ?1")
                .bind(id)
                .execute(&mut *connection)
                .await?;
            continue;
        }
        sqlx::query(
            "UPDATE work_queue SET ref_key = ?2, available_at_ms = ?3, fresh = 1 WHERE id = ?1",
        )
        .bind(id)
        .bind(name.as_str())
        .bind(now.as_millis())
        .execute(&mut *connection)
        .await?;
        woken = true;
    }
    Ok(woken)
}
