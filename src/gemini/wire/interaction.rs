//! `interactions/{id}`: one object with a `status` word in lower case.
//!
//! `queued` and `in_progress` run, `requires_action` waits for a client, the rest are endings. A
//! status nobody has documented yet means "not finished": it stays visible as the state word. A body
//! without any status is no interaction.

use super::node::Object;
use super::summary::{Said, SaidError};
use super::{Reading, undecodable};
use crate::domain::fault::Fault;
use crate::domain::observation::{Observed, Output};
use crate::domain::operation::OperationState;

pub(super) fn read(body: &Object<'_>) -> Result<Reading, Fault> {
    let status = body
        .text("status")
        .ok_or_else(|| undecodable("an interaction without a status"))?;
    let observed = match status.to_ascii_lowercase().as_str() {
        "completed" => Observed::Ended(OperationState::Succeeded),
        "failed" => Observed::Ended(OperationState::Failed),
        "cancelled" | "canceled" => Observed::Ended(OperationState::Cancelled),
        "incomplete" => Observed::Ended(OperationState::Incomplete),
        "budget_exceeded" => Observed::Ended(OperationState::BudgetExceeded),
        "requires_action" => Observed::RequiresAction,
        _ => Observed::Running,
    };
    let first_error = body
        .items("errors")
        .and_then(|errors| errors.into_iter().find_map(super::node::Node::object))
        .or_else(|| body.object("error"));
    let ended = matches!(observed, Observed::Ended(_));
    let steps = super::inline::steps(body).filter(|steps| ended && !steps.is_empty());
    Ok(Reading {
        observed,
        state_word: Some(status),
        said: Said {
            model: body.text("model").or_else(|| body.text("agent")),
            display_name: None,
            error: first_error.as_ref().map(SaidError::read),
            filtered: None,
            created_at: body.time("created"),
        },
        output: steps.map(|steps| Output::Inline {
            responses: u64::try_from(steps.len()).unwrap_or(u64::MAX),
        }),
        counts: None,
        ended_at: body.time("updated"),
    })
}
