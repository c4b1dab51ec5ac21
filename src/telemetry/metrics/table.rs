//! Every metric: name, kind, sentence, labels.

/// What a metric measures like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// The last value set.
    Gauge,
    /// A distribution, with the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// Which words a label may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// These, and `other`.
    Listed(&'static [&'static str]),
    /// The names of the configured sources, and `unknown`.
    Sources,
    /// The names of the configured effects.
    Effects,
    /// Names written in the code.
    Loops,
}

/// One label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What it may say.
    pub words: Words,
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it measures like.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// One sentence.
    pub about: &'static str,
    /// Its labels, in order.
    pub labels: &'static [Label],
}

/// What is said for a word that no list has.
pub const OTHER: &str = "other";

impl Label {
    /// The word itself when the label knows it, else [`OTHER`].
    pub fn bounded(&self, word: &str) -> &'static str {
        match self.words {
            Listed(words) => words.iter().find(|w| **w == word).copied(),
            Sources | Effects | Loops => None,
        }
        .unwrap_or(OTHER)
    }
}

macro_rules! labels {
    ($($ident:ident = $name:literal: $words:expr;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $ident: Label = Label { name: $name, words: $words };
        )*
    };
}

use Words::{Effects, Listed, Loops, Sources};

labels! {
    SOURCE = "source": Sources;
    EFFECT = "effect": Effects;
    VERDICT = "verdict": Listed(&["accepted", "ignored", "duplicate"]);
    REFUSAL = "reason": Listed(&[
        "unknown_source", "wrong_token", "address_not_allowed", "missing_proof", "bad_shared_secret",
        "malformed_signature", "bad_timestamp", "bad_signature", "too_old", "too_early",
        "rotating",
        "bad_token", "unknown_key", "keys_unavailable", "bad_claims", "token_expired",
        "token_too_early", "wrong_audience", "wrong_issuer", "body_mismatch",
        "body_too_large", "body_incomplete", "busy", "store_unavailable",
    ]);
    KEY_FETCH = "outcome": Listed(&["fetched", "unreachable", "refused", "too_large", "no_keys"]);
    FETCH = "outcome": Listed(&[
        "terminal", "running", "neither", "throttled", "unavailable", "key_refused", "forbidden", "not_found",
        "rejected", "undecodable",
    ]);
    CAUSE = "settled_by": Listed(&["webhook", "reconcile", "register", "replay", "operator"]);
    REASON = "reason": Listed(&["webhook", "reconcile", "register", "replay", "operator"]);
    ENDING = "state": Listed(&[
        "succeeded", "failed", "cancelled", "expired", "filtered", "incomplete", "budget_exceeded",
        "gone", "anomalous",
    ]);
    OPEN_STATE = "state": Listed(&["reserved", "pending", "gone", "anomalous"]);
    WORK_OUTCOME = "outcome": Listed(&[
        "settled", "already_settled", "not_terminal", "closed", "not_ours", "pruned", "unresolved",
    ]);
    EFFECT_END = "state": Listed(&["done", "ambiguous", "held", "dead"]);
    EFFECT_STATE = "state": Listed(&["planned", "sending", "ambiguous", "held", "dead"]);
    ATTEMPT = "outcome": Listed(&["done", "retry", "ambiguous", "refused"]);
    LOOP = "loop": Loops;
    ALERT_TURN = "turn": Listed(&["fired", "recovered"]);
    LOOK = "found": Listed(&["matching", "drift", "disabled", "missing", "failed"]);
    SPAN_END = "outcome": Listed(&["exported", "queue_full", "undelivered", "refused"]);
    CANARY_END = "outcome": Listed(&["sent", "arrived", "missed", "failed"]);
    FILE = "file": Listed(&["db", "wal"]);
    VERSION = "version": Listed(&[env!("CARGO_PKG_VERSION")]);
}

macro_rules! table {
    ($($ident:ident = $kind:expr, $unit:ident, $name:literal, [$($label:ident),*], $about:literal;)*) => {
        $(
            #[doc = concat!("`hookledger_", $name, "`")]
            pub const $ident: Metric = Metric {
                name: concat!("hookledger_", $name),
                kind: $kind,
                unit: Unit::$unit,
                about: $about,
                labels: &[$($label),*],
            };
        )*
        /// Every metric, in the order of a delivery's life.
        pub const ALL: &[Metric] = &[$($ident),*];
    };
}

