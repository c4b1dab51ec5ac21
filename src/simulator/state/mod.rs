//! The model of Google's side: jobs, files and the webhooks they cause. No I/O.
//!
//! Problem: a list of canned answers cannot show what a client does over time, and a simulator that
//! sleeps cannot be tested.
//!
//! Design: [`Model`] holds every job with the ending planned for it. [`Model::advance`] plays what
//! was due up to `now`, each ending stamped with the time it was planned for, and puts events into
//! the outbox. It is called before every request and by the loop that sends, so what a client sees
//! depends on the time alone, never on how often anybody looked. Names and webhook ids come from
//! [`Ids`], so a seeded run repeats itself.
//!
//! Races: the model sits behind one mutex that is never held across an await. A job that is finished
//! by hand while its own ending falls due ends once: the second finds it over.

pub(crate) mod batch;
pub(crate) mod files;
pub(crate) mod hooks;
pub(crate) mod interaction;
pub(crate) mod job;
pub(crate) mod names;
pub(crate) mod outbox;
pub(crate) mod plan;
pub(crate) mod video;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use self::files::Files;
use self::hooks::Hooks;
use self::job::{Draft, Job, Kind, Outcome, Refused, Work};
use self::outbox::{Letter, Outbox, To, Twist};
use self::plan::{IdForm, Mode};
use super::faults::Faults;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;

/// Everything the simulator knows.
#[derive(Debug, Default)]
pub(crate) struct Model {
    jobs: HashMap<String, Job>,
    by_age: BTreeMap<u64, String>,
    agenda: BTreeSet<(Timestamp, String)>,
    /// Where events go that have no destination of their own.
    pub(crate) webhook_url: Option<String>,
    pub(crate) files: Files,
    pub(crate) outbox: Outbox,
    pub(crate) faults: Faults,
    pub(crate) hooks: Hooks,
    /// What a ping sends instead of the usual body.
    pub(crate) ping_body: Option<Value>,
}

impl Model {
    /// An empty model whose events go to `webhook_url`.
    pub(crate) fn new(webhook_url: Option<String>) -> Self {
        Self {
            webhook_url,
            ..Self::default()
        }
    }

    /// Starts a job and returns its name.
    pub(crate) fn start(&mut self, draft: Draft, now: Timestamp, ids: &dyn Ids) -> String {
        let name = match draft.work.kind() {
            Kind::Batch => names::batch(ids),
            Kind::Video => names::video(ids, &draft.model),
            Kind::Interaction => names::interaction(ids),
        };
        let ordinal = self.by_age.last_key_value().map_or(0, |(last, _)| last + 1);
        if let Some(after) = draft.complete_after {
            self.agenda.insert((now.after(after), name.clone()));
        }
        let lie = (draft.webhook.deliver == Mode::Forge)
            .then(|| Outcome::Succeeded.event(draft.work.kind()))
            .flatten();
        let job = Job {
            name: name.clone(),
            ordinal,
            created: now,
            ended: None,
            deleted: false,
            output: None,
            draft,
        };
        self.by_age.insert(ordinal, name.clone());
        self.jobs.insert(name.clone(), job);
        if let Some(event_type) = lie {
            // No destination, no lie: the job runs all the same.
            let _ = self.forge(&name, event_type, now, ids);
        }
        name
    }

