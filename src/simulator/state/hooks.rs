//! Registered webhooks: who wants which events, with which secrets, and in what state.
//!
//! Pure. A webhook signs with every secret that has not expired, oldest first: after a rotation with
//! the overlap there are two for a day. Failures are counted by attempt and a 2xx forgets them; at
//! `disable_after` of them in a row the webhook is disabled, as Google does (nobody documented after
//! how many). A delivery asks for the secrets when it is sent, not when it was made, so a retry after
//! a rotation carries the new signature and a retry to a disabled webhook is not sent at all.

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::names;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::base::secret::Secret;

/// What a webhook can be subscribed to.
pub(crate) const EVENTS: [&str; 7] = [
    "batch.succeeded",
    "batch.expired",
    "batch.failed",
    "interaction.requires_action",
    "interaction.completed",
    "interaction.failed",
    "video.generated",
];

/// How long a secret lives on after a rotation with the overlap.
pub(crate) const OVERLAP: Duration = Duration::from_hours(24);

/// Whether a registered webhook receives events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookState {
    /// It does.
    Enabled,
    /// Its owner switched it off.
    Disabled,
    /// Too many deliveries in a row failed.
    DisabledDueToFailedDeliveries,
}

/// What becomes of the secrets there were when a new one is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
pub(crate) enum Revocation {
    #[default]
    #[serde(rename = "revoke_previous_secrets_after_h24")]
    AfterADay,
    #[serde(rename = "revoke_previous_secrets_immediately")]
    Immediately,
}

#[derive(Debug, Clone)]
struct SigningSecret {
    secret: Secret,
    expires: Option<Timestamp>,
}

impl SigningSecret {
    fn lives(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|at| now < at)
    }
}

/// One registered webhook.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    pub(crate) id: String,
    pub(crate) ordinal: u64,
    pub(crate) name: Option<String>,
    pub(crate) uri: String,
    pub(crate) events: Vec<String>,
    pub(crate) state: WebhookState,
    /// Attempts in a row that met no 2xx.
    pub(crate) failures: u32,
    created: Timestamp,
    pub(crate) updated: Timestamp,
    secrets: Vec<SigningSecret>,
}

impl Hook {
    pub(crate) fn wants(&self, event_type: &str) -> bool {
        self.state == WebhookState::Enabled && self.events.iter().any(|event| event == event_type)
    }

    /// The secrets it signs with now, oldest first.
    pub(crate) fn secrets(&self, now: Timestamp) -> Vec<Secret> {
        let living = self.secrets.iter().filter(|secret| secret.lives(now));
        living.map(|secret| secret.secret.clone()).collect()
    }

    /// Sets the state; whoever enables it forgets its failures.
    pub(crate) fn set_state(&mut self, state: WebhookState, now: Timestamp) {
        self.state = state;
        self.updated = now;
        if state == WebhookState::Enabled {
            self.failures = 0;
        }
    }

    /// Makes a new secret and returns it.
    pub(crate) fn rotate(
        &mut self,
        revocation: Revocation,
        now: Timestamp,
        ids: &dyn Ids,
    ) -> Secret {
        self.secrets.retain(|secret| secret.lives(now));
        match revocation {
            Revocation::Immediately => self.secrets.clear(),
            Revocation::AfterADay => {
                let end = now.after(OVERLAP);
                for old in &mut self.secrets {
                    old.expires = Some(old.expires.map_or(end, |at| at.min(end)));
                }
            }
        }
        let secret = new_secret(ids);
        self.secrets.push(SigningSecret {
            secret: secret.clone(),
            expires: None,
        });
        self.updated = now;
        secret
    }

    /// The resource as the API shows it: no secret in full.
    pub(crate) fn render(&self, now: Timestamp) -> Map<String, Value> {
        let living = self.secrets.iter().filter(|secret| secret.lives(now));
        let secrets: Vec<Value> = living
            .map(|secret| {
                let mut shown = json!({"truncated_secret": truncated(&secret.secret)});
                if let (Some(at), Some(map)) = (secret.expires, shown.as_object_mut()) {
                    map.insert("expire_time".to_owned(), json!(at));
                }
                shown
            })
            .collect();
        let mut body = Map::new();
        body.insert("id".to_owned(), json!(self.id));
        if let Some(name) = &self.name {
            body.insert("name".to_owned(), json!(name));
        }
        body.insert("uri".to_owned(), json!(self.uri));
        body.insert("subscribed_events".to_owned(), json!(self.events));
        body.insert("state".to_owned(), json!(self.state));
        body.insert("create_time".to_owned(), json!(self.created));
        body.insert("update_time".to_owned(), json!(self.updated));
        body.insert("signing_secrets".to_owned(), Value::Array(secrets));
        body
    }
}

