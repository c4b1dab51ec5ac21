//! Where the public keys of signed tokens come from.
//!
//! Threat: whoever makes us trust a key of his makes us trust every token of his, and whoever makes
//! us ask for keys at his pleasure turns us against the key server, or keeps true deliveries out.
//!
//! Design: a [`KeySource`] answers for one kid of one configured URL; nothing a token says ever
//! becomes a URL or a path. [`http::HttpKeys`] is the one that asks over HTTP. Which bytes of a key
//! set are believed is `document`'s, how long and how often is `cache`'s: both are plain values, so
//! that their rules are tested without a network.

mod cache;
mod document;
pub mod http;

use async_trait::async_trait;
use url::Url;

pub use document::{Keys, RsaKey, read as read_key_set};

/// Longest kid looked up, bytes. It is a map key and nothing else.
pub const MAX_KID_BYTES: usize = 128;

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoKey {
    /// The set was read and does not have it.
    #[error("no such key")]
    Unknown,
    /// The set could not be read, so nobody knows.
    #[error("the keys cannot be read right now")]
    Unavailable,
}

/// Answers for keys.
#[async_trait]
pub trait KeySource: Send + Sync + std::fmt::Debug {
    /// The key named `kid` in the set at `url`, which is a configured one.
    ///
    /// # Errors
    /// [`NoKey`]; only [`NoKey::Unknown`] says anything about the token.
    async fn key(&self, url: &Url, kid: &str) -> Result<RsaKey, NoKey>;
}

/// Has no key: for those who only ask whether a configuration can be used, and sources without
/// tokens.
#[derive(Debug, Clone, Copy)]
pub struct NoKeys;

#[async_trait]
impl KeySource for NoKeys {
    async fn key(&self, _: &Url, _: &str) -> Result<RsaKey, NoKey> {
        Err(NoKey::Unavailable)
    }
}