    /// Plays everything that was due up to `now`.
    pub(crate) fn advance(&mut self, now: Timestamp, ids: &dyn Ids) {
        while self.agenda.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, name)) = self.agenda.pop_first() else {
                return;
            };
            let planned = self.jobs.get(&name).map(|job| job.draft.outcome);
            if let Some(outcome) = planned {
                // Ended by hand before: nothing is left to play.
                let _ = self.end(&name, outcome, at, ids);
            }
        }
    }

    /// When something is due next, of jobs or of deliveries.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let job = self.agenda.first().map(|(at, _)| *at);
        [job, self.outbox.next_due()].into_iter().flatten().min()
    }

    /// Ends a job at `at` and puts its event, if it has one, into the outbox.
    pub(crate) fn end(
        &mut self,
        name: &str,
        outcome: Outcome,
        at: Timestamp,
        ids: &dyn Ids,
    ) -> Result<(), Refused> {
        let job = self.jobs.get(name).ok_or(Refused::Unknown)?;
        if job.is_over() {
            return Err(Refused::AlreadyEnded);
        }
        let kind = job.kind();
        if !outcome.fits(kind) {
            return Err(Refused::DoesNotFit);
        }
        let output = self.produce(name, outcome, at, ids);
        let Some(job) = self.jobs.get_mut(name) else {
            return Err(Refused::Unknown);
        };
        job.output = output;
        job.ended = Some((outcome, at));
        if let Some(event_type) = outcome.event(kind) {
            self.announce(name, event_type, at, ids);
        }
        Ok(())
    }

    /// The job of this name, also when only its last segment is given.
    pub(crate) fn resolve(&self, name: &str) -> Option<&Job> {
        let exact = self.jobs.get(name);
        exact
            .or_else(|| self.jobs.get(&format!("batches/{name}")))
            .or_else(|| self.jobs.get(&format!("interactions/{name}")))
    }

    /// The job as the API shows it: a deleted one is not there.
    pub(crate) fn shown(&self, name: &str) -> Option<&Job> {
        self.jobs.get(name).filter(|job| !job.deleted)
    }

    /// Hides a job from the API; it runs on.
    pub(crate) fn delete(&mut self, name: &str) -> bool {
        match self.jobs.get_mut(name) {
            Some(job) if !job.deleted => {
                job.deleted = true;
                true
            }
            _ => false,
        }
    }

    /// One page of batches, newest first, from before `ordinal`, and where the next page begins.
    pub(crate) fn batches(&self, before: Option<u64>, size: usize) -> (Vec<&Job>, Option<u64>) {
        let mut page: Vec<&Job> = self
            .by_age
            .range(..before.unwrap_or(u64::MAX))
            .rev()
            .filter_map(|(_, name)| self.shown(name))
            .filter(|job| job.kind() == Kind::Batch)
            .take(size + 1)
            .collect();
        let more = page.len() > size;
        page.truncate(size);
        let next = page.last().filter(|_| more).map(|job| job.ordinal);
        (page, next)
    }

    /// The job's body, as a GET of it answers.
    pub(crate) fn render(job: &Job, now: Timestamp) -> Value {
        match &job.draft.work {
            Work::Batch {
                file,
                requests,
                embed,
                failed,
            } => batch::View {
                job,
                file: file.as_deref(),
                requests: requests.len(),
                failed: *failed,
                embed: *embed,
            }
            .render(now),
            Work::Video { .. } => video::render(job, now),
            Work::Interaction { .. } => interaction::render(job, now),
        }
    }

    /// Makes what a job leaves behind when it ends like this.
    fn produce(
        &mut self,
        name: &str,
        outcome: Outcome,
        at: Timestamp,
        ids: &dyn Ids,
    ) -> Option<Value> {
        let job = self.jobs.get(name)?;
        match &job.draft.work {
            Work::Batch {
                file,
                requests,
                embed,
                failed,
            } => {
                if outcome != Outcome::Succeeded {
                    return None;
                }
                let answers = batch::Answers {
                    requests,
                    model: &job.draft.model,
                    embed: *embed,
                    failed: *failed,
                };
                if file.is_none() {
                    return Some(answers.inline());
                }
                let result = format!("files/batch-{}", names::last_segment(name));
                let lines = Bytes::from(answers.lines());
                self.files
                    .generate(result.clone(), "application/jsonl", lines, at);
                Some(json!({"responsesFile": result}))
            }
            Work::Video { prompt } => {
                let bytes = video::bytes_for(prompt);
                let file = (outcome == Outcome::Succeeded).then(|| {
                    let name = format!("files/{}", names::segment(ids, 12));
                    self.files.generate(name, "video/mp4", bytes, at)
                });
                video::output(outcome, file.as_ref())
            }
            Work::Interaction { input } => Some(interaction::output(outcome, input)),
        }
    }

    /// Puts the event of an ending into the outbox, one letter per destination.
    fn announce(&mut self, name: &str, event_type: &str, at: Timestamp, ids: &dyn Ids) {
        let Some(job) = self.jobs.get(name) else {
            return;
        };
        let overruled = self.faults.take_webhook(name, at);
        let plan = overruled.unwrap_or(job.draft.webhook);
        for letter in self.letters(job, event_type, plan.id_form, at, ids) {
            self.outbox.post(letter, plan, at);
        }
    }

    /// Sends a validly signed event that says `event_type` of a job, whatever its state is.
    pub(crate) fn forge(
        &mut self,
        name: &str,
        event_type: &str,
        now: Timestamp,
        ids: &dyn Ids,
    ) -> Result<Vec<String>, Refused> {
        let job = self.jobs.get(name).ok_or(Refused::Unknown)?;
        let letters = self.letters(job, event_type, IdForm::Full, now, ids);
        if letters.is_empty() {
            return Err(Refused::NoDestination);
        }
        let told = letters.iter().map(|l| l.webhook_id.clone()).collect();
        for letter in letters {
            self.outbox.send(letter, Twist::Honest, now);
        }
        Ok(told)
    }

    /// Sends a ping to a registered webhook, once. Nobody documented its body: this one looks like
    /// an event, and `ping_body` may be anything.
    pub(crate) fn ping(&mut self, id: &str, now: Timestamp, ids: &dyn Ids) {
        let Some(hook) = self.hooks.get(id) else {
            return;
        };
        let name = format!("webhooks/{id}");
        let usual = json!({
            "type": "webhook.ping",
            "version": "v1",
            "timestamp": now,
            "data": {"id": id},
        });
        let body = match &self.ping_body {
            Some(Value::String(text)) => text.clone(),
            Some(body) => body.to_string(),
            None => usual.to_string(),
        };
        let letter = Letter {
            webhook_id: names::webhook_id(ids),
            event_type: "webhook.ping".to_owned(),
            name: name.clone(),
            to: To::Registered(id.to_owned()),
            url: hook.uri.clone(),
            body: Bytes::from(body),
        };
        match self.faults.take_webhook(&name, now) {
            Some(plan) => self.outbox.post(letter, plan, now),
            None => {
                self.outbox.send(letter, Twist::Once, now);
            }
        }
    }

    fn letters(
        &self,
        job: &Job,
        event_type: &str,
        form: IdForm,
        at: Timestamp,
        ids: &dyn Ids,
    ) -> Vec<Letter> {
        let mut places: Vec<(To, &String)> = Vec::new();
        if job.draft.uris.is_empty() {
            places.extend(self.webhook_url.iter().map(|url| (To::Configured, url)));
            let wanting = self.hooks.all().filter(|hook| hook.wants(event_type));
            places.extend(wanting.map(|hook| (To::Registered(hook.id.clone()), &hook.uri)));
        } else {
            // Instead of the registered ones, not beside them.
            places.extend(job.draft.uris.iter().map(|url| (To::Own, url)));
        }
        let id = plan::event_id(&job.name, form, ids);
        let body = event(job, event_type, &id, at);
        let body = Bytes::from(body.to_string());
        places
            .into_iter()
            .map(|(to, url)| Letter {
                webhook_id: names::webhook_id(ids),
                event_type: event_type.to_owned(),
                name: job.name.clone(),
                to,
                url: url.clone(),
                body: body.clone(),
            })
            .collect()
    }
}

