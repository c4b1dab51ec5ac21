//! The promises that a database file can be held to by reading it, and what breaks them.
//!
//! One function judges them all, [`Reader::audit`](super::Reader::audit): `hookledger doctor` asks it
//! about the operator's file, and the tests ask it about every file that a crash left behind. What a
//! file cannot know (what a sender was answered, what a receiver got) is judged outside, by the tests.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::Timestamp;

/// What the file is measured by. All of it is configuration or the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Now, by the clock that wrote the file.
    pub now: Timestamp,
    /// How long a redelivery folds into the first one.
    pub dedupe_ttl: Duration,
    /// How long a finished work item is kept.
    pub items_kept: Duration,
    /// After so many charges a work item is dead.
    pub max_attempts: u32,
    /// The longest pause between two looks at one operation.
    pub longest_pause: Duration,
    /// Whether nothing may be left to do: every fault is over and there was time enough.
    pub drained: bool,
}

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// `I1` … `I10`, as in `docs/TESTING.md`.
    pub invariant: &'static str,
    /// The table and the row, or the file.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            place,
            what,
            remedy,
        } = self;
        write!(f, "{invariant} {place}: {what}; {remedy}")
    }
}
