//! A batch as Google renders it, and what it produces.
//!
//! Counts are strings, zero counts and an untrue `done` are left out, and the output stands in two
//! places (`metadata.output` and `response`), because clients read either.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::job::{BatchRequest, Job, Outcome, Phase};
use super::names;
use crate::base::clock::Timestamp;

const TYPES: &str = "type.googleapis.com/google.ai.generativelanguage.v1main";

/// The text of the first part of a request, whatever its shape.
pub(crate) fn prompt_of(request: &Value) -> String {
    let contents = request.get("contents").or_else(|| request.get("content"));
    let content = match contents {
        Some(Value::Array(list)) => list.last(),
        other => other,
    };
    content
        .and_then(|content| content.get("parts"))
        .and_then(|parts| match parts {
            Value::Array(list) => list.first(),
            other => Some(other),
        })
        .and_then(|part| part.get("text"))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The answer to one request: `response` or `error`.
fn answer(request: &BatchRequest, index: usize, model: &str, embed: bool, fails: bool) -> Value {
    if fails {
        return json!({"error": {
            "code": 3,
            "message": "The request was refused by the simulator.",
        }});
    }
    let words = request.prompt.split_whitespace().count().max(1);
    if embed {
        // Small, but different for different texts.
        let sum: u32 = request.prompt.bytes().map(u32::from).sum();
        let values = [f64::from(sum % 97) / 97.0, f64::from(sum % 89) / 89.0, 0.5];
        return json!({"response": {
            "tokenCount": words.to_string(),
            "embedding": {"values": values},
        }});
    }
    json!({"response": {
        "candidates": [{
            "content": {"parts": [{"text": format!("echo: {}", request.prompt)}], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": words,
            "candidatesTokenCount": words + 1,
            "totalTokenCount": 2 * words + 1,
        },
        "modelVersion": model,
        "responseId": format!("simulated-{index}"),
    }})
}

/// The answers of a batch.
pub(crate) struct Answers<'a> {
    pub(crate) requests: &'a [BatchRequest],
    pub(crate) model: &'a str,
    pub(crate) embed: bool,
    /// How many of the first requests fail.
    pub(crate) failed: u32,
}

impl Answers<'_> {
    fn each(&self) -> impl Iterator<Item = (&BatchRequest, Value)> {
        self.requests.iter().enumerate().map(|(i, request)| {
            let fails = u32::try_from(i).is_ok_and(|i| i < self.failed);
            let answer = answer(request, i, self.model, self.embed, fails);
            (request, answer)
        })
    }

    /// One JSON line per request, the key after the response as in real files.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        for (request, answer) in self.each() {
            let mut line = answer.to_string();
            let key = json!(request.key.as_deref().unwrap_or_default());
            // Open the object again: the key stands last.
            line.pop();
            let _ = writeln!(text, "{line},\"key\":{key}}}");
        }
        text
    }

    /// The same inside the operation, nested twice.
    pub(crate) fn inline(&self) -> Value {
        let list: Vec<Value> = self
            .each()
            .map(|(request, mut answer)| {
                if let (Some(key), Some(map)) = (&request.key, answer.as_object_mut()) {
                    map.insert("metadata".to_owned(), json!({"key": key}));
                }
                answer
            })
            .collect();
        json!({"inlinedResponses": {"inlinedResponses": list}})
    }
}

/// Where the work of a batch stands, for rendering.
pub(crate) struct View<'a> {
    pub(crate) job: &'a Job,
    pub(crate) file: Option<&'a str>,
    pub(crate) requests: usize,
    pub(crate) failed: u32,
    pub(crate) embed: bool,
}

