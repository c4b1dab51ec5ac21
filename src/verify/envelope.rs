//! The two gates, and the type that proves a delivery passed both.
//!
//! Which proofs count is the source's: `any` wants one of its kinds, `all` wants each. Under both, a
//! proof of an accepted kind that is there and wrong refuses the delivery, even beside a right one;
//! a kind the source does not accept is not looked at. A Standard Webhooks signature and a token
//! come in the same header, so a delivery has one of them at most: under `all` they count as one kind.
//!
//! [`Verified`] can be made only by [`Admitted::verify`], and [`Admitted`] only by
//! [`Verifier::admit`]: no code path reaches the store around a check.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::gemini_jwt::Token;
use super::jwks::KeySource;
use super::path_token::{PathProof, PathTokens};
use super::reject::Reject;
use super::rules::{Rules, SetupProblem};
use super::secret_set::SecretSet;
use super::standard_webhooks::{Presented, is_repeated, well_formed_id};
use crate::base::clock::Timestamp;
use crate::config::settings::{Hooks, Require, Source};

/// Headers that carry credentials and are never kept.
const NOT_KEPT: [&str; 4] = [
    super::shared_secret::HEADER,
    "authorization",
    "proxy-authorization",
    "cookie",
];
/// Most headers kept; the listener accepts no more than this.
const MAX_KEPT_HEADERS: usize = 64;
/// Most bytes of names and values kept; the listener accepts no more than this.
const MAX_KEPT_BYTES: usize = 16 * 1024;

/// A kind of proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// `X-Hook-Secret`.
    SharedHeader,
    /// A Standard Webhooks signature over the body.
    StandardWebhooks,
    /// A dynamic webhook's token. It does not cover the body.
    Jwt,
}

impl Proof {
    /// The kind as it is stored and counted.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SharedHeader => "shared_header",
            Self::StandardWebhooks => "standard_webhooks",
            Self::Jwt => "jwt",
        }
    }
}

/// Everything the door accepts.
#[derive(Debug)]
pub struct Verifier {
    tokens: PathTokens,
    sources: BTreeMap<String, Arc<Rules>>,
}

impl Verifier {
    /// Reads every secret, or lists all that is wrong. `keys` answers for the keys of tokens; it
    /// outlives this verifier when secrets are read anew.
    pub fn new(
        hooks: &Hooks,
        sources: &BTreeMap<String, Source>,
        keys: &Arc<dyn KeySource>,
    ) -> Result<Self, Vec<SetupProblem>> {
        let mut problems = Vec::new();
        let tokens = hooks.path_token.as_ref().map(PathTokens::new);
        if tokens.is_none() {
            problems.push(SetupProblem::NoPathToken);
        }
        let rules = sources
            .iter()
            .map(|(name, source)| {
                let rules = Rules::new(name, source, hooks, keys, &mut problems);
                (name.clone(), Arc::new(rules))
            })
            .collect();
        match tokens {
            Some(tokens) if problems.is_empty() => Ok(Self {
                tokens,
                sources: rules,
            }),
            _ => Err(problems),
        }
    }

    /// The path tokens, for minting a reservation's.
    pub const fn path_tokens(&self) -> &PathTokens {
        &self.tokens
    }

    /// The secrets of `source` that may change while the service runs, if it has such.
    pub fn kept_secrets(&self, source: &str) -> Option<SecretSet> {
        self.sources.get(source)?.kept.clone()
    }

    /// The same, with the changing secrets of `running` in the place of its own: who changes them
    /// knows only those.
    #[must_use]
    pub fn taking_over(mut self, running: &Self) -> Self {
        for (name, rules) in &mut self.sources {
            if let (Some(kept), Some(rules)) = (running.kept_secrets(name), Arc::get_mut(rules)) {
                rules.kept = rules.kept.as_ref().map(|_| kept);
            }
        }
        self
    }

