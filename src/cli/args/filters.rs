//! What lists may be narrowed to: the same for a service and for a file.
//!
//! Each set of flags becomes the query of a request, or the store's filter. A time may be said as an
//! age, and is reckoned once, so that all pages of one list have the same bounds.

use std::str::FromStr;

use clap::Args;
use clap::builder::TypedValueParser;

use crate::base::clock::{Clock as _, SystemClock, Timestamp};
use crate::domain::effect::EffectState;
use crate::domain::event::Verdict;
use crate::domain::ledger::Told;
use crate::domain::operation::{JobKind, Kind, NamePrefix, OperationState};
use crate::domain::work::{Reason, WorkState};
use crate::store::{EffectFilter, EventFilter, OperationFilter, WorkFilter};

/// A point in time, reckoned when the command line is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Moment(Timestamp);

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let age = || humantime::parse_duration(text).ok();
        let at = text.parse().ok();
        at.or_else(|| age().map(|age| SystemClock::new().now().before(age)))
            .map(Self)
            .ok_or("a time such as 2026-01-22T12:00:00Z is wanted, or an age such as 2h or 3days")
    }
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub(in crate::cli) struct Span {
    /// Only what came then or later: a time, or an age such as 2h
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) since: Option<Moment>,
    /// Only what came before: a time, or an age such as 30min
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) until: Option<Moment>,
}

impl Span {
    pub(in crate::cli) fn bounds(self) -> (Option<Timestamp>, Option<Timestamp>) {
        (self.since.map(|m| m.0), self.until.map(|m| m.0))
    }

    fn ask(self, query: &mut Query) {
        query.add("since", self.since.map(|m| m.0.to_string()));
        query.add("until", self.until.map(|m| m.0.to_string()));
    }
}

/// Parameters of a request.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Query(Vec<(&'static str, String)>);

impl Query {
    pub(in crate::cli) fn add(&mut self, name: &'static str, value: Option<impl Into<String>>) {
        self.0.extend(value.map(|value| (name, value.into())));
    }

    pub(in crate::cli) fn pairs(&self) -> Vec<(&'static str, &str)> {
        self.0.iter().map(|(n, v)| (*n, v.as_str())).collect()
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct OperationFlags {
    /// Only those whose last segment begins so or, with a slash in it, whose whole name does
    #[arg(long, value_name = "PREFIX")]
    q: Option<NamePrefix>,
    /// Only those whose name says they are this
    #[arg(long, value_parser = words(Kind::ALL.map(Kind::as_str), Kind::from_word))]
    kind: Option<Kind>,
    /// Only those registered for this
    #[arg(long)]
    job_kind: Option<JobKind>,
    /// Only those in this state
    #[arg(long, value_parser = words(OperationState::ALL.map(OperationState::as_str), OperationState::from_word))]
    state: Option<OperationState>,
    /// Only those that settled by this
    #[arg(long, value_parser = words(Reason::ALL.map(Reason::as_str), Reason::from_word))]
    settled_by: Option<Reason>,
    /// Only those that are overdue
    #[arg(long)]
    overdue: bool,
    /// Only those whose ending was told so; `rescued` means by no webhook
    #[arg(long, value_parser = words(Told::ALL.map(Told::as_str), Told::from_word))]
    told: Option<Told>,
    #[command(flatten)]
    span: Span,
}

impl OperationFlags {
    pub(in crate::cli) fn filter(&self) -> OperationFilter {
        let (since, until) = self.span.bounds();
        OperationFilter {
            q: self.q.clone(),
            kind: self.kind,
            job_kind: self.job_kind.clone(),
            state: self.state,
            settled_by: self.settled_by,
            overdue: self.overdue.then_some(true),
            told: self.told,
            since,
            until,
        }
    }

    pub(in crate::cli) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("q", self.q.as_ref().map(NamePrefix::as_str));
        query.add("kind", self.kind.map(Kind::as_str));
        query.add("job_kind", self.job_kind.as_ref().map(JobKind::as_str));
        query.add("state", self.state.map(OperationState::as_str));
        query.add("settled_by", self.settled_by.map(Reason::as_str));
        query.add("overdue", self.overdue.then_some("true"));
        query.add("told", self.told.map(Told::as_str));
        self.span.ask(&mut query);
        query
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct EventFlags {
    /// Only those that name this operation: by name, last segment or ledger id
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) operation: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) words: EventWords,
}

#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct EventWords {
    /// Only those whose operation's last segment begins so or, with a slash, whose whole name does
    #[arg(long, value_name = "PREFIX")]
    q: Option<NamePrefix>,
    /// Only those of this source
    #[arg(long)]
    source: Option<String>,
    /// Only those of this type, as in batch.succeeded
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only those with this verdict
    #[arg(long, value_parser = words(["accepted", "ignored"], Verdict::from_word))]
    verdict: Option<Verdict>,
    #[command(flatten)]
    pub(in crate::cli) span: Span,
}

