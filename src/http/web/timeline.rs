//! What one operation went through, in order: submitted, delivered about, looked at, settled, told.
//!
//! The ledger's own history, the deliveries that name it, the looks taken at the API and the effects
//! each lie in a table of their own. Here they become one list of moments, each with its cause.

use uuid::Uuid;

use super::parts::{Tone, count, span, tone_of_effect, tone_of_operation};
use crate::base::clock::Timestamp;
use crate::domain::effect::EffectState;
use crate::domain::event::Verdict;
use crate::domain::ledger::{EffectRecord, EventRecord, LogEntry, Operation, WorkRecord};
use crate::domain::operation::OperationState;
use crate::domain::work::{Outcome, WorkState};

/// Everything that is known about one operation.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) operation: Operation,
    pub(super) log: Vec<LogEntry>,
    pub(super) events: Vec<EventRecord>,
    pub(super) looks: Vec<WorkRecord>,
    pub(super) effects: Vec<EffectRecord>,
}

/// Who acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Webhook,
    Look,
    Ledger,
    Effect,
}

impl Lane {
    pub(super) const ALL: [Self; 4] = [Self::Webhook, Self::Look, Self::Ledger, Self::Effect];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "Webhook",
            Self::Look => "Fetch",
            Self::Ledger => "Ledger",
            Self::Effect => "Effect",
        }
    }
}

/// One thing that happened, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    pub(super) lane: Lane,
    pub(super) tone: Tone,
    pub(super) what: String,
    pub(super) cause: String,
    /// The page that says more.
    pub(super) way: Option<String>,
    /// It has not happened yet.
    pub(super) ahead: bool,
}

impl Moment {
    fn new(at: Timestamp, lane: Lane, tone: Tone, what: String, cause: String) -> Self {
        let (way, ahead) = (None, false);
        Self {
            at,
            lane,
            tone,
            what,
            cause,
            way,
            ahead,
        }
    }

    fn shown_at(mut self, path: &str, id: Uuid) -> Self {
        self.way = Some(format!("/{path}/{id}"));
        self
    }
}

impl Story {
    /// Everything, oldest first.
    pub(super) fn moments(&self, now: Timestamp) -> Vec<Moment> {
        let mut all: Vec<Moment> = Vec::new();
        all.extend(self.submitted());
        all.extend(self.log.iter().map(|entry| self.logged(entry)));
        all.extend(self.events.iter().map(delivered));
        all.extend(self.looks.iter().filter_map(|look| looked(look, now)));
        all.extend(self.effects.iter().flat_map(|effect| told(effect, now)));
        all.extend(self.next_look(now));
        // At one instant: what came, what was asked, what was written, what was planned.
        all.sort_by_key(|m| (m.at, m.lane));
        all
    }

    /// Submitted before it was registered, as its submitter says.
    fn submitted(&self) -> Option<Moment> {
        let o = &self.operation;
        let first = self.log.first().map(|entry| entry.at);
        let what = "Submitted".to_owned();
        let cause = format!("job kind {}", o.job_kind);
        let moment = Moment::new(o.submitted_at, Lane::Ledger, Tone::Plain, what, cause);
        first
            .is_none_or(|first| o.submitted_at < first)
            .then_some(moment)
    }

    fn logged(&self, entry: &LogEntry) -> Moment {
        let state = OperationState::from_word(&entry.what);
        let tone = state.map_or(Tone::Plain, tone_of_operation);
        let by = match entry.cause.as_str() {
            "reconcile" => "found by the timer, not by a webhook".to_owned(),
            "webhook" => "a webhook told, the API confirmed".to_owned(),
            "register" => "somebody registered it".to_owned(),
            "operator" => "a person asked".to_owned(),
            "replay" => "a delivery was replayed".to_owned(),
            other => format!("by {other}"),
        };
        let (what, cause) = match state {
            Some(OperationState::Pending) => match (entry.cause.as_str(), &entry.detail) {
                (_, Some(detail)) => (format!("Pending: {detail}"), by),
                ("register", _) => (
                    "Registered".to_owned(),
                    format!("job kind {}", self.operation.job_kind),
                ),
                _ => (
                    "Adopted".to_owned(),
                    format!("nobody had registered it; {by}"),
                ),
            },
            Some(state) if state.is_settled() => {
                let word = state.as_str().replace('_', " ");
                (format!("Settled: {word}"), by)
            }
            _ => {
                let detail = entry.detail.as_deref().unwrap_or(&by);
                (sentence(&entry.what), detail.to_owned())
            }
        };
        Moment::new(entry.at, Lane::Ledger, tone, what, cause)
    }

