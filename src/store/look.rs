//! What a look at the API found, in the words in which it is written down.

use serde_json::Value;
use uuid::Uuid;

use super::registration::Terms;
use crate::base::clock::Timestamp;
use crate::domain::ledger::Operation;
use crate::domain::operation::{OperationName, OperationState};
use crate::domain::work::{Outcome, Reason};

/// Which operation was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One of the ledger's.
    Known(Uuid),
    /// One that nobody registered, confirmed by the API. `reservation` names the record that waits
    /// for it, when the delivery came by a reserved URL.
    Found {
        /// Its name.
        name: OperationName,
        /// The reservation it binds.
        reservation: Option<Uuid>,
    },
}

/// A proven ending.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The settled state.
    pub state: OperationState,
    /// The fetched body's hash.
    pub body_hash: String,
    /// When it is decided whether a webhook told it.
    pub decide_at: Timestamp,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Nothing: it had settled before the look, and the API was not asked.
    Nothing,
    /// It ended.
    Settle(Settlement),
    /// It goes on.
    Running {
        /// Whether it waits for a client.
        requires_action: bool,
        /// The next look.
        next_look_at: Timestamp,
    },
    /// The API says there is no such operation; not proof yet.
    NotFound {
        /// The next look.
        next_look_at: Timestamp,
    },
    /// Done with neither response nor error; look again.
    Neither {
        /// The next look.
        next_look_at: Timestamp,
    },
    /// Closed without proof.
    Close {
        /// `gone` or `anomalous`.
        state: OperationState,
        /// The next look, a day away.
        next_look_at: Timestamp,
    },
}

/// One look at one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Whom it was about.
    pub subject: Subject,
    /// Why it was taken.
    pub reason: Reason,
    /// What it found.
    pub change: Change,
    /// The summary of the fetched body, when there was one.
    pub summary: Option<Value>,
    /// Terms for a record that this look makes.
    pub terms: Terms,
}

/// What a look changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// It settled, by this look.
    Settled(Box<Operation>),
    /// It had settled before.
    AlreadySettled(Box<Operation>),
    /// It is open, or closed without proof.
    Open(Box<Operation>),
    /// It was settled and pruned long ago.
    Pruned,
}

impl Applied {
    /// The record as it is now; `None` when there is none any more.
    pub fn record(&self) -> Option<&Operation> {
        match self {
            Self::Settled(operation) | Self::AlreadySettled(operation) | Self::Open(operation) => {
                Some(operation)
            }
            Self::Pruned => None,
        }
    }
}

/// Why a work item goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFailure {
    /// When it is due again.
    pub again_at: Timestamp,
    /// Why, in chosen words.
    pub why: String,
    /// Whether this counts towards the cap.
    pub charged: bool,
}

/// How a lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Close {
    /// Done, in this way.
    Done(Outcome),
    /// Back into the queue; dead instead, when a charge reaches `max_attempts`.
    Again(WorkFailure, u32),
    /// Back as if it had never been claimed.
    Release,
}
