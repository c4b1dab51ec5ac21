//! How the subscription stands, as its loop saw it last: for people.

use std::time::Duration;

use crate::base::clock::Timestamp;

/// What the loop saw last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// When it looked at the provider's record, and what it found: `matching`, `drift`, `disabled`,
    /// `missing` or `failed`.
    pub look: Option<(Timestamp, &'static str)>,
    /// When a canary ended last, and how: `arrived`, `missed` or `failed`.
    pub canary: Option<(Timestamp, &'static str)>,
    /// How long the last one that arrived took.
    pub canary_took: Option<Duration>,
    /// Whether canaries are sent at all.
    pub pings: bool,
}
