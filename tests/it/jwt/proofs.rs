//! What a token is worth at the door, alone and beside the other proofs.

use std::sync::Arc;

use hookledger::base::clock::Clock;
use hookledger::config::settings::Require;
use hookledger::receive;
use hookledger::verify::Proof;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use sqlx::Connection;

use super::support::{KeyServer, Wanted, door, keys, signed_by, token, with};
use crate::http_door::{BODY, NOW, Receiver, SHARED, seen, signed};
use crate::support::TestStore;

#[tokio::test]
async fn a_true_token_is_accepted_and_every_other_gets_one_answer() {
    let server = KeyServer::start(keys(&["a", "b"])).await;
    let wanted = Wanted {
        audiences: vec!["mine".to_owned()],
        issuers: vec!["https://issuer.example".to_owned()],
        ..Wanted::default()
    };
    let (place, clock) = door(&server, wanted, Receiver::with_gate(1000)).await;
    let claimed = |more: Value| {
        let mut claims = json!({"aud": "mine", "iss": "https://issuer.example"});
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    let good = claimed(json!({"type": "batch.succeeded"}));
    assert_eq!(seen(with(&place, &token(&clock, "a", &good))).await.0, 200);
    let taken = place.receiver.taken.lock().unwrap().pop().unwrap();
    assert_eq!(taken.proofs(), [Proof::Jwt]);

    let now = clock.now().as_seconds();
    let header = |alg: &str| json!({"alg": alg, "kid": "a"});
    let mine = claimed(json!({"exp": now + 300}));
    let with_key = json!({"alg": "RS256", "kid": "a", "jwk": {"kty": "RSA"}});
    let claims = |more: Value| token(&clock, "a", &claimed(more));
    let mut tampered = token(&clock, "a", &good);
    tampered.truncate(tampered.rfind('.').unwrap() + 1);
    tampered.push_str(token(&clock, "b", &good).rsplit('.').next().unwrap());
    for (reason, token) in [
        ("bad_token", signed_by("a", &header("none"), &mine)),
        ("bad_token", signed_by("a", &header("HS256"), &mine)),
        ("bad_token", by_public_key(&mine)),
        ("bad_token", signed_by("a", &with_key, &mine)),
        ("bad_signature", tampered),
        ("unknown_key", token(&clock, "c", &good)),
        (
            "bad_claims",
            claims(json!({"exp": (now + 300).to_string()})),
        ),
        ("bad_claims", claims(json!({"exp": null}))),
        ("bad_claims", claims(json!({"iat": 1.5}))),
        ("token_expired", claims(json!({"exp": now - 61}))),
        ("token_too_early", claims(json!({"nbf": now + 61}))),
        ("token_too_early", claims(json!({"iat": now + 61}))),
        ("wrong_audience", claims(json!({"aud": "another's"}))),
        (
            "wrong_issuer",
            claims(json!({"iss": "https://other.example"})),
        ),
        ("body_mismatch", claims(json!({"type": "batch.failed"}))),
        (
            "body_mismatch",
            claims(json!({"data": {"id": "batches/x"}})),
        ),
    ] {
        let (status, _, text) = seen(with(&place, &token)).await;
        assert_eq!(status, 401, "{reason}");
        assert!(!text.contains(reason), "{text}");
        let counted = place.receiver.refusals();
        assert_eq!(counted, [(Some("gemini".to_owned()), reason)]);
    }
    assert!(place.receiver.taken.lock().unwrap().is_empty());
}

/// HS256 with the public key as its secret: the oldest trick.
fn by_public_key(claims: &Value) -> String {
    let part = |json: &Value| data_encoding::BASE64URL_NOPAD.encode(json.to_string().as_bytes());
    let header = json!({"alg": "HS256", "kid": "a"});
    let text = format!("{}.{}", part(&header), part(claims));
    let n = super::support::entry("a")
        .get("n")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    let secret = EncodingKey::from_secret(n.as_bytes()).unwrap();
    let tag = jsonwebtoken::crypto::sign(text.as_bytes(), &secret, Algorithm::HS256).unwrap();
    format!("{text}.{tag}")
}

#[tokio::test]
async fn an_unpinned_audience_is_accepted_whatever_it_says() {
    let server = KeyServer::start(keys(&["a"])).await;
    let (place, clock) = door(&server, Wanted::default(), Receiver::with_gate(1000)).await;
    for claims in [json!({}), json!({"aud": "x"}), json!({"aud": ["x", "y"]})] {
        let status = seen(with(&place, &token(&clock, "a", &claims))).await.0;
        assert_eq!(status, 200, "{claims}");
    }
}

#[tokio::test]
async fn signatures_and_tokens_live_side_by_side_under_any_and_all() {
    for (require, alone) in [(Require::Any, 200), (Require::All, 401)] {
        let server = KeyServer::start(keys(&["a"])).await;
        let wanted = Wanted {
            require,
            ..Wanted::default()
        };
        let (place, clock) = door(&server, wanted, Receiver::with_gate(1000)).await;
        let jwt = token(&clock, "a", &json!({}));
        let wrong = format!("{}A", jwt.get(..jwt.len() - 5).unwrap());
        let hmac = || signed(place.hook(), 0, BODY).body(BODY.to_vec());
        for (what, request, expected) in [
            ("signature", hmac(), alone),
            ("token", with(&place, &jwt), alone),
            (
                "header and signature",
                hmac().header("x-hook-secret", SHARED),
                200,
            ),
            (
                "header and token",
                with(&place, &jwt).header("x-hook-secret", SHARED),
                200,
            ),
            ("header", place.shared("x"), alone),
            (
                "header, wrong token",
                with(&place, &wrong).header("x-hook-secret", SHARED),
                401,
            ),
            (
                "wrong header, token",
                with(&place, &jwt).header("x-hook-secret", "wrong"),
                401,
            ),
            // One header, twice: nobody knows which copy counts.
            ("both", hmac().header("webhook-signature", &jwt), 401),
        ] {
            assert_eq!(seen(request).await.0, expected, "{require:?} {what}");
        }
        let taken = place.receiver.taken.lock().unwrap();
        let proofs: Vec<_> = taken.iter().map(|d| d.proofs().to_vec()).collect();
        assert!(proofs.contains(&vec![Proof::SharedHeader, Proof::StandardWebhooks]));
        assert!(proofs.contains(&vec![Proof::SharedHeader, Proof::Jwt]));
    }
}

#[tokio::test]
async fn beside_a_token_another_body_under_the_same_id_is_no_copy() {
    let server = KeyServer::start(keys(&["a"])).await;
    let kept = TestStore::open().await;
    let receiver = receive::Receiver::new(
        kept.store.clone(),
        kept.clock.clone(),
        kept.ids.clone(),
        std::time::Duration::from_hours(168),
    );
    let (place, clock) = door(&server, Wanted::default(), Arc::new(receiver)).await;
    assert_eq!(clock.now(), NOW);
    let jwt = token(&clock, "a", &json!({"user_metadata": {"job": "42"}}));
    let answer = async |body: &'static str| {
        let request = place
            .hook()
            .header("webhook-signature", &jwt)
            .header("webhook-id", "msg_1")
            .body(body);
        seen(request).await.2
    };
    let (one, other) = (
        r#"{"type":"batch.succeeded","data":{"id":"batches/a"}}"#,
        r#"{"type":"batch.succeeded","data":{"id":"batches/b"}}"#,
    );
    assert_eq!(answer(other).await, r#"{"status":"accepted"}"#);
    assert_eq!(answer(one).await, r#"{"status":"accepted"}"#);
    assert_eq!(answer(one).await, r#"{"status":"duplicate"}"#);
    // What only the claims say of the job is kept all the same.
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(kept.dir.path().join("test.db"));
    let mut file = sqlx::SqliteConnection::connect_with(&options)
        .await
        .unwrap();
    let said: Vec<String> = sqlx::query_scalar("SELECT user_metadata FROM captured_events")
        .fetch_all(&mut file)
        .await
        .unwrap();
    assert_eq!(said, [r#"{"job":"42"}"#, r#"{"job":"42"}"#]);
}