    /// The first gate: path token, then the client's address, then the proofs as far as headers
    /// can tell.
    pub fn admit(
        &self,
        source: &str,
        token: &str,
        client: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<Admitted, Reject> {
        // The token first, whether or not the source exists: source names are no secret to keep, but
        // neither is there a reason to list them to whoever has no token.
        let path = self.tokens.check(token).ok_or(Reject::WrongToken)?;
        let rules = self.sources.get(source).ok_or(Reject::UnknownSource)?;
        // After the token, so that a right token from elsewhere is seen for what it is.
        if !rules.allow_from.admits(client) {
            return Err(Reject::AddressNotAllowed);
        }
        let shared = match &rules.shared {
            Some(secret) => secret.check(headers)?,
            None => false,
        };
        // Whatever proves it: proxies disagree on which copy counts, and the id is dedupe's.
        if is_repeated(headers) {
            return Err(Reject::MalformedSignature);
        }
        let accepts_signatures = rules.accepts_signatures();
        let signature = if accepts_signatures {
            Presented::read(headers)?
        } else {
            None
        };
        let token = match &rules.tokens {
            Some(_) => Token::read(headers)?,
            None => None,
        };
        let brought = [
            (rules.shared.is_some(), shared),
            (
                accepts_signatures || rules.tokens.is_some(),
                signature.is_some() || token.is_some(),
            ),
        ];
        let enough = match rules.require {
            Require::Any => brought.iter().any(|(_, there)| *there),
            Require::All => brought.iter().all(|(accepted, there)| *there || !accepted),
        };
        if !enough {
            return Err(Reject::MissingProof);
        }
        Ok(Admitted {
            rules: Arc::clone(rules),
            path,
            shared,
            signature,
            token,
            webhook_id: well_formed_id(headers).map(ToOwned::to_owned),
            headers: kept(headers),
        })
    }
}

/// Past the first gate: worth reading a body for.
#[derive(Debug)]
pub struct Admitted {
    rules: Arc<Rules>,
    path: PathProof,
    shared: bool,
    signature: Option<Presented>,
    token: Option<Token>,
    webhook_id: Option<String>,
    headers: Vec<(String, Bytes)>,
}

impl Admitted {
    /// The second gate: signatures over the raw `body`, then the window around `now`.
    /// Waits for the keys of a token, and for nothing else.
    pub async fn verify(self, body: Bytes, now: Timestamp) -> Result<Verified, Reject> {
        let mut proofs = Vec::with_capacity(2);
        if self.shared {
            proofs.push(Proof::SharedHeader);
        }
        let mut signed_at = None;
        if let Some(signature) = &self.signature {
            self.rules.signed(signature, &body, now)?;
            // After the signature: only what was rightly signed can be called stale.
            self.rules.window.check(signature.signed_at(), now)?;
            signed_at = Some(signature.signed_at());
            proofs.push(Proof::StandardWebhooks);
        }
        let mut claimed_metadata = None;
        if let (Some(token), Some(rules)) = (&self.token, &self.rules.tokens) {
            let said = rules.verify(token, &body, now).await?;
            signed_at = said.issued_at;
            claimed_metadata = said.user_metadata;
            proofs.push(Proof::Jwt);
        }
        Ok(Verified {
            source: Arc::clone(&self.rules.name),
            path: self.path,
            proofs,
            webhook_id: self.webhook_id,
            signed_at,
            claimed_metadata,
            headers: self.headers,
            body,
            received_at: now,
        })
    }
}

/// A genuine delivery.
///
/// Nothing but [`Admitted::verify`] makes one:
///
/// ```compile_fail
/// fn unverified(body: bytes::Bytes) -> hookledger::verify::Verified {
///     hookledger::verify::Verified { body }
/// }
/// ```
#[derive(Clone)]
pub struct Verified {
    source: Arc<str>,
    path: PathProof,
    proofs: Vec<Proof>,
    webhook_id: Option<String>,
    signed_at: Option<Timestamp>,
    claimed_metadata: Option<Value>,
    headers: Vec<(String, Bytes)>,
    body: Bytes,
    received_at: Timestamp,
}

impl Verified {
    /// Name of the source it came in by.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Which path token it used.
    pub const fn path(&self) -> PathProof {
        self.path
    }

    /// The proofs it brought, each checked.
    pub fn proofs(&self) -> &[Proof] {
        &self.proofs
    }

    /// `webhook-id`, when there is exactly one of the accepted form.
    pub fn webhook_id(&self) -> Option<&str> {
        self.webhook_id.as_deref()
    }

    /// When it was signed, if it was.
    pub const fn signed_at(&self) -> Option<Timestamp> {
        self.signed_at
    }

    /// `user_metadata` of the token's claims, if it has them.
    pub const fn claimed_metadata(&self) -> Option<&Value> {
        self.claimed_metadata.as_ref()
    }

    /// Headers to keep: lower-case names, raw values, in order of arrival per name. Credentials are
    /// left out, and so is whatever exceeds 64 headers or 16 KiB.
    pub fn headers(&self) -> &[(String, Bytes)] {
        &self.headers
    }

    /// The body as received.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Our clock when it was verified.
    pub const fn received_at(&self) -> Timestamp {
        self.received_at
    }
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verified")
            .field("source", &self.source)
            .field("path", &self.path)
            .field("proofs", &self.proofs)
            .field("webhook_id", &self.webhook_id)
            .field("signed_at", &self.signed_at)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

fn kept(headers: &HeaderMap) -> Vec<(String, Bytes)> {
    let mut room = MAX_KEPT_BYTES;
    headers
        .iter()
        .filter(|(name, _)| !NOT_KEPT.contains(&name.as_str()))
        .take(MAX_KEPT_HEADERS)
        .map_while(|(name, value)| {
            room = room.checked_sub(name.as_str().len() + value.len())?;
            Some((
                name.as_str().to_owned(),
                Bytes::copy_from_slice(value.as_bytes()),
            ))
        })
        .collect()
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
