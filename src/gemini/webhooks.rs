//! WebhookService: the provider's record of where deliveries go.
//!
//! Problem: the documentation names two versions of the API for it, and which one answers may differ
//! between projects and gateways. A wrong version answers 404, and so does an id that does not exist.
//!
//! Design: the configured version is asked first. While nobody knows whether it has the service, a
//! 404 is checked against the collection, which exists wherever the service does: if the collection
//! is missing too, the same request goes to the other version. Which one answered is remembered.
//! A 404 changes nothing at the provider, so a repeated create or rotate happens once.
//!
//! Secrets come exactly once, in the answer to create and rotate. They are [`Secret`]s from the
//! moment they are read.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Response;
use serde_json::{Map, Value, json};

use super::client::{Base, HttpGemini};
use super::wire::webhook as wire;
use crate::base::secret::Secret;
use crate::domain::fault::Fault;

/// The events a webhook can subscribe to.
pub const EVENTS: [&str; 7] = [
    "batch.succeeded",
    "batch.expired",
    "batch.failed",
    "interaction.requires_action",
    "interaction.completed",
    "interaction.failed",
    "video.generated",
];

/// Records asked for in one page of a list.
const PAGE_SIZE: u32 = 1000;
/// Most pages of a list that are walked.
const MAX_PAGES: u32 = 20;

/// A webhook's id, safe to put into a URL path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebhookId(String);

/// The text is no webhook's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a webhook's id: expected up to 128 characters from A-Z a-z 0-9 _ -")]
pub struct NotAWebhookId;

impl WebhookId {
    /// The bare id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for WebhookId {
    type Err = NotAWebhookId;

    /// Takes `ID` and `webhooks/ID`.
    fn from_str(text: &str) -> Result<Self, NotAWebhookId> {
        let id = text.strip_prefix("webhooks/").unwrap_or(text);
        let legal = (1..=128).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        legal.then(|| Self(id.to_owned())).ok_or(NotAWebhookId)
    }
}

/// A webhook as the provider shows it. Whatever it leaves out is `None` or empty.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// The name somebody gave it; not unique.
    pub name: Option<String>,
    /// Where deliveries go.
    pub uri: Option<String>,
    /// The events it subscribes to, unknown ones too.
    pub subscribed_events: Vec<String>,
    /// `enabled`, `disabled`, `disabled_due_to_failed_deliveries`, or a word nobody documented.
    pub state: Option<String>,
    /// When it was made, as the provider writes it.
    pub create_time: Option<String>,
    /// When it was last changed, as the provider writes it.
    pub update_time: Option<String>,
    /// The first signing secret, in the answer to create alone.
    pub new_signing_secret: Option<Secret>,
    /// Its signing secrets, shortened by the provider.
    pub signing_secrets: Vec<ShortSecret>,
}

impl Webhook {
    /// Whether the provider says that it delivers. A record without a state counts as delivering.
    pub fn delivers(&self) -> bool {
        let word = self.state.as_deref().unwrap_or("enabled");
        !word.to_ascii_lowercase().contains("disabled")
    }
}

/// A signing secret of which only a part is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortSecret {
    /// Beginning and end.
    pub truncated_secret: String,
    /// When the provider stops signing with it, as the provider writes it.
    pub expire_time: Option<String>,
}

/// What a new webhook is made of.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    /// A name for people.
    pub name: Option<String>,
    /// Where deliveries go.
    pub uri: String,
    /// The events to subscribe to.
    pub subscribed_events: Vec<String>,
}

/// What to change about a webhook; `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookPatch {
    /// `name`
    pub name: Option<String>,
    /// `uri`
    pub uri: Option<String>,
    /// `subscribed_events`
    pub subscribed_events: Option<Vec<String>>,
    /// `state`
    pub state: Option<String>,
}

impl WebhookPatch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn fields(&self) -> Map<String, Value> {
        let texts = [
            ("name", &self.name),
            ("uri", &self.uri),
            ("state", &self.state),
        ];
        let mut fields: Map<String, Value> = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.clone()?))))
            .collect();
        if let Some(events) = &self.subscribed_events {
            fields.insert("subscribed_events".to_owned(), Value::from(events.clone()));
        }
        fields
    }
}

/// What becomes of the secrets before a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// They sign for 24 hours more, beside the new one.
    AfterDay,
    /// They stop signing at once.
    Immediately,
}

impl Revocation {
    const fn word(self) -> &'static str {
        match self {
            Self::AfterDay => "revoke_previous_secrets_after_h24",
            Self::Immediately => "revoke_previous_secrets_immediately",
        }
    }
}

/// The provider's webhooks of the key's project.
#[async_trait]
pub trait WebhookApi: Send + Sync + fmt::Debug {
    /// Makes one. Its first secret is in the answer and nowhere else.
    async fn create(&self, new: &NewWebhook) -> Result<Webhook, Fault>;

    /// All of them, at most 20,000.
    async fn list(&self) -> Result<Vec<Webhook>, Fault>;

    /// One of them.
    async fn get(&self, id: &WebhookId) -> Result<Webhook, Fault>;

    /// Changes what `patch` names, and answers what it is then.
    async fn update(&self, id: &WebhookId, patch: &WebhookPatch) -> Result<Webhook, Fault>;

    /// Removes one.
    async fn delete(&self, id: &WebhookId) -> Result<(), Fault>;

    /// Asks for a delivery that names no operation.
    async fn ping(&self, id: &WebhookId) -> Result<(), Fault>;

    /// Makes a new signing secret, which is in the answer and nowhere else.
    async fn rotate(&self, id: &WebhookId, revocation: Revocation) -> Result<Secret, Fault>;
}

