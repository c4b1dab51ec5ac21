//! A background interaction as Google renders it: `snake_case`, a status word, steps.

use serde_json::{Map, Value, json};

use super::job::{Job, Outcome, Phase};
use super::names;
use crate::base::clock::Timestamp;

fn status(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending | Phase::Running => "in_progress",
        Phase::Ended(Outcome::Succeeded) => "completed",
        Phase::Ended(Outcome::Cancelled) => "cancelled",
        Phase::Ended(Outcome::RequiresAction) => "requires_action",
        Phase::Ended(Outcome::Incomplete) => "incomplete",
        Phase::Ended(Outcome::BudgetExceeded) => "budget_exceeded",
        Phase::Ended(_) => "failed",
    }
}

/// The steps of an ended interaction.
pub(crate) fn output(outcome: Outcome, input: &str) -> Value {
    match outcome {
        Outcome::Succeeded => json!([{
            "type": "model_output",
            "content": [{"type": "text", "text": format!("echo: {input}")}],
        }]),
        Outcome::Incomplete | Outcome::BudgetExceeded => json!([{
            "type": "model_output",
            "content": [{"type": "text", "text": "echo: (cut short)"}],
        }]),
        Outcome::RequiresAction => json!([{
            "type": "function_call",
            "id": "call_1",
            "name": "ask_the_client",
            "arguments": {"question": input},
        }]),
        _ => json!([]),
    }
}

pub(crate) fn render(job: &Job, now: Timestamp) -> Value {
    let phase = job.phase(now);
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
    put("id", json!(names::last_segment(&job.name)));
    put("object", json!("interaction"));
    put("status", json!(status(phase)));
    put("created", json!(job.created));
    put("updated", json!(job.updated(now)));
    put("model", json!(job.draft.model));
    put("steps", job.output.clone().unwrap_or_else(|| json!([])));
    if phase == Phase::Ended(Outcome::Failed) {
        let message = "The interaction failed: the simulator was told so.";
        put("errors", json!([{"code": "api_error", "message": message}]));
    }
    if phase == Phase::Ended(Outcome::Succeeded) {
        put("usage", json!({"total_tokens": 7}));
    }
    if !job.draft.uris.is_empty() {
        let mut config = Map::new();
        config.insert("uris".to_owned(), json!(job.draft.uris));
        if let Some(metadata) = &job.draft.user_metadata {
            config.insert("user_metadata".to_owned(), metadata.clone());
        }
        put("webhook_config", Value::Object(config));
    }
    Value::Object(body)
}
