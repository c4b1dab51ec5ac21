//! The words of the model: what a job is, how it can end, how its ending is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::WebhookPlan;
use crate::base::clock::Timestamp;

/// How long a job is PENDING at most before it is RUNNING.
const PENDING_AT_MOST: Duration = Duration::from_millis(500);

/// The kinds of long-running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A batch, `batches/{id}`.
    Batch,
    /// A video, `models/{model}/operations/{id}`.
    Video,
    /// A background interaction, `interactions/{id}`.
    Interaction,
}

/// How a job ends. Not every kind can end in every way: see [`Outcome::fits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a result.
    #[default]
    #[serde(alias = "completed", alias = "generated", alias = "done")]
    Succeeded,
    /// With an error.
    #[serde(alias = "error")]
    Failed,
    /// Cancelled at Google's side.
    Cancelled,
    /// Not processed in time (batches).
    Expired,
    /// Every sample was withheld by the safety filter (videos).
    Filtered,
    /// Done, but with neither response nor error (batches and videos).
    Neither,
    /// Parked until the client acts; it may still end another way (interactions).
    RequiresAction,
    /// Stopped half way (interactions).
    Incomplete,
    /// Stopped by its budget (interactions).
    BudgetExceeded,
}

impl Outcome {
    /// Whether a job of this kind can end like this.
    pub fn fits(self, kind: Kind) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Cancelled => kind != Kind::Video,
            Self::Expired => kind == Kind::Batch,
            Self::Filtered => kind == Kind::Video,
            Self::Neither => kind != Kind::Interaction,
            Self::RequiresAction | Self::Incomplete | Self::BudgetExceeded => {
                kind == Kind::Interaction
            }
        }
    }

    /// The event that tells this ending; most endings that are not a success have none.
    pub fn event(self, kind: Kind) -> Option<&'static str> {
        match (kind, self) {
            (Kind::Batch, Self::Succeeded) => Some("batch.succeeded"),
            (Kind::Batch, Self::Failed) => Some("batch.failed"),
            (Kind::Batch, Self::Expired) => Some("batch.expired"),
            (Kind::Video, Self::Succeeded) => Some("video.generated"),
            (Kind::Interaction, Self::Succeeded) => Some("interaction.completed"),
            (Kind::Interaction, Self::Failed) => Some("interaction.failed"),
            (Kind::Interaction, Self::RequiresAction) => Some("interaction.requires_action"),
            _ => None,
        }
    }
}

/// Where a batch's requests come from, and so where its answers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum BatchInput {
    /// In the create call; answers inside the operation.
    #[default]
    Inline,
    /// In an uploaded file; answers in a generated file.
    File,
}

/// A job to start by hand, as `POST /_sim/operations` takes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What kind of job.
    pub kind: Kind,
    /// How it will end.
    #[serde(default)]
    pub outcome: Outcome,
    /// When it will end, in milliseconds from now. Absent: the simulator's own default.
    #[serde(default, alias = "completeAfterMs")]
    pub complete_after_ms: Option<u64>,
    /// Never ends by itself, only when told.
    #[serde(default)]
    pub manual: bool,
    /// How its ending is told.
    #[serde(default)]
    pub webhook: WebhookPlan,
    /// Where its events go instead of the configured URL.
    #[serde(default, alias = "webhookUris")]
    pub webhook_uris: Vec<String>,
    /// Returned on each of its events.
    #[serde(default, alias = "userMetadata")]
    pub user_metadata: Option<Value>,
    /// The model's name, without `models/`.
    #[serde(default)]
    pub model: Option<String>,
    /// Display name of a batch.
    #[serde(default, alias = "displayName")]
    pub display_name: Option<String>,
    /// Where a batch's requests come from.
    #[serde(default)]
    pub input: BatchInput,
    /// How many requests a batch has; their keys are `request-1` and on.
    #[serde(default = "two")]
    pub requests: u32,
    /// How many of them fail although the batch succeeds.
    #[serde(default, alias = "failedRequests")]
    pub failed_requests: u32,
    /// A batch says SUCCEEDED this many milliseconds before its output is there.
    #[serde(default, alias = "outputAfterMs")]
    pub output_after_ms: u64,
    /// The first so many GETs of it answer 404.
    #[serde(default, alias = "visibleAfterLooks")]
    pub visible_after_looks: u32,
    /// GETs of it answer 404 for so many milliseconds.
    #[serde(default, alias = "visibleAfterMs")]
    pub visible_after_ms: u64,
}

fn two() -> u32 {
    2
}

impl NewJob {
    /// A job of this kind that succeeds after the simulator's default time and is told once.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            outcome: Outcome::Succeeded,
            complete_after_ms: None,
            manual: false,
            webhook: WebhookPlan::default(),
            webhook_uris: Vec::new(),
            user_metadata: None,
            model: None,
            display_name: None,
            input: BatchInput::Inline,
            requests: two(),
            failed_requests: 0,
            output_after_ms: 0,
            visible_after_looks: 0,
            visible_after_ms: 0,
        }
    }
}