/// Which version of the API has the service.
#[derive(Debug)]
pub(super) struct ServiceVersion(AtomicU8);

const UNKNOWN: u8 = 0;
const MAIN: u8 = 1;
const OTHER: u8 = 2;

impl ServiceVersion {
    pub(super) const fn unknown() -> Self {
        Self(AtomicU8::new(UNKNOWN))
    }

    /// The version of the other of the two documented names.
    pub(super) fn other_than(version: &str) -> Option<&'static str> {
        match version {
            "v1beta" => Some("v1"),
            "v1" => Some("v1beta"),
            _ => None,
        }
    }
}

/// One request to the service, to be sent to either version.
#[derive(Debug)]
struct Ask {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl Ask {
    fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            path: path.into(),
            body,
        }
    }
}

impl HttpGemini {
    async fn ask_at(&self, base: &Base, ask: &Ask) -> Result<Response, Fault> {
        let url = base.join(&ask.path)?;
        let mut headers = Self::uncached();
        let body = ask.body.as_ref().map(|body| {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            Bytes::from(body.to_string())
        });
        let total = Some(self.timeout);
        self.send(ask.method.clone(), url, headers, body, total)
            .await
    }

    /// The body of a success, from whichever version has the service.
    async fn ask(&self, ask: Ask) -> Result<Bytes, Fault> {
        let known = &self.webhooks_at.0;
        let (main, other) = (&self.base, self.other_base.as_ref());
        match (known.load(Ordering::Relaxed), other) {
            (OTHER, Some(other)) => return self.success(self.ask_at(other, &ask).await?).await,
            (UNKNOWN, Some(_)) => {}
            _ => return self.success(self.ask_at(main, &ask).await?).await,
        }
        let answer = self.ask_at(main, &ask).await?;
        if answer.status() != StatusCode::NOT_FOUND {
            if answer.status().is_success() {
                known.store(MAIN, Ordering::Relaxed);
            }
            return self.success(answer).await;
        }
        let Some(other) = other else {
            return self.success(answer).await;
        };
        let collection = Ask::new(Method::GET, "webhooks?page_size=1", None);
        let there = self.ask_at(main, &collection).await?.status();
        if there == StatusCode::NOT_FOUND {
            let second = self.ask_at(other, &ask).await?;
            if second.status() != StatusCode::NOT_FOUND {
                if second.status().is_success() {
                    known.store(OTHER, Ordering::Relaxed);
                }
                return self.success(second).await;
            }
        } else if there.is_success() {
            known.store(MAIN, Ordering::Relaxed);
        }
        self.success(answer).await
    }

    async fn success(&self, answer: Response) -> Result<Bytes, Fault> {
        if answer.status().is_success() {
            self.read_body(answer).await
        } else {
            Err(self.refusal(answer).await)
        }
    }

    pub(super) fn uncached() -> HeaderMap {
        HeaderMap::from_iter([(super::client::SKIP_CACHE, HeaderValue::from_static("true"))])
    }
}

#[async_trait]
impl WebhookApi for HttpGemini {
    async fn create(&self, new: &NewWebhook) -> Result<Webhook, Fault> {
        let patch = WebhookPatch {
            name: new.name.clone(),
            uri: Some(new.uri.clone()),
            subscribed_events: Some(new.subscribed_events.clone()),
            state: None,
        };
        let body = Value::from(patch.fields());
        let made = self.ask(Ask::new(Method::POST, "webhooks", Some(body)));
        wire::webhook(&made.await?)
    }

    async fn list(&self) -> Result<Vec<Webhook>, Fault> {
        let mut all = Vec::new();
        let mut path = format!("webhooks?page_size={PAGE_SIZE}");
        for _ in 0..MAX_PAGES {
            let bytes = self.ask(Ask::new(Method::GET, path, None)).await?;
            let (mut page, next) = wire::page(&bytes)?;
            all.append(&mut page);
            let Some(next) = next else { break };
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("page_size", &PAGE_SIZE.to_string());
            query.append_pair("page_token", &next);
            path = format!("webhooks?{}", query.finish());
        }
        Ok(all)
    }

    async fn get(&self, id: &WebhookId) -> Result<Webhook, Fault> {
        let ask = Ask::new(Method::GET, format!("webhooks/{id}"), None);
        wire::webhook(&self.ask(ask).await?)
    }

    async fn update(&self, id: &WebhookId, patch: &WebhookPatch) -> Result<Webhook, Fault> {
        let fields = patch.fields();
        let mask: Vec<&str> = fields.keys().map(String::as_str).collect();
        let at = format!("webhooks/{id}?update_mask={}", mask.join(","));
        let ask = Ask::new(Method::PATCH, at, Some(Value::from(fields)));
        wire::webhook(&self.ask(ask).await?)
    }

    async fn delete(&self, id: &WebhookId) -> Result<(), Fault> {
        let ask = Ask::new(Method::DELETE, format!("webhooks/{id}"), None);
        self.ask(ask).await.map(drop)
    }

    async fn ping(&self, id: &WebhookId) -> Result<(), Fault> {
        let ask = Ask::new(Method::POST, format!("webhooks/{id}:ping"), Some(json!({})));
        self.ask(ask).await.map(drop)
    }

    async fn rotate(&self, id: &WebhookId, revocation: Revocation) -> Result<Secret, Fault> {
        let path = format!("webhooks/{id}:rotateSigningSecret");
        let body = json!({"revocation_behavior": revocation.word()});
        wire::secret(&self.ask(Ask::new(Method::POST, path, Some(body))).await?)
    }
}
