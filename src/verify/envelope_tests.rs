//! What each mix of proofs is worth, and what a verified delivery carries.

use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::base::secret::Secret;
use crate::verify::{AnswerClass, NoKeys, SigningSecret};

const TOKEN: &str = "correct-horse-battery-staple";
const SHARED: &str = "a-shared-secret-of-24-bytes";
const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOW: Timestamp = Timestamp::from_millis(1_769_083_200_123);
const BODY: &[u8] = b"{\"type\":\"batch.succeeded\"}";

fn hooks() -> Hooks {
    Hooks {
        path_token: Some(Secret::new(TOKEN)),
        shared_secret: Some(Secret::new(SHARED)),
        tolerance: Duration::from_secs(300),
        dedupe_ttl: Duration::from_hours(168),
        max_waiting: 1 << 20,
    }
}

fn source(require: Require, shared_header: bool, secrets: &[&str]) -> Source {
    Source {
        require,
        shared_header,
        signing_secrets: secrets.iter().map(|s| Secret::new(*s)).collect(),
        kept_secrets: false,
        jwt: false,
        jwks_urls: Vec::new(),
        audiences: Vec::new(),
        issuers: Vec::new(),
        allow_from: Vec::new(),
    }
}

fn no_keys() -> Arc<dyn KeySource> {
    Arc::new(NoKeys)
}

