//! `batches/{id}`: an operation around a batch.
//!
//! States come with either prefix (`BATCH_STATE_`, `JOB_STATE_`), in `metadata` or at the top.
//! The output stands in `response`, in `metadata.output`, or in both, and may lag behind the state.
//!
//! | body | meaning |
//! |---|---|
//! | `CANCELLED`, or ended with error code 1 | cancelled |
//! | `EXPIRED`, `FAILED` | expired, failed |
//! | succeeded, or `done` with a response; output shown | succeeded |
//! | the same, no output shown | output pending |
//! | `done` with an error | failed |
//! | `done` with neither | neither |
//! | anything else, unknown states too | running |

use super::node::{Node, Object};
use super::summary::{Said, SaidError};
use super::{GRPC_CANCELLED, Reading, ended_by, read_error, undecodable};
use crate::domain::fault::Fault;
use crate::domain::observation::{Counts, Observed, Output};
use crate::domain::operation::OperationState;
use crate::gemini::FileName;
use crate::gemini::text::clean;

/// Longest output name kept when it is not `files/{id}`, in characters.
const MAX_ODD_NAME_CHARS: usize = 256;

pub(super) fn read(body: &Object<'_>) -> Result<Reading, Fault> {
    let known = ["name", "metadata", "done", "state", "response"];
    if !known.iter().any(|key| body.get(key).is_some()) {
        return Err(undecodable("the body is no batch"));
    }
    let metadata = body.object("metadata");
    let batch = metadata.as_ref().unwrap_or(body);
    let state_word = batch.text("state").or_else(|| body.text("state"));
    let error = read_error(body);
    let output = places(body).find_map(|place| output_in(&place));
    let observed = meaning(
        body,
        state_word.as_deref(),
        error.as_ref(),
        output.is_some(),
    );
    Ok(Reading {
        observed,
        said: Said {
            model: batch.text("model"),
            display_name: batch.text("displayName"),
            error: error.as_ref().map(SaidError::read),
            filtered: None,
            created_at: batch.time("createTime"),
        },
        state_word,
        output,
        counts: batch.object("batchStats").map(|stats| Counts {
            requests: stats.integer("requestCount").unwrap_or(0),
            succeeded: stats.integer("successfulRequestCount").unwrap_or(0),
            failed: stats.integer("failedRequestCount").unwrap_or(0),
        }),
        ended_at: batch.time("endTime"),
    })
}

fn meaning(
    body: &Object<'_>,
    state_word: Option<&str>,
    error: Option<&Object<'_>>,
    has_output: bool,
) -> Observed {
    let done = body.is_true("done");
    let word = state_word.map(str::to_ascii_uppercase).unwrap_or_default();
    let word = ["BATCH_STATE_", "JOB_STATE_"]
        .iter()
        .find_map(|prefix| word.strip_prefix(prefix))
        .unwrap_or(&word);
    let cancelled = error.is_some_and(|e| e.integer("code") == Some(GRPC_CANCELLED));
    match word {
        "CANCELLED" | "CANCELED" => Observed::Ended(OperationState::Cancelled),
        "EXPIRED" => Observed::Ended(OperationState::Expired),
        "FAILED" if cancelled => Observed::Ended(OperationState::Cancelled),
        "FAILED" => Observed::Ended(OperationState::Failed),
        // Results that exist are results, whatever else the body says.
        "SUCCEEDED" | "PARTIALLY_SUCCEEDED" if has_output => {
            Observed::Ended(OperationState::Succeeded)
        }
        _ => match error {
            Some(error) if done => ended_by(error),
            _ if matches!(word, "SUCCEEDED" | "PARTIALLY_SUCCEEDED") => Observed::OutputPending,
            _ if done && has_output => Observed::Ended(OperationState::Succeeded),
            _ if done && body.get("response").is_some() => Observed::OutputPending,
            _ if done => Observed::Neither,
            _ => Observed::Running,
        },
    }
}

/// Where an output may stand, best first.
pub(super) fn places<'a>(body: &Object<'a>) -> impl Iterator<Item = Object<'a>> {
    let metadata = body.object("metadata");
    let in_metadata = metadata.and_then(|m| m.object("output"));
    [body.object("response"), in_metadata, body.object("output")]
        .into_iter()
        .flatten()
}

fn output_in(place: &Object<'_>) -> Option<Output> {
    if let Some(file) = place.text("responsesFile").filter(|f| !f.is_empty()) {
        // An odd name is kept for people; only a `FileName` is ever downloaded.
        let name = FileName::from_uri(&file).map_or_else(
            |_| clean(&file, MAX_ODD_NAME_CHARS),
            |name| name.as_str().to_owned(),
        );
        return Some(Output::File { name });
    }
    let responses = responses_in(place)?;
    Some(Output::Inline {
        responses: u64::try_from(responses.len()).unwrap_or(u64::MAX),
    })
}

/// The inline responses of one place: nested twice under one name, or flat. None when empty.
pub(super) fn responses_in<'a>(place: &Object<'a>) -> Option<Vec<Node<'a>>> {
    ["inlinedResponses", "inlinedEmbedContentResponses"]
        .iter()
        .find_map(|key| {
            let outer = place.get(key)?;
            let list = match outer.object() {
                Some(nested) => nested
                    .items(key)
                    .or_else(|| nested.items("inlinedResponses")),
                None => outer.items(),
            };
            list.filter(|list| !list.is_empty())
        })
}
