//! What is said about a job when it enters the ledger, and what became of it.

use serde_json::Value;
use uuid::Uuid;

use crate::base::clock::Timestamp;
use crate::domain::ledger::Operation;
use crate::domain::operation::{JobKind, OperationName};

/// When an operation is looked at and worried about; decided by policy, written down with the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The first look that nobody asks for.
    pub first_look_at: Timestamp,
    /// When it counts as overdue.
    pub overdue_at: Timestamp,
    /// When the provider gives it up, if it says so for this kind.
    pub deadline_at: Option<Timestamp>,
    /// When an effect planned now is given up.
    pub give_up_at: Timestamp,
}

/// A job somebody submitted.
#[derive(Debug, Clone)]
pub struct NewRegistration {
    /// Its name at the provider.
    pub name: OperationName,
    /// What it is for.
    pub job_kind: JobKind,
    /// Whatever the submitter attaches.
    pub user_metadata: Option<Value>,
    /// Its terms.
    pub terms: Terms,
}

/// What became of a registration.
#[derive(Debug, Clone, PartialEq)]
pub enum Registered {
    /// A new record.
    New(Operation),
    /// It was registered before with the same job kind, or had been adopted; this is it now.
    Same(Operation),
    /// It was registered before with this other job kind.
    Conflict(JobKind),
}

/// A record made before the provider names the job.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// Its ledger id.
    pub id: Uuid,
    /// What it is for.
    pub job_kind: JobKind,
    /// Whatever the submitter attaches.
    pub user_metadata: Option<Value>,
}

/// What became of binding a name to a reservation.
#[derive(Debug, Clone, PartialEq)]
pub enum Binding {
    /// Bound.
    Bound(Operation),
    /// It was bound to this very name before.
    Same(Operation),
    /// There is no such reservation.
    Unknown,
    /// The reservation has another name already, or the name another job kind.
    Conflict(String),
}
