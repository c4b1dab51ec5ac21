//! What an answer that is not 2xx means.
//!
//! Two envelopes exist: the classic one (`code` a number, `status`, `details`), sometimes inside an
//! array of one, and the Interactions one (`code` a word, nothing more). Proxies and gateways answer
//! with their own pages, so only an answer in one of the two envelopes is taken as Google's word
//! about a *name*; any other 403, 404 or 4xx says something about the way there, and is
//! [`Fault::Unavailable`]. 401, 402 and 429 mean the same whoever says them.
//!
//! | HTTP | Google's own | anybody else's |
//! |---|---|---|
//! | 401, 402, 400 `API_KEY_INVALID` | `KeyRefused` | `KeyRefused` (401, 402) |
//! | 403 | `Forbidden` | `Unavailable` |
//! | 404 `NOT_FOUND`, `not_found` | `NotFound` | `Unavailable` |
//! | 429 | `Throttled` | `Throttled` |
//! | 408, 409, 499, 5xx, 3xx | `Unavailable` | `Unavailable` |
//! | other 4xx | `Rejected` | `Unavailable` |

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use super::text::Redact;
use crate::base::clock::Timestamp;
use crate::domain::fault::Fault;

/// Longest wait a server can ask for; more is taken as this.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// The fault that an answer with this status, headers and (perhaps cut) body stands for.
pub fn fault(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    redact: &Redact,
) -> Fault {
    let envelope = Envelope::read(body);
    let what = describe(status, envelope.as_ref(), redact);
    let retry_after = longest(
        envelope.as_ref().and_then(Envelope::retry_delay),
        retry_after_header(headers, now),
    );
    let google = envelope.is_some();
    match status.as_u16() {
        401 | 402 => Fault::KeyRefused { what },
        400 if envelope.as_ref().is_some_and(Envelope::blames_the_key) => {
            Fault::KeyRefused { what }
        }
        429 => Fault::Throttled { retry_after, what },
        408 | 409 | 499 => Fault::Unavailable { retry_after, what },
        403 if google => Fault::Forbidden { what },
        404 if envelope.as_ref().is_some_and(Envelope::says_not_found) => Fault::NotFound,
        404 => Fault::Unavailable { retry_after, what },
        400..=499 if google => Fault::Rejected { what },
        300..=399 => Fault::Unavailable {
            retry_after,
            what: format!("HTTP {}: redirect refused", status.as_u16()),
        },
        _ => Fault::Unavailable { retry_after, what },
    }
}

fn describe(status: StatusCode, envelope: Option<&Envelope>, redact: &Redact) -> String {
    let code = status.as_u16();
    let Some(envelope) = envelope else {
        return format!("HTTP {code}, not in the API's own form");
    };
    let said = envelope.quota().unwrap_or_else(|| envelope.message());
    redact.clean(&format!("HTTP {code} {}: {said}", envelope.word()))
}

fn longest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.max(b).map(|wait| wait.min(MAX_RETRY_AFTER))
}

/// The object under `error`, known to have one of the two forms.
struct Envelope(Value);

