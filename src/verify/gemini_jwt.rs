//! Dynamic webhooks: a compact JWS, RS256, alone in `webhook-signature`.
//!
//! Threats, and what stops each:
//! - a token that chooses how it is checked (`alg: none`, HS256 with the public key as its secret,
//!   `jku`, `x5u`, `jwk`, `crit`): the algorithm is ours, RS256; a header that names another or
//!   brings a key or an address of its own is refused before any key is looked up;
//! - a key of somebody else: `kid` is needed, at most 128 bytes, and is a name in a configured key
//!   set, never a path ([`jwks`](super::jwks));
//! - a token that somebody else received, also by the same provider: the audience must be one of
//!   `audiences`. Nobody has documented what the provider writes there, so with an empty list every
//!   audience is taken, counted and logged once, for the operator to pin. The same for `issuers`,
//!   without the log;
//! - an old token: `exp` is needed, `nbf` and `iat` are believed when there, all whole numbers, by
//!   our clock with a minute of leeway;
//! - a true token over another body: no hash binds them. Claims that repeat `type` or `data` must say
//!   what the body says; beyond that the delivery is only a hint, as every delivery is, and its
//!   dedupe key covers the body.
//!
//! Header and claims are read by our own types, which refuse a member that is there twice; the crate
//! only verifies the signature and never reads the machine's clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;

use super::jwks::{KeySource, MAX_KID_BYTES, NoKey, RsaKey};
use super::reject::Reject;
use super::standard_webhooks::{is_compact_jws, sole_signature};
use crate::base::clock::Timestamp;
use crate::config::settings::Source;
use crate::telemetry::metrics;

/// Longest token, bytes.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// How far a clock may be off, seconds.
const LEEWAY: i64 = 60;
/// Most audiences that are logged, so that a stranger with many tokens fills no log.
const MAX_OBSERVED: usize = 16;
/// Longest piece of an audience that is logged, characters.
const MAX_LOGGED: usize = 256;

/// Whether the signature machinery works in this build: it needs exactly one backend.
pub(super) fn can_verify() -> bool {
    jsonwebtoken::crypto::CryptoProvider::try_get_default().is_some()
}

/// A token of the right form, not yet verified.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    kid: String,
    /// `header.claims`, as signed.
    signed: String,
    claims: Vec<u8>,
    signature: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

/// The header, as far as it matters. What is `Present` may not be.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
    #[serde(default)]
    crit: Present,
    #[serde(default)]
    jku: Present,
    #[serde(default)]
    x5u: Present,
    #[serde(default)]
    jwk: Present,
    #[serde(default)]
    x5c: Present,
}

/// Whether a member is there, whatever it says.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// The claims, as far as they matter. A member that is there and null is not absent.
#[derive(Deserialize)]
struct Claims {
    exp: i64,
    #[serde(default, deserialize_with = "there")]
    nbf: Option<i64>,
    #[serde(default, deserialize_with = "there")]
    iat: Option<i64>,
    #[serde(default, deserialize_with = "there")]
    iss: Option<String>,
    #[serde(default, deserialize_with = "there")]
    aud: Option<Audience>,
    #[serde(default, deserialize_with = "there")]
    r#type: Option<Value>,
    #[serde(default, deserialize_with = "there")]
    data: Option<Value>,
    #[serde(default)]
    user_metadata: Option<Value>,
}

fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn list(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// What a verified token says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// `iat`, if it is there.
    pub(super) issued_at: Option<Timestamp>,
    /// `user_metadata`, if it is there.
    pub(super) user_metadata: Option<Value>,
}

impl Token {
    /// Reads the header. `None` when there is no proof of this kind.
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<Self>, Reject> {
        let Some(value) = sole_signature(headers)? else {
            return Ok(None);
        };
        if !is_compact_jws(value) {
            return Ok(None);
        }
        if value.len() > MAX_TOKEN_BYTES {
            return Err(Reject::BadToken);
        }
        Self::parse(value).map(Some).ok_or(Reject::BadToken)
    }

    fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = json(&decode(header)?)?;
        let brings_its_own = [header.crit, header.jku, header.x5u, header.jwk, header.x5c]
            .into_iter()
            .any(|Present(there)| there);
        let good = header.alg == "RS256"
            && !brings_its_own
            && (1..=MAX_KID_BYTES).contains(&header.kid.len())
            && !signature.is_empty();
        good.then_some(Self {
            kid: header.kid,
            signed: signed.to_owned(),
            claims: decode(claims)?,
            signature: signature.to_owned(),
        })
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    data_encoding::BASE64URL_NOPAD.decode(part.as_bytes()).ok()
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// What a source believes of tokens.
#[derive(Debug)]
pub(super) struct TokenRules {
    source: Arc<str>,
    keys: Arc<dyn KeySource>,
    urls: Vec<Url>,
    audiences: Vec<String>,
    issuers: Vec<String>,
    observed: Mutex<BTreeSet<String>>,
}

impl TokenRules {
    /// The rules of a source that accepts tokens.
    pub(super) fn new(name: &str, source: &Source, keys: Arc<dyn KeySource>) -> Self {
        Self {
            source: name.into(),
            keys,
            urls: source.jwks_urls.clone(),
            audiences: source.audiences.clone(),
            issuers: source.issuers.clone(),
            observed: Mutex::default(),
        }
    }

    /// Verifies `token` beside `body` at `now`.
    pub(super) async fn verify(
        &self,
        token: &Token,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Said, Reject> {
        let key = self.key(&token.kid).await?;
        if !key.signed(token.signed.as_bytes(), &token.signature) {
            return Err(Reject::BadSignature);
        }
        let claims: Claims = json(&token.claims).ok_or(Reject::BadClaims)?;
        in_time(&claims, now.as_seconds())?;
        if !self.issuers.is_empty() && !claims.iss.is_some_and(|iss| self.issuers.contains(&iss)) {
            return Err(Reject::WrongIssuer);
        }
        self.check_audience(claims.aud.as_ref())?;
        repeats_the_body(claims.r#type.as_ref(), claims.data.as_ref(), body)?;
        Ok(Said {
            issued_at: claims
                .iat
                .map(|at| Timestamp::from_millis(at.saturating_mul(1000))),
            user_metadata: claims.user_metadata,
        })
    }

    /// The first of the sets that has the key answers. Only if every set could be read may the
    /// answer be that nobody has it.
    async fn key(&self, kid: &str) -> Result<RsaKey, Reject> {
        let mut answer = Reject::UnknownKey;
        for url in &self.urls {
            match self.keys.key(url, kid).await {
                Ok(key) => return Ok(key),
                Err(NoKey::Unknown) => {}
                Err(NoKey::Unavailable) => answer = Reject::KeysUnavailable,
            }
        }
        Err(answer)
    }

    fn check_audience(&self, audience: Option<&Audience>) -> Result<(), Reject> {
        let list = audience.map_or(&[][..], Audience::list);
        if self.audiences.is_empty() {
            metrics::unpinned_audience(&self.source);
            if list.is_empty() {
                self.observe("");
            }
            for one in list {
                self.observe(one);
            }
            return Ok(());
        }
        if list.iter().any(|one| self.audiences.contains(one)) {
            Ok(())
        } else {
            Err(Reject::WrongAudience)
        }
    }

    fn observe(&self, audience: &str) {
        let shown: String = audience.chars().take(MAX_LOGGED).collect();
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.len() < MAX_OBSERVED && observed.insert(shown.clone()) {
            tracing::info!(
                source = %self.source,
                audience = ?shown,
                "a token of this audience was accepted; pin it in sources.NAME.audiences if it is yours"
            );
        }
    }
}

fn in_time(claims: &Claims, now: i64) -> Result<(), Reject> {
    if now >= claims.exp.saturating_add(LEEWAY) {
        return Err(Reject::TokenExpired);
    }
    let latest = now.saturating_add(LEEWAY);
    let began = |at: Option<i64>| at.is_none_or(|at| at <= latest);
    if began(claims.nbf) && began(claims.iat) {
        Ok(())
    } else {
        Err(Reject::TokenTooEarly)
    }
}

fn repeats_the_body(
    event_type: Option<&Value>,
    data: Option<&Value>,
    body: &[u8],
) -> Result<(), Reject> {
    let repeated = [("type", event_type), ("data", data)];
    if repeated.iter().all(|(_, claim)| claim.is_none()) {
        return Ok(());
    }
    let body: Value = json(body).ok_or(Reject::BodyMismatch)?;
    let same = repeated
        .iter()
        .all(|(name, claim)| claim.is_none() || *claim == body.get(name));
    same.then_some(()).ok_or(Reject::BodyMismatch)
}

#[cfg(test)]
#[path = "gemini_jwt_tests.rs"]
mod tests;