use Kind::{Counter, Gauge, Histogram};

const LATENCY: Kind = Histogram(&[
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
]);
const LAG: Kind = Histogram(&[
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0, 86_400.0, 259_200.0,
]);
const WAIT: Kind = Histogram(&[
    0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0,
]);
const GROUP: Kind = Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);

table! {
    // The door.
    DELIVERIES = Counter, Count, "deliveries_total", [SOURCE, VERDICT],
        "Verified deliveries that were committed, by what became of them.";
    REFUSALS = Counter, Count, "refusals_total", [SOURCE, REFUSAL],
        "Deliveries that were refused, by the first check that failed.";
    SIGNED_TOO_OLD = Counter, Count, "signed_too_old_total", [SOURCE],
        "Rightly signed deliveries whose timestamp lay before the window.";
    SIGNED_TOO_EARLY = Counter, Count, "signed_too_early_total", [SOURCE],
        "Rightly signed deliveries whose timestamp lay after the window.";
    UNPINNED_AUDIENCE = Counter, Count, "unpinned_audience_total", [SOURCE],
        "Tokens accepted whatever their audience, since the source pins none.";
    JWKS_FETCHES = Counter, Count, "jwks_fetches_total", [KEY_FETCH],
        "Requests for the public keys of tokens, by what they brought.";
    RECEIVE_SECONDS = LATENCY, Seconds, "receive_seconds", [],
        "From a delivery's complete body to its answer.";
    CONNECTIONS = Gauge, Count, "connections", [],
        "Open connections to the public listener.";
    IN_FLIGHT = Gauge, Count, "in_flight", [],
        "Deliveries being handled.";
    // The store.
    COMMITS = Counter, Count, "commits_total", [],
        "Commits of the database.";
    COMMIT_GROUP_SIZE = GROUP, Count, "commit_group_size", [],
        "Writes that shared one commit.";
    COMMIT_SECONDS = LATENCY, Seconds, "commit_seconds", [],
        "Duration of a commit, its fsync included.";
    WRITE_FAILURES = Counter, Count, "write_failures_total", [],
        "Writes that the store could not commit.";
    WRITE_QUEUE_BYTES = Gauge, Bytes, "write_queue_bytes", [],
        "Bytes of writes waiting for their commit.";
    STORE_BYTES = Gauge, Bytes, "store_bytes", [FILE],
        "Size of the database and of its write-ahead log.";
    DISK_FREE_BYTES = Gauge, Bytes, "disk_free_bytes", [],
        "Free space of the disk with the database.";
    DISK_LOW_BYTES = Gauge, Bytes, "disk_low_bytes", [],
        "Free space below which hookledger alerts: store.low_free_disk.";
    // The work.
    QUEUE_DEPTH = Gauge, Count, "queue_depth", [],
        "Work items that are ready or leased.";
    OLDEST_DUE_SECONDS = Gauge, Seconds, "oldest_due_seconds", [],
        "How long the oldest due work item has been waiting.";
    QUEUE_LAG_SECONDS = WAIT, Seconds, "queue_lag_seconds", [REASON],
        "From the moment a work item was due to its claim.";
    DEAD_LETTERS = Gauge, Count, "dead_letters", [],
        "Work items given up, waiting for a person.";
    DEAD_LETTERED = Counter, Count, "dead_lettered_total", [],
        "Work items that were given up.";
    WORK_CLOSED = Counter, Count, "work_closed_total", [REASON, WORK_OUTCOME],
        "Work items that closed, by why they existed and how they ended.";
    FETCHES = Counter, Count, "fetches_total", [FETCH],
        "Requests to the operations API, by what they brought.";
    FETCH_SECONDS = LATENCY, Seconds, "fetch_seconds", [],
        "Duration of a request to the operations API.";
    FETCHING_PAUSED = Gauge, Count, "fetching_paused", [],
        "1 while all fetching is paused because the API refused the key.";
    // The ledger.
    SETTLED = Counter, Count, "settled_total", [CAUSE, ENDING],
        "Operations that settled or were closed, by what led to it and how they ended.";
    SETTLE_LAG_SECONDS = LAG, Seconds, "settle_lag_seconds", [],
        "From an operation's registration to its settling.";
    END_LAG_SECONDS = WAIT, Seconds, "end_lag_seconds", [CAUSE],
        "From the end that the provider states to the settling, by what led to it.";
    OPERATIONS = Gauge, Count, "operations", [OPEN_STATE],
        "Operations that are not settled, by where they stand.";
    OVERDUE = Gauge, Count, "operations_overdue", [],
        "Operations pending for longer than they should be.";
    ADOPTED = Counter, Count, "adopted_total", [],
        "Operations that came into the ledger without being registered.";
    REFUTED = Counter, Count, "refuted_total", [],
        "Deliveries that said an operation had ended when the API said it was running.";
    WEBHOOK_RESCUED = Counter, Count, "webhook_rescued_total", [],
        "Settled operations whose webhook had not come in time.";
    WEBHOOK_LATE = Counter, Count, "webhook_late_total", [],
        "Rescued operations whose webhook came afterwards.";
    NO_EVENT_EXPECTED = Counter, Count, "no_event_expected_total", [],
        "Settled operations whose ending has no webhook event at all.";
    PRUNED = Counter, Count, "pruned_total", [],
        "Operations removed after their retention.";
    // The effects.
    EFFECTS_ENDED = Counter, Count, "effects_total", [EFFECT, EFFECT_END],
        "Effects that reached a state nobody leaves by himself.";
    EFFECT_ATTEMPTS = Counter, Count, "effect_attempts_total", [EFFECT, ATTEMPT],
        "Attempts to deliver an effect, by their end.";
    EFFECT_SECONDS = LATENCY, Seconds, "effect_seconds", [EFFECT],
        "Duration of one attempt to deliver an effect.";
    EFFECTS_BY_STATE = Gauge, Count, "effects", [EFFECT_STATE],
        "Rows of the outbox that are not done, by where they stand.";
    OLDEST_EFFECT_SECONDS = Gauge, Seconds, "oldest_effect_seconds", [],
        "How long the oldest due effect has been waiting.";
    // The process.
    LOOP_TURNS = Counter, Count, "loop_turns_total", [LOOP],
        "Turns of each background loop.";
    LOOP_RESTARTS = Counter, Count, "loop_restarts_total", [LOOP],
        "Times a background loop died and was started again.";
    LOOP_AGE_SECONDS = Gauge, Seconds, "loop_age_seconds", [LOOP],
        "Time since a background loop's last turn.";
    LOOP_BOUND_SECONDS = Gauge, Seconds, "loop_bound_seconds", [LOOP],
        "Age at which a background loop counts as silent.";
    ALERTS = Counter, Count, "alerts_total", [ALERT_TURN],
        "Alerts that fired and recovered.";
    ALERTS_OPEN = Gauge, Count, "alerts_open", [],
        "Alerts that have not recovered.";
    BUILD_INFO = Gauge, Count, "build_info", [VERSION],
        "1, with the version of the program.";
    TRACE_SPANS = Counter, Count, "trace_spans_total", [SPAN_END],
        "Spans of traces, by what became of them.";
    START_TIME_SECONDS = Gauge, Seconds, "start_time_seconds", [],
        "When the process started, in seconds since 1970.";
    // The subscription.
    SUBSCRIPTION_ENABLED = Gauge, Count, "subscription_enabled", [],
        "1 while the provider's record of where deliveries go is enabled.";
    SUBSCRIPTION_LOOKS = Counter, Count, "subscription_looks_total", [LOOK],
        "Looks at the provider's record, by what they found.";
    SUBSCRIPTION_REENABLED = Counter, Count, "subscription_reenabled_total", [],
        "Times a disabled record was enabled again.";
    CANARY = Counter, Count, "canary_total", [CANARY_END],
        "Pings that must come back as deliveries, by what became of them.";
    CANARY_SECONDS = LATENCY, Seconds, "canary_seconds", [],
        "From a ping to the moment its delivery was seen.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_and_are_unique() {
        let names: BTreeSet<_> = ALL.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            let name = metric.name;
            let total = name.ends_with("_total");
            assert_eq!(total, metric.kind == Counter, "{name}");
            let unit = match metric.unit {
                Unit::Seconds => name.ends_with("_seconds"),
                Unit::Bytes => name.ends_with("_bytes"),
                Unit::Count => !name.ends_with("_seconds") && !name.ends_with("_bytes"),
            };
            assert!(unit, "{name}");
            assert!(metric.about.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn a_word_nobody_listed_becomes_other() {
        assert_eq!(VERDICT.bounded("accepted"), "accepted");
        assert_eq!(VERDICT.bounded("canary"), OTHER);
    }
}
