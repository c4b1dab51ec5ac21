//! What the provider's record should say, and how one differs from that.
//!
//! Only the address, the events and the state are ours to want; a name is for people. Addresses are
//! compared as addresses, events as sets: the provider promises neither spelling nor order.

use std::collections::BTreeSet;

use url::Url;

use crate::config::Settings;
use crate::domain::fault::Fault;
use crate::gemini::webhooks::{NewWebhook, Webhook, WebhookApi, WebhookId, WebhookPatch};

/// The name of a record that this program makes.
pub const NAME: &str = "hookledger";

/// What the provider's record should say.
#[derive(Clone)]
pub struct Wanted {
    /// The record's id, when the configuration pins it.
    pub id: Option<WebhookId>,
    /// Where deliveries go. Holds the path token.
    pub uri: String,
    /// The events to subscribe to.
    pub events: Vec<String>,
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted")
            .field("id", &self.id)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// One field that differs. Addresses hold the path token and are not repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Deliveries go elsewhere.
    Uri,
    /// Events that are wanted and not subscribed to, and the reverse.
    Events {
        /// Wanted.
        missing: Vec<String>,
        /// Not wanted.
        extra: Vec<String>,
    },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uri => f.write_str("it points to another address"),
            Self::Events { missing, extra } => {
                let mut parts = Vec::new();
                if !missing.is_empty() {
                    parts.push(format!("it lacks {}", missing.join(", ")));
                }
                if !extra.is_empty() {
                    parts.push(format!("it also has {}", extra.join(", ")));
                }
                f.write_str(&parts.join("; "))
            }
        }
    }
}

impl Wanted {
    /// What `settings` want, when they say where deliveries go.
    pub fn new(settings: &Settings) -> Option<Self> {
        let subscription = &settings.subscription;
        Some(Self {
            id: subscription
                .webhook_id
                .as_ref()
                .and_then(|id| id.parse().ok()),
            uri: settings.delivery_uri()?,
            events: subscription.events.clone(),
        })
    }

    /// The record these settings are about: the pinned one, or the one with this address.
    ///
    /// # Errors
    /// The provider cannot be asked. A pinned record that does not exist is `None`.
    pub async fn find(&self, api: &dyn WebhookApi) -> Result<Option<Webhook>, Fault> {
        if let Some(id) = &self.id {
            return match api.get(id).await {
                Ok(found) => Ok(Some(found)),
                Err(Fault::NotFound) => Ok(None),
                Err(fault) => Err(fault),
            };
        }
        let all = api.list().await?;
        // Several records may point here; one that delivers is the one that matters.
        let here: Vec<Webhook> = all.into_iter().filter(|w| self.is_here(w)).collect();
        let delivering = here.iter().find(|w| w.delivers()).cloned();
        Ok(delivering.or_else(|| here.into_iter().next()))
    }

    fn is_here(&self, webhook: &Webhook) -> bool {
        webhook
            .uri
            .as_deref()
            .is_some_and(|uri| same(uri, &self.uri))
    }

    /// How `webhook` differs. What it does not say is not held against it.
    pub fn differences(&self, webhook: &Webhook) -> Vec<Difference> {
        let mut found = Vec::new();
        if webhook.uri.is_some() && !self.is_here(webhook) {
            found.push(Difference::Uri);
        }
        let set = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
        let (has, wants) = (set(&webhook.subscribed_events), set(&self.events));
        let missing: Vec<String> = wants.difference(&has).cloned().collect();
        let extra: Vec<String> = has.difference(&wants).cloned().collect();
        if !missing.is_empty() || !extra.is_empty() {
            found.push(Difference::Events { missing, extra });
        }
        found
    }

    /// What makes `webhook` as it should be, its state included.
    pub fn patch(&self, webhook: &Webhook) -> WebhookPatch {
        let mut patch = WebhookPatch::default();
        for difference in self.differences(webhook) {
            match difference {
                Difference::Uri => patch.uri = Some(self.uri.clone()),
                Difference::Events { .. } => patch.subscribed_events = Some(self.events.clone()),
            }
        }
        if !webhook.delivers() {
            patch.state = Some("enabled".to_owned());
        }
        patch
    }

    /// A new record.
    pub fn new_webhook(&self) -> NewWebhook {
        NewWebhook {
            name: Some(NAME.to_owned()),
            uri: self.uri.clone(),
            subscribed_events: self.events.clone(),
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    match (Url::parse(a), Url::parse(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(uri: &str, events: &[&str], state: &str) -> Webhook {
        Webhook {
            id: "w".parse().unwrap(),
            name: None,
            uri: Some(uri.to_owned()),
            subscribed_events: events.iter().map(|e| (*e).to_owned()).collect(),
            state: Some(state.to_owned()),
            create_time: None,
            update_time: None,
            new_signing_secret: None,
            signing_secrets: Vec::new(),
        }
    }

    fn wanted() -> Wanted {
        Wanted {
            id: None,
            uri: "https://hooks.example/hooks/gemini/token".to_owned(),
            events: vec!["a.x".to_owned(), "b.y".to_owned()],
        }
    }

    #[test]
    fn spelling_and_order_are_no_difference() {
        let same = webhook(
            "HTTPS://Hooks.Example:443/hooks/gemini/token",
            &["b.y", "a.x"],
            "enabled",
        );
        assert!(wanted().differences(&same).is_empty());
        assert!(wanted().patch(&same).is_empty());
    }

    #[test]
    fn a_patch_names_only_what_differs() {
        let other = webhook("https://other.example/t", &["a.x", "c.z"], "disabled");
        let patch = wanted().patch(&other);
        assert_eq!(patch.uri, Some(wanted().uri));
        assert_eq!(patch.subscribed_events, Some(wanted().events));
        assert_eq!(patch.state.as_deref(), Some("enabled"));
        let told: Vec<String> = wanted()
            .differences(&other)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "it points to another address",
                "it lacks b.y; it also has c.z"
            ]
        );
        let state = wanted().patch(&webhook(&wanted().uri, &["a.x", "b.y"], "disabled"));
        assert!(state.uri.is_none() && state.subscribed_events.is_none() && state.state.is_some());
    }
}
