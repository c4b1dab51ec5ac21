//! Key sets: what is kept is in the document, of a sound size, and can be used without harm.

use std::sync::LazyLock;

use data_encoding::BASE64URL_NOPAD;
use hookledger::config::Settings;
use hookledger::verify::jwks::{MAX_KID_BYTES, read_key_set};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::door::{self, NOW};

static SETTINGS: LazyLock<Settings> =
    LazyLock::new(|| door::settings("shared_header = false\njwt = true"));

pub(super) fn check(input: &[u8]) {
    let Some(keys) = read_key_set(input) else {
        return;
    };
    assert!((1..=32).contains(&keys.len()), "{} keys", keys.len());
    let set: Value = serde_json::from_slice(input).unwrap();
    let entries = set.get("keys").and_then(Value::as_array).unwrap();
    for kid in keys.keys() {
        assert!((1..=MAX_KID_BYTES).contains(&kid.len()));
        let said = |entry: &Value| entry.get("kid").and_then(Value::as_str) == Some(kid);
        assert!(entries.iter().filter(|e| said(e)).any(is_sound), "{kid}");
    }
    let again = read_key_set(set.to_string().as_bytes()).unwrap();
    assert!(again.keys().eq(keys.keys()), "spelling changes the keys");
    // By whichever key of a stranger: a made-up signature proves nothing, and breaks nothing.
    if let Some((kid, key)) = keys.into_iter().next() {
        let headers = unsigned(&kid);
        let one = door::OneKey { kid, key };
        let verifier = door::verifier(&SETTINGS, one);
        assert!(door::verify(&verifier, &headers, b"{}").is_err());
    }
}

fn is_sound(entry: &Value) -> bool {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let number = |name: &str| {
        let bytes = BASE64URL_NOPAD.decode(text(name)?.as_bytes()).ok()?;
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        Some(bytes.get(zeros..)?.to_vec())
    };
    let (Some(n), Some(e)) = (number("n"), number("e")) else {
        return false;
    };
    let bits = n.len() * 8 - n.first().map_or(0, |b| b.leading_zeros() as usize);
    let odd = |number: &[u8]| number.last().is_some_and(|b| b % 2 == 1);
    text("kty") == Some("RSA")
        && matches!(entry.get("use"), None | Some(Value::String(_)))
        && text("use").is_none_or(|word| word == "sig")
        && text("alg").is_none_or(|alg| alg == "RS256")
        && (2048..=8192).contains(&bits)
        && odd(&n)
        && odd(&e)
        && e != [1]
        && e.len() <= 4
}

fn unsigned(kid: &str) -> HeaderMap {
    let part = |json: Value| BASE64URL_NOPAD.encode(json.to_string().as_bytes());
    let header = part(json!({"alg": "RS256", "kid": kid}));
    let claims = part(json!({"exp": NOW + 60}));
    let signature = BASE64URL_NOPAD.encode(&[1; 256]);
    let mut headers = HeaderMap::new();
    let value = HeaderValue::try_from(format!("{header}.{claims}.{signature}")).unwrap();
    headers.insert("webhook-signature", value);
    headers
}
