//! Standard Webhooks signatures of what we send.
//!
//! `v1,` and the base64 of HMAC-SHA256 over `{id}.{timestamp}.{body}`. A secret that begins with
//! `whsec_` is the base64 of the key, 24 to 64 bytes; any other text is the key itself.

use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::base::clock::Timestamp;
use crate::base::secret::Secret;

const PREFIX: &str = "whsec_";

/// Why a secret cannot sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// The part behind `whsec_` is not base64.
    #[error("begins with whsec_ but the rest is not base64")]
    NotBase64,
    /// Too short or too long a key.
    #[error("holds a key of {bytes} bytes; whsec_ secrets hold 24 to 64")]
    Length {
        /// Decoded length.
        bytes: usize,
    },
    /// Not fit to be a secret.
    #[error("{0}")]
    Weak(#[from] crate::base::secret::Weakness),
}

/// A key that signs.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey([secret])")
    }
}

impl SigningKey {
    /// Reads a configured secret.
    pub fn parse(secret: &Secret) -> Result<Self, BadSecret> {
        let text = secret.expose();
        let key = match text.strip_prefix(PREFIX) {
            Some(encoded) => {
                let encoded = encoded.as_bytes();
                let key = BASE64
                    .decode(encoded)
                    .or_else(|_| BASE64_NOPAD.decode(encoded))
                    .map_err(|_| BadSecret::NotBase64)?;
                if !(24..=64).contains(&key.len()) {
                    return Err(BadSecret::Length { bytes: key.len() });
                }
                key
            }
            None => match secret.weakness() {
                Some(weakness) => return Err(weakness.into()),
                None => text.as_bytes().to_vec(),
            },
        };
        let mac = Hmac::new_from_slice(&key).map_err(|_| BadSecret::Length { bytes: key.len() })?;
        Ok(Self(mac))
    }

    /// The value of `webhook-signature` for this id, time and body.
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{}.", at.as_seconds()).as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_published_vector_comes_out() {
        let key = SigningKey::parse(&Secret::new(SECRET)).unwrap();
        let at = Timestamp::from_millis(1_614_265_330_999);
        assert_eq!(
            key.sign(
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                at,
                br#"{"test": 2432232314}"#
            ),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert_eq!(format!("{key:?}"), "SigningKey([secret])");
    }

    #[test]
    fn a_raw_secret_is_the_key_itself() {
        let raw = "correct-horse-battery-staple";
        let encoded = format!("{PREFIX}{}", BASE64.encode(raw.as_bytes()));
        let (a, b) = (Secret::new(raw), Secret::new(encoded));
        let sign = |s| {
            SigningKey::parse(s)
                .unwrap()
                .sign("id", Timestamp::from_millis(0), b"x")
        };
        assert_eq!(sign(&a), sign(&b));
    }

    #[test]
    fn padding_may_be_left_out() {
        let raw = "correct-horse-battery-stap";
        let padded = BASE64.encode(raw.as_bytes());
        assert!(padded.ends_with('='));
        let bare = format!("{PREFIX}{}", padded.trim_end_matches('='));
        assert!(SigningKey::parse(&Secret::new(bare)).is_ok());
    }

    #[test]
    fn secrets_that_cannot_sign_say_why() {
        for (text, error) in [
            ("whsec_", BadSecret::Length { bytes: 0 }),
            ("whsec_!!!!", BadSecret::NotBase64),
            ("whsec_AAAA", BadSecret::Length { bytes: 3 }),
        ] {
            assert_eq!(SigningKey::parse(&Secret::new(text)).unwrap_err(), error);
        }
        assert!(matches!(
            SigningKey::parse(&Secret::new("")),
            Err(BadSecret::Weak(_))
        ));
    }
}