impl Envelope {
    fn read(body: &[u8]) -> Option<Self> {
        let mut body: Value = serde_json::from_slice(body).ok()?;
        if let Value::Array(list) = &mut body {
            body = list.first_mut().map(Value::take)?;
        }
        let error = body.get_mut("error").map(Value::take)?;
        let classic = error.get("code").is_some_and(Value::is_number)
            && error.get("status").is_some_and(Value::is_string);
        let worded = error.get("code").is_some_and(Value::is_string);
        (classic || worded).then_some(Self(error))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    /// `NOT_FOUND` of the classic form, `not_found` of the other.
    fn word(&self) -> &str {
        self.text("code")
            .or_else(|| self.text("status"))
            .unwrap_or_default()
    }

    fn message(&self) -> &str {
        self.text("message").unwrap_or_default()
    }

    fn says_not_found(&self) -> bool {
        self.word().eq_ignore_ascii_case("not_found")
    }

    fn details(&self, type_suffix: &str) -> impl Iterator<Item = &Value> {
        let list = self.0.get("details").and_then(Value::as_array);
        list.into_iter().flatten().filter(move |detail| {
            detail
                .get("@type")
                .and_then(Value::as_str)
                .is_some_and(|t| t.ends_with(type_suffix))
        })
    }

    fn blames_the_key(&self) -> bool {
        let by_reason = self
            .details("google.rpc.ErrorInfo")
            .any(|d| d.get("reason").and_then(Value::as_str) == Some("API_KEY_INVALID"));
        by_reason
            || ["API key not valid", "API key expired"]
                .iter()
                .any(|said| self.message().starts_with(said))
    }

    /// The first violated quota's id, such as `…PerDayPerProject…`.
    fn quota(&self) -> Option<&str> {
        self.details("google.rpc.QuotaFailure")
            .filter_map(|d| d.get("violations").and_then(Value::as_array))
            .flatten()
            .find_map(|v| v.get("quotaId").and_then(Value::as_str))
    }

    fn retry_delay(&self) -> Option<Duration> {
        self.details("google.rpc.RetryInfo")
            .find_map(|d| d.get("retryDelay").and_then(Value::as_str))
            .and_then(proto_duration)
    }
}

/// A protobuf duration in JSON: `58s`, `4.75s`.
fn proto_duration(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// `Retry-After`, as seconds or as an HTTP date.
fn retry_after_header(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let at = Timestamp::from_millis(date.timestamp().as_millisecond());
    Some(at.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;

    const KEY: &str = "AIzaTestKeyThatMustNeverBeRepeated0000";

    fn of(status: u16, body: &str) -> Fault {
        with(status, &[], body)
    }

    fn with(status: u16, headers: &[(&'static str, &str)], body: &str) -> Fault {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let redact = Redact::new([Secret::new(KEY)]);
        fault(
            StatusCode::from_u16(status).unwrap(),
            &map,
            body.as_bytes(),
            now,
            &redact,
        )
    }

    fn classic(code: u16, status: &str, message: &str) -> String {
        serde_json::json!({"error": {"code": code, "status": status, "message": message}})
            .to_string()
    }

    const KEY_INVALID: &str = r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"nope",
        "details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#;

    #[test]
    fn an_answer_in_the_apis_own_form() {
        for (status, word, message, label) in [
            (
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Pass one.",
                "key_refused",
            ),
            (
                400,
                "INVALID_ARGUMENT",
                "Could not parse the batch name",
                "rejected",
            ),
            (400, "FAILED_PRECONDITION", "billing", "rejected"),
            (401, "UNAUTHENTICATED", "x", "key_refused"),
            (403, "PERMISSION_DENIED", "not yours", "forbidden"),
            (404, "NOT_FOUND", "gone", "not_found"),
            (404, "UNIMPLEMENTED", "no such method", "unavailable"),
            (405, "METHOD", "x", "rejected"),
            (409, "ABORTED", "x", "unavailable"),
            (429, "RESOURCE_EXHAUSTED", "x", "throttled"),
            (499, "CANCELLED", "x", "unavailable"),
            (500, "INTERNAL", "x", "unavailable"),
            (503, "UNAVAILABLE", "high demand", "unavailable"),
            (504, "DEADLINE_EXCEEDED", "x", "unavailable"),
        ] {
            let body = classic(status, word, message);
            assert_eq!(of(status, &body).label(), label, "{body}");
            assert_eq!(of(status, &format!("[{body}]")).label(), label, "[{body}]");
        }
        for (status, word, label) in [
            (400, "invalid_request", "rejected"),
            (401, "authentication", "key_refused"),
            (402, "payment_required", "key_refused"),
            (403, "permission_denied", "forbidden"),
            (404, "not_found", "not_found"),
            (404, "model_not_found", "unavailable"),
            (429, "quota_exceeded", "throttled"),
            (500, "api_error", "unavailable"),
        ] {
            let body = format!(r#"{{"error":{{"code":"{word}","message":"x"}}}}"#);
            assert_eq!(of(status, &body).label(), label, "{body}");
        }
        assert_eq!(of(400, KEY_INVALID).label(), "key_refused");
    }

    #[test]
    fn an_answer_of_anybody_else() {
        let bodies = [
            "",
            "[]",
            "<html>404</html>",
            r#"{"success":false,"errors":[{"code":7000,"message":"No route"}]}"#,
            r#"{"success":false,"error":[{"code":2001,"message":"Please configure"}]}"#,
            r#"{"error":{"code":404,"message":"no status word"}}"#,
            r#"{"error":"NOT_FOUND"}"#,
            r#"{"error":{"code":404,"status":"NOT_FOUND""#,
        ];
        for body in bodies {
            for (statuses, label) in [
                (&[401, 402][..], "key_refused"),
                (&[429][..], "throttled"),
                (&[400, 403, 404, 405, 408, 409, 418, 499][..], "unavailable"),
                (&[301, 302, 304, 500, 502, 503, 504, 599][..], "unavailable"),
            ] {
                for &status in statuses {
                    assert_eq!(of(status, body).label(), label, "{status} {body}");
                }
            }
        }
    }

    #[test]
    fn a_throttle_says_how_long_and_which_quota() {
        let body = |delay: &str| {
            serde_json::json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [
                {"@type": "type.googleapis.com/google.rpc.Help"},
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
                 "violations": [{"quotaId": "GenerateRequestsPerDayPerProject-FreeTier"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]}})
            .to_string()
        };
        let fault = of(429, &body("4.75s"));
        assert_eq!(fault.retry_after(), Some(Duration::from_millis(4750)));
        assert!(fault.to_string().contains("PerDayPerProject"), "{fault}");
        assert_eq!(
            of(429, &body("58s")).retry_after(),
            Some(Duration::from_secs(58))
        );
        for odd in ["", "s", "-1s", "NaNs", "1e999s", "58"] {
            assert_eq!(of(429, &body(odd)).retry_after(), None, "{odd}");
        }
        assert_eq!(of(429, &body("9e9s")).retry_after(), Some(MAX_RETRY_AFTER));
        let help = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m",
            "details":[{"@type":"type.googleapis.com/google.rpc.Help"}]}}"#;
        assert_eq!(of(429, help).retry_after(), None);
    }

    #[test]
    fn the_header_counts_too_and_the_longer_wait_wins() {
        let seconds = |fault: &Fault| fault.retry_after().map(|d| d.as_secs());
        let case = |value: &str| seconds(&with(503, &[("retry-after", value)], ""));
        assert_eq!(case("120"), Some(120));
        assert_eq!(case("Mon, 30 Nov 2026 12:01:30 GMT"), Some(90));
        assert_eq!(case("Mon, 30 Nov 2026 11:00:00 GMT"), Some(0));
        assert_eq!(case("soon"), None);
        assert_eq!(case("-5"), None);
        let info = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#;
        assert_eq!(seconds(&with(429, &[("retry-after", "3")], info)), Some(7));
        assert_eq!(
            seconds(&with(429, &[("retry-after", "30")], info)),
            Some(30)
        );
    }

    #[test]
    fn texts_are_short_one_line_and_without_the_key() {
        let message = format!("line\nbreak {KEY} {}", "x".repeat(5000));
        for status in [400, 401, 403, 429, 500] {
            let shown = of(status, &classic(status, "WORD", &message)).to_string();
            assert!(!shown.contains(KEY) && !shown.contains('\n'), "{shown}");
            assert!(shown.chars().count() < 300, "{shown}");
        }
        let html = of(502, "<html>secret page</html>").to_string();
        assert!(!html.contains("secret page"), "{html}");
    }
}
