//! `webhooks`: the provider's record of where deliveries go.
//!
//! All but `rotate` talk to the provider alone and work with or without a running service. A record's
//! address holds the path token, so its last segment is shown as `…`; a secret is shown on request
//! only. A secret that would be neither stored nor shown is not asked for: it could never be had
//! again.

mod shown;

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use self::shown::{changes, diff_text, document, made_text, rotated_text};
use super::access::Access;
use super::args::{Nested, WebhookState, Webhooks};
use super::failure::Failure;
use super::output::{Column, Output, cell, fields};
use crate::base::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::domain::fault::Fault;
use crate::gemini::client::HttpGemini;
use crate::gemini::webhooks::{NewWebhook, Webhook, WebhookApi, WebhookId, WebhookPatch};
use crate::reconcile::wanted::Wanted;
use crate::verify::{SecretFile, SecretFileError};

const COLUMNS: [Column; 5] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("STATE", "state"),
    ("URI", "uri"),
    ("EVENTS", "events"),
];
const FIELDS: [&str; 9] = [
    "id",
    "name",
    "state",
    "uri",
    "events",
    "create_time",
    "update_time",
    "signing_secrets",
    "secret_stored_in",
];

/// The provider, and what is wanted of it.
struct Desk<'a> {
    settings: &'a Settings,
    api: HttpGemini,
    clock: Arc<dyn Clock>,
}

pub(super) async fn run(
    settings: Settings,
    args: Nested<Webhooks>,
    output: &Output,
) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let api = HttpGemini::new(&settings.gemini, Arc::clone(&clock))
        .map_err(|error| Failure::usage(error.to_string()))?;
    let desk = Desk {
        settings: &settings,
        api,
        clock,
    };
    match args.verb {
        Webhooks::Rotate => {
            let rotated = Access::open(settings.clone()).await?.rotate().await?;
            output.answer(&rotated, |_| rotated_text(&rotated))
        }
        Webhooks::Create {
            uri,
            name,
            events,
            show_secret,
        } => {
            let new = desk.new_webhook(uri, name, events)?;
            let made = desk.create(&new, show_secret).await?;
            output.answer(&made, |_| made_text(&made))
        }
        Webhooks::List => {
            let all = desk.api.list().await.map_err(refused)?;
            let all: Vec<Value> = all.iter().map(document).collect();
            output.list(&json!({"webhooks": all}), "webhooks", &COLUMNS)
        }
        Webhooks::Show { id } => {
            let found = desk.find(id).await?;
            show(&found, output)
        }
        Webhooks::Update {
            id,
            uri,
            name,
            events,
            state,
        } => {
            let patch = WebhookPatch {
                name,
                uri: uri.as_deref().map(checked_uri).transpose()?,
                subscribed_events: (!events.is_empty()).then_some(events),
                state: state.map(|state| state.word().to_owned()),
            };
            if patch.is_empty() {
                return Err(Failure::usage(
                    "nothing to change; give --uri, --name, --event or --state",
                ));
            }
            let id = desk.id(id).await?;
            let now = desk.api.update(&id, &patch).await.map_err(refused)?;
            show(&now, output)
        }
        Webhooks::Delete { id } => {
            let id = read_id(&id)?;
            desk.api.delete(&id).await.map_err(refused)?;
            output.answer(&json!({"id": id.as_str(), "deleted": true}), |_| {
                format!("{id} is deleted\n")
            })
        }
        Webhooks::Ping { id } => {
            let id = desk.id(id).await?;
            desk.api.ping(&id).await.map_err(refused)?;
            output.answer(&json!({"id": id.as_str(), "pinged": true}), |_| {
                format!("{id} is pinged; see `hookledger events list` for what arrived\n")
            })
        }
        Webhooks::Sync {
            dry_run,
            show_secret,
        } => desk.sync(dry_run, show_secret, output).await,
    }
}

