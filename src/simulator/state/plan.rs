//! How the ending of one job is told: honestly, wrongly, or not at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::names;
use crate::base::ids::Ids;

/// How long `delay` and `reorder` hold back when nobody says.
pub(crate) const HELD_BACK: Duration = Duration::from_secs(5);

/// How one ending is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Sent, and tried again until a 2xx.
    #[default]
    Once,
    /// Never sent.
    Drop,
    /// Sent twice with the same id, the copy after the original.
    #[serde(alias = "duplicate")]
    Twice,
    /// Sent `delay_ms` late.
    Delay,
    /// Held until another job's event was delivered, for `delay_ms` at most.
    Reorder,
    /// Changed after it was signed.
    Tamper,
    /// Signed with a timestamp an hour old.
    Stale,
    /// At the start of the job a validly signed lie says that it succeeded; its real end is told once.
    Forge,
}

/// In which form the event names its operation. Nobody documented the one Google uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum IdForm {
    /// The whole resource name (for an interaction its id).
    #[default]
    Full,
    /// The last segment alone.
    Bare,
    /// `batch_` and the last segment, as in the documentation's example.
    Prefixed,
    /// A well-formed id of no job.
    Wrong,
}

/// How the ending of one job is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct WebhookPlan {
    /// What happens to the event.
    #[serde(default)]
    pub deliver: Mode,
    /// For `delay` and `reorder`, in milliseconds; 5,000 when absent.
    #[serde(default, alias = "delayMs")]
    pub delay_ms: Option<u64>,
    /// How the event names the operation.
    #[serde(default, alias = "idForm")]
    pub id_form: IdForm,
}

impl WebhookPlan {
    /// This mode, with the other settings at their defaults.
    pub fn of(deliver: Mode) -> Self {
        Self {
            deliver,
            ..Self::default()
        }
    }

    /// How long `delay` and `reorder` hold the event back.
    pub(crate) fn hold(self) -> Duration {
        self.delay_ms.map_or(HELD_BACK, Duration::from_millis)
    }
}

/// How an event names `name` in this form.
pub(crate) fn event_id(name: &str, form: IdForm, ids: &dyn Ids) -> String {
    let last = names::last_segment(name);
    match form {
        IdForm::Full => name
            .strip_prefix("interactions/")
            .unwrap_or(name)
            .to_owned(),
        IdForm::Bare => last.to_owned(),
        IdForm::Prefixed => format!("batch_{last}"),
        IdForm::Wrong if name.starts_with("batches/") => names::batch(ids),
        IdForm::Wrong => names::segment(ids, last.len()),
    }
}
