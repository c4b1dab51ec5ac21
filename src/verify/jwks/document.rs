//! Reading a key set, believing little of it.
//!
//! A set may hold keys for other uses, of other kinds, and entries nobody can read: each is passed
//! over. What counts is an RSA signing key of 2048 to 8192 bits with a name. A set without one is no
//! set: it never replaces keys that work.

use std::collections::BTreeMap;

use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::MAX_KID_BYTES;

/// Most keys kept of one set.
const MAX_KEYS: usize = 32;
/// Fewest and most bits of a modulus.
const BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Most bytes of a public exponent; the usual one, 65537, has three.
const MAX_EXPONENT_BYTES: usize = 4;

/// A public key that verifies RS256 and nothing else.
#[derive(Clone)]
pub struct RsaKey(DecodingKey);

impl std::fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RsaKey").finish_non_exhaustive()
    }
}

impl RsaKey {
    /// A key of base64url texts, as they stand in a key set. `None` when it is too small, too large
    /// or not one.
    pub fn from_components(modulus: &str, exponent: &str) -> Option<Self> {
        let decode = |text: &str| {
            let bytes = data_encoding::BASE64URL_NOPAD
                .decode(text.as_bytes())
                .ok()?;
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            bytes.get(zeros..).map(<[u8]>::to_vec)
        };
        let (n, e) = (decode(modulus)?, decode(exponent)?);
        let bits = n.len() * 8 - n.first().map_or(0, |b| b.leading_zeros() as usize);
        let is_odd = |number: &[u8]| number.last().is_some_and(|b| b & 1 == 1);
        let good = BITS.contains(&bits)
            && is_odd(&n)
            && (1..=MAX_EXPONENT_BYTES).contains(&e.len())
            && is_odd(&e)
            && e != [1];
        good.then(|| Self(DecodingKey::from_rsa_raw_components(&n, &e)))
    }

    /// Whether `signature` (base64url) is an RS256 signature of `message`. The algorithm is ours:
    /// nothing the token says is asked.
    pub(in crate::verify) fn signed(&self, message: &[u8], signature: &str) -> bool {
        jsonwebtoken::crypto::verify(signature, message, &self.0, Algorithm::RS256).unwrap_or(false)
    }
}

/// The usable keys of a set, by name.
pub type Keys = BTreeMap<String, RsaKey>;

/// Reads a set. `None` when it is not one or has no usable key.
pub fn read(body: &[u8]) -> Option<Keys> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(body).ok()?;
    let mut keys = Keys::new();
    for (kid, key) in set.keys.iter().filter_map(usable) {
        if keys.len() == MAX_KEYS {
            tracing::warn!("a key set has more than {MAX_KEYS} usable keys; the rest is not kept");
            break;
        }
        keys.entry(kid).or_insert(key);
    }
    (!keys.is_empty()).then_some(keys)
}

fn usable(entry: &Value) -> Option<(String, RsaKey)> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let absent_or = |name: &str, wanted: &str| {
        entry
            .get(name)
            .is_none_or(|value| value.as_str() == Some(wanted))
    };
    let may_verify = entry.get("key_ops").is_none_or(|ops| {
        ops.as_array()
            .is_some_and(|ops| ops.iter().any(|op| op.as_str() == Some("verify")))
    });
    let kid = text("kid").filter(|kid| (1..=MAX_KID_BYTES).contains(&kid.len()))?;
    let good = text("kty") == Some("RSA")
        && absent_or("use", "sig")
        && absent_or("alg", "RS256")
        && may_verify;
    let key = RsaKey::from_components(text("n")?, text("e")?)?;
    good.then(|| (kid.to_owned(), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An odd number of so many bits, as a key set writes it.
    fn modulus(bits: usize) -> String {
        let mut bytes = vec![0xff; bits.div_ceil(8)];
        bytes[0] >>= bytes.len() * 8 - bits;
        data_encoding::BASE64URL_NOPAD.encode(&bytes)
    }

    fn entry(kid: &str) -> Value {
        json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": modulus(2048), "e": "AQAB"})
    }

    fn names(set: &Value) -> Vec<String> {
        read(set.to_string().as_bytes()).map_or_else(Vec::new, |keys| keys.into_keys().collect())
    }

    #[test]
    fn only_rsa_signing_keys_of_a_sound_size_count() {
        let changed = |name: &str, value: Value| {
            let mut key = entry("k");
            key[name] = value;
            key
        };
        let without = |name: &str| {
            let mut key = entry("k");
            key.as_object_mut().unwrap().remove(name);
            key
        };
        let even = data_encoding::BASE64URL_NOPAD.encode(&[0xfe; 256]);
        for good in [
            entry("k"),
            without("use"),
            without("alg"),
            changed("n", json!(modulus(8192))),
            changed("key_ops", json!(["verify"])),
            changed("kid", json!("k".repeat(128))),
            changed("d", json!("private, and not read")),
        ] {
            assert_eq!(
                names(&json!({"keys": [good], "more": 1})).len(),
                1,
                "{good}"
            );
        }
        for bad in [
            without("kid"),
            without("kty"),
            without("n"),
            without("e"),
            changed("kty", json!("EC")),
            changed("kty", json!("oct")),
            changed("alg", json!("RS512")),
            changed("alg", json!("HS256")),
            changed("alg", json!(null)),
            changed("use", json!("enc")),
            changed("key_ops", json!(["sign"])),
            changed("n", json!(modulus(2047))),
            changed("n", json!(modulus(8193))),
            changed("n", json!(even)),
            changed("n", json!("not base64!")),
            changed("e", json!("AQ")),
            changed("e", json!("Ag")),
            changed("e", json!("")),
            changed("e", json!("AQAAAAAB")),
            changed("kid", json!("")),
            changed("kid", json!("k".repeat(129))),
            changed("kid", json!(7)),
            json!(null),
            json!([]),
            json!("key"),
        ] {
            let keys = [bad.clone(), entry("good")];
            assert_eq!(names(&json!({"keys": keys})), ["good"], "{bad}");
        }
    }

    #[test]
    fn a_document_that_is_no_set_or_has_no_usable_key_is_none() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        for body in [
            "",
            "<html>moved</html>",
            "[]",
            "{}",
            r#"{"keys":[]}"#,
            r#"{"keys":{}}"#,
            r#"{"keys":[{"kty":"RSA"}]}"#,
            deep.as_str(),
        ] {
            assert!(read(body.as_bytes()).is_none(), "{body:.40}");
        }
    }

    #[test]
    fn a_set_is_bounded_and_the_first_of_a_name_counts() {
        let many: Vec<Value> = (0..10_000).map(|n| entry(&format!("{n:05}"))).collect();
        let found = names(&json!({"keys": many}));
        assert_eq!(found.len(), MAX_KEYS);
        assert_eq!(found.last().map(String::as_str), Some("00031"));
        assert_eq!(names(&json!({"keys": [entry("a"), entry("a")]})), ["a"]);
    }
}