    /// The look that nobody has to ask for.
    fn next_look(&self, now: Timestamp) -> Option<Moment> {
        let at = self.operation.next_check_at.filter(|at| *at > now)?;
        let what = "Next fetch".to_owned();
        let cause = "due by itself, webhook or not".to_owned();
        let mut moment = Moment::new(at, Lane::Look, Tone::Plain, what, cause);
        moment.ahead = true;
        Some(moment)
    }
}

fn sentence(word: &str) -> String {
    let word = word.replace('_', " ");
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn delivered(event: &EventRecord) -> Moment {
    let kind = event.event_type.as_deref().unwrap_or("without a type");
    let replay = event.proof == "replay";
    let name = if replay { "Replay" } else { "Webhook" };
    let tone = match event.verdict {
        Verdict::Accepted => Tone::Going,
        Verdict::Ignored | Verdict::Duplicate => Tone::Plain,
    };
    let mut cause = event.verdict.as_str().to_owned();
    if let Some(why) = &event.why {
        cause = format!("{cause}: {why}");
    } else if !replay {
        cause = format!("{cause}, proven by {}", event.proof.replace('_', " "));
    }
    if event.duplicates > 0 {
        let copies = count(event.duplicates, "copy", "copies");
        cause = format!("{cause}; {copies} folded into it");
    }
    Moment::new(
        event.received_at,
        Lane::Webhook,
        tone,
        format!("{name} {kind}"),
        cause,
    )
    .shown_at("events", event.id)
}

fn looked(look: &WorkRecord, now: Timestamp) -> Option<Moment> {
    let asked = match look.reason.as_str() {
        "webhook" => "a webhook named it",
        "reconcile" => "its time had come",
        "register" => "it was registered",
        "replay" => "a delivery was replayed",
        _ => "a person asked",
    };
    let (at, tone, what) = match look.state {
        WorkState::Done => {
            let outcome = look.outcome.as_deref().unwrap_or_default();
            let what = if outcome == Outcome::Settled.as_str() {
                "Fetched: it has ended".to_owned()
            } else if outcome == Outcome::NotTerminal.as_str() {
                "Fetched: still running".to_owned()
            } else if outcome == Outcome::AlreadySettled.as_str() {
                "Nothing to fetch: settled before".to_owned()
            } else {
                format!("Looked: {}", outcome.replace('_', " "))
            };
            (look.finished_at?, Tone::Going, what)
        }
        WorkState::Dead => (look.finished_at?, Tone::Bad, "Given up".to_owned()),
        WorkState::Leased => (now, Tone::Going, "Being fetched now".to_owned()),
        WorkState::Ready => {
            let what = if look.attempts > 0 || look.last_error.is_some() {
                "Fetched again"
            } else {
                "Fetch is due"
            };
            (look.available_at, Tone::Plain, what.to_owned())
        }
    };
    let mut cause = asked.to_owned();
    if let (Some(error), true) = (&look.last_error, look.state != WorkState::Done) {
        cause = format!(
            "{error}; {}",
            count(look.attempts.into(), "attempt", "attempts")
        );
    }
    let mut moment = Moment::new(at, Lane::Look, tone, what, cause);
    moment.ahead = look.state == WorkState::Ready && at > now;
    Some(moment)
}

/// That an effect was planned, and how it ended or goes on.
fn told(effect: &EffectRecord, now: Timestamp) -> impl Iterator<Item = Moment> + use<> {
    let name = &effect.effect;
    let planned = Moment::new(
        effect.planned_at,
        Lane::Effect,
        Tone::Plain,
        format!("Effect {name} planned"),
        format!("on {}", effect.cause.replace('_', " ")),
    );
    let attempts = count(effect.attempts.into(), "attempt", "attempts");
    let why = effect.last_error.as_deref().unwrap_or_default();
    let (at, what) = match effect.state {
        EffectState::Done => (effect.finished_at, format!("Effect {name} arrived")),
        EffectState::Dead => (effect.finished_at, format!("Effect {name} is dead")),
        EffectState::Held => (
            effect.finished_at,
            format!("Effect {name} waits for a person"),
        ),
        EffectState::Sending => (Some(now), format!("Effect {name} is being sent")),
        EffectState::Planned | EffectState::Ambiguous => (
            Some(effect.next_attempt_at),
            format!("Effect {name}: next attempt"),
        ),
    };
    let at = at.unwrap_or(effect.next_attempt_at);
    let cause = match effect.state {
        EffectState::Done => format!(
            "after {attempts}, {} after it was planned",
            span(at.since(effect.planned_at))
        ),
        _ if why.is_empty() => attempts,
        _ => format!("{why}; {attempts}"),
    };
    let tone = tone_of_effect(effect.state);
    let mut end = Moment::new(at, Lane::Effect, tone, what, cause);
    end.ahead = at > now;
    [planned, end]
        .map(|moment| moment.shown_at("effects", effect.id))
        .into_iter()
}
