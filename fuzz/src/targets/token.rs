//! Tokens of dynamic webhooks: accepted only when a second reading says so, and accepted whenever it
//! says so of one that is written plainly.
//!
//! Lines: a token's header, its claims, its signature; then the body. A header that does not begin
//! with `{` is the whole value of `webhook-signature`. The signature `$` stands for the right one,
//! so that mutated headers and claims come rightly signed.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use data_encoding::BASE64URL_NOPAD;
use hookledger::verify::jwks::RsaKey;
use hookledger::verify::{Proof, Verifier};
use http::{HeaderMap, HeaderValue};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::Value;

use super::door::{self, NOW};

const KID: &str = "a";
const AUDIENCE: &str = "hookledger";
const LEEWAY: i64 = 60;

struct Keys {
    private: EncodingKey,
    /// Modulus and exponent, in base64url.
    public: (String, String),
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let pem = include_bytes!("../../../tests/it/fixtures/test-only-rsa-a.pem");
    let private = EncodingKey::from_rsa_pem(pem).unwrap();
    let jwk = Jwk::from_encoding_key(&private, Algorithm::RS256).unwrap();
    let public = match jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => (rsa.n, rsa.e),
        other => panic!("not RSA: {other:?}"),
    };
    Keys { private, public }
});

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let (n, e) = &KEYS.public;
    let key = RsaKey::from_components(n, e).unwrap();
    let source = format!("shared_header = false\njwt = true\naudiences = [\"{AUDIENCE}\"]");
    let kid = KID.to_owned();
    door::verifier(&door::settings(&source), door::OneKey { kid, key })
});

pub(super) fn check(input: &[u8]) {
    let (header, rest) = super::first_line(input);
    let whole = !header.starts_with(b"{");
    let (token, body) = if whole {
        (header.to_vec(), rest)
    } else {
        let (claims, rest) = super::first_line(rest);
        let (signature, body) = super::first_line(rest);
        (token(header, claims, signature), body)
    };
    let Ok(value) = HeaderValue::from_bytes(&token) else {
        return;
    };
    let mut headers = HeaderMap::new();
    headers.insert("webhook-signature", value);
    let verified = door::verify(&VERIFIER, &headers, body);
    let judged = judge(&token, body);
    match verified {
        Ok(verified) => {
            assert!(judged.is_some_and(|j| j.fine), "accepted: {headers:?}");
            assert_eq!(verified.proofs(), [Proof::Jwt]);
            assert_eq!(&verified.body()[..], body);
        }
        Err(why) => assert!(
            !judged.is_some_and(|j| j.fine && j.plain),
            "{why}: {headers:?}"
        ),
    }
}

fn token(header: &[u8], claims: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut token = BASE64URL_NOPAD.encode(header);
    token.push('.');
    token.push_str(&BASE64URL_NOPAD.encode(claims));
    // A signature takes a while, and over what nobody can read it shows nothing new.
    let readable = || [header, claims].iter().all(|json| object(json).is_some());
    let signature = if signature == b"$" && readable() {
        signed(&token).into_bytes()
    } else {
        signature.to_vec()
    };
    let mut token = token.into_bytes();
    token.push(b'.');
    token.extend_from_slice(&signature);
    token
}

fn signed(text: &str) -> String {
    static KNOWN: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    if let Some(signature) = known.get(text) {
        return signature.clone();
    }
    let message = text.as_bytes();
    let signature = jsonwebtoken::crypto::sign(message, &KEYS.private, Algorithm::RS256).unwrap();
    if known.len() < 10_000 {
        known.insert(text.to_owned(), signature.clone());
    }
    signature
}

fn object(json: &[u8]) -> Option<Value> {
    serde_json::from_slice(json).ok().filter(Value::is_object)
}

struct Judged {
    /// Nothing speaks against it.
    fine: bool,
    /// Written as a machine writes it: no member twice, which readers take differently.
    plain: bool,
}

/// The token read a second time, through untyped JSON and another crate's cryptography. `None` when
/// it is no token by our key.
fn judge(token: &[u8], body: &[u8]) -> Option<Judged> {
    let parts: Vec<&[u8]> = token.split(|b| *b == b'.').collect();
    let [header, claims, signature] = parts.as_slice() else {
        return None;
    };
    let decode = |part: &[u8]| BASE64URL_NOPAD.decode(part).ok();
    let (n, e) = &KEYS.public;
    let key = RsaPublicKeyComponents {
        n: decode(n.as_bytes())?,
        e: decode(e.as_bytes())?,
    };
    let message = token.get(..header.len() + 1 + claims.len())?;
    key.verify(&RSA_PKCS1_2048_8192_SHA256, message, &decode(signature)?)
        .ok()?;
    let (header, claims) = (decode(header)?, decode(claims)?);
    let (head, said) = (object(&header)?, object(&claims)?);
    let plain = [(&header, &head), (&claims, &said)]
        .iter()
        .all(|(text, value)| value.to_string().as_bytes() == text.as_slice());
    let no_key_of_its_own = ["crit", "jku", "x5u", "jwk", "x5c"]
        .iter()
        .all(|name| head.get(name).is_none());
    let time = |name: &str| match said.get(name) {
        None => Some(None),
        Some(at) => at.as_i64().map(Some),
    };
    let (exp, nbf, iat) = (time("exp")?, time("nbf")?, time("iat")?);
    let begun = |at: Option<i64>| at.is_none_or(|at| at <= NOW + LEEWAY);
    let audience = match said.get("aud") {
        Some(Value::String(one)) => one == AUDIENCE,
        Some(Value::Array(many)) => {
            many.iter().all(Value::is_string) && many.iter().any(|one| one == AUDIENCE)
        }
        _ => false,
    };
    let issuer = said.get("iss").is_none_or(Value::is_string);
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let repeats = ["type", "data"].iter().all(|name| match said.get(name) {
        None => true,
        Some(claim) => body.as_ref().and_then(|b| b.get(name)) == Some(claim),
    });
    let fine = head.get("alg").is_some_and(|alg| alg == "RS256")
        && head.get("kid").is_some_and(|kid| kid == KID)
        && no_key_of_its_own
        && token.len() <= 8 * 1024
        && exp.is_some_and(|exp| NOW < exp.saturating_add(LEEWAY))
        && begun(nbf)
        && begun(iat)
        && audience
        && issuer
        && repeats;
    Some(Judged { fine, plain })
}
