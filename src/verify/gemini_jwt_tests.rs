//! Every rule of a token, against keys that are given and not fetched.

use async_trait::async_trait;
use futures_util::FutureExt;
use http::HeaderValue;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::json;

use super::*;
use crate::config::settings::Require;

const NOW: Timestamp = Timestamp::from_millis(1_769_083_200_500);
const SECONDS: i64 = 1_769_083_200;
const BODY: &[u8] = br#"{"type":"batch.succeeded","data":{"id":"batches/a"},"version":"v1"}"#;
const KEY_A: &[u8] = include_bytes!("../../tests/it/fixtures/test-only-rsa-a.pem");
const KEY_B: &[u8] = include_bytes!("../../tests/it/fixtures/test-only-rsa-b.pem");

/// Knows key A by the name `a`; any other name of the first URL is unknown, the second URL is down.
#[derive(Debug)]
struct Given;

#[async_trait]
impl KeySource for Given {
    async fn key(&self, url: &Url, kid: &str) -> Result<RsaKey, NoKey> {
        match (url.path(), kid) {
            ("/down", _) => Err(NoKey::Unavailable),
            (_, "a") => Ok(public(KEY_A)),
            _ => Err(NoKey::Unknown),
        }
    }
}

fn encoding(pem: &[u8]) -> EncodingKey {
    EncodingKey::from_rsa_pem(pem).unwrap()
}

fn public(pem: &[u8]) -> RsaKey {
    let jwk = Jwk::from_encoding_key(&encoding(pem), Algorithm::RS256).unwrap();
    let AlgorithmParameters::RSA(rsa) = jwk.algorithm else {
        panic!("not RSA");
    };
    RsaKey::from_components(&rsa.n, &rsa.e).unwrap()
}

fn part(json: &str) -> String {
    data_encoding::BASE64URL_NOPAD.encode(json.as_bytes())
}

fn token(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), key, algorithm).unwrap();
    format!("{signed}.{signature}")
}

const HEADER: &str = r#"{"alg":"RS256","kid":"a","typ":"JWT"}"#;

fn true_token(claims: &str) -> String {
    token(HEADER, claims, &encoding(KEY_A), Algorithm::RS256)
}

