//! When operations are looked at and worried about, as configured.

use std::time::Duration;

use crate::base::backoff::{Backoff, jittered};
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::config::Settings;
use crate::config::settings::Unregistered;
use crate::domain::ledger::Operation;
use crate::domain::operation::Kind;
use crate::domain::work::{Reason, Schedule};
use crate::store::Terms;

/// A batch that was not processed for this long is expired by the provider (documented as 24 h in
/// one place and 48 h in two; the longer one is the one to wait for).
const BATCH_DEADLINE: Duration = Duration::from_hours(48);
/// Closed-unproven operations are looked at once a day.
pub(super) const DAILY: Duration = Duration::from_hours(24);
/// Looks that may find an operation done with neither response nor error before it is anomalous.
pub(super) const MAX_NEITHER_LOOKS: u32 = 5;

/// The configured times and limits of the ledger and its worker.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(super) schedule: Schedule,
    pub(super) grace: Duration,
    pub(super) stuck_after: Duration,
    pub(super) stuck_by_kind: std::collections::BTreeMap<Kind, Duration>,
    pub(super) gone_after: Duration,
    pub(super) told_after: Duration,
    pub(super) give_up_after: Duration,
    pub(super) unresolved_ttl: Duration,
    pub(super) max_attempts: u32,
    pub(super) retry: Backoff,
    pub(super) adopt: bool,
}

impl Policy {
    /// Takes what concerns it out of the settings.
    pub fn new(settings: &Settings) -> Self {
        let reconcile = &settings.reconcile;
        Self {
            schedule: Schedule {
                check_min: reconcile.check_min,
                check_max: reconcile.check_max,
            },
            grace: reconcile.grace,
            stuck_after: reconcile.stuck_after,
            stuck_by_kind: reconcile.stuck_after_by_kind.clone(),
            gone_after: reconcile.gone_after,
            told_after: reconcile.webhook_late_after,
            give_up_after: settings.delivery.give_up_after,
            unresolved_ttl: settings.worker.unresolved_ttl,
            max_attempts: settings.worker.max_attempts,
            retry: Backoff {
                first: settings.worker.retry_first,
                cap: settings.worker.retry_cap,
            },
            adopt: settings.ledger.unregistered == Unregistered::Adopt,
        }
    }

    /// The terms of an operation of `kind` that enters the ledger at `now`.
    pub fn terms(&self, kind: Kind, now: Timestamp) -> Terms {
        let stuck = self
            .stuck_by_kind
            .get(&kind)
            .copied()
            .unwrap_or(self.stuck_after);
        Terms {
            first_look_at: now.after(self.grace),
            overdue_at: now.after(stuck),
            deadline_at: (kind == Kind::Batch).then(|| now.after(BATCH_DEADLINE)),
            give_up_at: self.give_up_at(now),
        }
    }

    /// When an effect planned at `now` is given up.
    pub fn give_up_at(&self, now: Timestamp) -> Timestamp {
        now.after(self.give_up_after)
    }

    /// When a running operation is looked at next, after a look for `reason`.
    pub(super) fn next_look(
        &self,
        operation: Option<&Operation>,
        reason: Reason,
        now: Timestamp,
        ids: &dyn Ids,
    ) -> Timestamp {
        let age = operation.map_or(Duration::ZERO, |o| now.since(o.submitted_at));
        let looks = match reason {
            Reason::Webhook | Reason::Replay => Some(1),
            _ => operation
                .and_then(|o| o.looks_since_event)
                .map(|n| n.saturating_add(1)),
        };
        let left = operation
            .and_then(|o| o.deadline_at)
            .map(|deadline| deadline.since(now));
        now.after(jittered(
            self.schedule.next_look(age, looks, left),
            ids.unit(),
        ))
    }

    /// When a delivery naming something the API does not know (yet) is tried again: soon at first,
    /// for the operation may not be visible yet, then by its age.
    pub(super) fn next_try_unknown(
        &self,
        since: Timestamp,
        tries: u32,
        now: Timestamp,
        ids: &dyn Ids,
    ) -> Timestamp {
        let delay = self
            .schedule
            .next_look(now.since(since), Some(tries.max(1)), None);
        now.after(jittered(delay, ids.unit()))
    }
}