fn verifier(source: Source) -> Verifier {
    let sources = BTreeMap::from([("gemini".to_owned(), source)]);
    Verifier::new(&hooks(), &sources, &no_keys()).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bring {
    Nothing,
    Right,
    Wrong,
}
use Bring::{Nothing, Right, Wrong};

fn headers(shared: Bring, signature: Bring, at: Timestamp) -> HeaderMap {
    let mut map = HeaderMap::new();
    match shared {
        Nothing => {}
        Right => drop(map.insert("x-hook-secret", SHARED.parse().unwrap())),
        Wrong => drop(map.insert("x-hook-secret", "wrong".parse().unwrap())),
    }
    if signature != Nothing {
        let key = SigningSecret::parse(&Secret::new(SIGNING)).unwrap();
        let signed: &[u8] = if signature == Right { BODY } else { b"other" };
        map.insert("webhook-id", "msg_1".parse().unwrap());
        map.insert("webhook-timestamp", at.as_seconds().into());
        let value = key.sign("msg_1", at, signed).parse().unwrap();
        map.insert("webhook-signature", value);
    }
    map
}

fn deliver(verifier: &Verifier, headers: &HeaderMap) -> Result<Verified, Reject> {
    verifier
        .admit("gemini", TOKEN, None, headers)?
        .verify(Bytes::from_static(BODY), NOW)
        .now_or_never()
        .unwrap()
}

#[test]
fn every_mix_of_proofs_under_any_and_all() {
    use Require::{All, Any};
    let missing = Err(Reject::MissingProof);
    let (bad_shared, bad_sig) = (Err(Reject::BadSharedSecret), Err(Reject::BadSignature));
    let both = Ok(vec![Proof::SharedHeader, Proof::StandardWebhooks]);
    let (only_shared, only_sig) = (
        Ok(vec![Proof::SharedHeader]),
        Ok(vec![Proof::StandardWebhooks]),
    );
    // Both kinds are accepted: shared, signature, expected under any, expected under all.
    for (shared, signature, any, all) in [
        (Nothing, Nothing, &missing, &missing),
        (Right, Nothing, &only_shared, &missing),
        (Nothing, Right, &only_sig, &missing),
        (Right, Right, &both, &both),
        (Wrong, Nothing, &bad_shared, &bad_shared),
        (Nothing, Wrong, &bad_sig, &missing),
        (Wrong, Right, &bad_shared, &bad_shared),
        (Right, Wrong, &bad_sig, &bad_sig),
        (Wrong, Wrong, &bad_shared, &bad_shared),
    ] {
        for (require, expected) in [(Any, any), (All, all)] {
            let v = verifier(source(require, true, &[SIGNING]));
            let found = deliver(&v, &headers(shared, signature, NOW)).map(|d| d.proofs().to_vec());
            assert_eq!(&found, expected, "{require:?} {shared:?} {signature:?}");
        }
    }
    // One kind is accepted: the other is not looked at, right or wrong.
    for require in [Any, All] {
        for other in [Nothing, Right, Wrong] {
            let v = verifier(source(require, true, &[]));
            let found = deliver(&v, &headers(Right, other, NOW)).map(|d| d.proofs().to_vec());
            assert_eq!(found, only_shared, "{require:?} signature {other:?}");
            let found = deliver(&v, &headers(Nothing, other, NOW));
            assert_eq!(found.err(), Some(Reject::MissingProof));
            let v = verifier(source(require, false, &[SIGNING]));
            let found = deliver(&v, &headers(other, Right, NOW)).map(|d| d.proofs().to_vec());
            assert_eq!(found, only_sig, "{require:?} shared {other:?}");
            let found = deliver(&v, &headers(other, Nothing, NOW));
            assert_eq!(found.err(), Some(Reject::MissingProof));
        }
    }
}

#[test]
fn the_path_is_judged_before_anything_else() {
    let v = verifier(source(Require::Any, true, &[]));
    let right = headers(Right, Nothing, NOW);
    for (source, token, expected) in [
        ("gemini", "nope", Reject::WrongToken),
        ("nobody", "nope", Reject::WrongToken),
        ("nobody", TOKEN, Reject::UnknownSource),
        ("Gemini", TOKEN, Reject::UnknownSource),
    ] {
        for map in [&right, &HeaderMap::new()] {
            let found = v.admit(source, token, None, map).unwrap_err();
            assert_eq!(found, expected);
            assert_eq!(found.answer_class(), AnswerClass::NotFound);
        }
    }
}

#[test]
fn a_reservation_token_still_needs_a_proof() {
    let v = verifier(source(Require::Any, true, &[]));
    let id = uuid::Uuid::from_u128(7);
    let token = v.path_tokens().mint_reservation(id);
    let none = v
        .admit("gemini", &token, None, &HeaderMap::new())
        .unwrap_err();
    assert_eq!(none, Reject::MissingProof);
    let admitted = v
        .admit("gemini", &token, None, &headers(Right, Nothing, NOW))
        .unwrap();
    let delivery = admitted.verify(Bytes::new(), NOW).now_or_never().unwrap();
    let delivery = delivery.unwrap();
    assert_eq!(delivery.path(), PathProof::Reservation(id));
}

#[test]
fn stale_is_said_only_of_what_was_rightly_signed() {
    let v = verifier(source(Require::Any, false, &[SIGNING]));
    let (old, early) = (
        NOW.before(Duration::from_secs(301)),
        NOW.after(Duration::from_secs(301)),
    );
    for (at, signature, expected) in [
        (old, Right, Reject::TooOld),
        (early, Right, Reject::TooEarly),
        (old, Wrong, Reject::BadSignature),
        (early, Wrong, Reject::BadSignature),
    ] {
        let found = deliver(&v, &headers(Nothing, signature, at)).unwrap_err();
        assert_eq!(found, expected);
        assert_eq!(found.answer_class(), AnswerClass::Unauthorized);
    }
}

#[test]
fn a_delivery_carries_the_bytes_and_no_credentials() {
    let v = verifier(source(Require::All, true, &[SIGNING]));
    let mut map = headers(Right, Right, NOW);
    for (name, value) in [
        ("Authorization", "Bearer canary"),
        ("Proxy-Authorization", "Basic canary"),
        ("Cookie", "canary=1"),
        ("Content-Type", "application/json"),
        ("X-Quoted", "it's \"$(odd)\""),
    ] {
        let name: http::HeaderName = name.parse().unwrap();
        map.append(name, value.parse().unwrap());
    }
    map.append("x-raw", vec![0xff, 0xe9].try_into().unwrap());
    map.append("x-raw", "second".parse().unwrap());
    let delivery = deliver(&v, &map).unwrap();
    assert_eq!(delivery.source(), "gemini");
    assert_eq!(delivery.path(), PathProof::Main);
    assert_eq!(delivery.webhook_id(), Some("msg_1"));
    let signed_at = delivery.signed_at().unwrap();
    assert_eq!(signed_at.as_millis(), 1_769_083_200_000);
    assert_eq!(delivery.received_at(), NOW);
    assert_eq!(delivery.body().as_ref(), BODY);
    let names: Vec<&str> = delivery.headers().iter().map(|(n, _)| n.as_str()).collect();
    for kept in [
        "content-type",
        "x-quoted",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    ] {
        assert!(names.contains(&kept), "{kept}");
    }
    assert_eq!(names.len(), 7, "{names:?}");
    let raw: Vec<&[u8]> = delivery
        .headers()
        .iter()
        .filter(|(n, _)| n == "x-raw")
        .map(|(_, v)| v.as_ref())
        .collect();
    assert_eq!(raw, [[0xff, 0xe9].as_slice(), b"second"]);
    let shown = format!("{delivery:?}");
    assert!(!shown.contains("batch.succeeded") && !shown.contains("canary"));
}

#[test]
fn kept_headers_are_bounded() {
    let v = verifier(source(Require::Any, true, &[]));
    let mut map = headers(Right, Nothing, NOW);
    for n in 0..100 {
        map.append("x-many", n.into());
    }
    assert_eq!(deliver(&v, &map).unwrap().headers().len(), 64);
    let mut map = headers(Right, Nothing, NOW);
    for _ in 0..3 {
        map.append("x-long", "y".repeat(8000).parse().unwrap());
    }
    assert_eq!(deliver(&v, &map).unwrap().headers().len(), 2);
}

#[test]
fn an_id_of_no_accepted_form_is_no_id_beside_a_shared_secret() {
    let v = verifier(source(Require::Any, true, &[]));
    for id in ["", "a.b", &"x".repeat(257)] {
        let mut map = headers(Right, Nothing, NOW);
        map.insert("webhook-id", id.parse().unwrap());
        assert_eq!(deliver(&v, &map).unwrap().webhook_id(), None, "{id}");
    }
}

#[test]
fn all_problems_are_listed_at_once_without_their_secrets() {
    let mut hooks = hooks();
    hooks.path_token = None;
    hooks.shared_secret = None;
    let sources = BTreeMap::from([
        ("a".to_owned(), source(Require::Any, true, &[])),
        ("b".to_owned(), source(Require::Any, false, &[])),
        (
            "c".to_owned(),
            source(Require::All, false, &[SIGNING, "whsec_canary"]),
        ),
        (
            "d".to_owned(),
            Source {
                jwt: true,
                ..source(Require::Any, false, &[])
            },
        ),
    ]);
    let problems = Verifier::new(&hooks, &sources, &no_keys()).unwrap_err();
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "hooks.path_token is not set",
            "sources.a.shared_header needs hooks.shared_secret",
            "sources.b accepts no proof; set shared_header, signing_secrets or jwt",
            "sources.c.signing_secrets[1] is 6 bytes long; 24 to 64 are accepted",
            "sources.d.jwt needs jwks_urls",
        ]
    );
    let again = Verifier::new(&hooks, &sources, &no_keys()).unwrap_err();
    assert_eq!(again, problems);
}

/// Also beside a right shared header, and where no signature is asked for.
#[test]
fn a_repeated_header_of_the_standard_is_refused_whatever_else_proves_it() {
    for verifier in [
        verifier(source(Require::Any, true, &[SIGNING])),
        verifier(source(Require::Any, true, &[])),
    ] {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut twice = headers(Right, Nothing, NOW);
            twice.insert(name, "one".parse().unwrap());
            twice.append(name, "one".parse().unwrap());
            let found = deliver(&verifier, &twice).map(|_| ());
            assert_eq!(found, Err(Reject::MalformedSignature), "{name}");
        }
    }
}
