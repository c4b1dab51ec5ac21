//! Signing and posting webhooks.
//!
//! The signer is the simulator's own, apart from the verifier of the service: a mistake made twice
//! would cancel itself out. Standard Webhooks: `v1,` and the base64 of HMAC-SHA256 over
//! `id.timestamp.body`, once for each secret with blanks between, the key being the base64 behind `whsec_`. The timestamp is that of the
//! attempt. No redirects, no proxies, a bounded wait; the answer's body is not read.

use std::time::Duration;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::jwt::TokenSigner;
use super::state::outbox::{Delivery, Sent, Twist};
use crate::base::clock::Timestamp;
use crate::base::secret::Secret;

/// How long one post may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How old the timestamp of a stale delivery is.
const STALE: Duration = Duration::from_hours(1);

/// The key a signing secret stands for: what its base64 says, else its own bytes.
fn key(secret: &Secret) -> Vec<u8> {
    let text = secret.expose();
    let text = text.strip_prefix("whsec_").unwrap_or(text);
    [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD]
        .iter()
        .find_map(|encoding| encoding.decode(text.as_bytes()).ok())
        .unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The signature of a body, as it stands in the header.
pub(crate) fn sign(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    // HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(&key(secret)).ok()?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    let tag = BASE64.encode(&mac.finalize().into_bytes());
    Some(format!("v1,{tag}"))
}

/// What proves a delivery.
#[derive(Debug)]
pub(crate) enum Signer {
    /// One signature for each secret; none without any.
    Secrets(Vec<Secret>),
    /// A token alone.
    Token(TokenSigner),
}

impl Signer {
    /// The header's value.
    fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> Option<String> {
        match self {
            Self::Token(signer) => signer.token(at),
            Self::Secrets(secrets) => {
                let all: Vec<String> = secrets
                    .iter()
                    .filter_map(|secret| sign(secret, id, at.as_seconds(), body))
                    .collect();
                (!all.is_empty()).then(|| all.join(" "))
            }
        }
    }
}

/// What goes out on this attempt.
pub(crate) fn seal(delivery: &Delivery, signer: &Signer, now: Timestamp) -> Sent {
    let made = |at: Timestamp| {
        let (id, body) = (&delivery.webhook_id, delivery.body.clone());
        Sent {
            timestamp: at.as_seconds(),
            signature: signer.sign(id, at, &body),
            body,
        }
    };
    match &delivery.twist {
        Twist::Honest | Twist::Once => made(now),
        Twist::Stale => made(now.before(STALE)),
        Twist::Replayed(sent) => sent.clone(),
        Twist::Unsigned => Sent {
            signature: None,
            ..made(now)
        },
        Twist::Tampered => {
            // Still the same JSON, one byte longer: only the signature can tell, and no token.
            let mut sent = made(now);
            sent.body = [&sent.body[..], b" "].concat().into();
            sent
        }
    }
}

/// Posts webhooks.
#[derive(Debug)]
pub(crate) struct Sender {
    client: Option<reqwest::Client>,
    shared_secret: Option<Secret>,
}

impl Sender {
    pub(crate) fn new(shared_secret: Option<Secret>) -> Self {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .build();
        if let Err(error) = &client {
            tracing::error!(%error, "no HTTP client: webhooks will not be sent");
        }
        Self {
            client: client.ok(),
            shared_secret,
        }
    }

    /// Posts and returns the status of the answer, or `None` when there was none.
    pub(crate) async fn post(&self, delivery: &Delivery, sent: &Sent) -> Option<u16> {
        let mut request = self
            .client
            .as_ref()?
            .post(&delivery.url)
            .header("content-type", "application/json")
            .header("webhook-id", &delivery.webhook_id)
            .header("webhook-timestamp", sent.timestamp);
        if let Some(signature) = &sent.signature {
            request = request.header("webhook-signature", signature);
        }
        if let Some(secret) = &self.shared_secret {
            request = request.header("x-hook-secret", secret.expose());
        }
        match request.body(sent.body.clone()).send().await {
            Ok(answer) => Some(answer.status().as_u16()),
            Err(error) => {
                let error = error.without_url();
                tracing::debug!(webhook_id = delivery.webhook_id, %error, "webhook not answered");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{Clock, SystemClock};

    const BODY: &str = r#"{"type":"batch.succeeded","version":"v1","timestamp":"2026-01-22T12:00:00Z","data":{"id":"batch_123456","output_file_uri":"gs://my-bucket/results.jsonl"}}"#;

    #[test]
    fn the_signature_is_the_published_one() {
        let secret = Secret::new("whsec_azN5MG9mMHRoaXJ0eTJ0d28wYXNjaWkwYnl0ZXMwb2s=");
        assert_eq!(
            sign(&secret, "msg_test_1", 1_769_083_200, BODY.as_bytes()).unwrap(),
            "v1,s9/MJjasbii2SkIDpF3eYf/MwDqn8NP35YtmeaR1Pe0="
        );
    }

    #[test]
    fn another_implementation_accepts_it_also_without_padding() {
        for secret in [
            "whsec_azN5MG9mMHRoaXJ0eTJ0d28wYXNjaWkwYnl0ZXMwb2s=",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            let now = SystemClock::new().now().as_seconds();
            let signature = sign(&Secret::new(secret), "msg_1", now, BODY.as_bytes()).unwrap();
            let verifier = standardwebhooks::Webhook::new(secret).unwrap();
            let mut headers = http::HeaderMap::new();
            headers.insert("webhook-id", "msg_1".parse().unwrap());
            headers.insert("webhook-timestamp", now.to_string().parse().unwrap());
            headers.insert("webhook-signature", signature.parse().unwrap());
            verifier.verify(BODY.as_bytes(), &headers).unwrap();
        }
    }
}
