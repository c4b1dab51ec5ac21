//! What a verified delivery says, as far as anyone believes it.
//!
//! A webhook is a hint: nothing in it changes the ledger. These types carry what is needed to fold
//! duplicates, to find the operation, and to show the delivery to a person later.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::operation::{Kind, OperationRef};

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// New, and work was queued for it.
    Accepted,
    /// Verified, but nothing to do: a ping, an unknown type, a known non-terminal state.
    Ignored,
    /// Verified and seen before.
    Duplicate,
}

impl Verdict {
    /// The word used in tables, JSON and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Ignored => "ignored",
            Self::Duplicate => "duplicate",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Accepted, Self::Ignored, Self::Duplicate]
            .into_iter()
            .find(|v| v.as_str() == word)
    }
}

/// What one delivery says, read leniently.
#[derive(Debug, Clone, PartialEq)]
pub struct EventFacts {
    /// The `type` field, verbatim and bounded, if there is one.
    pub event_type: Option<String>,
    /// The operation it names, if it names one.
    pub operation: Option<OperationRef>,
    /// `origin:value`, by which redeliveries fold (`id:`, `ev:` or `syn:`). `None` when nothing in
    /// the delivery identifies it; such a delivery is always new.
    pub dedupe_key: Option<String>,
    /// Whether the body itself says that the operation is still running.
    pub says_running: bool,
    /// `user_metadata`, from whichever of its known places it was in.
    pub user_metadata: Option<Value>,
    /// Why nothing is to be done about it, when that is so.
    pub ignored_because: Option<&'static str>,
}

/// The kind of operation an event type speaks of (`batch.succeeded` → batch).
pub fn kind_of_event(event_type: &str) -> Option<Kind> {
    match event_type.split('.').next() {
        Some("batch") => Some(Kind::Batch),
        Some("interaction") => Some(Kind::Interaction),
        Some("video") => Some(Kind::Video),
        _ => None,
    }
}