impl Desk<'_> {
    fn wanted(&self) -> Result<Wanted, Failure> {
        Wanted::new(self.settings).ok_or_else(|| {
            Failure::usage(
                "where deliveries go is not configured; set server.public_url and \
                 HOOK_PATH_TOKEN, or subscription.uri",
            )
        })
    }

    fn new_webhook(
        &self,
        uri: Option<String>,
        name: Option<String>,
        events: Vec<String>,
    ) -> Result<NewWebhook, Failure> {
        let uri = match uri {
            Some(uri) => checked_uri(&uri)?,
            None => self.wanted()?.uri,
        };
        Ok(NewWebhook {
            name,
            uri,
            subscribed_events: if events.is_empty() {
                self.settings.subscription.events.clone()
            } else {
                events
            },
        })
    }

    fn file(&self) -> Option<SecretFile> {
        let path = self.settings.subscription.secrets_file.clone()?;
        Some(SecretFile::new(path))
    }

    /// Refuses to have a secret made that nobody would ever see.
    fn loses_no_secret(&self, show_secret: bool) -> Result<(), Failure> {
        if show_secret || self.file().is_some() {
            return Ok(());
        }
        Err(Failure::usage(
            "the signing secret is shown once and would be lost; set \
             subscription.secrets_file, or give --show-secret",
        ))
    }

    async fn create(&self, new: &NewWebhook, show_secret: bool) -> Result<Value, Failure> {
        let file = self.file();
        if let Some(file) = &file {
            // Before the provider is asked: a file that cannot be written must not cost a secret.
            file.update(|_| {}).map_err(|error| broken(&error))?;
        }
        self.loses_no_secret(show_secret)?;
        let made = self.api.create(new).await.map_err(refused)?;
        let mut whole = document(&made);
        let Some(fields) = whole.as_object_mut() else {
            return Ok(whole);
        };
        let Some(secret) = &made.new_signing_secret else {
            return Ok(whole);
        };
        if show_secret {
            fields.insert("secret".to_owned(), Value::from(secret.expose()));
        }
        if let Some(file) = file {
            let (id, now) = (made.id.as_str(), self.clock.now());
            file.update(|kept| kept.add(secret.clone(), id, now))
                .map_err(|error| {
                    Failure::failed(format!(
                        "webhook {id} was made, but its secret could not be stored ({error}); \
                         `hookledger webhooks rotate {id}` makes another"
                    ))
                })?;
            let path = file.path().display().to_string();
            fields.insert("secret_stored_in".to_owned(), Value::from(path));
        }
        Ok(whole)
    }

    /// The named record, or the one the configuration is about.
    async fn find(&self, id: Option<String>) -> Result<Webhook, Failure> {
        if let Some(id) = id {
            return self.api.get(&read_id(&id)?).await.map_err(refused);
        }
        let found = self.wanted()?.find(&self.api).await.map_err(refused)?;
        found.ok_or_else(|| {
            Failure::not_found(
                "the provider has no webhook that is the configured one; \
                 `hookledger webhooks sync` makes it",
            )
        })
    }

    async fn id(&self, id: Option<String>) -> Result<WebhookId, Failure> {
        match id.or_else(|| self.settings.subscription.webhook_id.clone()) {
            Some(id) => read_id(&id),
            None => Ok(self.find(None).await?.id),
        }
    }

    async fn sync(&self, dry: bool, show_secret: bool, output: &Output) -> Result<(), Failure> {
        let wanted = self.wanted()?;
        let found = wanted.find(&self.api).await.map_err(refused)?;
        if let (None, Some(id)) = (&found, &wanted.id) {
            return Err(Failure::not_found(format!(
                "the provider has no webhook {id} (subscription.webhook_id)"
            )));
        }
        let changes = changes(&wanted, found.as_ref());
        let action = match &found {
            None => "create",
            Some(_) if changes.is_empty() => "none",
            Some(_) => "update",
        };
        if found.is_none() && !dry {
            self.loses_no_secret(show_secret)?;
        }
        let id = found.as_ref().map(|w| w.id.as_str().to_owned());
        let mut answer = json!({
            "id": id, "action": action, "changes": changes, "applied": false,
        });
        // What is about to be done is said before it is done; as a document there is only the end.
        if !output.is_json() {
            output.answer(&answer, |_| diff_text(&answer))?;
        }
        if dry || action == "none" {
            return if output.is_json() {
                output.answer(&answer, |_| String::new())
            } else {
                Ok(())
            };
        }
        let now = match &found {
            None => self.create(&wanted.new_webhook(), show_secret).await?,
            Some(found) => {
                let patch = wanted.patch(found);
                document(&self.api.update(&found.id, &patch).await.map_err(refused)?)
            }
        };
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("applied".to_owned(), true.into());
            fields.insert("webhook".to_owned(), now.clone());
            fields.insert("id".to_owned(), now.get("id").cloned().unwrap_or_default());
        }
        output.answer(&answer, |_| {
            if found.is_none() {
                made_text(&now)
            } else {
                format!("{} is updated\n", cell(now.get("id")))
            }
        })
    }
}

fn show(webhook: &Webhook, output: &Output) -> Result<(), Failure> {
    let document = document(webhook);
    output.answer(&document, |_| fields(&document, &FIELDS))
}

fn checked_uri(text: &str) -> Result<String, Failure> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .map(String::from)
        .ok_or_else(|| Failure::usage("--uri takes an address such as https://example.com/path"))
}

fn read_id(text: &str) -> Result<WebhookId, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("this is {error}")))
}

fn refused(fault: Fault) -> Failure {
    match fault {
        Fault::NotFound => Failure::not_found("the provider has no such webhook"),
        other => Failure::failed(other.to_string()),
    }
}

fn broken(error: &SecretFileError) -> Failure {
    Failure::failed(error.to_string())
}

impl WebhookState {
    const fn word(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}
