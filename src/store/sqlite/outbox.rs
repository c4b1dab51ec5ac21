//! The outbox: intent, send, receipt.
//!
//! `sending` is committed before anything leaves this machine, so a crash in between is known as
//! *ambiguous* and never silently dropped or silently repeated: the effect's policy decides. Rows are
//! inserted only if their key is absent, and a payload never changes once it is written.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::super::error::StoreError;
use super::super::{Reader, Store};
use super::alerts;
use super::queue::monotonic_ms;
use super::rows::{effect, fenced};
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::domain::effect::{AmbiguousPolicy, EffectState};
use crate::domain::ledger::{EffectEnd, LeasedEffect, NewEffect, Operation, PlanEffects};

impl Store {
    /// Claims due effects for sending: the intent, committed before anything leaves. `quotas` says how
    /// many of each effect's name may be claimed.
    pub async fn begin_sends(
        &self,
        quotas: Vec<(String, u32)>,
        lease: Duration,
    ) -> Result<Vec<LeasedEffect>, StoreError> {
        self.begin_sends_into(move || quotas, lease).await
    }

    /// The same, with as much room as there is when the claim runs.
    pub async fn begin_sends_into<Q>(
        &self,
        quotas: Q,
        lease: Duration,
    ) -> Result<Vec<LeasedEffect>, StoreError>
    where
        Q: FnOnce() -> Vec<(String, u32)> + Send + 'static,
    {
        let now = self.clock.now();
        let until = monotonic_ms(self.clock.monotonic() + lease);
        self.writer
            .write("begin send", Lane::Patient, move |connection| {
                Box::pin(async move {
                    let mut claimed = Vec::new();
                    for (name, quota) in quotas() {
                        // `+ 0`: as for a claim of work.
                        let rows = sqlx::query(
                            "UPDATE effects SET state = 'sending', attempts = attempts + 1, \
                             lease_epoch = lease_epoch + 1, lease_until_ms = ?1 \
                             WHERE id IN (SELECT id FROM effects WHERE state IN ('planned', 'ambiguous') \
                                          AND effect = ?2 AND next_attempt_at_ms <= ?3 \
                                          ORDER BY next_attempt_at_ms LIMIT ?4 + 0) \
                             RETURNING *",
                        )
                        .bind(until)
                        .bind(name)
                        .bind(now.as_millis())
                        .bind(quota)
                        .fetch_all(&mut *connection)
                        .await?;
                        for row in &rows {
                            claimed.push(LeasedEffect {
                                record: effect(row)?,
                                payload: row.get("payload"),
                                epoch: row.get("lease_epoch"),
                            });
                        }
                    }
                    Ok(claimed)
                })
            })
            .await
    }

    /// Makes a held send last `lease` from now.
    pub async fn renew_send(&self, sent: &LeasedEffect, lease: Duration) -> Result<(), StoreError> {
        let until = monotonic_ms(self.clock.monotonic() + lease);
        let (id, epoch) = (sent.record.id, sent.epoch);
        self.writer
            .write("renew send", Lane::Front, move |connection| {
                Box::pin(async move {
                    let done = sqlx::query(
                        "UPDATE effects SET lease_until_ms = ?3 \
                         WHERE id = ?1 AND state = 'sending' AND lease_epoch = ?2",
                    )
                    .bind(id.to_string())
                    .bind(epoch)
                    .bind(until)
                    .execute(connection)
                    .await?;
                    fenced("effects", &id, done.rows_affected())
                })
            })
            .await
    }

    /// Frees sends whose lease ran out (`all` at start-up): each is ambiguous now, and what its
    /// policy says happens. `policies` knows the configured effects; one that is no longer
    /// configured waits for a person.
    pub async fn free_sends(
        &self,
        all: bool,
        policies: Vec<(String, AmbiguousPolicy)>,
        planner: Arc<dyn PlanEffects>,
    ) -> Result<u64, StoreError> {
        let (now, mono) = (self.clock.now(), monotonic_ms(self.clock.monotonic()));
        let ids = Arc::clone(&self.ids);
        self.writer
            .write("free sends", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let lost: Vec<(String, String, bool)> = sqlx::query_as(
                        "SELECT id, effect, operation_id IS NULL FROM effects WHERE state = 'sending' \
                         AND (?1 OR lease_until_ms < ?2) LIMIT 10000",
                    )
                    .bind(all)
                    .bind(mono)
                    .fetch_all(&mut *connection)
                    .await?;
                    for (id, name, is_alert) in &lost {
                        let policy = policies.iter().find(|(n, _)| n == name).map(|(_, p)| *p);
                        let state = match policy {
                            Some(AmbiguousPolicy::Retry) => EffectState::Ambiguous,
                            Some(AmbiguousPolicy::Hold) | None => EffectState::Held,
                        };
                        sqlx::query(
                            "UPDATE effects SET state = ?2, next_attempt_at_ms = ?3, lease_until_ms = NULL, \
                             last_error = 'its sender was lost between sending and the receipt' \
                             WHERE id = ?1 AND state = 'sending'",
                        )
                        .bind(id)
                        .bind(state.as_str())
                        .bind(now.as_millis())
                        .execute(&mut *connection)
                        .await?;
                        // As for a receipt: an alert raises none about itself.
                        if state == EffectState::Held && !is_alert {
                            let summary = format!(
                                "effect {name} may or may not have been delivered and waits for a decision"
                            );
                            let subject = format!("effect/{id}");
                            alerts::open(connection, &subject, &summary, now, &*planner, &*ids)
                                .await?;
                        }
                    }
                    Ok(u64::try_from(lost.len()).unwrap_or(u64::MAX))
                })
            })
            .await
    }
}

