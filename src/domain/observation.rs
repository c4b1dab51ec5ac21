//! What the API said about an operation, in our words.
//!
//! The wire shapes differ per kind and drift over time; `gemini` translates each into this one type,
//! and everything above decides on it alone.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::operation::{OperationName, OperationState};
use crate::base::clock::Timestamp;

/// What a fetched body means for the operation's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Not finished.
    Running,
    /// Not finished, and parked until a client acts.
    RequiresAction,
    /// Proven to have ended: always a settled state.
    Ended(OperationState),
    /// Says that it succeeded but shows no output yet: look again soon.
    OutputPending,
    /// Done with neither response nor error: look again a few times, then close as anomalous.
    Neither,
}

/// Where an operation's output is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Output {
    /// A JSONL file at the provider, by its resource name `files/{id}`.
    File {
        /// The resource name.
        name: String,
    },
    /// In the operation's own body; fetched again when wanted.
    Inline {
        /// How many responses the body held.
        responses: u64,
    },
    /// Media, by the URIs the provider gave. Never fetched as they are: their file id is mapped to
    /// the configured base.
    Media {
        /// The URIs, verbatim.
        uris: Vec<String>,
    },
}

/// The provider's own count of a batch's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Counts {
    /// All requests of the batch.
    pub requests: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
}

/// One authenticated look at an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The operation that was asked for.
    pub name: OperationName,
    /// What it means.
    pub observed: Observed,
    /// The provider's state word, verbatim, when there was one.
    pub state_word: Option<String>,
    /// A short JSON object for people and effects: state, model, counts, output, error.
    pub summary: Value,
    /// SHA-256 of the fetched body, in lower-case hex.
    pub body_hash: String,
    /// Where the output is, when there is one.
    pub output: Option<Output>,
    /// Request counts, for batches.
    pub counts: Option<Counts>,
    /// When the provider says that it ended.
    pub ended_at: Option<Timestamp>,
}

impl Observation {
    /// What ended and when, as far as the provider states it.
    pub fn ended(&self) -> Option<(OperationName, Timestamp)> {
        let at = self.ended_at?;
        matches!(self.observed, Observed::Ended(_)).then(|| (self.name.clone(), at))
    }
}
