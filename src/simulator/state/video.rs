//! A video operation as Google renders it.
//!
//! While it runs there is only a name. Done may mean a sample, a refusal by the safety filter
//! (a count and reasons, no sample), an error, or neither: each is an ending clients have met.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::files::File;
use super::job::{Job, Outcome, Phase};
use crate::base::clock::Timestamp;

const RESPONSE: &str =
    "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse";

/// A file that begins like an MP4 and names its prompt, so that two videos differ.
pub(crate) fn bytes_for(prompt: &str) -> Bytes {
    let mut bytes = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom".to_vec();
    bytes.extend_from_slice(prompt.as_bytes());
    bytes.into()
}

/// What a finished video stores as its output.
pub(crate) fn output(outcome: Outcome, file: Option<&File>) -> Option<Value> {
    let video = match (outcome, file) {
        (Outcome::Succeeded, Some(file)) => json!({
            "generatedSamples": [{"video": {"uri": file.download_uri()}}],
        }),
        (Outcome::Filtered, _) => json!({
            "raiMediaFilteredCount": 1,
            "raiMediaFilteredReasons": [
                "The simulator's safety filter withheld the video. You have not been charged.",
            ],
        }),
        _ => return None,
    };
    Some(json!({"@type": RESPONSE, "generateVideoResponse": video}))
}

pub(crate) fn render(job: &Job, now: Timestamp) -> Value {
    let mut operation = Map::new();
    operation.insert("name".to_owned(), json!(job.name));
    if let Phase::Ended(outcome) = job.phase(now) {
        operation.insert("done".to_owned(), json!(true));
        if outcome == Outcome::Failed {
            let message = "The video failed: the simulator was told so.";
            let error = json!({"code": 13, "message": message});
            operation.insert("error".to_owned(), error);
        }
        if let Some(output) = &job.output {
            operation.insert("response".to_owned(), output.clone());
        }
    }
    Value::Object(operation)
}
