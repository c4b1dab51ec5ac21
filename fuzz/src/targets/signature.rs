//! Standard Webhooks: accepted exactly when a second reading of the standard says so.
//!
//! A fuzzer signs nothing, so `$0`, `$1` and `$2` in `webhook-signature` stand for the right tag by one
//! of the keys: a mutated id, time or body comes rightly signed and must be judged by its form and
//! its time alone.

use std::sync::LazyLock;

use hmac::{Hmac, KeyInit, Mac};
use hookledger::verify::{NoKeys, Proof, Verifier};
use http::{HeaderMap, HeaderValue};
use sha2::Sha256;

use super::door::{self, NOW, TOLERANCE};

/// The keys of two secrets: the first secret is base64, so what it decodes to is a key and so is its
/// text; the second is text alone.
const KEYS: [&[u8]; 3] = [
    b"0123456789abcdef0123456789abcdef",
    b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    b"a!secret!that!is!no!base64!text!",
];

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let [_, first, second] = KEYS.map(String::from_utf8_lossy);
    let source = format!(
        "shared_header = false\njwt = false\nsigning_secrets = [\"whsec_{first}\", \"whsec_{second}\"]"
    );
    door::verifier(&door::settings(&source), NoKeys)
});

pub(super) fn check(input: &[u8]) {
    let (mut headers, body) = door::request(input);
    sign(&mut headers, body);
    let verified = door::verify(&VERIFIER, &headers, body);
    let expected = is_genuine(&headers, body);
    assert_eq!(
        verified.is_ok(),
        expected,
        "{:?} for {headers:?}",
        verified.as_ref().err()
    );
    let Ok(verified) = verified else { return };
    assert_eq!(verified.proofs(), [Proof::StandardWebhooks]);
    assert_eq!(&verified.body()[..], body);
    assert_eq!(
        verified.webhook_id().map(str::as_bytes),
        one(&headers, "webhook-id")
    );
    // What was signed is these bytes and no others.
    let mut longer = body.to_vec();
    longer.push(b' ');
    assert!(door::verify(&VERIFIER, &headers, &longer).is_err());
    if let Some(shorter) = body.get(1..) {
        assert!(door::verify(&VERIFIER, &headers, shorter).is_err());
    }
}

fn sign(headers: &mut HeaderMap, body: &[u8]) {
    let Some(given) = one(headers, "webhook-signature").map(<[u8]>::to_vec) else {
        return;
    };
    let id = one(headers, "webhook-id").unwrap_or_default();
    let at = one(headers, "webhook-timestamp").unwrap_or_default();
    let mut signed = Vec::new();
    let mut rest = given.as_slice();
    while let Some((byte, behind)) = rest.split_first() {
        let key = match (byte, behind.first()) {
            (b'$', Some(b'0')) => KEYS.first(),
            (b'$', Some(b'1')) => KEYS.get(1),
            (b'$', Some(b'2')) => KEYS.get(2),
            _ => None,
        };
        if let Some(key) = key {
            let tag = tag(key, id, at, body);
            signed.extend_from_slice(data_encoding::BASE64.encode(&tag).as_bytes());
            rest = behind.get(1..).unwrap_or_default();
        } else {
            signed.push(*byte);
            rest = behind;
        }
    }
    if let Ok(value) = HeaderValue::from_bytes(&signed) {
        headers.insert("webhook-signature", value);
    }
}

fn tag(key: &[u8], id: &[u8], at: &[u8], body: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in [id, b".", at, b".", body] {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    let all: Vec<&HeaderValue> = headers.get_all(name).iter().collect();
    match all.as_slice() {
        [only] => Some(only.as_bytes()),
        _ => None,
    }
}

/// The standard read a second time, by texts instead of by bytes decoded.
fn is_genuine(headers: &HeaderMap, body: &[u8]) -> bool {
    let parts = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|n| one(headers, n));
    let [Some(id), Some(at), Some(signatures)] = parts else {
        return false;
    };
    let id_is_good = !id.is_empty()
        && id.len() <= 256
        && id.iter().all(|b| (b'!'..=b'~').contains(b) && *b != b'.');
    let seconds = std::str::from_utf8(at)
        .ok()
        .and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
    let in_time = seconds.is_some_and(|n| n > 0 && (n - NOW).abs() <= TOLERANCE);
    let entries: Vec<&[u8]> = signatures
        .split(|b| *b == b' ')
        .filter(|entry| !entry.is_empty())
        .collect();
    let bounded = signatures.len() <= 4096 && entries.len() <= 16;
    let signed = KEYS.iter().any(|key| {
        let right = format!(
            "v1,{}",
            data_encoding::BASE64.encode(&tag(key, id, at, body))
        );
        entries.contains(&right.as_bytes())
    });
    id_is_good && in_time && bounded && signed
}
