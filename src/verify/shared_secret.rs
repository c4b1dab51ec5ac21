//! The shared secret in `X-Hook-Secret`.
//!
//! Compared as SHA-256 digests in constant time, so neither length nor content of the right value
//! shows in the time. A repeated header is a wrong one: which copy a proxy or we would have read is
//! exactly the doubt an attacker wants.

use http::HeaderMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::reject::Reject;
use crate::base::secret::Secret;

/// The header's name.
pub const HEADER: &str = "x-hook-secret";

/// The accepted shared secret.
#[derive(Clone)]
pub struct SharedSecret {
    digest: [u8; 32],
}

impl std::fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSecret").finish_non_exhaustive()
    }
}

impl SharedSecret {
    /// Accepts `secret`.
    pub fn new(secret: &Secret) -> Self {
        Self {
            digest: Sha256::digest(secret.expose()).into(),
        }
    }

    /// Whether the proof was brought. One that is there and wrong is an error.
    pub fn check(&self, headers: &HeaderMap) -> Result<bool, Reject> {
        let mut values = headers.get_all(HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(false);
        };
        let digest: [u8; 32] = Sha256::digest(value.as_bytes()).into();
        let right = bool::from(digest.ct_eq(&self.digest));
        if right && values.next().is_none() {
            Ok(true)
        } else {
            Err(Reject::BadSharedSecret)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&[u8]]) -> Result<bool, Reject> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("X-Hook-Secret", value.to_vec().try_into().unwrap());
        }
        SharedSecret::new(&Secret::new("a-shared-secret-of-24-bytes")).check(&headers)
    }

    #[test]
    fn absent_right_and_wrong_are_three_things() {
        let right = b"a-shared-secret-of-24-bytes".as_slice();
        assert_eq!(check(&[]), Ok(false));
        assert_eq!(check(&[right]), Ok(true));
        for wrong in [
            b"".as_slice(),
            b"A-shared-secret-of-24-bytes",
            b"\xff\xfe",
            &right[1..],
        ] {
            assert_eq!(check(&[wrong]), Err(Reject::BadSharedSecret));
        }
        assert_eq!(check(&[right, right]), Err(Reject::BadSharedSecret));
        assert_eq!(check(&[right, b"x"]), Err(Reject::BadSharedSecret));
    }
}
