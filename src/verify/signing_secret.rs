//! A Standard Webhooks signing secret, decoded.
//!
//! Problem: the same secret is written in several ways. The standard says `whsec_` and padded
//! base64; the provider's older secrets look like the bare text that others would encode, and some
//! signers use that text's own bytes as the key.
//!
//! Design: one secret yields up to two candidate keys, the decoded bytes and the bytes of the text
//! after `whsec_`, and a signature by either is good. Neither is weaker than the secret as it was
//! handed out. Keys outside 24–64 bytes are refused: an empty key would accept anybody's signature.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::base::clock::Timestamp;
use crate::base::secret::Secret;

/// Shortest accepted key, in bytes.
pub const MIN_KEY_BYTES: usize = 24;
/// Longest accepted key, in bytes.
pub const MAX_KEY_BYTES: usize = 64;

const PREFIX: &str = "whsec_";

/// HMAC states of one secret, ready to be cloned per message.
#[derive(Clone)]
pub struct SigningSecret {
    /// Signs what we send, and is tried first.
    main: Hmac<Sha256>,
    /// The other reading of the same text, if there is one.
    second: Option<Hmac<Sha256>>,
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningSecret").finish_non_exhaustive()
    }
}

/// Why a text is no signing secret. Never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSigningSecret {
    /// Nothing after the optional `whsec_`.
    #[error("is empty")]
    Empty,
    /// A public key, not a secret.
    #[error("is a public key (`whpk_`); only symmetric secrets (`whsec_`) are supported")]
    PublicKey,
    /// Neither base64 nor plain visible ASCII.
    #[error("is neither base64 nor visible ASCII")]
    Unreadable,
    /// Decodes to too few or too many bytes.
    #[error("is {bytes} bytes long; {MIN_KEY_BYTES} to {MAX_KEY_BYTES} are accepted")]
    Length {
        /// Its decoded length.
        bytes: usize,
    },
}

impl SigningSecret {
    /// Reads a secret: optional `whsec_`, then base64 (padded or not, standard or URL-safe) or plain
    /// text. Surrounding white space, such as the newline of a secret file, is dropped.
    pub fn parse(secret: &Secret) -> Result<Self, BadSigningSecret> {
        let text = secret.expose().trim();
        if text.starts_with("whpk_") {
            return Err(BadSigningSecret::PublicKey);
        }
        let text = text.strip_prefix(PREFIX).unwrap_or(text).as_bytes();
        if text.is_empty() {
            return Err(BadSigningSecret::Empty);
        }
        let decoded = decode(text);
        if decoded.is_none() && !text.iter().all(u8::is_ascii_graphic) {
            return Err(BadSigningSecret::Unreadable);
        }
        let raw = accepted(text).then(|| keyed(text));
        match decoded {
            Some(key) if accepted(&key) => Ok(Self {
                main: keyed(&key),
                second: raw,
            }),
            Some(key) => Err(BadSigningSecret::Length { bytes: key.len() }),
            None => raw
                .map(|main| Self { main, second: None })
                .ok_or(BadSigningSecret::Length { bytes: text.len() }),
        }
    }

    /// The `webhook-signature` value for a message: `v1,` and the base64 of its HMAC.
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let mut mac = self.main.clone();
        feed(&mut mac, id.as_bytes(), at.as_seconds(), body);
        let tag = data_encoding::BASE64.encode(&mac.finalize().into_bytes());
        format!("v1,{tag}")
    }

    /// Whether any of `tags` signs the message. Every candidate key is tried on every tag, so the
    /// time does not tell which one matched.
    pub(super) fn signed(&self, id: &[u8], at: i64, body: &[u8], tags: &[[u8; 32]]) -> bool {
        let mut found = false;
        for key in std::iter::once(&self.main).chain(&self.second) {
            let mut mac = key.clone();
            feed(&mut mac, id, at, body);
            for tag in tags {
                found |= mac.clone().verify_slice(tag).is_ok();
            }
        }
        found
    }
}

fn feed(mac: &mut Hmac<Sha256>, id: &[u8], at: i64, body: &[u8]) {
    mac.update(id);
    mac.update(b".");
    mac.update(at.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
}

fn accepted(key: &[u8]) -> bool {
    (MIN_KEY_BYTES..=MAX_KEY_BYTES).contains(&key.len())
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
    [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD]
        .iter()
        .find_map(|encoding| encoding.decode(text).ok())
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_769_083_200_000);

    fn sign(secret: &str) -> Result<String, BadSigningSecret> {
        SigningSecret::parse(&Secret::new(secret)).map(|s| s.sign("msg_1", AT, b"{}"))
    }

    #[test]
    fn every_spelling_of_one_key_signs_alike() {
        // 0xfb and 0xff bytes force the characters in which the two alphabets differ.
        let key = [0xfb_u8, 0xff].repeat(13);
        let padded = data_encoding::BASE64.encode(&key);
        assert!(padded.contains('+') && padded.contains('/') && padded.ends_with('='));
        let expected = sign(&padded).unwrap();
        for spelled in [
            format!("whsec_{padded}"),
            format!("whsec_{padded}\n"),
            data_encoding::BASE64_NOPAD.encode(&key),
            data_encoding::BASE64URL.encode(&key),
            format!("whsec_{}", data_encoding::BASE64URL_NOPAD.encode(&key)),
        ] {
            assert_eq!(sign(&spelled).unwrap(), expected, "{spelled}");
        }
    }

    #[test]
    fn weak_and_foreign_secrets_are_refused() {
        use BadSigningSecret::{Empty, Length, PublicKey, Unreadable};
        let base64 = |n: usize| format!("whsec_{}", data_encoding::BASE64.encode(&vec![7; n]));
        for (secret, why) in [
            (String::new(), Empty),
            ("whsec_".to_owned(), Empty),
            (" \n\t ".to_owned(), Empty),
            ("whsec_ \n".to_owned(), Empty),
            (base64(1), Length { bytes: 1 }),
            (base64(23), Length { bytes: 23 }),
            (base64(65), Length { bytes: 65 }),
            ("whsec_short!".to_owned(), Length { bytes: 6 }),
            ("!".repeat(65), Length { bytes: 65 }),
            ("schlüssel ".repeat(4), Unreadable),
            (format!("whpk_{}", "A".repeat(44)), PublicKey),
        ] {
            assert_eq!(sign(&secret), Err(why), "{secret:?}");
        }
        for good in [base64(24), base64(64), "!".repeat(24), "!".repeat(64)] {
            assert!(sign(&good).is_ok(), "{good}");
        }
    }

    #[test]
    fn the_text_itself_is_a_second_key() {
        let text = "0thirty2word0ascii0bytes0okay0ab";
        let read = SigningSecret::parse(&Secret::new(format!("whsec_{text}"))).unwrap();
        for key in [
            text.as_bytes().to_vec(),
            data_encoding::BASE64.decode(text.as_bytes()).unwrap(),
        ] {
            let mut mac = keyed(&key);
            mac.update(b"id.1.body");
            let tag: [u8; 32] = mac.finalize().into_bytes().into();
            assert!(read.signed(b"id", 1, b"body", &[[0; 32], tag]));
            assert!(!read.signed(b"id", 1, b"bodz", &[tag]));
        }
    }

    #[test]
    fn debug_shows_nothing() {
        let secret = SigningSecret::parse(&Secret::new("!".repeat(24))).unwrap();
        assert_eq!(format!("{secret:?}"), "SigningSecret { .. }");
    }
}