/// The body of an event, with the fields the catalogue lists for its type.
fn event(job: &Job, event_type: &str, id: &str, at: Timestamp) -> Value {
    let mut data = Map::new();
    data.insert("id".to_owned(), json!(id));
    let output = job.output.as_ref();
    match event_type {
        "batch.succeeded" => {
            let file = output.and_then(|output| output.get("responsesFile"));
            if let Some(file) = file {
                data.insert("output_file_uri".to_owned(), file.clone());
            }
        }
        "video.generated" => {
            let uri = output
                .and_then(|o| o.pointer("/generateVideoResponse/generatedSamples/0/video/uri"))
                .and_then(Value::as_str);
            if let Some(uri) = uri {
                data.insert("output_file_uri".to_owned(), json!(uri));
                let file = uri.rsplit_once("/files/").map_or(uri, |(_, file)| file);
                let file = file.split(':').next().unwrap_or_default();
                data.insert("file_name".to_owned(), json!(format!("files/{file}")));
            }
        }
        "batch.failed" | "interaction.failed" => {
            let batch = event_type == "batch.failed";
            let code = if batch { json!(13) } else { json!("api_error") };
            data.insert("error_code".to_owned(), code);
            let text = "The job failed: the simulator was told so.";
            data.insert("error_message".to_owned(), json!(text));
        }
        _ => {}
    }
    let mut body = Map::new();
    body.insert("type".to_owned(), json!(event_type));
    body.insert("version".to_owned(), json!("v1"));
    body.insert("timestamp".to_owned(), json!(at));
    body.insert("data".to_owned(), Value::Object(data));
    if let Some(metadata) = &job.draft.user_metadata {
        body.insert("user_metadata".to_owned(), metadata.clone());
    }
    Value::Object(body)
}
