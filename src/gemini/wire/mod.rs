//! Body bytes become an [`Observation`].
//!
//! Problem: the shapes differ per kind, drift over time and are described wrongly in several places,
//! and a wrong reading either closes a running job or polls a finished one for ever.
//!
//! Design: a body is walked, not deserialised into structs: fields of an unexpected type count as
//! absent, unknown ones are not looked at, unknown states mean "not finished" unless the body says
//! `done`. What must not pass is something that is no such resource at all (a login page, a cut
//! answer, another operation's body): that is [`Fault::Undecodable`].
//!
//! One file per shape: [`operation`] (video and everything generic), [`batch`], [`interaction`], and
//! `webhook`, which is none of them.

pub mod batch;
pub mod inline;
pub mod interaction;
mod node;
pub mod operation;
mod summary;
pub(super) mod webhook;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use self::node::Object;
use self::summary::Said;
use super::text::clean;
use crate::base::clock::Timestamp;
use crate::domain::fault::Fault;
use crate::domain::observation::{Counts, Observation, Observed, Output};
use crate::domain::operation::{Kind, OperationName, OperationState};

pub use self::inline::inline_results;

/// Longest state word kept, in characters.
const MAX_STATE_CHARS: usize = 64;

/// What one wire module read out of a body.
#[derive(Debug)]
struct Reading {
    observed: Observed,
    state_word: Option<String>,
    said: Said,
    output: Option<Output>,
    counts: Option<Counts>,
    ended_at: Option<Timestamp>,
}

impl Reading {
    /// A body that shows nothing but this.
    fn plain(observed: Observed) -> Self {
        Self {
            observed,
            state_word: None,
            said: Said::default(),
            output: None,
            counts: None,
            ended_at: None,
        }
    }
}

/// What the body of a 200 answer for `name` means.
///
/// # Errors
/// [`Fault::Undecodable`] when it is not a JSON object, belongs to another resource, or shows
/// nothing of the documented shape.
pub fn observe(name: &OperationName, bytes: &[u8]) -> Result<Observation, Fault> {
    let body = Object::read(bytes).ok_or_else(|| undecodable("not a JSON object"))?;
    let (own_name, reading) = match name.kind() {
        Kind::Batch => ("name", batch::read(&body)?),
        Kind::Interaction => ("id", interaction::read(&body)?),
        Kind::Video | Kind::Operation => ("name", operation::read(name.kind(), &body)?),
    };
    if let Some(own) = body.get(own_name) {
        let own = own.text().unwrap_or_default();
        if own.rsplit('/').next() != Some(name.segment()) {
            return Err(undecodable("the body belongs to another resource"));
        }
    }
    let ended = matches!(reading.observed, Observed::Ended(_));
    Ok(Observation {
        name: name.clone(),
        observed: reading.observed,
        summary: reading.said.summary(&summary::Facts {
            observed: reading.observed,
            counts: reading.counts,
            output: reading.output.as_ref(),
            ended_at: reading.ended_at.filter(|_| ended),
        }),
        state_word: reading.state_word.map(|w| clean(&w, MAX_STATE_CHARS)),
        body_hash: HEXLOWER.encode(&Sha256::digest(bytes)),
        output: reading.output,
        counts: reading.counts,
        ended_at: reading.ended_at.filter(|_| ended),
    })
}

fn undecodable(what: &str) -> Fault {
    Fault::Undecodable {
        what: what.to_owned(),
    }
}

/// gRPC's code for a cancelled operation.
const GRPC_CANCELLED: u64 = 1;

/// An operation's `error`, when it is one: an object, and not gRPC's "OK".
fn read_error<'a>(body: &Object<'a>) -> Option<Object<'a>> {
    let error = body.object("error")?;
    let is_ok = error.integer("code") == Some(0) && error.get("message").is_none();
    (!is_ok).then_some(error)
}

/// How an operation that carries `error` ended.
fn ended_by(error: &Object<'_>) -> Observed {
    Observed::Ended(if error.integer("code") == Some(GRPC_CANCELLED) {
        OperationState::Cancelled
    } else {
        OperationState::Failed
    })
}

#[cfg(test)]
mod tests;
