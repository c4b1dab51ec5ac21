//! The ledger's records, as everybody above the store sees them.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::effect::{AmbiguousPolicy, EffectState, Trigger};
use super::event::Verdict;
use super::operation::{JobKind, Kind, OperationName, OperationState};
use super::work::{Reason, WorkState};
use crate::base::clock::Timestamp;

/// Whether a webhook told the ending, decided some time after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Too early to say.
    Undecided,
    /// A verified delivery named it in time.
    Webhook,
    /// No delivery did: reconciliation found the ending.
    Rescued,
    /// A delivery came after that was decided.
    Late,
    /// The provider has no event for such an ending.
    NoEvent,
}

impl Told {
    /// Every way.
    pub const ALL: [Self; 5] = [
        Self::Undecided,
        Self::Webhook,
        Self::Rescued,
        Self::Late,
        Self::NoEvent,
    ];

    /// The word used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undecided => "undecided",
            Self::Webhook => "webhook",
            Self::Rescued => "rescued",
            Self::Late => "late",
            Self::NoEvent => "no_event",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.as_str() == word)
    }
}

/// One operation of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a record's columns, not a state machine"
)]
pub struct Operation {
    /// Ledger id (`UUIDv7`).
    pub id: Uuid,
    /// Its name at the provider; `None` while it is only reserved.
    pub name: Option<OperationName>,
    /// What its name says it is; `None` while it is only reserved.
    pub kind: Option<Kind>,
    /// What the job is for.
    pub job_kind: JobKind,
    /// Whether somebody registered it (or it was adopted).
    pub registered: bool,
    /// Where it stands.
    pub state: OperationState,
    /// Parked until a client acts.
    pub requires_action: bool,
    /// Pending for longer than it should be.
    pub overdue: bool,
    /// When it was registered or adopted, or when its submitter says it was submitted.
    pub submitted_at: Timestamp,
    /// When it was registered.
    pub registered_at: Option<Timestamp>,
    /// When it settled.
    pub settled_at: Option<Timestamp>,
    /// What led to its settlement.
    pub settled_by: Option<Reason>,
    /// Looks taken at the API.
    pub attempts: u32,
    /// Looks since the last event named it.
    pub looks_since_event: Option<u32>,
    /// When the next look is due.
    pub next_check_at: Option<Timestamp>,
    /// When the provider gives it up.
    pub deadline_at: Option<Timestamp>,
    /// Since when the API keeps saying that it does not exist.
    pub not_found_since: Option<Timestamp>,
    /// Looks that found it done with neither response nor error.
    pub neither_looks: u32,
    /// Whether a webhook told its ending.
    pub told: Told,
    /// Whatever the submitter attached.
    pub user_metadata: Option<Value>,
    /// A short description of the last fetched state.
    pub summary: Option<Value>,
    /// SHA-256 of the fetched body it settled by.
    pub body_hash: Option<String>,
    /// Effects planned for it; `None` before settlement.
    pub effects_expected: Option<u32>,
    /// Its effects are not planned, because it may have had them: it was imported or restored, and
    /// its ending was found by the first look. A person may ask for them.
    pub effects_withheld: bool,
    /// Settled, and each of its effects is done.
    pub side_effect_done: bool,
}

/// One line of an operation's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// When.
    pub at: Timestamp,
    /// What became of it: a state, or a flag set or cleared.
    pub what: String,
    /// What caused it.
    pub cause: String,
    /// More, for people.
    pub detail: Option<String>,
}

/// An effect to be written into the outbox, if its key is not there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEffect {
    /// The configured effect's name.
    pub effect: String,
    /// The trigger's word, or `alert`.
    pub cause: String,
    /// The stable key.
    pub idempotency_key: String,
    /// The body, byte for byte as it will be sent.
    pub payload: Vec<u8>,
}

/// Decides which effects an operation gets. Called inside the transaction that settles or registers
/// it, with the record as that transaction sees it, so that neither order of the two loses one.
pub trait PlanEffects: Send + Sync + std::fmt::Debug {
    /// Whether its word is final. When not, what it plans is nothing, and a settled record it was
    /// asked about stays unplanned, for the repair sweep of a service that knows the rules.
    fn decides(&self) -> bool {
        true
    }

    /// The effects of `operation` at `trigger`.
    fn plan(&self, operation: &Operation, trigger: Trigger, at: Timestamp) -> Vec<NewEffect>;