/// Why the model refused to do what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such job.
    #[error("no such operation")]
    Unknown,
    /// No such registered webhook.
    #[error("no such webhook")]
    UnknownWebhook,
    /// It ended before.
    #[error("the operation has already ended")]
    AlreadyEnded,
    /// This kind of job cannot end like that.
    #[error("a job of this kind cannot end like that")]
    DoesNotFit,
    /// There is nowhere to send it.
    #[error("no webhook URL is configured")]
    NoDestination,
}

/// One request of a batch.
#[derive(Debug, Clone)]
pub(crate) struct BatchRequest {
    pub(crate) key: Option<String>,
    pub(crate) prompt: String,
}

/// What the job works on.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Batch {
        /// The input file's name, when the requests came in a file.
        file: Option<String>,
        requests: Vec<BatchRequest>,
        embed: bool,
        failed: u32,
    },
    Video {
        prompt: String,
    },
    Interaction {
        input: String,
    },
}

impl Work {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Batch { .. } => Kind::Batch,
            Self::Video { .. } => Kind::Video,
            Self::Interaction { .. } => Kind::Interaction,
        }
    }
}

/// What a create call or the control API asks for, before it has a name.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) work: Work,
    pub(crate) model: String,
    pub(crate) display_name: Option<String>,
    pub(crate) uris: Vec<String>,
    pub(crate) user_metadata: Option<Value>,
    pub(crate) outcome: Outcome,
    /// From its start to its end; `None` waits to be told.
    pub(crate) complete_after: Option<Duration>,
    pub(crate) output_after: Duration,
    pub(crate) webhook: WebhookPlan,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Ended(Outcome),
}

/// A job of the model.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// Rises with each job made: the list is newest first.
    pub(crate) ordinal: u64,
    pub(crate) created: Timestamp,
    /// How and when it ended, once it has.
    pub(crate) ended: Option<(Outcome, Timestamp)>,
    /// Deleted jobs run on but are no longer shown.
    pub(crate) deleted: bool,
    /// What it produced.
    pub(crate) output: Option<Value>,
    pub(crate) draft: Draft,
}

impl Job {
    pub(crate) fn kind(&self) -> Kind {
        self.draft.work.kind()
    }

    /// When PENDING becomes RUNNING.
    fn runs_at(&self) -> Timestamp {
        let share = self.draft.complete_after.map_or(PENDING_AT_MOST, |d| d / 4);
        self.created.after(share.min(PENDING_AT_MOST))
    }

    pub(crate) fn phase(&self, now: Timestamp) -> Phase {
        match self.ended {
            Some((outcome, _)) => Phase::Ended(outcome),
            None if now >= self.runs_at() => Phase::Running,
            None => Phase::Pending,
        }
    }

    /// The last change of its state.
    pub(crate) fn updated(&self, now: Timestamp) -> Timestamp {
        match (self.ended, self.phase(now)) {
            (Some((_, at)), _) => at,
            (None, Phase::Running) => self.runs_at(),
            (None, _) => self.created,
        }
    }

    /// Whether nothing can happen to it any more. Waiting for the client is not the end.
    pub(crate) fn is_over(&self) -> bool {
        self.ended
            .is_some_and(|(outcome, _)| outcome != Outcome::RequiresAction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_without_an_event_are_the_ones_the_catalogue_lacks() {
        for (kind, outcome) in [
            (Kind::Video, Outcome::Failed),
            (Kind::Video, Outcome::Filtered),
            (Kind::Batch, Outcome::Cancelled),
            (Kind::Interaction, Outcome::BudgetExceeded),
            (Kind::Interaction, Outcome::Incomplete),
        ] {
            assert!(outcome.fits(kind), "{kind:?} {outcome:?}");
            assert_eq!(outcome.event(kind), None, "{kind:?} {outcome:?}");
        }
        assert_eq!(
            Outcome::Succeeded.event(Kind::Video),
            Some("video.generated")
        );
        assert!(!Outcome::Filtered.fits(Kind::Batch));
    }

    #[test]
    fn the_control_json_takes_both_spellings_and_refuses_a_typing_error() {
        let job: NewJob =
            serde_json::from_str(r#"{"kind":"video","completeAfterMs":5,"outcome":"error"}"#)
                .unwrap();
        assert_eq!(job.complete_after_ms, Some(5));
        assert_eq!(job.outcome, Outcome::Failed);
        assert!(
            serde_json::from_str::<NewJob>(r#"{"kind":"video","complete_afterms":5}"#).is_err()
        );
    }
}
