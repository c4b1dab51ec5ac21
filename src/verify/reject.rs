//! Why a delivery was refused, and how little of that the sender may learn.
//!
//! Two answers exist: "there is nothing here" for whoever does not know the path, and "not
//! authorised" for everything after it. A sender who could tell a bad signature from a stale
//! timestamp could feel its way forward.

/// The first check that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reject {
    /// No source of that name is configured.
    #[error("unknown source")]
    UnknownSource,
    /// The path token is neither the main one nor a reservation's.
    #[error("wrong path token")]
    WrongToken,
    /// A proof that the source requires was not brought.
    #[error("a required proof is missing")]
    MissingProof,
    /// `X-Hook-Secret` is there and wrong, or there more than once.
    #[error("wrong shared secret")]
    BadSharedSecret,
    /// A header of the signature is missing, repeated, too long or not of its form.
    #[error("malformed signature headers")]
    MalformedSignature,
    /// The signed timestamp is not a plain positive number of seconds.
    #[error("malformed signed timestamp")]
    BadTimestamp,
    /// No signature matches any accepted secret.
    #[error("no signature matches")]
    BadSignature,
    /// Rightly signed, but longer ago than the window.
    #[error("signed too long ago")]
    TooOld,
    /// Rightly signed, but further ahead than the window.
    #[error("signed in the future")]
    TooEarly,
    /// No signature matches, while a new secret is on its way.
    #[error("no signature matches, and a rotation is open")]
    Rotating,
}

/// What the sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerClass {
    /// The same answer as any unknown path (404).
    NotFound,
    /// One answer for every failed proof (401).
    Unauthorized,
    /// Whether the proof is good cannot be told right now (503): the sender must try again.
    Unavailable,
}

impl Reject {
    /// Every reason, for metrics that want each label to exist from the start.
    pub const ALL: [Self; 10] = [
        Self::UnknownSource,
        Self::WrongToken,
        Self::MissingProof,
        Self::BadSharedSecret,
        Self::MalformedSignature,
        Self::BadTimestamp,
        Self::BadSignature,
        Self::TooOld,
        Self::TooEarly,
        Self::Rotating,
    ];

    /// What the sender is told.
    pub const fn answer_class(self) -> AnswerClass {
        match self {
            Self::UnknownSource | Self::WrongToken => AnswerClass::NotFound,
            Self::MissingProof
            | Self::BadSharedSecret
            | Self::MalformedSignature
            | Self::BadTimestamp
            | Self::BadSignature
            | Self::TooOld
            | Self::TooEarly => AnswerClass::Unauthorized,
            Self::Rotating => AnswerClass::Unavailable,
        }
    }

    /// The reason as a metric label or log field.
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownSource => "unknown_source",
            Self::WrongToken => "wrong_token",
            Self::MissingProof => "missing_proof",
            Self::BadSharedSecret => "bad_shared_secret",
            Self::MalformedSignature => "malformed_signature",
            Self::BadTimestamp => "bad_timestamp",
            Self::BadSignature => "bad_signature",
            Self::TooOld => "too_old",
            Self::TooEarly => "too_early",
            Self::Rotating => "rotating",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_answers_not_found_and_labels_are_distinct() {
        let hidden: Vec<Reject> = Reject::ALL
            .into_iter()
            .filter(|r| r.answer_class() == AnswerClass::NotFound)
            .collect();
        assert_eq!(hidden, [Reject::UnknownSource, Reject::WrongToken]);
        let labels: std::collections::BTreeSet<_> = Reject::ALL.map(Reject::label).into();
        assert_eq!(labels.len(), Reject::ALL.len());
    }
}
