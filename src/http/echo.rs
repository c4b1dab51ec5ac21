//! How a process can be told from its twin.
//!
//! Problem: somebody answers at the public address. Whether it is this very process, and not the old
//! machine that DNS still names or another instance with the same secrets, shows in no answer.
//!
//! Design: each listener makes a key when it starts, which never leaves the process. A request
//! with a challenge gets, beside its usual answer, the HMAC of the challenge under that key.
//! The same challenge sent straight to the listener and by way of the public address has one answer
//! exactly when one process gave both. No secret of the configuration has a part in it: nothing is
//! sent that could leak, and whoever asks learns nothing. A challenge is short and of one form, so
//! nothing else is ever signed.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{self, Next};
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use sha2::Sha256;

use crate::base::ids::Ids;

/// The header that carries a challenge: 32 digits, 0-9 a-f.
pub const CHALLENGE: HeaderName = HeaderName::from_static("hookledger-challenge");
/// The header that carries its answer.
pub const ECHO: HeaderName = HeaderName::from_static("hookledger-echo");
/// Digits of a challenge.
const DIGITS: usize = 32;

/// `router`, answering challenges by a new key.
pub fn wrap(router: Router, ids: &dyn Ids) -> Router {
    let mut key = [0; 32];
    ids.fill(&mut key);
    let echo = Arc::new(key);
    router.layer(middleware::from_fn_with_state(echo, around))
}

async fn around(
    State(key): State<Arc<[u8; 32]>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let answer = answer(&key, request.headers());
    let mut response = next.run(request).await;
    if let Some(answer) = answer {
        response.headers_mut().insert(ECHO, answer);
    }
    response
}

fn answer(key: &[u8; 32], headers: &HeaderMap) -> Option<HeaderValue> {
    let challenge = headers.get(CHALLENGE)?.as_bytes();
    let is_one = challenge.len() == DIGITS
        && challenge
            .iter()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(is_one.then_some(challenge)?);
    let answer = HEXLOWER.encode(&mac.finalize().into_bytes());
    HeaderValue::try_from(answer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: u8, challenge: &str) -> Option<HeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CHALLENGE, challenge.parse().unwrap());
        answer(&[key; 32], &headers)
    }

    #[test]
    fn one_process_and_one_challenge_have_one_answer() {
        let challenge = "0123456789abcdef0123456789abcdef";
        assert_eq!(of(1, challenge), of(1, challenge));
        assert_eq!(of(1, challenge).unwrap().len(), 64);
        assert_ne!(of(1, challenge), of(2, challenge));
        assert_ne!(of(1, challenge), of(1, "0123456789abcdef0123456789abcdee"));
    }

    #[test]
    fn nothing_but_a_challenge_is_answered() {
        for text in [
            "",
            "0123",
            "0123456789ABCDEF0123456789ABCDEF",
            "0123456789abcdef0123456789abcdef0",
        ] {
            assert_eq!(of(1, text), None, "{text}");
        }
        assert_eq!(answer(&[1; 32], &HeaderMap::new()), None);
    }
}
