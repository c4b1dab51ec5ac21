//! The short JSON object that people and effects see of a body.
//!
//! Every text in it is cleaned and every list bounded, so that a summary stays under 8 KiB whatever
//! the provider sends.

use serde_json::{Map, Value, json};

use super::super::text::clean;
use super::node::Object;
use crate::base::clock::Timestamp;
use crate::domain::observation::{Counts, Observed, Output};

const MAX_NAME_CHARS: usize = 128;
const MAX_MESSAGE_CHARS: usize = 500;
const MAX_REASON_CHARS: usize = 300;
const MAX_URIS_BYTES: usize = 3 * 1024;
const MAX_REASONS_BYTES: usize = 3 * 512;

/// What a body says beside its outcome.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) model: Option<String>,
    pub(super) display_name: Option<String>,
    pub(super) error: Option<SaidError>,
    pub(super) filtered: Option<Filtered>,
    pub(super) created_at: Option<Timestamp>,
}

/// An error's code, a number or a word, and its message.
#[derive(Debug)]
pub(super) struct SaidError {
    code: Value,
    message: Option<String>,
}

impl SaidError {
    pub(super) fn read(error: &Object<'_>) -> Self {
        let code = match (error.integer("code"), error.text("code")) {
            (Some(number), _) => number.into(),
            (None, Some(word)) => clean(&word, MAX_NAME_CHARS).into(),
            (None, None) => Value::Null,
        };
        Self {
            code,
            message: error.text("message"),
        }
    }
}

/// What safety filters removed.
#[derive(Debug)]
pub(super) struct Filtered {
    pub(super) count: u64,
    pub(super) reasons: Vec<String>,
}

/// The outcome that the summary repeats.
pub(super) struct Facts<'a> {
    pub(super) observed: Observed,
    pub(super) counts: Option<Counts>,
    pub(super) output: Option<&'a Output>,
    pub(super) ended_at: Option<Timestamp>,
}

impl Said {
    /// The whole summary. Keys without a value are left out.
    pub(super) fn summary(self, facts: &Facts<'_>) -> Value {
        let name = |text: String| Value::from(clean(&text, MAX_NAME_CHARS));
        let time = |at: Timestamp| Value::from(at.to_string());
        let mut all = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                all.insert(key.to_owned(), value);
            }
        };
        put("state", Some(state_word(facts.observed).into()));
        put("model", self.model.map(name));
        put("display_name", self.display_name.map(name));
        put("counts", facts.counts.map(|c| json!(c)));
        put("output", facts.output.map(output));
        put(
            "error",
            self.error.map(|e| {
                let message = e.message.map(|m| clean(&m, MAX_MESSAGE_CHARS));
                json!({"code": e.code, "message": message})
            }),
        );
        put(
            "filtered",
            self.filtered.map(|f| {
                let cleaned = f.reasons.iter().map(|r| clean(r, MAX_REASON_CHARS));
                let (reasons, left_out) = within(cleaned, MAX_REASONS_BYTES);
                with_left_out(json!({"count": f.count, "reasons": reasons}), left_out)
            }),
        );
        put("created_at", self.created_at.map(time));
        put("ended_at", facts.ended_at.map(time));
        Value::Object(all)
    }
}

fn state_word(observed: Observed) -> &'static str {
    match observed {
        Observed::Running => "running",
        Observed::RequiresAction => "requires_action",
        Observed::Ended(state) => state.as_str(),
        Observed::OutputPending => "output_pending",
        Observed::Neither => "neither",
    }
}

fn output(output: &Output) -> Value {
    match output {
        Output::Media { uris } => {
            let (shown, left_out) = within(uris.iter().cloned(), MAX_URIS_BYTES);
            with_left_out(json!({"at": "media", "uris": shown}), left_out)
        }
        Output::File { .. } | Output::Inline { .. } => json!(output),
    }
}

/// As many of `texts` as fit, whole, and how many did not.
fn within(texts: impl Iterator<Item = String>, max_bytes: usize) -> (Vec<Value>, usize) {
    let (mut shown, mut left_out, mut bytes) = (Vec::new(), 0_usize, 0_usize);
    for text in texts {
        let text = Value::from(text);
        let more = text.to_string().len() + 1;
        if bytes + more <= max_bytes {
            bytes += more;
            shown.push(text);
        } else {
            left_out += 1;
        }
    }
    (shown, left_out)
}

fn with_left_out(mut object: Value, left_out: usize) -> Value {
    if let (Some(map), 1..) = (object.as_object_mut(), left_out) {
        map.insert("left_out".to_owned(), left_out.into());
    }
    object
}
