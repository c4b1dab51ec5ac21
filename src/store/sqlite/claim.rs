//! Taking work, and taking it back from the dead.
//!
//! A claim raises the row's epoch and charges an attempt in the same commit, before anything runs: a
//! job that brings the process down is counted, so it cannot do so for ever.
//!
//! A death charges everything that was in hand, and only one of it may be the cause. So an item that
//! was in hand at two deaths is a *suspect*, and of the suspects one is in hand at a time. The
//! poison, when its turn comes, dies in the company of nothing that was charged before; an innocent
//! suspect ends in peace when its own turn comes. Crowds cannot bury anybody: `max_attempts` is
//! reached by what was the only suspect in hand at all the deaths but two. Each lane has its own first
//! suspect: one that has no slot in its lane holds up nobody in the other. A freed suspect waits behind
//! the others of its lane, so each gets its turn; the fresh lane goes first, for ten deaths at most.
//!
//! Race: two claims never run at once (there is one writer), so the look for a suspect in hand and
//! the lease of the next are one step.

use std::sync::Arc;
use std::time::Duration;

use sqlx::SqliteConnection;

use super::super::Store;
use super::super::error::StoreError;
use super::queue::{back_to_ready, bury, monotonic_ms};
use super::rows::lease;
use super::write::Lane;
use crate::base::clock::Timestamp;
use crate::domain::ledger::Lease;

/// How many items a claim may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// In all.
    pub total: u32,
    /// Of those that somebody waits for.
    pub fresh: u32,
    /// Of the others.
    pub old: u32,
}

impl Store {
    /// Claims due work: at most `fresh` items that somebody waits for, then at most `old` of the
    /// others, `total` in all, one suspect among them at most. Each lease lasts `lease` by the
    /// monotonic clock.
    pub async fn claim(
        &self,
        total: u32,
        fresh: u32,
        old: u32,
        lease: Duration,
    ) -> Result<Vec<Lease>, StoreError> {
        self.claim_into(move || Room { total, fresh, old }, lease)
            .await
    }

    /// The same, with as much room as there is when the claim runs.
    pub async fn claim_into<R>(&self, room: R, lease: Duration) -> Result<Vec<Lease>, StoreError>
    where
        R: FnOnce() -> Room + Send + 'static,
    {
        let clock = Arc::clone(&self.clock);
        self.writer
            .write("claim", Lane::Patient, move |connection| {
                Box::pin(async move {
                    let (now, until) = (clock.now(), monotonic_ms(clock.monotonic() + lease));
                    let room = room();
                    let fresh = room.fresh.min(room.total);
                    let mut leases = take(connection, true, now, until, fresh).await?;
                    let taken = u32::try_from(leases.len()).unwrap_or(room.total);
                    let rest = room.total.saturating_sub(taken).min(room.old);
                    if rest > 0 {
                        leases.extend(take(connection, false, now, until, rest).await?);
                    }
                    Ok(leases)
                })
            })
            .await
    }

    /// Frees leases that ran out. Their attempt stays charged; at `max_attempts` they are dead. Each
    /// remembers one death more.
    /// At start-up (`all`) every lease is void, whatever its time. Answers how many were freed.
    pub async fn rescue_leases(&self, max_attempts: u32, all: bool) -> Result<u64, StoreError> {
        let (now, mono) = (self.clock.now(), monotonic_ms(self.clock.monotonic()));
        self.writer
            .write("rescue leases", Lane::Normal, move |connection| {
                Box::pin(async move {
                    let lost: Vec<(i64, i64)> = sqlx::query_as(
                        "SELECT id, attempts FROM work_queue \
                         WHERE state = 'leased' AND (?1 OR lease_until_ms < ?2) LIMIT 10000",
                    )
                    .bind(all)
                    .bind(mono)
                    .fetch_all(&mut *connection)
                    .await?;
                    for (id, attempts) in &lost {
                        sqlx::query("UPDATE work_queue SET crashes = crashes + 1 WHERE id = ?1")
                            .bind(id)
                            .execute(&mut *connection)
                            .await?;
                        if *attempts >= i64::from(max_attempts) {
                            bury(connection, *id, now, "its worker was lost too often").await?;
                        } else {
                            let why = Some("its worker was lost");
                            back_to_ready(connection, *id, now, why, false).await?;
                        }
                    }
                    Ok(u64::try_from(lost.len()).unwrap_or(u64::MAX))
                })
            })
            .await
    }
}

/// A bare `LIMIT ?4` would be planned anew each time it is bound, which costs more than the claim: SQLite
/// looks at the number to plan by it.
///
/// Two deaths make a suspect; the index `work_queue_suspects` says the same number.
const CLAIM: &str = "
    UPDATE work_queue SET state = 'leased', lease_epoch = lease_epoch + 1, lease_until_ms = ?1, attempts = attempts + 1
    WHERE id IN (SELECT id FROM work_queue WHERE state = 'ready' AND fresh = ?2 AND available_at_ms <= ?3
                 AND (crashes < 2 OR id = (
                     SELECT id FROM work_queue WHERE state = 'ready' AND crashes >= 2 AND fresh = ?2 AND available_at_ms <= ?3
                     AND NOT EXISTS (SELECT 1 FROM work_queue WHERE state = 'leased' AND crashes >= 2)
                     ORDER BY available_at_ms, id LIMIT 1))
                 ORDER BY available_at_ms, id LIMIT ?4 + 0)
    RETURNING id, lease_epoch, raw, kind_hint, reservation, event_id, reason, created_at_ms, available_at_ms, attempts,
              failures";

async fn take(
    connection: &mut SqliteConnection,
    fresh: bool,
    now: Timestamp,
    until: i64,
    limit: u32,
) -> Result<Vec<Lease>, StoreError> {
    let rows = sqlx::query(CLAIM)
        .bind(until)
        .bind(fresh)
        .bind(now.as_millis())
        .bind(limit)
        .fetch_all(connection)
        .await?;
    rows.iter().map(lease).collect()
}
