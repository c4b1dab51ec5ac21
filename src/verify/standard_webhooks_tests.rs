//! The published vectors, the published crate, and everything that must not pass.

use http::HeaderMap;
use proptest::prelude::*;

use super::*;
use crate::base::secret::Secret;

const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TS: &str = "1614265330";
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SIG: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn secret(text: &str) -> SigningSecret {
    SigningSecret::parse(&Secret::new(text)).unwrap()
}

fn headers(id: &[u8], ts: &[u8], signature: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in [
        (ID_HEADER, id),
        (TIMESTAMP_HEADER, ts),
        (SIGNATURE_HEADER, signature),
    ] {
        map.insert(name, value.to_vec().try_into().unwrap());
    }
    map
}

/// Reads and checks in one go; `Ok(false)` is no proof of this kind.
fn check(map: &HeaderMap, secrets: &[SigningSecret], body: &[u8]) -> Result<bool, Reject> {
    match Presented::read(map)? {
        None => Ok(false),
        Some(presented) if presented.is_signed_by(secrets, body) => Ok(true),
        Some(_) => Err(Reject::BadSignature),
    }
}

fn with_signature(signature: &str) -> Result<bool, Reject> {
    check(
        &headers(ID.as_bytes(), TS.as_bytes(), signature.as_bytes()),
        &[secret(SECRET)],
        BODY,
    )
}

#[test]
fn published_vectors_verify_and_are_reproduced() {
    let gemini = br#"{"type":"batch.succeeded","version":"v1","timestamp":"2026-01-22T12:00:00Z","data":{"id":"batch_123456","output_file_uri":"gs://my-bucket/results.jsonl"}}"#;
    let vectors: [(&str, &str, &str, &[u8], &str); 3] = [
        (SECRET, ID, TS, BODY, SIG),
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            "1649367553",
            br#"{"email":"test@example.com","username":"test_user"}"#,
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
        (
            "whsec_azN5MG9mMHRoaXJ0eTJ0d28wYXNjaWkwYnl0ZXMwb2s=",
            "msg_test_1",
            "1769083200",
            gemini,
            "v1,s9/MJjasbii2SkIDpF3eYf/MwDqn8NP35YtmeaR1Pe0=",
        ),
    ];
    for (key, id, ts, body, signature) in vectors {
        for key in [key, key.trim_start_matches("whsec_")] {
            let key = secret(key);
            let at = Timestamp::from_millis(ts.parse::<i64>().unwrap() * 1000);
            assert_eq!(key.sign(id, at, body), signature);
            let map = headers(id.as_bytes(), ts.as_bytes(), signature.as_bytes());
            assert_eq!(check(&map, std::slice::from_ref(&key), body), Ok(true));
            let presented = Presented::read(&map).unwrap().unwrap();
            assert_eq!(presented.signed_at(), at);
        }
    }
}

#[test]
fn the_published_crate_signs_alike() {
    for n in 0..64_usize {
        let key = data_encoding::BASE64.encode(&vec![u8::try_from(n).unwrap(); 24 + n % 41]);
        let (id, at) = (
            format!("msg_{n}"),
            1_769_083_200 + i64::try_from(n).unwrap(),
        );
        let body = "{\"é\":1}".repeat(n);
        let theirs = standardwebhooks::Webhook::new(&key)
            .unwrap()
            .sign(&id, at, body.as_bytes())
            .unwrap();
        let ours = secret(&key).sign(&id, Timestamp::from_millis(at * 1000), body.as_bytes());
        assert_eq!(ours, theirs);
    }
}

#[test]
fn one_right_entry_among_many_is_enough() {
    let wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
    for list in [
        format!("{wrong} v2,{} {SIG} {wrong}", &SIG[3..]),
        format!(
            "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg== {SIG}"
        ),
        format!("  {SIG}  "),
        format!("v1 , v1, v1,=, {SIG}"),
    ] {
        assert_eq!(with_signature(&list), Ok(true), "{list}");
    }
}

