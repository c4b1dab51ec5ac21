//! What the demo says about an operation, as data: printed once when it is seen from outside, and
//! read back from the file at the end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::effect::EffectState;
use crate::domain::ledger::{EffectRecord, EventRecord, Operation, Told, WorkRecord};
use crate::domain::operation::OperationState;
use crate::domain::work::{Outcome, Reason};

/// Something true of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Its name.
    pub(super) operation: String,
    #[serde(flatten)]
    pub(super) what: What,
}

/// What is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "claim", rename_all = "snake_case")]
pub(super) enum What {
    /// It settled in this state, led there by that.
    Settled { state: OperationState, by: Reason },
    /// Its one effect is done, under this key.
    Delivered { key: String },
    /// This delivery was accepted once, and so many copies were folded into it.
    Heard { webhook_id: String, copies: u64 },
    /// No delivery ever named it, and that was noticed.
    Unheard,
    /// This delivery claimed an ending, was looked into while the job still ran, and changed nothing.
    Refuted { webhook_id: String },
}

/// What the file holds about one operation.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) operation: Operation,
    pub(super) effects: Vec<EffectRecord>,
    pub(super) events: Vec<EventRecord>,
    pub(super) work: Vec<WorkRecord>,
}

impl Claim {
    /// Whether the file says so too; if not, what it says instead.
    pub(super) fn check(&self, found: &Found) -> Result<(), String> {
        match &self.what {
            What::Settled { state, by } => settled(&found.operation, *state, *by),
            What::Delivered { key } => delivered(found, key),
            What::Heard { webhook_id, copies } => heard(found, webhook_id, *copies),
            What::Unheard => unheard(found),
            What::Refuted { webhook_id } => refuted(found, webhook_id),
        }
    }
}

fn settled(operation: &Operation, state: OperationState, by: Reason) -> Result<(), String> {
    let led = operation.settled_by.map_or("nothing", Reason::as_str);
    if operation.state == state && operation.settled_by == Some(by) {
        Ok(())
    } else {
        Err(format!(
            "it is {}, settled by {led}",
            operation.state.as_str()
        ))
    }
}

fn delivered(found: &Found, key: &str) -> Result<(), String> {
    let [effect] = found.effects.as_slice() else {
        return Err(format!("it has {} effects", found.effects.len()));
    };
    if effect.idempotency_key != key {
        return Err(format!("the key is {}", effect.idempotency_key));
    }
    if effect.state != EffectState::Done || effect.finished_at.is_none() {
        return Err(format!("the effect is {}", effect.state));
    }
    if !found.operation.side_effect_done || found.operation.effects_expected != Some(1) {
        return Err("the operation itself does not count its effect as done".to_owned());
    }
    Ok(())
}

fn event<'a>(found: &'a Found, webhook_id: &str) -> Result<&'a EventRecord, String> {
    let mut matching = found
        .events
        .iter()
        .filter(|event| event.webhook_id.as_deref() == Some(webhook_id));
    match (matching.next(), matching.next()) {
        (Some(event), None) => Ok(event),
        (None, _) => Err("no such delivery was kept".to_owned()),
        (Some(_), Some(_)) => Err("the delivery was kept more than once".to_owned()),
    }
}

fn heard(found: &Found, webhook_id: &str, copies: u64) -> Result<(), String> {
    let event = event(found, webhook_id)?;
    let verdict = event.verdict.as_str();
    if verdict == "accepted" && event.duplicates == copies {
        Ok(())
    } else {
        Err(format!(
            "it was {verdict}, with {} copies",
            event.duplicates
        ))
    }
}

fn unheard(found: &Found) -> Result<(), String> {
    if !found.events.is_empty() {
        return Err(format!("{} deliveries name it", found.events.len()));
    }
    match found.operation.told {
        Told::Rescued => Ok(()),
        told => Err(format!("it counts as {}", told.as_str())),
    }
}

/// The look that the delivery caused must have ended without an ending, before the real one.
fn refuted(found: &Found, webhook_id: &str) -> Result<(), String> {
    let event = event(found, webhook_id)?;
    let settled_at = found.operation.settled_at;
    let refuted = found.work.iter().any(|item| {
        item.reason == Reason::Webhook
            && item.created_at >= event.received_at
            && item.outcome.as_deref() == Some(Outcome::NotTerminal.as_str())
            && settled_at.is_none_or(|settled| item.finished_at.is_some_and(|at| at <= settled))
    });
    if refuted {
        Ok(())
    } else {
        Err("no look at the API answered it".to_owned())
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.operation)?;
        match &self.what {
            What::Settled { state, by } => {
                write!(f, "settled as {}, by {}", state.as_str(), by.as_str())
            }
            What::Delivered { key } => {
                write!(f, "had its effect once, with the key {}…", short(key))
            }
            What::Heard { copies: 0, .. } => f.write_str("was told by one accepted webhook"),
            What::Heard { copies, .. } => write!(
                f,
                "was told by one accepted webhook and {copies} folded duplicate"
            ),
            What::Unheard => f.write_str("was named by no webhook and counts as rescued"),
            What::Refuted { .. } => {
                f.write_str("was said to have ended, refuted by the API, and stayed pending")
            }
        }
    }
}

/// Enough of a key to find it again.
fn short(key: &str) -> &str {
    key.get(..12).unwrap_or(key)
}
