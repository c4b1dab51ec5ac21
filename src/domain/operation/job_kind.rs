//! What a job is for.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The operator's word for what a job is for; effects are chosen by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct JobKind(String);

/// The text is not a job kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job_kind must be 1 to 64 characters from A-Z a-z 0-9 . _ - and not start with a dot")]
pub struct NotAJobKind;

impl JobKind {
    /// The job kind of an operation nobody registered.
    pub const UNREGISTERED: &'static str = "unregistered";

    /// The job kind of an adopted operation.
    pub fn unregistered() -> Self {
        Self(Self::UNREGISTERED.to_owned())
    }

    /// Whether nobody has said yet what this job is for.
    pub fn is_unregistered(&self) -> bool {
        self.0 == Self::UNREGISTERED
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobKind {
    type Err = NotAJobKind;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let legal = (1..=64).contains(&s.len())
            && !s.starts_with('.')
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        legal.then(|| Self(s.to_owned())).ok_or(NotAJobKind)
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
