//! Why a delivery was refused, and how little of that the sender may learn.
//!
//! Two answers exist: "there is nothing here" for whoever does not know the path or comes from
//! elsewhere than the source's list says, and "not
//! authorised" for everything after it. A sender who could tell a bad signature from a stale
//! timestamp could feel its way forward.

/// The first check that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reject {
    /// No source of that name is configured.
    #[error("unknown source")]
    UnknownSource,
    /// The client's address is not on the source's list.
    #[error("address not on the source's list")]
    AddressNotAllowed,
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
    /// A token that cannot be read, names another algorithm than ours or brings its own key.
    #[error("unacceptable token")]
    BadToken,
    /// No configured key set has the token's key.
    #[error("unknown key")]
    UnknownKey,
    /// The token's key is not there and the key set cannot be read: nobody knows.
    #[error("the keys cannot be read")]
    KeysUnavailable,
    /// Rightly signed claims without `exp`, or of the wrong types.
    #[error("unacceptable claims")]
    BadClaims,
    /// Rightly signed, but expired.
    #[error("token expired")]
    TokenExpired,
    /// Rightly signed, but not valid yet.
    #[error("token not valid yet")]
    TokenTooEarly,
    /// Rightly signed, for somebody else.
    #[error("token for another audience")]
    WrongAudience,
    /// Rightly signed, by an issuer that is not accepted.
    #[error("token of another issuer")]
    WrongIssuer,
    /// The token's claims say something else than the body.
    #[error("claims and body differ")]
    BodyMismatch,
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
    pub const ALL: [Self; 20] = [
        Self::UnknownSource,
        Self::WrongToken,
        Self::AddressNotAllowed,
        Self::MissingProof,
        Self::BadSharedSecret,
        Self::MalformedSignature,
        Self::BadTimestamp,
        Self::BadSignature,
        Self::TooOld,
        Self::TooEarly,
        Self::Rotating,
        Self::BadToken,
        Self::UnknownKey,
        Self::KeysUnavailable,
        Self::BadClaims,
        Self::TokenExpired,
        Self::TokenTooEarly,
        Self::WrongAudience,
        Self::WrongIssuer,
        Self::BodyMismatch,
    ];

    /// What the sender is told.
    pub const fn answer_class(self) -> AnswerClass {
        match self {
            Self::UnknownSource | Self::WrongToken | Self::AddressNotAllowed => {
                AnswerClass::NotFound
            }
            Self::MissingProof
            | Self::BadSharedSecret
            | Self::MalformedSignature
            | Self::BadTimestamp
            | Self::BadSignature
            | Self::TooOld
            | Self::TooEarly
            | Self::BadToken
            | Self::UnknownKey
            | Self::BadClaims
            | Self::TokenExpired
            | Self::TokenTooEarly
            | Self::WrongAudience
            | Self::WrongIssuer
            | Self::BodyMismatch => AnswerClass::Unauthorized,
            Self::Rotating | Self::KeysUnavailable => AnswerClass::Unavailable,
        }
    }

    /// The reason as a metric label or log field.
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownSource => "unknown_source",
            Self::WrongToken => "wrong_token",
            Self::AddressNotAllowed => "address_not_allowed",
            Self::MissingProof => "missing_proof",
            Self::BadSharedSecret => "bad_shared_secret",
            Self::MalformedSignature => "malformed_signature",
            Self::BadTimestamp => "bad_timestamp",
            Self::BadSignature => "bad_signature",
            Self::TooOld => "too_old",
            Self::TooEarly => "too_early",
            Self::Rotating => "rotating",
            Self::BadToken => "bad_token",
            Self::UnknownKey => "unknown_key",
            Self::KeysUnavailable => "keys_unavailable",
            Self::BadClaims => "bad_claims",
            Self::TokenExpired => "token_expired",
            Self::TokenTooEarly => "token_too_early",
            Self::WrongAudience => "wrong_audience",
            Self::WrongIssuer => "wrong_issuer",
            Self::BodyMismatch => "body_mismatch",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_path_and_address_answer_not_found_and_labels_are_distinct() {
        let hidden: Vec<Reject> = Reject::ALL
            .into_iter()
            .filter(|r| r.answer_class() == AnswerClass::NotFound)
            .collect();
        let expected = [
            Reject::UnknownSource,
            Reject::WrongToken,
            Reject::AddressNotAllowed,
        ];
        assert_eq!(hidden, expected);
        let labels: std::collections::BTreeSet<_> = Reject::ALL.map(Reject::label).into();
        assert_eq!(labels.len(), Reject::ALL.len());
    }
}
