//! The `slack` effect: one message through an incoming webhook.
//!
//! Slack has no idempotency key, so a repeated attempt may show twice; the message therefore ends
//! with the start of the key, by which a person recognises a repetition. Slack answers `ok` with
//! 200, asks for patience with 429 and `Retry-After`, and says 410 for an archived channel: the
//! table in `post` covers all of it.
//!
//! Everything that comes from an operation is shown as `plain_text`, where Slack reads no mention,
//! link or emphasis; in the notification text, which has no such form, `&`, `<` and `>` are escaped
//! as Slack asks. The URL is a secret: whoever knows it can post.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use super::payload::Read;
use super::post::Post;
use super::{Effect, Message};
use crate::base::clock::Timestamp;
use crate::base::secret::Secret;
use crate::domain::effect::Delivery;

/// Slack refuses longer field texts (2,000 characters).
const MAX_TEXT: usize = 1500;

/// Posts short messages to one Slack channel.
pub(super) struct Slack {
    url: Url,
    post: Post,
    timeout: Duration,
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack").finish_non_exhaustive()
    }
}

impl Slack {
    /// Checks the URL; the text of an error never repeats it.
    pub(super) fn new(
        webhook_url: &Secret,
        allow_private: bool,
        timeout: Duration,
    ) -> Result<Self, String> {
        let url = Url::parse(webhook_url.expose())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| "webhook_url must be an http or https URL".to_owned())?;
        Ok(Self {
            url,
            post: Post::new(allow_private, timeout)?,
            timeout,
        })
    }
}

#[async_trait]
impl Effect for Slack {
    async fn deliver(&self, message: &Message) -> Delivery {
        let Ok(read) = serde_json::from_slice::<Read>(&message.payload) else {
            return Delivery::Refused {
                why: "the stored payload is not one that can be shown".to_owned(),
            };
        };
        let body = render(&read, &message.key, message.now).to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.post
            .send(&self.url, headers, Bytes::from(body), message.now)
            .await
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn kind(&self) -> &'static str {
        "slack"
    }
}

fn render(read: &Read, key: &str, now: Timestamp) -> Value {
    let data = &read.data;
    let (headline, fields) = if read.kind.starts_with("alert.") {
        let recovered = read.kind == "alert.recovered";
        let word = if recovered { "Recovered" } else { "Alert" };
        let summary = data.summary.as_str().unwrap_or("no summary");
        let since = data.since.unwrap_or(read.timestamp);
        let until = if recovered { read.timestamp } else { now };
        (
            format!("{word}: {summary}"),
            vec![
                ("Subject", data.subject.clone()),
                ("Open for", Some(age(until.since(since)))),
            ],
        )
    } else {
        let name = data
            .name
            .as_ref()
            .map_or("an operation", |name| name.as_str());
        let state = data.state.as_deref().unwrap_or("in an unknown state");
        (
            format!("{name} is {state}"),
            vec![
                ("Operation", data.name.as_ref().map(ToString::to_string)),
                ("State", data.state.clone()),
                ("Job kind", data.job_kind.clone()),
                ("Settled by", data.settled_by.clone()),
                (
                    "Age",
                    Some(format!("{} ago", age(now.since(read.timestamp)))),
                ),
            ],
        )
    };
    let fields: Vec<Value> = fields
        .into_iter()
        .filter_map(|(label, value)| Some(plain(&format!("{label}: {}", value?))))
        .collect();
    let key: String = key.chars().take(8).collect();
    json!({
        "text": escape(&bounded(&headline)),
        "blocks": [
            {"type": "section", "text": plain(&headline), "fields": fields},
            {"type": "context", "elements": [plain(&format!("hookledger · {key}"))]},
        ],
    })
}

fn plain(text: &str) -> Value {
    json!({"type": "plain_text", "text": bounded(text), "emoji": false})
}

fn bounded(text: &str) -> String {
    if text.chars().count() <= MAX_TEXT {
        return text.to_owned();
    }
    text.chars().take(MAX_TEXT).chain(['…']).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Whole seconds below a minute, else whole minutes.
fn age(span: Duration) -> String {
    let seconds = span.as_secs();
    let shown = if seconds < 60 {
        seconds
    } else {
        seconds - seconds % 60
    };
    humantime::format_duration(Duration::from_secs(shown)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_769_083_200_000 + 7_261_000);

    fn read(body: &Value) -> Read {
        serde_json::from_value(body.clone()).unwrap()
    }

    fn texts(shown: &Value) -> String {
        shown["blocks"].to_string()
    }

    #[test]
    fn a_settled_operation_is_told_with_state_job_kind_and_age() {
        let shown = render(
            &read(
                &json!({"type": "operation.settled", "timestamp": "2026-01-22T12:00:00Z", "data": {
                "name": "batches/a", "job_kind": "nightly", "state": "failed", "settled_by": "reconcile",
                "summary": {"any": "thing"}}}),
            ),
            "abcdefghijkl",
            NOW,
        );
        assert_eq!(shown["text"], "batches/a is failed");
        for part in [
            "nightly",
            "reconcile",
            "2h 1m ago",
            "hookledger · abcdefgh\"",
        ] {
            assert!(texts(&shown).contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn nothing_in_an_alert_can_mention_or_link() {
        let long = format!("<!channel> & {}", "x".repeat(5000));
        let shown = render(
            &read(
                &json!({"type": "alert.opened", "timestamp": "2026-01-22T12:00:00Z", "data": {
                "subject": "stuck:batches/a", "summary": long, "since": "2026-01-22T12:00:00Z"}}),
            ),
            "k",
            NOW,
        );
        let text = shown["text"].as_str().unwrap();
        assert!(
            text.starts_with("Alert: &lt;!channel&gt; &amp; x"),
            "{text}"
        );
        assert!(text.chars().count() < 2000);
        assert!(!texts(&shown).contains("mrkdwn"));
        assert!(texts(&shown).contains("Open for: 2h 1m"));
    }

    #[test]
    fn a_recovered_alert_shows_how_long_it_was_open_not_how_long_ago() {
        let shown = render(
            &read(
                &json!({"type": "alert.recovered", "timestamp": "2026-01-22T12:00:30Z", "data": {
                "subject": "s", "summary": "fine", "since": "2026-01-22T12:00:00Z"}}),
            ),
            "k",
            NOW,
        );
        assert_eq!(shown["text"], "Recovered: fine");
        assert!(texts(&shown).contains("Open for: 30s"));
    }

    #[test]
    fn the_url_shows_nowhere() {
        let limit = Duration::from_secs(1);
        let slack = Slack::new(
            &Secret::new("https://hooks.example.com/T0/hush"),
            false,
            limit,
        )
        .unwrap();
        assert!(!format!("{slack:?}").contains("hush"));
        let error = Slack::new(&Secret::new("hush"), false, limit).unwrap_err();
        assert!(!error.contains("hush"));
    }
}
