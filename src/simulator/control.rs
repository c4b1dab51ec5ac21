//! Steering the model: what tests and the demo call directly and `/_sim/` calls for others.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::faults::{Fault, FaultKind, WebhookFault};
use super::state::job::{BatchInput, BatchRequest, Draft, Kind, NewJob, Outcome, Refused, Work};
use super::state::outbox::{Letter, To, Twist};
use super::state::{Model, names};
use super::{DeliveryState, Simulator};

/// A webhook to send as told, as `POST /_sim/webhooks/send` takes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawWebhook {
    /// Sends the last attempt of the webhook with this id again, byte for byte.
    pub replay: Option<String>,
    /// The body: a text as it is, anything else as JSON.
    pub body: Option<Value>,
    /// Its `webhook-id`; a new one when absent.
    pub id: Option<String>,
    /// Where to; the configured URL when absent.
    pub url: Option<String>,
    /// Sends it to the registered webhook of this id, signed with its secrets.
    pub webhook: Option<String>,
    /// Signs it like an event for a job's own destination.
    pub dynamic: bool,
    /// Sends it without a signature.
    pub unsigned: bool,
}

impl Simulator {
    /// Starts a job and returns its name.
    ///
    /// # Errors
    /// `DoesNotFit` when a job of this kind cannot end as asked.
    pub fn start(&self, job: NewJob) -> Result<String, Refused> {
        if !job.outcome.fits(job.kind) {
            return Err(Refused::DoesNotFit);
        }
        let now = self.now();
        let (looks, hidden_ms) = (job.visible_after_looks, job.visible_after_ms);
        let draft = self.draft(job);
        let name = {
            let mut model = self.model();
            let name = model.start(draft, now, &*self.ids);
            let hidden = Fault::once(FaultKind::NotFound).on(&name).method("GET");
            if looks > 0 {
                model.faults.add(hidden.clone().times(looks), now);
            }
            if hidden_ms > 0 {
                let for_ms = Some(hidden_ms);
                model.faults.add(Fault { for_ms, ..hidden }, now);
            }
            name
        };
        self.changed.notify_one();
        Ok(name)
    }

    fn draft(&self, job: NewJob) -> Draft {
        let requests = (1..=job.requests).map(|i| BatchRequest {
            key: Some(format!("request-{i}")),
            prompt: format!("prompt {i}"),
        });
        let (work, model) = match job.kind {
            Kind::Batch => (
                Work::Batch {
                    file: (job.input == BatchInput::File)
                        .then(|| format!("files/{}", names::segment(&*self.ids, 12))),
                    requests: requests.collect(),
                    embed: false,
                    failed: job.failed_requests,
                },
                "gemini-2.5-flash",
            ),
            Kind::Video => (
                Work::Video {
                    prompt: "a simulated prompt".to_owned(),
                },
                "veo-3.1-generate-preview",
            ),
            Kind::Interaction => (
                Work::Interaction {
                    input: "a simulated input".to_owned(),
                },
                "gemini-2.5-flash",
            ),
        };
        let after = job.complete_after_ms.map(Duration::from_millis);
        let after = after.unwrap_or(self.config.complete_after);
        Draft {
            work,
            model: job.model.unwrap_or_else(|| model.to_owned()),
            display_name: job.display_name,
            uris: job.webhook_uris,
            user_metadata: job.user_metadata,
            outcome: job.outcome,
            complete_after: (!job.manual).then_some(after),
            output_after: Duration::from_millis(job.output_after_ms),
            webhook: job.webhook,
        }
    }

    /// Ends a job now. The last segment of its name will do for a batch or an interaction.
    ///
    /// # Errors
    /// `Unknown`, `AlreadyEnded`, or `DoesNotFit` for an ending its kind does not know.
    pub fn finish(&self, name: &str, outcome: Outcome) -> Result<(), Refused> {
        let now = self.now();
        {
            let mut model = self.model();
            model.advance(now, &*self.ids);
            let name = model.resolve(name).ok_or(Refused::Unknown)?.name.clone();
            model.end(&name, outcome, now, &*self.ids)?;
        }
        self.changed.notify_one();
        Ok(())
    }

    /// The body a GET of this job would answer now, faults aside.
    pub fn body(&self, name: &str) -> Option<Value> {
        let now = self.now();
        let mut model = self.model();
        model.advance(now, &*self.ids);
        let job = model.resolve(name)?;
        Some(Model::render(job, now))
    }

    /// Sets a fault on the API.
    pub fn fault(&self, fault: Fault) {
        let now = self.now();
        self.model().faults.add(fault, now);
    }

    /// Sets how the next events are told.
    pub fn webhook_fault(&self, fault: WebhookFault) {
        let now = self.now();
        self.model().faults.add_webhook(fault, now);
    }

    /// Forgets every fault, also those that hide a job.
    pub fn clear_faults(&self) {
        self.model().faults.clear();
    }

    /// Sends a validly signed event that says `event_type` of a job, whatever is true, and returns
    /// its webhook ids.
    ///
    /// # Errors
    /// `Unknown`, or `NoDestination` when there is nowhere to send it.
    pub fn forge(&self, name: &str, event_type: &str) -> Result<Vec<String>, Refused> {
        let now = self.now();
        let told = {
            let mut model = self.model();
            let name = model.resolve(name).ok_or(Refused::Unknown)?.name.clone();
            model.forge(&name, event_type, now, &*self.ids)?
        };
        self.changed.notify_one();
        Ok(told)
    }

    /// Sends a webhook as told and returns its id.
    ///
    /// # Errors
    /// `Unknown` when there is nothing to replay, `NoDestination` when there is nowhere to send it.
    pub fn send_webhook(&self, raw: RawWebhook) -> Result<String, Refused> {
        let now = self.now();
        let id = {
            let mut model = self.model();
            let (letter, twist) = if let Some(id) = raw.replay {
                let all = model.outbox.all();
                let past = all
                    .into_iter()
                    .rfind(|d| d.webhook_id == id && d.state != DeliveryState::Dropped)
                    .ok_or(Refused::Unknown)?;
                let sent = past.sent.clone().ok_or(Refused::Unknown)?;
                let letter = Letter {
                    webhook_id: id,
                    event_type: past.event_type.clone(),
                    name: past.name.clone(),
                    to: past.to.clone(),
                    url: raw.url.unwrap_or_else(|| past.url.clone()),
                    body: past.body.clone(),
                };
                (letter, Twist::Replayed(sent))
            } else {
                let body = match raw.body {
                    Some(Value::String(text)) => text,
                    Some(value) => value.to_string(),
                    None => String::new(),
                };
                let (to, usual) = match raw.webhook {
                    Some(id) => {
                        let hook = model.hooks.get(&id).ok_or(Refused::UnknownWebhook)?;
                        let uri = hook.uri.clone();
                        (To::Registered(id), Some(uri))
                    }
                    None if raw.dynamic => (To::Own, model.webhook_url.clone()),
                    None => (To::Configured, model.webhook_url.clone()),
                };
                let url = raw.url.or(usual);
                let letter = Letter {
                    webhook_id: raw.id.unwrap_or_else(|| names::webhook_id(&*self.ids)),
                    event_type: "raw".to_owned(),
                    name: String::new(),
                    to,
                    url: url.ok_or(Refused::NoDestination)?,
                    body: Bytes::from(body),
                };
                let twist = if raw.unsigned {
                    Twist::Unsigned
                } else {
                    Twist::Once
                };
                (letter, twist)
            };
            let id = letter.webhook_id.clone();
            model.outbox.send(letter, twist, now);
            id
        };
        self.changed.notify_one();
        Ok(id)
    }
}
