//! Comparisons of secrets, to be counted by callgrind: `constant_time CASE VARIANT`.
//!
//! Each run makes one comparison [`TURNS`] times inside [`measured`], and nothing else there; the
//! script counts the instructions inside it and wants the variants of a case to cost the same. The
//! case `control` compares as nobody should, and must be caught.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a harness of tests")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use hookledger::base::clock::Timestamp;
use hookledger::base::secret::Secret;
use hookledger::config::{self, Inputs, Purpose};
use hookledger::http::admin::AdminTokens;
use hookledger::verify::shared_secret::SharedSecret;
use hookledger::verify::{KeySource, NoKeys, PathTokens, SigningSecret, Verifier};
use http::{HeaderMap, HeaderValue};
use uuid::Uuid;

const TURNS: u32 = 20;
const TOKEN: &str = "a-path-token-only-for-tests-0123456789";
const SHARED: &str = "a-shared-secret-for-tests-0123456789ab";
const ADMIN: [&str; 2] = [
    "an-admin-token-only-for-tests-012345678",
    "another-admin-token-for-tests-012345678",
];
const SIGNING: [&str; 2] = [
    "a!signing!secret!only!for!tests!",
    "another!signing!secret!for!tests",
];
const ID: &str = "msg_0123456789";
const NOW: Timestamp = Timestamp::from_millis(1_769_083_200_000);
const BODY: &[u8] = br#"{"type":"batch.succeeded","data":{"id":"batches/a"}}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (case, variant) = (arguments.next().unwrap(), arguments.next().unwrap());
    let variant: usize = variant.parse().unwrap();
    match case.as_str() {
        "control" => control(variant),
        "path-token" => path_token(variant),
        "reservation" => reservation(variant),
        "source" => source(variant),
        "shared-secret" => shared_secret(variant),
        "admin-token" => admin_token(&wrong(ADMIN[0], variant), false),
        "which-admin" => admin_token(ADMIN.get(variant).unwrap(), true),
        "signature" => signature(variant),
        "which-secret" => which_secret(variant),
        other => panic!("no case {other}"),
    }
}

/// What callgrind counts: this function, and what it calls.
#[inline(never)]
fn measured(compare: &mut dyn FnMut() -> bool, expected: bool) {
    for _ in 0..TURNS {
        assert_eq!(compare(), expected);
    }
}

/// `text` with its first, middle or last byte wrong.
fn wrong(text: &str, variant: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = [0, bytes.len() / 2, bytes.len() - 1];
    let byte = bytes.get_mut(*at.get(variant).unwrap()).unwrap();
    *byte = if *byte == b'x' { b'y' } else { b'x' };
    String::from_utf8(bytes).unwrap()
}

fn control(variant: usize) {
    let presented = wrong(TOKEN, variant);
    let mut compare = || {
        let (right, given) = (black_box(TOKEN.as_bytes()), black_box(presented.as_bytes()));
        right.iter().zip(given).all(|(a, b)| black_box(a) == b)
    };
    measured(&mut compare, false);
}

fn path_token(variant: usize) {
    let tokens = PathTokens::new(&Secret::new(TOKEN));
    let presented = wrong(TOKEN, variant);
    measured(&mut || tokens.check(black_box(&presented)).is_some(), false);
}

/// The tag of a reservation's token wrong; and, as the fourth, the token of another reservation.
fn reservation(variant: usize) {
    let tokens = PathTokens::new(&Secret::new(TOKEN));
    let id = |n: u128| Uuid::from_u128(0x0193_7000_0000_7000_8000_0000_0000_0000 + n);
    let token = tokens.mint_reservation(id(1));
    let (named, tag) = token.split_once('.').unwrap();
    let mut bytes = data_encoding::BASE64URL_NOPAD
        .decode(tag.as_bytes())
        .unwrap();
    let named = if variant == 3 {
        id(2).to_string()
    } else {
        flip(&mut bytes, variant);
        named.to_owned()
    };
    let presented = format!("{named}.{}", data_encoding::BASE64URL_NOPAD.encode(&bytes));
    measured(&mut || tokens.check(black_box(&presented)).is_some(), false);
}

fn flip(tag: &mut [u8], variant: usize) {
    *tag.get_mut(*[0, 16, 31].get(variant).unwrap()).unwrap() ^= 1;
}

/// A wrong token for a source that there is, and for one that there is not.
fn source(variant: usize) {
    let verifier = verifier();
    let presented = wrong(TOKEN, 1);
    let source = if variant == 0 { "gemini" } else { "nobody" };
    let headers = HeaderMap::new();
    let mut compare = || {
        let admitted = verifier.admit(black_box(source), black_box(&presented), None, &headers);
        admitted.is_ok()
    };
    measured(&mut compare, false);
}

fn shared_secret(variant: usize) {
    let secret = SharedSecret::new(&Secret::new(SHARED));
    let mut headers = HeaderMap::new();
    let value = HeaderValue::try_from(wrong(SHARED, variant)).unwrap();
    headers.insert("x-hook-secret", value);
    measured(&mut || secret.check(black_box(&headers)).is_ok(), false);
}

fn admin_token(presented: &str, expected: bool) {
    let [first, second] = ADMIN;
    let text = format!(
        "[admin]\ntoken = \"{first}\"\n[[admin.tokens]]\nname = \"x\"\nscope = \"read\"\n\
         token = \"{second}\""
    );
    let loaded = config::load(&Inputs::new().with_text(text), Purpose::Client).unwrap();
    let tokens = AdminTokens::new(&loaded.settings.admin);
    measured(&mut || tokens.accepts(black_box(presented)), expected);
}

/// The tag wrong at its first, middle or last byte.
fn signature(variant: usize) {
    let right = SigningSecret::parse(&Secret::new(SIGNING[0])).unwrap();
    let right = right.sign(ID, NOW, BODY);
    let mut tag = data_encoding::BASE64
        .decode(&right.as_bytes()[3..])
        .unwrap();
    flip(&mut tag, variant);
    verify(&format!("v1,{}", data_encoding::BASE64.encode(&tag)), false);
}

/// Rightly signed with the first secret, and with the second.
fn which_secret(variant: usize) {
    let secret = SigningSecret::parse(&Secret::new(*SIGNING.get(variant).unwrap())).unwrap();
    verify(&secret.sign(ID, NOW, BODY), true);
}

fn verify(signature: &str, expected: bool) {
    let verifier = verifier();
    let mut headers = HeaderMap::new();
    let seconds = NOW.as_seconds().to_string();
    for (name, value) in [
        ("webhook-id", ID),
        ("webhook-timestamp", &seconds),
        ("webhook-signature", signature),
    ] {
        headers.insert(name, HeaderValue::try_from(value).unwrap());
    }
    let body = Bytes::from_static(BODY);
    let mut compare = || {
        let admitted = verifier
            .admit("gemini", TOKEN, None, black_box(&headers))
            .unwrap();
        let verified = admitted.verify(body.clone(), NOW);
        verified.now_or_never().unwrap().is_ok()
    };
    measured(&mut compare, expected);
}

fn verifier() -> Verifier {
    let [first, second] = SIGNING;
    let text = format!(
        "[hooks]\npath_token = \"{TOKEN}\"\n[sources.gemini]\nshared_header = false\njwt = false\n\
         signing_secrets = [\"whsec_{first}\", \"whsec_{second}\"]"
    );
    let loaded = config::load(&Inputs::new().with_text(text), Purpose::Client).unwrap();
    let keys: Arc<dyn KeySource> = Arc::new(NoKeys);
    Verifier::new(&loaded.settings.hooks, &loaded.settings.sources, &keys).unwrap()
}