fn claims(more: &str) -> String {
    format!(r#"{{"exp":{}{more}}}"#, SECONDS + 600)
}

fn source() -> Source {
    Source {
        require: Require::Any,
        shared_header: false,
        signing_secrets: Vec::new(),
        kept_secrets: false,
        jwt: true,
        jwks_urls: vec![Url::parse("https://keys.example/jwks").unwrap()],
        audiences: Vec::new(),
        issuers: Vec::new(),
        allow_from: Vec::new(),
    }
}

fn checked_by(source: &Source, token: &str, body: &[u8]) -> Result<Said, Reject> {
    let mut headers = HeaderMap::new();
    headers.insert("webhook-signature", HeaderValue::from_str(token).unwrap());
    let token = Token::read(&headers)?.expect("has the shape of a token");
    let rules = TokenRules::new("gemini", source, Arc::new(Given));
    rules.verify(&token, body, NOW).now_or_never().unwrap()
}

fn checked(token: &str) -> Result<Said, Reject> {
    checked_by(&source(), token, BODY)
}

#[test]
fn this_build_has_exactly_one_backend_and_the_first_decode_works() {
    assert!(can_verify());
    let said = checked(&true_token(&claims(r#","iat":1769083100"#))).unwrap();
    let issued_at = said.issued_at.unwrap();
    assert_eq!(issued_at.as_millis(), 1_769_083_100_000);
    assert_eq!(said.user_metadata, None);
}

#[test]
fn the_algorithm_is_ours_and_a_token_brings_no_key() {
    let sign = |header: &str| token(header, &claims(""), &encoding(KEY_A), Algorithm::RS256);
    for header in [
        r#"{"alg":"none","kid":"a"}"#,
        r#"{"alg":"None","kid":"a"}"#,
        r#"{"alg":"rs256","kid":"a"}"#,
        r#"{"alg":"HS256","kid":"a"}"#,
        r#"{"alg":"RS384","kid":"a"}"#,
        r#"{"alg":"PS256","kid":"a"}"#,
        r#"{"alg":null,"kid":"a"}"#,
        r#"{"alg":["RS256"],"kid":"a"}"#,
        r#"{"kid":"a"}"#,
        r#"{"alg":"none","alg":"RS256","kid":"a"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"RS256","kid":""}"#,
        r#"{"alg":"RS256","kid":7}"#,
        r#"{"alg":"RS256","kid":"b","kid":"a"}"#,
        r#"{"alg":"RS256","kid":"a","crit":[]}"#,
        r#"{"alg":"RS256","kid":"a","crit":null}"#,
        r#"{"alg":"RS256","kid":"a","jku":"https://evil.example"}"#,
        r#"{"alg":"RS256","kid":"a","x5u":""}"#,
        r#"{"alg":"RS256","kid":"a","jwk":{}}"#,
        r#"{"alg":"RS256","kid":"a","x5c":[]}"#,
        r#"["alg","RS256"]"#,
        r#""RS256""#,
        "{}",
        "{",
    ] {
        // Anything whose base64 does not begin like an object is no token in the first place.
        let token = sign(header);
        if token.starts_with("eyJ") {
            assert_eq!(checked(&token), Err(Reject::BadToken), "{header}");
        }
    }
    let long = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(129));
    assert_eq!(checked(&sign(&long)), Err(Reject::BadToken));
    let fits = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(128));
    assert_eq!(checked(&sign(&fits)), Err(Reject::UnknownKey));
}

#[test]
fn the_public_key_is_no_hmac_secret_and_no_signature_is_no_token() {
    let jwk = Jwk::from_encoding_key(&encoding(KEY_A), Algorithm::RS256).unwrap();
    let AlgorithmParameters::RSA(rsa) = jwk.algorithm else {
        panic!("not RSA");
    };
    let secret = EncodingKey::from_secret(rsa.n.as_bytes()).unwrap();
    let hs256 = r#"{"alg":"HS256","kid":"a"}"#;
    let forged = token(hs256, &claims(""), &secret, Algorithm::HS256);
    assert_eq!(checked(&forged), Err(Reject::BadToken));
    // The same under a header that names our algorithm.
    let forged = token(HEADER, &claims(""), &secret, Algorithm::HS256);
    assert_eq!(checked(&forged), Err(Reject::BadSignature));
    let unsigned = format!("{}.{}.", part(HEADER), part(&claims("")));
    assert_eq!(checked(&unsigned), Err(Reject::BadToken));
}

#[test]
fn only_the_named_key_over_the_very_text_counts() {
    let by_b = token(HEADER, &claims(""), &encoding(KEY_B), Algorithm::RS256);
    assert_eq!(checked(&by_b), Err(Reject::BadSignature));
    let by_rs512 = token(HEADER, &claims(""), &encoding(KEY_A), Algorithm::RS512);
    assert_eq!(checked(&by_rs512), Err(Reject::BadSignature));
    let good = true_token(&claims(""));
    assert!(checked(&good).is_ok());
    let (_, signature) = good.rsplit_once('.').unwrap();
    let other = claims(r#","sub":"other""#);
    let spliced = format!("{}.{}.{signature}", part(HEADER), part(&other));
    assert_eq!(checked(&spliced), Err(Reject::BadSignature));
    for length in [1, 10, signature.len() - 1] {
        let cut = signature.get(..length).unwrap();
        let token = format!("{}.{}.{cut}", part(HEADER), part(&claims("")));
        assert_eq!(checked(&token), Err(Reject::BadSignature), "{length}");
    }
}

#[test]
fn an_unknown_key_is_unknown_only_if_every_set_could_be_read() {
    let unknown = r#"{"alg":"RS256","kid":"x"}"#;
    let stranger = token(unknown, &claims(""), &encoding(KEY_B), Algorithm::RS256);
    assert_eq!(checked(&stranger), Err(Reject::UnknownKey));
    let mut both = source();
    both.jwks_urls
        .insert(0, Url::parse("https://keys.example/down").unwrap());
    let found = checked_by(&both, &stranger, BODY);
    assert_eq!(found, Err(Reject::KeysUnavailable));
    assert!(checked_by(&both, &true_token(&claims("")), BODY).is_ok());
}

#[test]
fn a_token_longer_than_its_bound_is_refused_unread() {
    let padding = |n: usize| claims(&format!(r#","pad":"{}""#, "x".repeat(n)));
    assert!(checked(&true_token(&padding(5000))).is_ok());
    let found = checked(&true_token(&padding(MAX_TOKEN_BYTES)));
    assert_eq!(found, Err(Reject::BadToken));
}

#[test]
fn times_are_whole_numbers_and_exp_is_needed() {
    for bad in [
        "{}".to_owned(),
        r#"{"exp":null}"#.to_owned(),
        format!(r#"{{"exp":"{}"}}"#, SECONDS + 600),
        format!(r#"{{"exp":{}.0}}"#, SECONDS + 600),
        format!(r#"{{"exp":{}e0}}"#, SECONDS + 600),
        r#"{"exp":99999999999999999999}"#.to_owned(),
        format!(r#"{{"exp":1,"exp":{}}}"#, SECONDS + 600),
        claims(r#","nbf":null"#),
        claims(r#","nbf":"1""#),
        claims(r#","nbf":1.5"#),
        claims(r#","iat":null"#),
        claims(r#","iat":true"#),
        claims(r#","iss":null"#),
        claims(r#","iss":["x"]"#),
        claims(r#","aud":null"#),
        claims(r#","aud":7"#),
        claims(r#","aud":[7]"#),
        "[]".to_owned(),
        "null".to_owned(),
        String::new(),
    ] {
        let found = checked(&true_token(&bad));
        assert_eq!(found, Err(Reject::BadClaims), "{bad}");
    }
}

#[test]
fn the_clock_is_ours_with_a_minute_either_way() {
    let at = |exp: i64, more: &str| checked(&true_token(&format!(r#"{{"exp":{exp}{more}}}"#)));
    assert_eq!(at(SECONDS - 60, ""), Err(Reject::TokenExpired));
    assert!(at(SECONDS - 59, "").is_ok());
    assert_eq!(at(i64::MIN, ""), Err(Reject::TokenExpired));
    assert!(at(i64::MAX, "").is_ok());
    for name in ["nbf", "iat"] {
        let begins = |shift: i64| {
            let more = format!(r#","{name}":{}"#, SECONDS + shift);
            at(SECONDS + 600, &more).map(drop)
        };
        assert_eq!(begins(60), Ok(()), "{name}");
        assert_eq!(begins(61), Err(Reject::TokenTooEarly), "{name}");
    }
    let far = format!(r#","iat":{}"#, i64::MIN);
    assert!(at(SECONDS + 600, &far).is_ok());
}

#[test]
fn a_token_for_another_audience_or_issuer_is_refused_once_they_are_pinned() {
    let pinned = Source {
        audiences: vec!["mine".to_owned(), "also mine".to_owned()],
        issuers: vec!["https://issuer.example".to_owned()],
        ..source()
    };
    let iss = r#","iss":"https://issuer.example""#;
    let with = |aud: &str, iss: &str| {
        let token = true_token(&claims(&format!("{aud}{iss}")));
        checked_by(&pinned, &token, BODY).map(drop)
    };
    for aud in [
        r#","aud":"mine""#,
        r#","aud":"also mine""#,
        r#","aud":["other","mine"]"#,
    ] {
        assert_eq!(with(aud, iss), Ok(()), "{aud}");
        for iss in ["", r#","iss":"https://issuer.example/""#, r#","iss":"""#] {
            assert_eq!(with(aud, iss), Err(Reject::WrongIssuer), "{aud} {iss}");
        }
    }
    for aud in [
        "",
        r#","aud":"min""#,
        r#","aud":"MINE""#,
        r#","aud":["other"]"#,
        r#","aud":[]"#,
    ] {
        assert_eq!(with(aud, iss), Err(Reject::WrongAudience), "{aud}");
    }
}

#[test]
fn with_no_audience_pinned_every_one_is_accepted_and_counted_and_few_are_remembered() {
    let (recorder, page) = metrics::Metrics::local();
    let rules = TokenRules::new("gemini", &source(), Arc::new(Given));
    ::metrics::with_local_recorder(&recorder, || {
        for n in 0..40 {
            let audience = Audience::One(format!("{n}{}", "x".repeat(1000)));
            assert_eq!(rules.check_audience(Some(&audience)), Ok(()));
        }
        assert_eq!(rules.check_audience(None), Ok(()));
    });
    let counted = "hookledger_unpinned_audience_total{source=\"gemini\"} 41\n";
    assert!(page.render().contains(counted), "{}", page.render());
    let observed = rules.observed.lock().unwrap();
    assert_eq!(observed.len(), MAX_OBSERVED);
    assert!(observed.iter().all(|a| a.len() == MAX_LOGGED));
}

#[test]
fn claims_that_repeat_the_body_must_say_the_same() {
    let with =
        |more: &str, body: &[u8]| checked_by(&source(), &true_token(&claims(more)), body).map(drop);
    let same = r#","type":"batch.succeeded","data":{"id":"batches/a"}"#;
    assert_eq!(with(same, BODY), Ok(()));
    assert_eq!(with(r#","type":"batch.succeeded""#, BODY), Ok(()));
    for other in [
        r#","type":"batch.failed""#,
        r#","type":null"#,
        r#","data":{"id":"batches/b"}"#,
        r#","data":{"id":"batches/a","more":1}"#,
        r#","data":{}"#,
        r#","data":null"#,
    ] {
        assert_eq!(with(other, BODY), Err(Reject::BodyMismatch), "{other}");
    }
    for body in [b"".as_slice(), b"{}", b"null", b"not json", b"\xff"] {
        assert_eq!(with(same, body), Err(Reject::BodyMismatch));
        assert_eq!(with("", body), Ok(()), "nothing is repeated");
    }
}

#[test]
fn metadata_of_the_claims_is_handed_on() {
    let said = checked(&true_token(&claims(r#","user_metadata":{"job":"42"}"#))).unwrap();
    assert_eq!(said.user_metadata, Some(json!({"job": "42"})));
}

#[test]
fn a_repeated_header_is_malformed_and_another_shape_is_no_token() {
    let mut headers = HeaderMap::new();
    assert_eq!(Token::read(&headers), Ok(None));
    headers.insert("webhook-signature", "v1,AAAA".parse().unwrap());
    assert_eq!(Token::read(&headers), Ok(None));
    let token = true_token(&claims(""));
    headers.append("webhook-signature", token.parse().unwrap());
    assert_eq!(Token::read(&headers), Err(Reject::MalformedSignature));
}

#[test]
fn debug_shows_no_token() {
    let mut headers = HeaderMap::new();
    headers.insert(
        "webhook-signature",
        true_token(&claims("")).parse().unwrap(),
    );
    let read = Token::read(&headers).unwrap().unwrap();
    assert_eq!(format!("{read:?}"), "Token { .. }");
    assert_eq!(format!("{:?}", public(KEY_A)), "RsaKey { .. }");
}