impl View<'_> {
    pub(crate) fn render(&self, now: Timestamp) -> Value {
        let job = self.job;
        let phase = job.phase(now);
        let mut operation = Map::new();
        operation.insert("name".to_owned(), json!(job.name));
        operation.insert("metadata".to_owned(), self.metadata(phase, now));
        if let Phase::Ended(outcome) = phase {
            operation.insert("done".to_owned(), json!(true));
            self.result(outcome, now, &mut operation);
        }
        Value::Object(operation)
    }

    fn type_name(&self) -> &'static str {
        if self.embed {
            "EmbedContentBatch"
        } else {
            "GenerateContentBatch"
        }
    }

    /// The output, once it is there: SUCCEEDED may come first.
    fn output(&self, now: Timestamp) -> Option<&Value> {
        let (_, ended) = self.job.ended?;
        let there = now >= ended.after(self.job.draft.output_after);
        self.job.output.as_ref().filter(|_| there)
    }

    fn metadata(&self, phase: Phase, now: Timestamp) -> Value {
        let job = self.job;
        let time = |at: Timestamp| json!(names::nanos(at, &job.name));
        let mut metadata = Map::new();
        let mut put = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
        put("@type", json!(format!("{TYPES}.{}", self.type_name())));
        put("model", json!(format!("models/{}", job.draft.model)));
        if let Some(name) = &job.draft.display_name {
            put("displayName", json!(name));
        }
        if let Some(file) = self.file {
            put("inputConfig", json!({"fileName": file}));
        }
        if let Some(output) = self.output(now) {
            put("output", output.clone());
        }
        put("createTime", time(job.created));
        if let Some((_, ended)) = job.ended {
            put("endTime", time(ended));
        }
        put("updateTime", time(job.updated(now)));
        put("batchStats", self.stats(phase));
        put("state", json!(state_name(phase)));
        put("name", json!(job.name));
        Value::Object(metadata)
    }

    fn stats(&self, phase: Phase) -> Value {
        let all = self.requests;
        let failed = usize::try_from(self.failed).unwrap_or(all).min(all);
        let (successful, failed, pending) = match phase {
            Phase::Ended(Outcome::Succeeded | Outcome::Neither) => (all - failed, failed, 0),
            Phase::Ended(Outcome::Failed) => (0, all, 0),
            _ => (0, 0, all),
        };
        let mut stats = Map::new();
        for (key, count) in [
            ("requestCount", all),
            ("successfulRequestCount", successful),
            ("failedRequestCount", failed),
            ("pendingRequestCount", pending),
        ] {
            if count > 0 {
                stats.insert(key.to_owned(), json!(count.to_string()));
            }
        }
        Value::Object(stats)
    }

    fn result(&self, outcome: Outcome, now: Timestamp, operation: &mut Map<String, Value>) {
        let error = |code: i32, message: &str| json!({"code": code, "message": message});
        match outcome {
            Outcome::Succeeded => {
                if let Some(Value::Object(output)) = self.output(now) {
                    let mut response = output.clone();
                    let type_name = format!("{TYPES}.{}Output", self.type_name());
                    response.insert("@type".to_owned(), json!(type_name));
                    operation.insert("response".to_owned(), Value::Object(response));
                }
            }
            Outcome::Failed => {
                let text = "The batch failed: the simulator was told so.";
                operation.insert("error".to_owned(), error(13, text));
            }
            Outcome::Cancelled => {
                operation.insert("error".to_owned(), error(1, "The batch was cancelled."));
            }
            Outcome::Expired => {
                let text = "The batch expired before it was processed.";
                operation.insert("error".to_owned(), error(4, text));
            }
            _ => {}
        }
    }
}

fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "BATCH_STATE_PENDING",
        Phase::Running => "BATCH_STATE_RUNNING",
        Phase::Ended(Outcome::Failed) => "BATCH_STATE_FAILED",
        Phase::Ended(Outcome::Cancelled) => "BATCH_STATE_CANCELLED",
        Phase::Ended(Outcome::Expired) => "BATCH_STATE_EXPIRED",
        Phase::Ended(_) => "BATCH_STATE_SUCCEEDED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_found_in_both_shapes() {
        let generate = json!({"contents": [{"parts": [{"text": "hi"}], "role": "user"}]});
        let embed = json!({"content": {"parts": [{"text": "a"}]}});
        assert_eq!(prompt_of(&generate), "hi");
        assert_eq!(prompt_of(&embed), "a");
        assert_eq!(prompt_of(&json!({})), "");
    }

    #[test]
    fn a_result_line_has_its_key_last_and_is_one_json_document() {
        let request = |key: &str| BatchRequest {
            key: Some(key.to_owned()),
            prompt: "hi \"you\" {}}".to_owned(),
        };
        let requests = [request("k1"), request("k\"2")];
        for embed in [false, true] {
            let answers = Answers {
                requests: &requests,
                model: "m",
                embed,
                failed: 1,
            };
            let text = answers.lines();
            let lines: Vec<Value> = text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_eq!(lines.len(), 2);
            assert_eq!(lines[0]["key"], "k1");
            assert_eq!(lines[0]["error"]["code"], 3);
            assert_eq!(lines[1]["key"], "k\"2");
            assert!(lines[1]["response"].is_object());
            assert!(text.starts_with(r#"{"error":"#), "{text}");
        }
    }
}