    /// The deliveries of an alert that opened (or, with `recovered`, ended) at `at`.
    fn plan_alert(
        &self,
        subject: &str,
        summary: &str,
        opened_at: Timestamp,
        recovered: bool,
        at: Timestamp,
    ) -> Vec<NewEffect>;
}

/// One row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EffectRecord {
    /// Row id (`UUIDv7`).
    pub id: Uuid,
    /// The operation; `None` for an alert.
    pub operation_id: Option<Uuid>,
    /// Its name.
    pub operation_name: Option<OperationName>,
    /// The configured effect's name.
    pub effect: String,
    /// The trigger's word, or `alert`.
    pub cause: String,
    /// The stable key.
    pub idempotency_key: String,
    /// Where it stands.
    pub state: EffectState,
    /// When it was planned.
    pub planned_at: Timestamp,
    /// When the next attempt is due.
    pub next_attempt_at: Timestamp,
    /// When it is given up.
    pub give_up_at: Timestamp,
    /// Attempts begun.
    pub attempts: u32,
    /// When it was done or given up.
    pub finished_at: Option<Timestamp>,
    /// Why the last attempt did not end it.
    pub last_error: Option<String>,
}

/// An outbox row that a sender holds.
#[derive(Debug, Clone)]
pub struct LeasedEffect {
    /// The row.
    pub record: EffectRecord,
    /// The stored body.
    pub payload: Vec<u8>,
    /// The epoch every later update must carry.
    pub epoch: i64,
}

/// What to write about an attempt that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectEnd {
    /// Done.
    Done,
    /// Try again at the time given, unless it is given up first.
    Again {
        /// When.
        at: Timestamp,
        /// Why.
        why: String,
    },
    /// Not known; what happens next is the policy's to say.
    Unknown {
        /// The effect's policy.
        policy: AmbiguousPolicy,
        /// When it would be repeated.
        at: Timestamp,
        /// Why.
        why: String,
    },
    /// Never.
    Dead {
        /// Why.
        why: String,
    },
}

/// A work item that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Row id.
    pub id: i64,
    /// The epoch every later update must carry.
    pub epoch: i64,
    /// The operation as it was named.
    pub raw: String,
    /// The kind that its event suggested.
    pub kind_hint: Option<Kind>,
    /// The reservation whose URL it came by.
    pub reservation: Option<Uuid>,
    /// The delivery that woke it, the last of them.
    pub event: Option<Uuid>,
    /// Why it is looked at.
    pub reason: Reason,
    /// When it was queued first.
    pub created_at: Timestamp,
    /// Since when it might have been claimed.
    pub due_at: Timestamp,
    /// Attempts begun, this one included.
    pub attempts: u32,
    /// Uncharged failures in a row.
    pub failures: u32,
}

/// One row of the work queue, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkRecord {
    /// Row id.
    pub id: i64,
    /// The operation as it was named.
    pub operation: String,
    /// Why it is looked at.
    pub reason: Reason,
    /// Where it stands.
    pub state: WorkState,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When it is due.
    pub available_at: Timestamp,
    /// Charged attempts.
    pub attempts: u32,
    /// How it closed.
    pub outcome: Option<String>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When it closed.
    pub finished_at: Option<Timestamp>,
}

/// A captured delivery, without its body.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventRecord {
    /// Event id (`UUIDv7`).
    pub id: Uuid,
    /// The source it came from.
    pub source: String,
    /// When it came.
    pub received_at: Timestamp,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it was ignored.
    pub why: Option<String>,
    /// Its type.
    pub event_type: Option<String>,
    /// The operation it names.
    pub operation: Option<String>,
    /// Its `webhook-id`.
    pub webhook_id: Option<String>,
    /// The proofs it was accepted by, joined by `+`.
    pub proof: String,
    /// Redeliveries folded into it.
    pub duplicates: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// When its body and headers were removed, long after it came.
    pub emptied_at: Option<Timestamp>,
}

/// A captured delivery, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedEvent {
    /// The record.
    pub record: EventRecord,
    /// Header names and values, in the order they came, without those that carry secrets.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The reservation whose URL it came by.
    pub reservation: Option<Uuid>,
}

/// An alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// What it is about; one row per subject.
    pub subject: String,
    /// What is wrong, in a sentence.
    pub summary: String,
    /// When it opened.
    pub opened_at: Timestamp,
    /// When it ended.
    pub recovered_at: Option<Timestamp>,
}