/// `whsec_` and the base64 of 32 characters, as in the one published example.
fn new_secret(ids: &dyn Ids) -> Secret {
    let key = names::segment(ids, 32);
    Secret::new(format!("whsec_{}", BASE64.encode(key.as_bytes())))
}

/// `whsec_...` and the last four characters.
fn truncated(secret: &Secret) -> String {
    let text = secret.expose();
    let tail = text.len().saturating_sub(4);
    format!("whsec_...{}", text.get(tail..).unwrap_or_default())
}

/// Every registered webhook.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    by_age: BTreeMap<u64, Hook>,
    made: u64,
    /// Failed attempts in a row that disable a webhook; 0 never does.
    pub(crate) disable_after: u32,
}

impl Hooks {
    /// Registers one and returns it with its only secret.
    pub(crate) fn create(
        &mut self,
        name: Option<String>,
        uri: String,
        events: Vec<String>,
        now: Timestamp,
        ids: &dyn Ids,
    ) -> (&Hook, Secret) {
        self.made += 1;
        let mut hook = Hook {
            id: names::segment(ids, 36),
            ordinal: self.made,
            name,
            uri,
            events,
            state: WebhookState::Enabled,
            failures: 0,
            created: now,
            updated: now,
            secrets: Vec::new(),
        };
        let secret = hook.rotate(Revocation::Immediately, now, ids);
        let hook = self.by_age.entry(self.made).or_insert(hook);
        (hook, secret)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Hook> {
        self.by_age.values().find(|hook| hook.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Hook> {
        self.by_age.values_mut().find(|hook| hook.id == id)
    }

    pub(crate) fn delete(&mut self, id: &str) -> bool {
        let before = self.by_age.len();
        self.by_age.retain(|_, hook| hook.id != id);
        self.by_age.len() < before
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Hook> {
        self.by_age.values()
    }

    /// One page, oldest first, from behind `after`, and where the next page begins.
    pub(crate) fn page(&self, after: u64, size: usize) -> (Vec<&Hook>, Option<u64>) {
        let rest = self.by_age.range(after.saturating_add(1)..);
        let mut page: Vec<&Hook> = rest.map(|(_, hook)| hook).take(size + 1).collect();
        let more = page.len() > size;
        page.truncate(size);
        let next = page.last().filter(|_| more).map(|hook| hook.ordinal);
        (page, next)
    }

    /// Writes down how an attempt went.
    pub(crate) fn note(&mut self, id: &str, arrived: bool, now: Timestamp) {
        let limit = self.disable_after;
        let Some(hook) = self.get_mut(id) else {
            return;
        };
        if arrived {
            hook.failures = 0;
            return;
        }
        hook.failures += 1;
        let over = limit > 0 && hook.failures >= limit;
        if over && hook.state == WebhookState::Enabled {
            hook.set_state(WebhookState::DisabledDueToFailedDeliveries, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::RandomIds;

    fn hooks() -> (Hooks, String) {
        let ids = RandomIds::seeded(3);
        let mut hooks = Hooks {
            disable_after: 2,
            ..Hooks::default()
        };
        let events = vec!["batch.failed".to_owned()];
        let (hook, _) = hooks.create(None, "http://h/".to_owned(), events, at(0), &ids);
        let id = hook.id.clone();
        (hooks, id)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn only_failures_in_a_row_disable() {
        let (mut hooks, id) = hooks();
        for (arrived, enabled) in [(false, true), (true, true), (false, true), (false, false)] {
            hooks.note(&id, arrived, at(1));
            let hook = hooks.get(&id).unwrap();
            assert_eq!(hook.wants("batch.failed"), enabled);
        }
        let hook = hooks.get_mut(&id).unwrap();
        assert_eq!(hook.state, WebhookState::DisabledDueToFailedDeliveries);
        hook.set_state(WebhookState::Enabled, at(2));
        hooks.note(&id, false, at(3));
        assert!(hooks.get(&id).unwrap().wants("batch.failed"));
    }

    #[test]
    fn each_rotation_keeps_or_ends_the_secrets_before_it() {
        let (mut hooks, id) = hooks();
        let ids = RandomIds::seeded(4);
        let hook = hooks.get_mut(&id).unwrap();
        let first = hook.secrets(at(0));
        let second = hook.rotate(Revocation::AfterADay, at(100), &ids);
        hook.rotate(Revocation::AfterADay, at(200), &ids);
        assert_eq!(hook.secrets(at(100 + 86_399)).len(), 3);
        let left = hook.secrets(at(100 + 86_400));
        assert_eq!(left.len(), 2, "a second rotation does not lengthen a life");
        assert_eq!(left[0].expose(), second.expose());
        assert_ne!(first[0].expose(), second.expose());
        hook.rotate(Revocation::Immediately, at(300), &ids);
        assert_eq!(hook.secrets(at(300)).len(), 1);
    }
}
