//! Judging what was found.

use serde::Serialize;

use super::{Answer, Figures, Health, LATE_AFTER, Probe};
use crate::base::shutdown::LoopHealth;
use crate::work::Fetching;

/// The one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All is well.
    Ok,
    /// It works, but not as it should; it goes on by itself.
    Degraded,
    /// A restart or a person must mend it.
    Failing,
}

/// One loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopReport {
    /// Its name.
    pub name: &'static str,
    /// Milliseconds since its last turn.
    pub age_ms: u64,
    /// Milliseconds after which it counts as silent.
    pub bound_ms: u64,
    /// How often it died and was started again.
    pub restarts: u64,
}

/// Everything that is known about the service's health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The judgement.
    pub status: Status,
    /// What is not as it should be, a sentence each.
    pub reasons: Vec<String>,
    /// Whether a write was committed.
    pub writer: Answer,
    /// Whether a read came back.
    pub reader: Answer,
    /// The loops.
    pub loops: Vec<LoopReport>,
    /// How long the oldest due work item has been waiting; null when none is due, or it is unknown.
    pub oldest_due_age_ms: Option<u64>,
    /// Work items given up, waiting for a person.
    pub dead_letters: Option<u64>,
    /// Operations pending for longer than they should be.
    pub overdue: Option<u64>,
    /// Open alerts.
    pub alerts_open: Option<u64>,
    /// Free bytes for the database.
    pub disk_free_bytes: Option<u64>,
    /// Free bytes below which the disk counts as full.
    pub disk_min_bytes: u64,
    /// Bytes of deliveries that wait for their commit.
    pub waiting_bytes: u64,
    /// Whether all fetching is paused.
    pub fetching_paused: bool,
}

/// Collects reasons and keeps the worst status.
struct Verdict(Status, Vec<String>);

impl Verdict {
    fn add(&mut self, status: Status, reason: impl Into<String>) {
        self.0 = self.0.max(status);
        self.1.push(reason.into());
    }
}

pub(super) fn report(health: &Health, probe: Probe, figures: Option<Figures>) -> Report {
    let mut verdict = Verdict(Status::Ok, Vec::new());
    if probe.writer != Answer::Ok {
        verdict.add(Status::Failing, "the store does not commit");
    }
    if probe.reader != Answer::Ok {
        verdict.add(Status::Failing, "the store does not answer reads");
    }
    if health.is_disk_low(&probe) {
        verdict.add(
            Status::Failing,
            "the disk has less free space than store.min_free_disk",
        );
    }
    let loops = loops(health, &mut verdict);
    match health.fetching() {
        Fetching::Works => {}
        Fetching::KeyRefused => verdict.add(
            Status::Degraded,
            "fetching is paused: the API refuses the key (gemini.api_key)",
        ),
        Fetching::Unreachable => verdict.add(
            Status::Degraded,
            "the API has not answered as itself for a while; looks are put off, nothing is lost",
        ),
    }
    let gauges = figures.map(|f| f.gauges);
    let due = gauges.and_then(|g| g.oldest_due);
    let age = due.map(|due| health.now().since(due));
    if age.is_some_and(|age| age > LATE_AFTER) {
        verdict.add(
            Status::Degraded,
            "due work has been waiting for over ten minutes",
        );
    }
    if gauges.is_none() && probe.reader == Answer::Ok {
        verdict.add(Status::Degraded, "the store's figures could not be read");
    }
    let Verdict(status, reasons) = verdict;
    Report {
        status,
        reasons,
        writer: probe.writer,
        reader: probe.reader,
        loops,
        oldest_due_age_ms: age.map(millis).filter(|ms| *ms > 0),
        dead_letters: gauges.map(|g| g.dead),
        overdue: gauges.map(|g| g.overdue),
        alerts_open: gauges.map(|g| g.alerts_open),
        disk_free_bytes: probe.disk_free,
        disk_min_bytes: health.watched.min_free_disk,
        waiting_bytes: health.waiting_bytes(),
        fetching_paused: health.is_fetching_paused(),
    }
}

/// The loops of every group. One that was asked to stop is silent by right.
fn loops(health: &Health, verdict: &mut Verdict) -> Vec<LoopReport> {
    let mut all = Vec::new();
    for group in &health.watched.groups {
        let stopping = group.is_stopping();
        for LoopHealth {
            name,
            age,
            restarts,
        } in group.loops()
        {
            let bound = health.bound(name);
            if age > bound && !stopping {
                verdict.add(
                    Status::Failing,
                    format!("the loop {name} has been silent for too long"),
                );
            }
            all.push(LoopReport {
                name,
                age_ms: millis(age),
                bound_ms: millis(bound),
                restarts,
            });
        }
    }
    all
}

fn millis(d: std::time::Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