impl Reader {
    /// One effect.
    pub async fn effect(
        &self,
        id: Uuid,
    ) -> Result<Option<crate::domain::ledger::EffectRecord>, StoreError> {
        let row = sqlx::query("SELECT * FROM effects WHERE id = ?1")
            .bind(id.to_string())
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(effect).transpose()
    }

    /// When the next effect of each name is due, whether the name is still configured or not. Jumps
    /// from name to name in the index, so it costs as many steps as there are names.
    pub async fn effects_due(&self) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let due: Vec<(String, i64)> = sqlx::query_as(
            "WITH RECURSIVE names (effect) AS ( \
                 SELECT min(effect) FROM effects WHERE state IN ('planned', 'ambiguous') \
                 UNION ALL \
                 SELECT (SELECT min(e.effect) FROM effects e \
                         WHERE e.state IN ('planned', 'ambiguous') AND e.effect > names.effect) \
                 FROM names WHERE names.effect IS NOT NULL) \
             SELECT effect, (SELECT min(e.next_attempt_at_ms) FROM effects e \
                             WHERE e.state IN ('planned', 'ambiguous') AND e.effect = names.effect) \
             FROM names WHERE effect IS NOT NULL",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(due
            .into_iter()
            .map(|(name, ms)| (name, Timestamp::from_millis(ms)))
            .collect())
    }

    /// When the next effect is due, if any is.
    pub async fn next_effect_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let due: Option<i64> = sqlx::query_scalar(
            "SELECT min(next_attempt_at_ms) FROM effects WHERE state IN ('planned', 'ambiguous')",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(due.map(Timestamp::from_millis))
    }
}

/// Where an attempt's end puts the effect, when it is due again, and why.
pub(super) fn fate(
    end: &EffectEnd,
    give_up_at: Timestamp,
    now: Timestamp,
) -> (EffectState, Timestamp, Option<String>) {
    let given_up = |why: &str| Some(format!("given up after its time was over; last: {why}"));
    match end {
        EffectEnd::Done => (EffectState::Done, now, None),
        EffectEnd::Dead { why } => (EffectState::Dead, now, Some(why.clone())),
        EffectEnd::Again { at, why } if *at > give_up_at => (EffectState::Dead, now, given_up(why)),
        EffectEnd::Again { at, why } => (EffectState::Planned, *at, Some(why.clone())),
        EffectEnd::Unknown {
            policy: AmbiguousPolicy::Hold,
            why,
            ..
        } => (EffectState::Held, now, Some(why.clone())),
        EffectEnd::Unknown { at, why, .. } if *at > give_up_at => {
            (EffectState::Held, now, given_up(why))
        }
        EffectEnd::Unknown { at, why, .. } => (EffectState::Ambiguous, *at, Some(why.clone())),
    }
}

/// Inserts effects whose keys are absent, and writes down how many a settled operation should have,
/// which it answers. An operation whose effects are withheld gets none.
pub(super) async fn plan(
    connection: &mut SqliteConnection,
    operation: Option<&Operation>,
    effects: &[NewEffect],
    now: Timestamp,
    give_up_at: Timestamp,
    ids: &dyn Ids,
) -> Result<Option<u32>, StoreError> {
    let withheld = operation.is_some_and(|operation| operation.effects_withheld);
    for new in effects.iter().filter(|_| !withheld) {
        sqlx::query(
            "INSERT INTO effects (id, operation_id, operation_name, effect, cause, idempotency_key, payload, \
             state, planned_at_ms, next_attempt_at_ms, give_up_at_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'planned', ?8, ?8, ?9) ON CONFLICT (idempotency_key) DO NOTHING",
        )
        .bind(ids.uuid(now).to_string())
        .bind(operation.map(|o| o.id.to_string()))
        .bind(operation.and_then(|o| o.name.as_ref().map(|n| n.as_str().to_owned())))
        .bind(&new.effect)
        .bind(&new.cause)
        .bind(&new.idempotency_key)
        .bind(&new.payload)
        .bind(now.as_millis())
        .bind(give_up_at.as_millis())
        .execute(&mut *connection)
        .await?;
    }
    let Some(operation) = operation else {
        return Ok(None);
    };
    let expected: Option<u32> = sqlx::query_scalar(
        "UPDATE operations SET effects_expected = \
         (SELECT count(*) FROM effects WHERE operation_id = ?1) \
         WHERE id = ?1 AND settled_at_ms IS NOT NULL; \
         SELECT effects_expected FROM operations WHERE id = ?1",
    )
    .bind(operation.id.to_string())
    .fetch_one(connection)
    .await?;
    Ok(expected)
}

/// Lets an operation have its effects from here on.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    operation: Uuid,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE operations SET effects_withheld = 0 WHERE id = ?1")
        .bind(operation.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

/// Marks a settled operation's effects as never planned, for the repair sweep to find.
pub(super) async fn unplan(
    connection: &mut SqliteConnection,
    operation: Uuid,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET effects_expected = NULL WHERE id = ?1 AND settled_at_ms IS NOT NULL",
    )
    .bind(operation.to_string())
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes the dead and held effects of an operation due again, with the same keys.
pub(super) async fn revive(
    connection: &mut SqliteConnection,
    operation: Uuid,
    now: Timestamp,
    give_up_at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE effects SET state = 'planned', finished_at_ms = NULL, next_attempt_at_ms = ?2, \
         give_up_at_ms = max(give_up_at_ms, ?3) WHERE operation_id = ?1 AND state IN ('dead', 'held')",
    )
    .bind(operation.to_string())
    .bind(now.as_millis())
    .bind(give_up_at.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}
