//! Dynamic signing: RS256 tokens and the keys that prove them.
//!
//! The compact JWS is built here from its three parts, by hand: the service verifies with a library,
//! and a mistake made by one library on both sides would cancel itself out. A token says who signed
//! and for how long; it does not cover the body, as with Google, so a tampered dynamic delivery has
//! a valid signature. Nobody documented the claims but `aud`: all of them can be changed.
//!
//! Keys are made on first use, not kept in the source: a private key in a repository is found by
//! every scanner, and starting must not wait for one that nobody needs. The last key signs. A key
//! may sign without being published (a receiver that caches does not know it yet), and one may be
//! withdrawn while its tokens are still on their way.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::base::clock::Timestamp;

/// How deliveries to a job's own destinations are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DynamicSigning {
    /// By a token, as Google does.
    #[default]
    Jwt,
    /// Like the others, with the configured secret.
    Hmac,
}

/// What the tokens say, unless told otherwise, and how long their keys may be cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    /// `aud`; left out when `None`.
    pub audience: Option<String>,
    /// `iss`; left out when `None`.
    pub issuer: Option<String>,
    /// From `iat` to `exp`.
    pub lifetime: Duration,
    /// `max-age` of the key set.
    pub max_age: Duration,
}

impl Default for TokenConfig {
    fn default() -> Self {
        Self {
            audience: Some("simulated-audience".to_owned()),
            issuer: Some("https://accounts.google.com".to_owned()),
            lifetime: Duration::from_mins(10),
            max_age: Duration::from_hours(1),
        }
    }
}

/// How a new key takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyRotation {
    /// The keys before it leave the key set.
    pub withdraw: bool,
    /// It signs without being in the key set, until it is published.
    pub hidden: bool,
}

/// A key pair and the name it goes by.
#[derive(Debug)]
pub(crate) struct Key {
    kid: String,
    pair: KeyPair,
}

impl Key {
    /// A new RSA key of 2,048 bits; `None` when the machine has no randomness.
    fn new() -> Option<Self> {
        let pair = KeyPair::generate(KeySize::Rsa2048)
            .inspect_err(|_| {
                tracing::error!("no RSA key could be made: dynamic events go unsigned");
            })
            .ok()?;
        let digest = Sha256::digest(
            pair.public_key()
                .modulus()
                .big_endian_without_leading_zero(),
        );
        let kid = HEXLOWER.encode(&digest).chars().take(40).collect();
        Some(Self { kid, pair })
    }

    fn jwk(&self) -> Value {
        let public = self.pair.public_key();
        let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        json!({
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": self.kid,
            "n": part(public.modulus().big_endian_without_leading_zero()),
            "e": part(public.exponent().big_endian_without_leading_zero()),
        })
    }

    fn sign(&self, claims: &Map<String, Value>) -> Option<String> {
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.kid});
        let part = |json: String| BASE64URL_NOPAD.encode(json.as_bytes());
        let claims = Value::Object(claims.clone());
        let signed = format!("{}.{}", part(header.to_string()), part(claims.to_string()));
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let random = SystemRandom::new();
        self.pair
            .sign(
                &RSA_PKCS1_SHA256,
                &random,
                signed.as_bytes(),
                &mut signature,
            )
            .ok()?;
        Some(format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

/// Signs one delivery, whatever happens to the keys meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct TokenSigner {
    key: Arc<Key>,
    config: TokenConfig,
    overrides: Map<String, Value>,
}

impl TokenSigner {
    /// A token made at `at`.
    pub(crate) fn token(&self, at: Timestamp) -> Option<String> {
        let mut claims = Map::new();
        if let Some(audience) = &self.config.audience {
            claims.insert("aud".to_owned(), json!(audience));
        }
        if let Some(issuer) = &self.config.issuer {
            claims.insert("iss".to_owned(), json!(issuer));
        }
        claims.insert("iat".to_owned(), json!(at.as_seconds()));
        let end = at.after(self.config.lifetime).as_seconds();
        claims.insert("exp".to_owned(), json!(end));
        for (name, value) in &self.overrides {
            if value.is_null() {
                claims.remove(name);
            } else {
                claims.insert(name.clone(), value.clone());
            }
        }
        self.key.sign(&claims)
    }
}

/// The keys, oldest first, each with whether it is published.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    keys: Vec<(Arc<Key>, bool)>,
    /// Set over the usual claims; `null` leaves one out.
    pub(crate) overrides: Map<String, Value>,
}

impl KeyRing {
    fn ready(&mut self) {
        if self.keys.is_empty() {
            self.rotate(KeyRotation::default());
        }
    }

    /// Makes a new key that signs from now on, and returns its name.
    pub(crate) fn rotate(&mut self, how: KeyRotation) -> Option<String> {
        let key = Key::new()?;
        let kid = key.kid.clone();
        if how.withdraw {
            self.keys.clear();
        }
        self.keys.push((Arc::new(key), !how.hidden));
        Some(kid)
    }

    /// Puts every key into the key set.
    pub(crate) fn publish(&mut self) {
        for (_, published) in &mut self.keys {
            *published = true;
        }
    }

    pub(crate) fn signer(&mut self, config: &TokenConfig) -> Option<TokenSigner> {
        self.ready();
        let (key, _) = self.keys.last()?;
        Some(TokenSigner {
            key: Arc::clone(key),
            config: config.clone(),
            overrides: self.overrides.clone(),
        })
    }

    /// The key set as it is published.
    pub(crate) fn jwks(&mut self) -> Value {
        self.ready();
        let published = self.keys.iter().filter(|(_, published)| *published);
        let keys: Vec<Value> = published.map(|(key, _)| key.jwk()).collect();
        json!({"keys": keys})
    }
}
