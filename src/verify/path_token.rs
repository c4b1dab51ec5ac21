//! The random token in the hook's path.
//!
//! Problem: the token must be compared without telling, by time, how much of it was right; and a
//! reservation needs a URL of its own that the door can check without reading the store.
//!
//! Design: the main token is kept and compared as its SHA-256 digest, so every comparison is over 32
//! bytes whatever was presented. A reservation's token is `{id}.{tag}`, the tag being an HMAC of the
//! id under a key derived from the main token: whoever holds one reservation's URL can compute
//! neither another's nor the main token. Changing the main token revokes them all, which is meant.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::base::secret::Secret;

/// Longest token looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 512;
/// Separates the reservation key from every other use of the main token.
const RESERVATION_LABEL: &[u8] = b"hookledger reservation path token v1";

/// What the path showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathProof {
    /// The main token.
    Main,
    /// The token of one reservation.
    Reservation(Uuid),
}

/// The accepted path tokens.
#[derive(Clone)]
pub struct PathTokens {
    main_digest: [u8; 32],
    reservation_mac: Hmac<Sha256>,
}

impl std::fmt::Debug for PathTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathTokens").finish_non_exhaustive()
    }
}

impl PathTokens {
    /// Accepts `main` and the reservation tokens derived from it.
    pub fn new(main: &Secret) -> Self {
        let mut derive = keyed(main.expose().as_bytes());
        derive.update(RESERVATION_LABEL);
        Self {
            main_digest: Sha256::digest(main.expose()).into(),
            reservation_mac: keyed(&derive.finalize().into_bytes()),
        }
    }

    /// What `presented` (percent-decoded) proves, if anything.
    pub fn check(&self, presented: &str) -> Option<PathProof> {
        if presented.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(presented).into();
        if bool::from(digest.ct_eq(&self.main_digest)) {
            return Some(PathProof::Main);
        }
        self.reservation(presented).map(PathProof::Reservation)
    }

    /// The path token of reservation `id`: letters, digits, `-`, `_` and one dot.
    pub fn mint_reservation(&self, id: Uuid) -> String {
        let tag = self.tag(id).finalize().into_bytes();
        let tag = data_encoding::BASE64URL_NOPAD.encode(&tag);
        format!("{}.{tag}", id.hyphenated())
    }

    fn reservation(&self, presented: &str) -> Option<Uuid> {
        let (id_text, tag) = presented.split_once('.')?;
        let id = Uuid::try_parse(id_text).ok()?;
        // One reservation has one token: the other spellings of a UUID are not it.
        if id.hyphenated().to_string() != id_text {
            return None;
        }
        let tag = data_encoding::BASE64URL_NOPAD.decode(tag.as_bytes()).ok()?;
        self.tag(id).verify_slice(&tag).ok()?;
        Some(id)
    }

    fn tag(&self, id: Uuid) -> Hmac<Sha256> {
        let mut mac = self.reservation_mac.clone();
        mac.update(id.as_bytes());
        mac
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens() -> PathTokens {
        PathTokens::new(&Secret::new("correct-horse-battery-staple"))
    }

    const ID: Uuid = Uuid::from_u128(0x0192_abcd_0000_7000_8000_0000_0000_00ef);

    #[test]
    fn the_main_token_is_accepted_whole_and_nothing_near_it() {
        let t = tokens();
        assert_eq!(
            t.check("correct-horse-battery-staple"),
            Some(PathProof::Main)
        );
        for wrong in [
            "",
            "correct-horse-battery-stapl",
            "correct-horse-battery-staple ",
            "Correct-horse-battery-staple",
        ] {
            assert_eq!(t.check(wrong), None, "{wrong}");
        }
        assert_eq!(t.check(&"x".repeat(100_000)), None);
    }

    #[test]
    fn a_reservation_token_names_its_id_and_needs_no_escaping() {
        let t = tokens();
        let token = t.mint_reservation(ID);
        assert_eq!(t.check(&token), Some(PathProof::Reservation(ID)));
        assert!(
            token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        );
    }

    #[test]
    fn a_reservation_token_is_bound_to_its_id_its_key_and_its_spelling() {
        let t = tokens();
        let token = t.mint_reservation(ID);
        let (id, tag) = token.split_once('.').unwrap();
        let other = Uuid::from_u128(ID.as_u128() + 1);
        for wrong in [
            format!("{other}.{tag}"),
            format!("{}.{tag}", id.to_uppercase()),
            format!("{}.{tag}", ID.simple()),
            format!("{{{id}}}.{tag}"),
            format!("{id}.{tag}="),
            format!("{id}.{}", &tag[..tag.len() - 1]),
            format!("{id}."),
            id.to_owned(),
            PathTokens::new(&Secret::new("another-main-token-of-24-bytes")).mint_reservation(ID),
        ] {
            assert_eq!(t.check(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", tokens()), "PathTokens { .. }");
    }

    proptest! {
        #[test]
        fn any_text_is_refused_quietly(text in "\\PC*") {
            prop_assert_eq!(tokens().check(&text), None);
        }
    }
}