#[test]
fn any_accepted_secret_verifies_and_a_retired_one_does_not() {
    let map = headers(ID.as_bytes(), TS.as_bytes(), SIG.as_bytes());
    let other = secret("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    let both = [other.clone(), secret(SECRET)];
    assert_eq!(check(&map, &both, BODY), Ok(true));
    assert_eq!(check(&map, &[other], BODY), Err(Reject::BadSignature));
    assert_eq!(check(&map, &[], BODY), Err(Reject::BadSignature));
}

#[test]
fn signatures_in_any_other_form_do_not_match() {
    let tag = &SIG[3..];
    let url_safe = tag.replace('+', "-").replace('/', "_");
    for list in [
        String::new(),
        tag.to_owned(),
        format!("v2,{tag}"),
        format!("v1a,{tag}"),
        format!("V1,{tag}"),
        format!("v1={tag}"),
        format!("v1, {tag}"),
        format!("v1,{url_safe}"),
        format!("v1,{}", tag.trim_end_matches('=')),
        format!("v1,{tag}="),
        format!("v1,{tag},{tag}"),
        format!("v1,{tag}{tag}"),
        // The same 32 bytes with other unused bits in the last digit.
        format!("v1,{}F=", &tag[..tag.len() - 2]),
        format!("{SIG}\t{SIG}"),
    ] {
        assert_eq!(with_signature(&list), Err(Reject::BadSignature), "{list}");
    }
    for end in 0..SIG.len() {
        let cut = &SIG[..end];
        assert_eq!(with_signature(cut), Err(Reject::BadSignature), "{cut}");
    }
    assert_eq!(with_signature(SIG), Ok(true));
}

#[test]
fn too_many_or_too_long_signatures_are_malformed() {
    let filler = "v2,x ".repeat(15);
    assert_eq!(with_signature(&format!("{filler}{SIG}")), Ok(true));
    let malformed = Err(Reject::MalformedSignature);
    assert_eq!(with_signature(&format!("{filler}v2,x {SIG}")), malformed);
    let padding = " ".repeat(4096 - SIG.len());
    assert_eq!(with_signature(&format!("{SIG}{padding}")), Ok(true));
    assert_eq!(with_signature(&format!("{SIG}{padding} ")), malformed);
}

#[test]
fn a_missing_or_repeated_header_is_malformed() {
    let whole = || headers(ID.as_bytes(), TS.as_bytes(), SIG.as_bytes());
    for name in [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER] {
        let mut twice = whole();
        let value = twice[name].clone();
        twice.append(name, value);
        let found = check(&twice, &[secret(SECRET)], BODY);
        assert_eq!(found, Err(Reject::MalformedSignature), "twice {name}");
        let mut without = whole();
        without.remove(name);
        let expected = if name == SIGNATURE_HEADER {
            Ok(false)
        } else {
            Err(Reject::MalformedSignature)
        };
        let found = check(&without, &[secret(SECRET)], BODY);
        assert_eq!(found, expected, "without {name}");
    }
}

#[test]
fn a_timestamp_has_one_spelling() {
    for ts in [
        "",
        "0",
        "01614265330",
        "+1614265330",
        "-1614265330",
        "1614265330.0",
        "1614265330 ",
        " 1614265330",
        "1_614",
        "1e9",
        "0x1",
        "1614265330000",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "١",
        "hello",
    ] {
        let at = headers(ID.as_bytes(), ts.as_bytes(), SIG.as_bytes());
        let found = check(&at, &[secret(SECRET)], BODY);
        assert_eq!(found, Err(Reject::BadTimestamp), "{ts}");
    }
    let last = headers(ID.as_bytes(), b"999999999999", SIG.as_bytes());
    let found = check(&last, &[secret(SECRET)], BODY);
    assert_eq!(found, Err(Reject::BadSignature));
}

#[test]
fn an_id_is_opaque_but_bounded_and_without_a_dot() {
    let key = secret(SECRET);
    let at = Timestamp::from_millis(1_614_265_330_000);
    let try_id = |id: &str| {
        let signature = key.sign(id, at, BODY);
        let map = headers(id.as_bytes(), TS.as_bytes(), signature.as_bytes());
        check(&map, std::slice::from_ref(&key), BODY)
    };
    for good in ["a".repeat(256), "x".to_owned(), "!#$/:;<>~".to_owned()] {
        assert_eq!(try_id(&good), Ok(true), "{good}");
    }
    for bad in ["", "a.b", ".", "a b", "ä", &"a".repeat(257)] {
        assert_eq!(try_id(bad), Err(Reject::MalformedSignature), "{bad}");
    }
}

#[test]
fn a_dot_in_the_id_cannot_move_the_border_to_the_body() {
    let key = secret(SECRET);
    // One signed text, `a.1.2.rest`, read as two messages.
    let signature = key.sign("a", Timestamp::from_millis(1000), b"2.rest");
    assert_eq!(
        signature,
        key.sign("a.1", Timestamp::from_millis(2000), b"rest")
    );
    let spliced = headers(b"a.1", b"2", signature.as_bytes());
    assert_eq!(
        check(&spliced, &[key], b"rest"),
        Err(Reject::MalformedSignature)
    );
}

#[test]
fn a_thousand_flipped_bits_are_all_noticed() {
    let key = secret(SECRET);
    let body: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let at = Timestamp::from_millis(1_614_265_330_000);
    let map = headers(
        ID.as_bytes(),
        TS.as_bytes(),
        key.sign(ID, at, &body).as_bytes(),
    );
    let presented = Presented::read(&map).unwrap().unwrap();
    let keys = [key];
    assert!(presented.is_signed_by(&keys, &body));
    for n in 0..1000_usize {
        // A stride prime to the length in bits visits distinct places all over the body.
        let bit = n * 7919 % (body.len() * 8);
        let mut flipped = body.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(!presented.is_signed_by(&keys, &flipped), "bit {bit}");
    }
    for bit in 0..256 {
        let mut other = presented.clone();
        other.tags[0][bit / 8] ^= 1 << (bit % 8);
        assert!(
            !other.is_signed_by(&keys, &body),
            "bit {bit} of the signature"
        );
    }
}

#[test]
fn the_body_counts_byte_for_byte() {
    let key = secret(SECRET);
    let at = Timestamp::from_millis(1_614_265_330_000);
    for body in [
        b"".as_slice(),
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
        b"{}\r\n",
        b"{ }",
    ] {
        let map = headers(
            ID.as_bytes(),
            TS.as_bytes(),
            key.sign(ID, at, body).as_bytes(),
        );
        assert_eq!(check(&map, std::slice::from_ref(&key), body), Ok(true));
        for other in [b"{}".as_slice(), b" ", b"{}\n"] {
            let found = check(&map, std::slice::from_ref(&key), other);
            assert_eq!(found, Err(Reject::BadSignature));
        }
    }
}

#[test]
fn a_compact_jws_is_another_kind_of_proof() {
    assert_eq!(
        with_signature("eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.c2ln-_"),
        Ok(false)
    );
    for not_quite in [
        "eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ",
        "eyJ.a.b.c",
        "eyJ,a.b.c",
        "v1,eyJ.a.b",
    ] {
        assert_eq!(
            with_signature(not_quite),
            Err(Reject::BadSignature),
            "{not_quite}"
        );
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic_or_pass(
        id in proptest::collection::vec(32_u8..=255, 0..300),
        ts in "[-+ 0-9.e]{0,24}",
        list in "(v1a?,[A-Za-z0-9+/=]{0,50} ?){0,20}",
        body in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        prop_assume!(!id.contains(&127));
        let map = headers(&id, ts.as_bytes(), list.as_bytes());
        prop_assert_ne!(check(&map, &[secret(SECRET)], &body), Ok(true));
    }
}