impl EventFlags {
    pub(in crate::cli) fn query(&self) -> Query {
        let mut query = self.words.query();
        query.add("operation", self.operation.as_deref());
        query
    }
}

impl EventWords {
    /// Everything but the operation, which may have to be looked up.
    pub(in crate::cli) fn filter(&self) -> EventFilter {
        let (since, until) = self.span.bounds();
        EventFilter {
            q: self.q.clone(),
            source: self.source.clone(),
            event_type: self.event_type.clone(),
            verdict: self.verdict,
            since,
            until,
            ..EventFilter::default()
        }
    }

    pub(in crate::cli) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("q", self.q.as_ref().map(NamePrefix::as_str));
        query.add("source", self.source.as_deref());
        query.add("type", self.event_type.as_deref());
        query.add("verdict", self.verdict.map(Verdict::as_str));
        self.span.ask(&mut query);
        query
    }

    /// Whether anything is said.
    pub(in crate::cli) fn any(&self) -> bool {
        !self.query().pairs().is_empty()
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct QueueFlags {
    /// Only those for an operation whose last segment begins so or, with a slash, whose name does
    #[arg(long, value_name = "PREFIX")]
    q: Option<NamePrefix>,
    /// Only those in this state
    #[arg(long, value_parser = words(WorkState::ALL.map(WorkState::as_str), WorkState::from_word))]
    state: Option<WorkState>,
    /// Only those queued for this
    #[arg(long, value_parser = words(Reason::ALL.map(Reason::as_str), Reason::from_word))]
    reason: Option<Reason>,
    #[command(flatten)]
    span: Span,
}

impl QueueFlags {
    pub(in crate::cli) const fn state(&self) -> Option<WorkState> {
        self.state
    }

    pub(in crate::cli) fn filter(&self) -> WorkFilter {
        let (since, until) = self.span.bounds();
        WorkFilter {
            q: self.q.clone(),
            state: self.state,
            reason: self.reason,
            since,
            until,
        }
    }

    pub(in crate::cli) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("q", self.q.as_ref().map(NamePrefix::as_str));
        query.add("state", self.state.map(WorkState::as_str));
        query.add("reason", self.reason.map(Reason::as_str));
        self.span.ask(&mut query);
        query
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct EffectFlags {
    /// Only those of an operation whose last segment begins so or, with a slash, whose name does
    #[arg(long, value_name = "PREFIX")]
    q: Option<NamePrefix>,
    /// Only those in this state
    #[arg(long, value_parser = words(EffectState::ALL.map(EffectState::as_str), EffectState::from_word))]
    state: Option<EffectState>,
    /// Only those of the configured effect of this name
    #[arg(long, value_name = "NAME")]
    effect: Option<String>,
    /// Only those planned for this ending, or `alert`
    #[arg(long = "on", value_name = "ENDING")]
    cause: Option<String>,
    #[command(flatten)]
    span: Span,
}

impl EffectFlags {
    pub(in crate::cli) const fn state(&self) -> Option<EffectState> {
        self.state
    }

    pub(in crate::cli) fn filter(&self) -> EffectFilter {
        let (since, until) = self.span.bounds();
        EffectFilter {
            q: self.q.clone(),
            state: self.state,
            effect: self.effect.clone(),
            cause: self.cause.clone(),
            since,
            until,
        }
    }

    pub(in crate::cli) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("q", self.q.as_ref().map(NamePrefix::as_str));
        query.add("state", self.state.map(EffectState::as_str));
        query.add("effect", self.effect.as_deref());
        query.add("cause", self.cause.as_deref());
        self.span.ask(&mut query);
        query
    }
}

fn words<T: Clone + Send + Sync + 'static, const N: usize>(
    all: [&'static str; N],
    read: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    clap::builder::PossibleValuesParser::new(all)
        .try_map(move |word| read(&word).ok_or("is no such word"))
}
