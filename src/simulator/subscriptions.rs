//! Steering subscriptions and keys: what a client of the API cannot do or see.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Simulator;
use super::jwt::KeyRotation;
use super::state::hooks::{Hook, WebhookState};
use super::state::job::Refused;
use crate::base::secret::Secret;

/// A registered webhook as the simulator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookReport {
    /// Its id.
    pub id: String,
    /// The name its owner gave it.
    pub name: Option<String>,
    /// Where it sends. The last part of the path may be a token: print it with care.
    pub uri: String,
    /// The events it is subscribed to.
    pub subscribed_events: Vec<String>,
    /// Whether it sends.
    pub state: WebhookState,
    /// Attempts in a row that met no 2xx.
    pub failures: u32,
    /// With how many secrets it signs.
    pub secrets: usize,
}

impl Simulator {
    /// Every registered webhook, oldest first.
    pub fn webhooks(&self) -> Vec<WebhookReport> {
        let now = self.now();
        let report = |hook: &Hook| WebhookReport {
            id: hook.id.clone(),
            name: hook.name.clone(),
            uri: hook.uri.clone(),
            subscribed_events: hook.events.clone(),
            state: hook.state,
            failures: hook.failures,
            secrets: hook.secrets(now).len(),
        };
        self.model().hooks.all().map(report).collect()
    }

    /// The secrets a registered webhook signs with now, oldest first; none for an unknown id.
    pub fn webhook_secrets(&self, id: &str) -> Vec<Secret> {
        let now = self.now();
        let model = self.model();
        model
            .hooks
            .get(id)
            .map_or_else(Vec::new, |hook| hook.secrets(now))
    }

    /// Puts a registered webhook into a state, also into the one that only Google sets.
    ///
    /// # Errors
    /// `UnknownWebhook`.
    pub fn set_webhook_state(&self, id: &str, state: WebhookState) -> Result<(), Refused> {
        let now = self.now();
        let mut model = self.model();
        let hook = model.hooks.get_mut(id).ok_or(Refused::UnknownWebhook)?;
        hook.set_state(state, now);
        Ok(())
    }

    /// What pings send from now on: a text as it is, anything else as JSON; `None` is the usual body.
    pub fn set_ping_body(&self, body: Option<Value>) {
        self.model().ping_body = body;
    }

    /// Makes a new key for dynamic signing and returns its `kid`; `None` when none could be made.
    pub fn rotate_key(&self, how: KeyRotation) -> Option<String> {
        self.keys().rotate(how)
    }

    /// Puts every key that still exists into the key set.
    pub fn publish_keys(&self) {
        self.keys().publish();
    }

    /// Claims set over the usual ones of every token from now on; `null` leaves one out.
    pub fn set_claims(&self, claims: Map<String, Value>) {
        self.keys().overrides = claims;
    }
}
