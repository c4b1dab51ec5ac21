//! Floor 2: whether a delivery is genuine.
//!
//! A delivery passes two gates. [`Verifier::admit`] needs only the path and the headers, so a wrong
//! token costs no body; [`Admitted::verify`] needs the raw body and our clock. Only the second can
//! make a [`Verified`], so whatever holds one holds a delivery whose proofs were checked over the
//! very bytes it carries.
//!
//! Which check failed is for metrics and logs ([`Reject::label`]); a client learns only
//! [`AnswerClass`].

pub mod allow_list;
pub mod envelope;
pub mod freshness;
mod gemini_jwt;
pub mod jwks;
pub mod path_token;
pub mod reject;
mod rules;
pub mod secret_file;
pub mod secret_set;
pub mod shared_secret;
pub mod signing_secret;
pub mod standard_webhooks;

pub use envelope::{Admitted, Proof, Verified, Verifier};
pub use jwks::http::HttpKeys;
pub use jwks::{KeySource, NoKeys};
pub use path_token::{PathProof, PathTokens};
pub use reject::{AnswerClass, Reject};
pub use rules::SetupProblem;
pub use secret_file::{SecretFile, SecretFileError};
pub use secret_set::SecretSet;
pub use signing_secret::SigningSecret;
