//! Why a command did not do what it was asked, and the exit code that says so to a script.
//!
//! Every text is chosen: it names what to do and never a secret.

use std::process::ExitCode;

use crate::config::Problems;
use crate::store::{OpenError, StoreError};

/// A command that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// 1: it was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// 1, without a word: the output already says it.
    #[error("failed")]
    Silent,
    /// 2: the command or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// 3: there is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// 4: it contradicts what is stored.
    #[error("{0}")]
    Conflict(String),
    /// 5: the service cannot be reached, or does not let us in.
    #[error("{0}")]
    Unreachable(String),
}

impl Failure {
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::NotFound(text.into())
    }

    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::Conflict(text.into())
    }

    /// The documented code.
    pub(super) const fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Silent => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::Conflict(_) => 4,
            Self::Unreachable(_) => 5,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let mut text = String::from("the configuration is not usable:");
        for problem in &problems.0 {
            text.push_str("\n  ");
            text.push_str(&problem.to_string());
        }
        Self::Usage(text)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Missing { .. }
            | OpenError::NoBackup { .. }
            | OpenError::NoDirectory { .. }
            | OpenError::NetworkFileSystem { .. } => Self::Usage(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
