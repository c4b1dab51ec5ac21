//! `{parent}/operations/{op}`: video generation and every other long-running operation.
//!
//! A finished video shows its samples under `response.generateVideoResponse` (or, as elsewhere at
//! Google, right in `response`). Samples that safety filters removed are counted there and nowhere
//! else: no sample and a count is an ending of its own, not a success. Other operations have any
//! `response` they like, and having one is success.

use super::node::Object;
use super::summary::{Filtered, Said, SaidError};
use super::{Reading, ended_by, read_error, undecodable};
use crate::domain::fault::Fault;
use crate::domain::observation::{Observed, Output};
use crate::domain::operation::{Kind, OperationState};

/// Longest media URI kept, in bytes. Longer ones are data, not addresses.
const MAX_URI_BYTES: usize = 2048;
/// Most media URIs kept of one operation; a video has four at most.
const MAX_URIS: usize = 256;
/// Most filter reasons kept of one operation.
const MAX_REASONS: usize = 64;

pub(super) fn read(kind: Kind, body: &Object<'_>) -> Result<Reading, Fault> {
    let known = ["name", "metadata", "done", "response"];
    if !known.iter().any(|key| body.get(key).is_some()) {
        return Err(undecodable("the body is no operation"));
    }
    let metadata = body.object("metadata");
    let mut reading = match (body.is_true("done"), read_error(body)) {
        (false, _) => Reading::plain(Observed::Running),
        (true, Some(error)) => Reading {
            said: Said {
                error: Some(SaidError::read(&error)),
                ..Said::default()
            },
            ..Reading::plain(ended_by(&error))
        },
        (true, None) => match body.get("response") {
            None => Reading::plain(Observed::Neither),
            Some(response) => match response.object() {
                Some(r) if kind == Kind::Video || r.get("generateVideoResponse").is_some() => {
                    video(&r)
                }
                _ if kind == Kind::Video => Reading::plain(Observed::Neither),
                _ => Reading::plain(Observed::Ended(OperationState::Succeeded)),
            },
        },
    };
    if let Some(metadata) = metadata {
        reading.state_word = metadata.text("state");
        reading.said.model = metadata.text("model");
        reading.said.created_at = metadata.time("createTime");
        reading.ended_at = metadata.time("endTime");
    }
    Ok(reading)
}

fn video(response: &Object<'_>) -> Reading {
    let nested = response.object("generateVideoResponse");
    let place = nested.as_ref().unwrap_or(response);
    let samples: Vec<Object<'_>> = ["generatedSamples", "generatedVideos", "videos"]
        .iter()
        .find_map(|key| place.items(key))
        .unwrap_or_default()
        .into_iter()
        .filter_map(super::node::Node::object)
        .collect();
    let uris: Vec<String> = samples.iter().filter_map(uri).take(MAX_URIS).collect();
    let reasons: Vec<String> = place
        .items("raiMediaFilteredReasons")
        .unwrap_or_default()
        .into_iter()
        .filter_map(super::node::Node::text)
        .take(MAX_REASONS)
        .collect();
    let listed = u64::try_from(reasons.len()).unwrap_or(u64::MAX);
    let count = place.integer("raiMediaFilteredCount").unwrap_or(listed);
    let filtered = count.max(listed) > 0;
    let observed = if !uris.is_empty() {
        Observed::Ended(OperationState::Succeeded)
    } else if filtered {
        Observed::Ended(OperationState::Filtered)
    } else if !samples.is_empty() {
        // A sample is there, its address is not yet.
        Observed::OutputPending
    } else {
        Observed::Neither
    };
    Reading {
        said: Said {
            filtered: filtered.then_some(Filtered { count, reasons }),
            ..Said::default()
        },
        output: (!uris.is_empty()).then_some(Output::Media { uris }),
        ..Reading::plain(observed)
    }
}

fn uri(sample: &Object<'_>) -> Option<String> {
    let inner = sample.object("video");
    let video = inner.as_ref().unwrap_or(sample);
    ["uri", "gcsUri"]
        .iter()
        .find_map(|key| video.text(key))
        .filter(|uri| (1..=MAX_URI_BYTES).contains(&uri.len()))
}
