//! What a source accepts, made from its settings: every secret read once, at start or reload, and every
//! mistake told at once. Whatever is wrong, no verifier is made: a door is never half shut.

use std::sync::Arc;

use super::allow_list::AllowList;
use super::freshness::Window;
use super::gemini_jwt::{TokenRules, can_verify};
use super::jwks::KeySource;
use super::reject::Reject;
use super::secret_set::SecretSet;
use super::shared_secret::SharedSecret;
use super::signing_secret::{BadSigningSecret, SigningSecret};
use super::standard_webhooks::Presented;
use crate::base::clock::Timestamp;
use crate::config::settings::{Hooks, Require, Source};

/// Why no verifier can be made from the settings. Never repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupProblem {
    /// `hooks.path_token` is not set.
    #[error("hooks.path_token is not set")]
    NoPathToken,
    /// A source wants the shared header, but no secret is set.
    #[error("sources.{source_name}.shared_header needs hooks.shared_secret")]
    NoSharedSecret {
        /// The source.
        source_name: String,
    },
    /// A source accepts no proof at all.
    #[error("sources.{source_name} accepts no proof; set shared_header, signing_secrets or jwt")]
    NoProof {
        /// The source.
        source_name: String,
    },
    /// A source accepts tokens, and there is nowhere to get their keys.
    #[error("sources.{source_name}.jwt needs jwks_urls")]
    NoKeySet {
        /// The source.
        source_name: String,
    },
    /// This build has no cryptography for tokens, or more than one.
    #[error("sources.{source_name}.jwt: this build cannot verify tokens")]
    NoTokenCrypto {
        /// The source.
        source_name: String,
    },
    /// A signing secret cannot be used.
    #[error("sources.{source_name}.signing_secrets[{index}] {why}")]
    SigningSecret {
        /// The source.
        source_name: String,
        /// Position in the list, from 0.
        index: usize,
        /// What is wrong.
        why: BadSigningSecret,
    },
}

/// What one source accepts.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) name: Arc<str>,
    pub(super) require: Require,
    pub(super) allow_from: AllowList,
    pub(super) shared: Option<SharedSecret>,
    pub(super) signing: Vec<SigningSecret>,
    /// Secrets that change while the service runs.
    pub(super) kept: Option<SecretSet>,
    pub(super) tokens: Option<TokenRules>,
    pub(super) window: Window,
}

impl Rules {
    pub(super) fn new(
        name: &str,
        source: &Source,
        hooks: &Hooks,
        keys: &Arc<dyn KeySource>,
        problems: &mut Vec<SetupProblem>,
    ) -> Self {
        let source_name = || name.to_owned();
        let shared = if source.shared_header {
            let secret = hooks.shared_secret.as_ref().map(SharedSecret::new);
            if secret.is_none() {
                problems.push(SetupProblem::NoSharedSecret {
                    source_name: source_name(),
                });
            }
            secret
        } else {
            None
        };
        let has_secrets = !source.signing_secrets.is_empty() || source.kept_secrets;
        if !source.shared_header && !has_secrets && !source.jwt {
            problems.push(SetupProblem::NoProof {
                source_name: source_name(),
            });
        }
        if source.jwt && source.jwks_urls.is_empty() {
            problems.push(SetupProblem::NoKeySet {
                source_name: source_name(),
            });
        }
        if source.jwt && !can_verify() {
            problems.push(SetupProblem::NoTokenCrypto {
                source_name: source_name(),
            });
        }
        let mut signing = Vec::with_capacity(source.signing_secrets.len());
        for (index, secret) in source.signing_secrets.iter().enumerate() {
            match SigningSecret::parse(secret) {
                Ok(secret) => signing.push(secret),
                Err(why) => problems.push(SetupProblem::SigningSecret {
                    source_name: source_name(),
                    index,
                    why,
                }),
            }
        }
        Self {
            name: name.into(),
            require: source.require,
            allow_from: AllowList::new(source.allow_from.clone()),
            shared,
            signing,
            kept: source.kept_secrets.then(SecretSet::default),
            tokens: source
                .jwt
                .then(|| TokenRules::new(name, source, Arc::clone(keys))),
            window: Window::new(hooks.tolerance),
        }
    }

    pub(super) fn accepts_signatures(&self) -> bool {
        !self.signing.is_empty() || self.kept.as_ref().is_some_and(SecretSet::is_in_use)
    }

    /// Both kinds are always tried, so the time does not tell which one matched.
    pub(super) fn signed(
        &self,
        signature: &Presented,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), Reject> {
        let by_configured = signature.is_signed_by(&self.signing, body);
        let kept = self.kept.as_ref();
        let by_kept = kept.is_some_and(|set| set.signed(signature, body, now));
        if by_configured || by_kept {
            Ok(())
        } else if kept.is_some_and(SecretSet::is_rotating) {
            Err(Reject::Rotating)
        } else {
            Err(Reject::BadSignature)
        }
    }
}
