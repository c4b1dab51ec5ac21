//! What can go wrong when the API is asked, and what each means for the work item.
//!
//! | fault | charges an attempt | next |
//! |---|---|---|
//! | `Throttled`, `Unavailable` | no | back off, honouring what the server asked |
//! | `KeyRefused` | no | pause all fetching, alert |
//! | `Forbidden` | no | back off alone; a failing probe turns it into `KeyRefused` |
//! | `NotFound` | no | look again; closed as gone only after the configured span |
//! | `Rejected` | yes | a permanent answer: dead letter at the cap |
//! | `Undecodable` | yes | dead letter at the cap |

use std::time::Duration;

/// Why a request to the API did not give an answer we can use. The texts are chosen: they never
/// repeat a body, a URL with a secret, or the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// 429: the server asks for patience.
    #[error("throttled by the API ({what})")]
    Throttled {
        /// How long the server asked us to wait.
        retry_after: Option<Duration>,
        /// The quota or reason it named.
        what: String,
    },
    /// Network trouble, a time-out, a 5xx, or an answer that is not Google's own.
    #[error("the API could not be reached or did not answer as itself ({what})")]
    Unavailable {
        /// How long the server asked us to wait.
        retry_after: Option<Duration>,
        /// What happened.
        what: String,
    },
    /// 401, 402, or 400 `API_KEY_INVALID`: nothing will work until a person acts.
    #[error("the API refused the key ({what})")]
    KeyRefused {
        /// What it said.
        what: String,
    },
    /// 403 on one name: another key's operation, or a key without the right.
    #[error("the API forbids this name to this key ({what})")]
    Forbidden {
        /// What it said.
        what: String,
    },
    /// A Google-shaped 404. Not yet proof that the operation is gone.
    #[error("the API knows no such name")]
    NotFound,
    /// A 4xx that asking again will not change.
    #[error("the API rejects the request ({what})")]
    Rejected {
        /// What it said.
        what: String,
    },
    /// A 2xx whose body is not what the API documents.
    #[error("the API's answer could not be understood ({what})")]
    Undecodable {
        /// What was wrong with it.
        what: String,
    },
}

impl Fault {
    /// Whether this failure counts towards the work item's cap.
    pub const fn charges_attempt(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::Undecodable { .. })
    }

    /// How long the server asked us to wait.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Unavailable { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// The word used as a metric label and in `last_error`.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "throttled",
            Self::Unavailable { .. } => "unavailable",
            Self::KeyRefused { .. } => "key_refused",
            Self::Forbidden { .. } => "forbidden",
            Self::NotFound => "not_found",
            Self::Rejected { .. } => "rejected",
            Self::Undecodable { .. } => "undecodable",
        }
    }
}
