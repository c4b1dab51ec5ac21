//! Bulk recovery: replaying many deliveries, putting many dead items or stuck effects back.
//!
//! Each page is bounded, by the service or on the file; this goes from page to page and adds up.
//! One that is cut off is simply run again: what was put back does not fit any more, and a replay
//! repeats no effect.

use serde_json::{Value, json};
use uuid::Uuid;

use super::access::Access;
use super::args::Query;
use super::failure::Failure;
use super::output::Output;
use super::progress::Progress;
use crate::domain::effect::EffectState;
use crate::store::{EffectFilter, EventFilter, WorkFilter};

/// What is to be done, as the use cases want it.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Replay(EventFilter),
    Item(i64),
    Items(WorkFilter),
    Effects(EffectFilter, EffectState),
}

/// What is to be done, for either side.
#[derive(Debug, Clone)]
pub(super) struct Bulk {
    pub(super) job: Job,
    /// The same as the body of a request.
    pub(super) query: Query,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) matched: u64,
    pub(super) done: u64,
}

impl Bulk {
    pub(super) const fn path(&self) -> &'static str {
        match self.job {
            Job::Replay(_) => "/api/v1/events/replay",
            Job::Item(_) | Job::Items(_) => "/api/v1/queue/retry",
            Job::Effects(..) => "/api/v1/effects/retry",
        }
    }

    pub(super) fn body(&self, dry_run: bool, cursor: Option<&str>) -> Value {
        let mut body = json!({"dry_run": dry_run});
        if let Some(fields) = body.as_object_mut() {
            for (name, value) in self.query.pairs() {
                fields.insert(name.to_owned(), Value::from(value));
            }
            if let Job::Item(id) = self.job {
                fields.insert("id".to_owned(), Value::from(id));
            }
            if let Some(cursor) = cursor {
                fields.insert("cursor".to_owned(), Value::from(cursor));
            }
        }
        body
    }

    /// What happens to each, as `(done, would be done)`.
    const fn words(&self) -> (&'static str, &'static str) {
        match self.job {
            Job::Replay(_) => ("replayed", "would be replayed"),
            Job::Item(_) | Job::Items(_) => ("put back", "would be put back"),
            Job::Effects(..) => ("due again", "would be due again"),
        }
    }
}

/// Carries it out, or counts.
pub(super) async fn run(
    access: &Access,
    bulk: Bulk,
    dry_run: bool,
    output: &Output,
) -> Result<(), Failure> {
    let (done, would) = bulk.words();
    let bar = Progress::new(done, Some(0));
    if !dry_run && bar.is_seen() {
        bar.whole(access.bulk(&bulk, true, &|_| {}).await?.matched);
    }
    let sum = access.bulk(&bulk, dry_run, &|steps| bar.add(steps)).await?;
    drop(bar);
    if let (Job::Item(id), 0) = (&bulk.job, sum.matched) {
        return Err(Failure::not_found(format!("there is no dead item {id}")));
    }
    let left = if dry_run { 0 } else { sum.matched - sum.done };
    let document = json!({
        "dry_run": dry_run,
        "matched": sum.matched,
        "done": sum.done,
        "skipped": left,
    });
    output.answer(&document, |_| match (dry_run, left) {
        (true, _) => format!("{} {would}\n", sum.matched),
        (false, 0) => format!("{} {done}\n", sum.done),
        (false, _) => format!("{} {done}, {left} left alone\n", sum.done),
    })
}

impl Sum {
    /// Adds what a page of the service says.
    pub(super) fn add(&mut self, page: &Value) {
        let count = |field: &str| page.get(field).and_then(Value::as_u64).unwrap_or(0);
        self.matched += count("matched");
        self.done += count("done");
    }
}

/// A cursor of our own lists, read back.
pub(super) fn id(cursor: Option<&str>) -> Option<Uuid> {
    cursor.and_then(|text| Uuid::try_parse(text).ok())
}
