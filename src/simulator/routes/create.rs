//! Reading the bodies of create calls, in both spellings, and as strictly as Google where it is.

use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use super::error::ApiError;
use crate::base::clock::Timestamp;
use crate::simulator::state::Model;
use crate::simulator::state::batch::prompt_of;
use crate::simulator::state::job::{BatchRequest, Draft, Outcome, Work};
use crate::simulator::state::plan::WebhookPlan;

/// A field by its `camelCase` or `snake_case` name.
fn field<'a>(map: &'a Value, camel: &str, snake: &str) -> Option<&'a Value> {
    map.get(camel).or_else(|| map.get(snake))
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// The body as a JSON object; an empty body is an empty object.
pub(crate) fn object(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(ApiError::invalid(
            "Invalid JSON payload received. Expected an object.",
        )),
    }
}

/// Destinations and metadata of a job's own webhooks.
struct Hooks {
    uris: Vec<String>,
    user_metadata: Option<Value>,
}

/// Reads `webhookConfig`; `at` is where it stands, for the error text.
fn hooks(owner: &Value, at: &str) -> Result<Hooks, ApiError> {
    let none = Hooks {
        uris: Vec::new(),
        user_metadata: None,
    };
    let Some(config) = field(owner, "webhookConfig", "webhook_config") else {
        return Ok(none);
    };
    // Observed: this one field is known in snake_case only.
    if config.get("userMetadata").is_some() {
        return Err(ApiError::invalid(format!(
            "Invalid JSON payload received. Unknown name \"userMetadata\" at '{at}': Cannot find field."
        )));
    }
    let uris: Vec<String> = config
        .get("uris")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let usable =
        |uri: &String| Url::parse(uri).is_ok_and(|u| matches!(u.scheme(), "http" | "https"));
    if !uris.iter().all(usable) {
        return Err(ApiError::invalid("The webhook URI is not valid."));
    }
    Ok(Hooks {
        uris,
        user_metadata: config.get("user_metadata").cloned(),
    })
}

fn draft(work: Work, model: &str, hooks: Hooks, complete_after: Duration) -> Draft {
    Draft {
        work,
        model: model.to_owned(),
        display_name: None,
        uris: hooks.uris,
        user_metadata: hooks.user_metadata,
        outcome: Outcome::Succeeded,
        complete_after: Some(complete_after),
        output_after: Duration::ZERO,
        webhook: WebhookPlan::default(),
    }
}

/// `{"batch": {"displayName", "inputConfig": {"fileName" | "requests"}, "webhookConfig"}}`.
pub(crate) fn batch(
    body: &[u8],
    model: &str,
    embed: bool,
    state: &Model,
    now: Timestamp,
    complete_after: Duration,
) -> Result<Draft, ApiError> {
    let body = object(body)?;
    let batch = body
        .get("batch")
        .ok_or_else(|| ApiError::invalid("batch is required."))?;
    let hooks = hooks(batch, "batch.webhook_config")?;
    let input = field(batch, "inputConfig", "input_config")
        .ok_or_else(|| ApiError::invalid("batch.input_config is required."))?;
    let file = text(field(input, "fileName", "file_name"));
    let requests = match &file {
        Some(name) => from_file(name, state, now)?,
        None => inline(input)?,
    };
    let work = Work::Batch {
        file,
        requests,
        embed,
        failed: 0,
    };
    Ok(Draft {
        display_name: text(field(batch, "displayName", "display_name")),
        ..draft(work, model, hooks, complete_after)
    })
}

/// The requests of a create call, nested twice.
fn inline(input: &Value) -> Result<Vec<BatchRequest>, ApiError> {
    let list = input
        .get("requests")
        .and_then(|requests| requests.get("requests"))
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .ok_or_else(|| ApiError::invalid("batch.input_config has no requests."))?;
    let read = |item: &Value| BatchRequest {
        key: text(item.pointer("/metadata/key")),
        prompt: item.get("request").map(prompt_of).unwrap_or_default(),
    };
    Ok(list.iter().map(read).collect())
}

/// The requests of an uploaded file, one JSON object a line.
fn from_file(name: &str, state: &Model, now: Timestamp) -> Result<Vec<BatchRequest>, ApiError> {
    let file = state.files.get(name, now).ok_or_else(ApiError::not_found)?;
    let text_of = std::str::from_utf8(&file.bytes)
        .map_err(|_| ApiError::invalid("The input file is not UTF-8."))?;
    let mut requests = Vec::new();
    for (i, line) in text_of.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let item: Value = serde_json::from_str(line)
            .map_err(|_| ApiError::invalid(format!("Line {} is not valid JSON.", i + 1)))?;
        requests.push(BatchRequest {
            key: text(item.get("key")),
            prompt: item.get("request").map(prompt_of).unwrap_or_default(),
        });
    }
    if requests.is_empty() {
        return Err(ApiError::invalid("The input file has no requests."));
    }
    Ok(requests)
}

/// `{"instances": [{"prompt"}], "parameters": {…}, "webhookConfig"}`.
pub(crate) fn video(body: &[u8], model: &str, complete_after: Duration) -> Result<Draft, ApiError> {
    let body = object(body)?;
    let hooks = hooks(&body, "webhook_config")?;
    let prompt = text(body.pointer("/instances/0/prompt"))
        .ok_or_else(|| ApiError::invalid("instances must hold a prompt."))?;
    let parameters = body.get("parameters").unwrap_or(&Value::Null);
    let seconds = field(parameters, "durationSeconds", "duration_seconds");
    if seconds.is_some_and(|seconds| !seconds.is_number()) {
        return Err(ApiError::invalid(
            "The value type for `durationSeconds` needs to be a number.",
        ));
    }
    Ok(draft(Work::Video { prompt }, model, hooks, complete_after))
}

/// `{"model" | "agent", "input", "background", "store", "webhook_config"}`. One that does not run in
/// the background is over when the call returns.
pub(crate) fn interaction(body: &[u8], complete_after: Duration) -> Result<Draft, ApiError> {
    let body = object(body)?;
    let hooks = hooks(&body, "webhook_config")?;
    let model = text(body.get("model"))
        .or_else(|| text(body.get("agent")))
        .ok_or_else(|| ApiError::invalid("model or agent is required."))?;
    let background = body.get("background") == Some(&Value::Bool(true));
    if body.get("store") == Some(&Value::Bool(false)) && background {
        return Err(ApiError::invalid("background=true requires store=true."));
    }
    if !hooks.uris.is_empty() && !background {
        return Err(ApiError::invalid(
            "webhook_config requires background=true.",
        ));
    }
    let input = match body.get("input") {
        Some(Value::String(input)) => input.clone(),
        Some(other) => other.to_string(),
        None => return Err(ApiError::invalid("input is required.")),
    };
    let after = if background {
        complete_after
    } else {
        Duration::ZERO
    };
    let mut made = draft(Work::Interaction { input }, &model, hooks, after);
    if !background {
        made.webhook.deliver = crate::simulator::Mode::Drop;
    }
    Ok(made)
}
