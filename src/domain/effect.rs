//! Side effects: which rules match a settled operation, and the key that names one delivery for ever.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wildmatch::WildMatch;

use super::operation::{JobKind, OperationName, OperationState};

/// Where an outbox row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// Due at its `next_attempt_at`.
    Planned,
    /// Committed before anything left this machine.
    Sending,
    /// The receiver said yes.
    Done,
    /// It left, and nobody knows whether it arrived; policy `retry` repeats it with the same key.
    Ambiguous,
    /// As ambiguous, under policy `hold`: waits for a person.
    Held,
    /// Given up, or refused for good.
    Dead,
}

impl EffectState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Planned,
        Self::Sending,
        Self::Done,
        Self::Ambiguous,
        Self::Held,
        Self::Dead,
    ];

    /// The states that a person may send it again from, many at a time.
    pub const STUCK: [Self; 3] = [Self::Dead, Self::Held, Self::Ambiguous];

    /// The word used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Sending => "sending",
            Self::Done => "done",
            Self::Ambiguous => "ambiguous",
            Self::Held => "held",
            Self::Dead => "dead",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

impl fmt::Display for EffectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What to do when it is not known whether an effect arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AmbiguousPolicy {
    /// Send again with the same key: at least once.
    Retry,
    /// Wait for a person: at most once.
    Hold,
}

/// What an attempt to deliver an effect ended in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver took it.
    Done,
    /// It surely did not take effect; try again, not before `after` when given.
    Retry {
        /// How long the receiver asked us to wait.
        after: Option<Duration>,
        /// Why, in chosen words.
        why: String,
    },
    /// It may or may not have taken effect.
    Ambiguous {
        /// Why, in chosen words.
        why: String,
    },
    /// It never will.
    Refused {
        /// Why, in chosen words.
        why: String,
    },
}

/// On what an effect acts: an ending, or a flag of a pending operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// A settled or closed state.
    State(OperationState),
    /// The interaction waits for a client.
    RequiresAction,
    /// Pending for longer than `reconcile.stuck_after`.
    Overdue,
}

impl Trigger {
    /// The word used in configuration, tables and keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State(state) => state.as_str(),
            Self::RequiresAction => "requires_action",
            Self::Overdue => "overdue",
        }
    }

    /// Reads the word back; only endings and flags can trigger effects.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "requires_action" => Some(Self::RequiresAction),
            "overdue" => Some(Self::Overdue),
            _ => OperationState::from_word(word)
                .filter(|s| s.is_settled() || s.is_closed_unproven())
                .map(Self::State),
        }
    }
}

/// Which operations one configured effect is for.
#[derive(Debug, Clone)]
pub struct EffectRule {
    /// The effect's name, unique in the configuration.
    pub name: String,
    /// Glob over job kinds.
    pub job_kind: String,
    /// The endings and flags it acts on.
    pub on: Vec<Trigger>,
    /// What happens when an attempt's end is not known.
    pub ambiguous: AmbiguousPolicy,
}

impl EffectRule {
    /// Whether this effect is for an operation of that job kind at that trigger. An operation that
    /// nobody registered is matched only by `*` and by the word `unregistered`.
    pub fn matches(&self, job_kind: &JobKind, trigger: Trigger) -> bool {
        if !self.on.contains(&trigger) {
            return false;
        }
        if job_kind.is_unregistered() {
            return self.job_kind == "*" || self.job_kind == JobKind::UNREGISTERED;
        }
        WildMatch::new(&self.job_kind).matches(job_kind.as_str())
    }
}

/// The idempotency key of one effect of one operation at one trigger: the same for ever, also in a
/// rebuilt database, and legal as a `webhook-id`.
pub fn idempotency_key(operation: &OperationName, effect: &str, trigger: Trigger) -> String {
    let mut hash = Sha256::new();
    for part in [operation.as_str(), "|", effect, "|", trigger.as_str()] {
        hash.update(part.as_bytes());
    }
    data_encoding::BASE32_NOPAD
        .encode(&hash.finalize())
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(job_kind: &str) -> EffectRule {
        EffectRule {
            name: "notify".into(),
            job_kind: job_kind.into(),
            on: vec![Trigger::State(OperationState::Succeeded), Trigger::Overdue],
            ambiguous: AmbiguousPolicy::Retry,
        }
    }

    #[test]
    fn rules_match_by_glob_and_ending() {
        let job: JobKind = "nightly-captions".parse().unwrap();
        let ok = Trigger::State(OperationState::Succeeded);
        assert!(rule("nightly-*").matches(&job, ok));
        assert!(rule("*").matches(&job, Trigger::Overdue));
        assert!(!rule("weekly-*").matches(&job, ok));
        assert!(!rule("*").matches(&job, Trigger::State(OperationState::Failed)));
    }

    #[test]
    fn an_unregistered_operation_is_matched_only_when_meant() {
        let job = JobKind::unregistered();
        let ok = Trigger::State(OperationState::Succeeded);
        assert!(rule("*").matches(&job, ok));
        assert!(rule("unregistered").matches(&job, ok));
        assert!(!rule("un*").matches(&job, ok));
    }

    #[test]
    fn the_key_is_stable_and_tells_its_three_parts_apart() {
        let name: OperationName = "batches/a".parse().unwrap();
        let ok = Trigger::State(OperationState::Succeeded);
        let key = idempotency_key(&name, "notify", ok);
        // Computed independently: base32(sha256("batches/a|notify|succeeded")), lower case.
        assert_eq!(key, "vkywrtadclgo7zmshkvppovuofd3nxjssfseyr6h3y4wcyqq5zua");
        assert_eq!(key, idempotency_key(&name, "notify", ok));
        assert_ne!(key, idempotency_key(&name, "other", ok));
        assert_ne!(key, idempotency_key(&name, "notify", Trigger::Overdue));
    }

    #[test]
    fn only_endings_and_flags_trigger() {
        assert_eq!(Trigger::from_word("pending"), None);
        assert_eq!(Trigger::from_word("reserved"), None);
        for word in ["succeeded", "gone", "requires_action", "overdue"] {
            assert_eq!(Trigger::from_word(word).map(Trigger::as_str), Some(word));
        }
    }
}
