//! Work items: why somebody looks at an operation, and when the next look is due.
//!
//! The schedule is pure: [`Schedule::next_look`] takes ages and gives a delay, the caller adds
//! jitter and writes the due time down.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why an operation is looked at; the one that leads to settlement becomes `settled_by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A verified delivery named it.
    Webhook,
    /// Its next look was due.
    Reconcile,
    /// It was registered.
    Register,
    /// A captured delivery was replayed.
    Replay,
    /// A person asked.
    Operator,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 5] = [
        Self::Webhook,
        Self::Reconcile,
        Self::Register,
        Self::Replay,
        Self::Operator,
    ];

    /// The word used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Reconcile => "reconcile",
            Self::Register => "register",
            Self::Replay => "replay",
            Self::Operator => "operator",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == word)
    }

    /// Whether somebody is waiting: such items have slots that reconciliation cannot take.
    pub const fn is_fresh(self) -> bool {
        !matches!(self, Self::Reconcile)
    }
}

/// Where a work item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    /// Waiting for its due time.
    Ready,
    /// A worker has it.
    Leased,
    /// Closed; `outcome` says how.
    Done,
    /// Given up after too many attempts; a person decides.
    Dead,
}

impl WorkState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Leased, Self::Done, Self::Dead];

    /// The word used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

/// How a work item closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The operation settled.
    Settled,
    /// The operation had settled before.
    AlreadySettled,
    /// Still running; the next look is the operation's own.
    NotTerminal,
    /// Closed without proof (gone, anomalous).
    Closed,
    /// Nobody registered it and adoption is off.
    NotOurs,
    /// It was pruned from the ledger long ago.
    Pruned,
    /// Never resolved to an operation.
    Unresolved,
}

impl Outcome {
    /// The word used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::AlreadySettled => "already_settled",
            Self::NotTerminal => "not_terminal",
            Self::Closed => "closed",
            Self::NotOurs => "not_ours",
            Self::Pruned => "pruned",
            Self::Unresolved => "unresolved",
        }
    }
}

/// When a running operation is looked at next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Shortest time between looks that nobody asked for.
    pub check_min: Duration,
    /// Longest time between looks.
    pub check_max: Duration,
}

/// Looks after an event that said "done" while the API did not: the API may lag behind its webhook.
const AFTER_EVENT: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(60),
];
/// Near its deadline an operation is looked at at least this often.
const NEAR_DEADLINE: Duration = Duration::from_mins(5);
const LAST_HOUR: Duration = Duration::from_hours(1);

impl Schedule {
    /// The delay to the next look at an operation of this `age` that is still running.
    ///
    /// `looks_since_event` counts the looks taken since the last event named it, this one included;
    /// `None` when no event did. `to_deadline` is the time left, if it has a deadline.
    pub fn next_look(
        &self,
        age: Duration,
        looks_since_event: Option<u32>,
        to_deadline: Option<Duration>,
    ) -> Duration {
        let after_event = looks_since_event
            .and_then(|n| AFTER_EVENT.get(usize::try_from(n.max(1) - 1).unwrap_or(usize::MAX)));
        if let Some(soon) = after_event {
            return (*soon).min(self.check_max);
        }
        let by_age = (age / 20).clamp(self.check_min, self.check_max.max(self.check_min));
        match to_deadline {
            Some(left) if left <= LAST_HOUR => by_age.min(NEAR_DEADLINE.max(self.check_min)),
            _ => by_age,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Schedule = Schedule {
        check_min: Duration::from_secs(60),
        check_max: Duration::from_secs(1800),
    };
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn after_an_event_looks_are_close_together_then_follow_age() {
        let looks: Vec<u64> = (1..=4)
            .map(|n| S.next_look(HOUR, Some(n), None).as_secs())
            .collect();
        assert_eq!(looks, [5, 15, 60, 180]);
    }

    #[test]
    fn age_sets_the_pace_within_its_bounds() {
        assert_eq!(S.next_look(Duration::ZERO, None, None).as_secs(), 60);
        assert_eq!(S.next_look(HOUR, None, None).as_secs(), 180);
        assert_eq!(S.next_look(HOUR * 100, None, None).as_secs(), 1800);
    }

    #[test]
    fn the_last_hour_is_watched_closely() {
        assert_eq!(S.next_look(HOUR * 47, None, Some(HOUR)).as_secs(), 300);
        assert_eq!(S.next_look(HOUR * 47, None, Some(HOUR * 2)).as_secs(), 1800);
        assert_eq!(
            S.next_look(HOUR * 49, None, Some(Duration::ZERO)).as_secs(),
            300
        );
    }

    #[test]
    fn bounds_may_be_a_tenth_of_a_second() {
        let fast = Schedule {
            check_min: Duration::from_millis(100),
            check_max: Duration::from_millis(100),
        };
        assert_eq!(
            fast.next_look(HOUR, Some(1), Some(HOUR)),
            Duration::from_millis(100)
        );
        assert_eq!(
            fast.next_look(HOUR, None, Some(HOUR)),
            Duration::from_millis(100)
        );
    }
}
