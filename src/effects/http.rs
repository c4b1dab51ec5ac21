//! The `http` effect: the stored payload, posted and signed.
//!
//! The request is a Standard Webhooks delivery: `webhook-id` is the idempotency key, so a receiver
//! that remembers ids takes each effect once; `webhook-timestamp` is the attempt's own time, because
//! a receiver refuses old ones; the signature covers both and the body. `Idempotency-Key` carries
//! the key again for receivers that know that header instead. With traces on, `traceparent` carries the
//! attempt's own span; neither signature nor key cover it. What answers mean: see `post`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::post::Post;
use super::signing::SigningKey;
use super::{Effect, Message};
use crate::base::secret::Secret;
use crate::domain::effect::Delivery;

/// Headers that this effect or its connection writes itself.
const OWN: &[&str] = &[
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "idempotency-key",
    "traceparent",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "host",
];

/// Posts payloads to one URL.
pub(super) struct Http {
    url: Url,
    key: Option<SigningKey>,
    headers: HeaderMap,
    post: Post,
    timeout: Duration,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path or query may be the receiver's secret.
        f.debug_struct("Http")
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}

impl Http {
    /// Checks what is configured; the text of an error names the key and no secret.
    pub(super) fn new(
        url: Url,
        secret: Option<&Secret>,
        headers: &BTreeMap<String, Secret>,
        allow_private: bool,
        timeout: Duration,
    ) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("url must be an http or https URL".to_owned());
        }
        let key = secret
            .map(SigningKey::parse)
            .transpose()
            .map_err(|bad| format!("secret {bad}"))?;
        Ok(Self {
            url,
            key,
            headers: extra(headers)?,
            post: Post::new(allow_private, timeout)?,
            timeout,
        })
    }

    fn headers_for(&self, message: &Message) -> Result<HeaderMap, String> {
        let mut headers = self.headers.clone();
        let mut put = |name: &'static str, value: &str| -> Result<(), String> {
            let value =
                HeaderValue::from_str(value).map_err(|_| format!("{name} is no header value"))?;
            headers.insert(HeaderName::from_static(name), value);
            Ok(())
        };
        put("webhook-id", &message.key)?;
        put("idempotency-key", &message.key)?;
        put("webhook-timestamp", &message.now.as_seconds().to_string())?;
        if let Some(key) = &self.key {
            put(
                "webhook-signature",
                &key.sign(&message.key, message.now, &message.payload),
            )?;
        }
        if let Some(place) = &message.traceparent {
            put("traceparent", place)?;
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(headers)
    }
}

fn extra(configured: &BTreeMap<String, Secret>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in configured {
        let parsed = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("headers.{name} is not a header name"))?;
        if OWN.contains(&parsed.as_str()) {
            return Err(format!("headers.{name} is written by hookledger itself"));
        }
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| format!("headers.{name} holds a character that headers cannot carry"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

#[async_trait]
impl Effect for Http {
    async fn deliver(&self, message: &Message) -> Delivery {
        match self.headers_for(message) {
            Ok(headers) => {
                let body = message.payload.clone();
                self.post.send(&self.url, headers, body, message.now).await
            }
            Err(why) => Delivery::Refused { why },
        }
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn kind(&self) -> &'static str {
        "http"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(
        url: &str,
        secret: Option<&str>,
        header: Option<(&str, &str)>,
    ) -> Result<Http, String> {
        let headers = header.map(|(name, value)| (name.to_owned(), Secret::new(value)));
        Http::new(
            url.parse().unwrap(),
            secret.map(Secret::new).as_ref(),
            &headers.into_iter().collect(),
            false,
            Duration::from_secs(1),
        )
    }

    #[test]
    fn what_cannot_work_is_refused_and_named_without_its_value() {
        for (url, secret, header, named) in [
            ("ftp://example.com/", None, None, "url"),
            ("data:text/plain,x", None, None, "url"),
            ("https://example.com/", Some("whsec_?"), None, "secret"),
            (
                "https://example.com/",
                None,
                Some(("Webhook-Id", "hush")),
                "headers.Webhook-Id",
            ),
            (
                "https://example.com/",
                None,
                Some(("a b", "hush")),
                "headers.a b",
            ),
            (
                "https://example.com/",
                None,
                Some(("x-a", "hush\n")),
                "headers.x-a",
            ),
        ] {
            let error = build(url, secret, header).unwrap_err();
            assert!(error.contains(named) && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn debug_hides_the_path_and_the_headers() {
        let http = build(
            "https://example.com/hook/t0ken?k=v",
            None,
            Some(("x-a", "hush")),
        )
        .unwrap();
        let shown = format!("{http:?}");
        assert!(shown.contains("example.com"));
        assert!(
            !shown.contains("t0ken") && !shown.contains("hush"),
            "{shown}"
        );
    }
}
