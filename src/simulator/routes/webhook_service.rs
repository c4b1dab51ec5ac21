//! `WebhookService`: the registered webhooks of the project, `snake_case` on the wire.
//!
//! Strict where Google's clients are: only the seven events, only the writable fields, the state set
//! by the owner is `enabled` or `disabled`. A new secret stands in the answer of its making and never
//! again; whoever loses that answer has to rotate.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};
use url::Url;

use super::api::Asked;
use super::call::Call;
use super::create::object;
use super::error::ApiError;
use super::reply::Reply;
use crate::simulator::state::Model;
use crate::simulator::state::hooks::{EVENTS, Hook, Revocation, WebhookState};

/// Webhooks on a page when nobody says, and at most.
const PAGE: usize = 50;
const LARGEST_PAGE: usize = 1000;
/// What a client may write, and what it may send along without effect.
const WRITABLE: [&str; 4] = ["name", "uri", "subscribed_events", "state"];
const OUTPUT_ONLY: [&str; 5] = [
    "id",
    "create_time",
    "update_time",
    "new_signing_secret",
    "signing_secrets",
];

/// Carries out a call of the service.
pub(crate) fn answer(
    model: &mut Model,
    call: &Call<'_>,
    asked: &Asked<'_>,
) -> Result<Reply, ApiError> {
    let now = asked.now;
    match call {
        Call::CreateWebhook => {
            let body = fields(asked.body)?;
            let uri = uri(body.get("uri"))?;
            let events = events(body.get("subscribed_events"))?;
            let name = name(body.get("name"))?;
            let (hook, secret) = model.hooks.create(name, uri, events, now, asked.ids);
            let mut made = hook.render(now);
            made.insert("new_signing_secret".to_owned(), json!(secret.expose()));
            Ok(Reply::ok(&Value::Object(made)))
        }
        Call::ListWebhooks => list(model, asked),
        Call::GetWebhook(id) => Ok(shown(hook(model, id)?, asked)),
        Call::UpdateWebhook(id) => {
            // Read whole before anything changes: a refused update changes nothing.
            let mut changed = hook(model, id)?.clone();
            update(&mut changed, asked)?;
            let reply = shown(&changed, asked);
            *hook(model, id)? = changed;
            Ok(reply)
        }
        Call::DeleteWebhook(id) if model.hooks.delete(id) => Ok(Reply::ok(&json!({}))),
        Call::PingWebhook(id) => {
            object(asked.body)?;
            if hook(model, id)?.state != WebhookState::Enabled {
                let text = "The webhook is disabled.";
                return Err(ApiError::new(400, "FAILED_PRECONDITION", text));
            }
            model.ping(id, now, asked.ids);
            Ok(Reply::ok(&json!({})))
        }
        Call::RotateSecret(id) => {
            let body = object(asked.body)?;
            let revocation = match body.get("revocation_behavior") {
                None => Revocation::default(),
                Some(value) => serde_json::from_value(value.clone())
                    .map_err(|_| ApiError::invalid("Invalid value for `revocation_behavior`."))?,
            };
            let secret = hook(model, id)?.rotate(revocation, now, asked.ids);
            Ok(Reply::ok(&json!({"secret": secret.expose()})))
        }
        _ => Err(ApiError::not_found()),
    }
}

fn hook<'a>(model: &'a mut Model, id: &str) -> Result<&'a mut Hook, ApiError> {
    model.hooks.get_mut(id).ok_or_else(ApiError::not_found)
}

fn shown(hook: &Hook, asked: &Asked<'_>) -> Reply {
    Reply::ok(&Value::Object(hook.render(asked.now)))
}

/// The body's fields; one that no webhook has is refused.
fn fields(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let Value::Object(map) = object(body)? else {
        return Err(ApiError::invalid("Expected an object."));
    };
    let known = |field: &str| WRITABLE.contains(&field) || OUTPUT_ONLY.contains(&field);
    match map.keys().find(|field| !known(field)) {
        Some(field) => Err(ApiError::invalid(format!("Unknown parameter: '{field}'."))),
        None => Ok(map),
    }
}

fn uri(value: Option<&Value>) -> Result<String, ApiError> {
    let usable = |uri: &&str| {
        Url::parse(uri).is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.has_host())
    };
    value
        .and_then(Value::as_str)
        .filter(usable)
        .map(str::to_owned)
        .ok_or_else(|| ApiError::invalid("`uri` must be a valid HTTP URL."))
}

fn events(value: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let list = value
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .ok_or_else(|| ApiError::invalid("`subscribed_events` is required."))?;
    let mut events: Vec<String> = Vec::new();
    for event in list {
        let known = event.as_str().filter(|event| EVENTS.contains(event));
        let known = known.ok_or_else(|| {
            ApiError::invalid(format!("Invalid value for `subscribed_events`: {event}."))
        })?;
        if !events.iter().any(|event| event == known) {
            events.push(known.to_owned());
        }
    }
    Ok(events)
}

fn name(value: Option<&Value>) -> Result<Option<String>, ApiError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone()).filter(|name| !name.is_empty())),
        Some(_) => Err(ApiError::invalid("`name` must be a string.")),
    }
}

/// What the owner may set: Google alone says that deliveries failed.
fn state(value: Option<&Value>) -> Result<WebhookState, ApiError> {
    match value.and_then(Value::as_str) {
        Some("enabled") => Ok(WebhookState::Enabled),
        Some("disabled") => Ok(WebhookState::Disabled),
        _ => Err(ApiError::invalid("Invalid value for `state`.")),
    }
}

/// With a mask, its fields take the body's values (an absent name is cleared); without one, the
/// fields that are there do.
fn update(hook: &mut Hook, asked: &Asked<'_>) -> Result<(), ApiError> {
    let body = fields(asked.body)?;
    let mask = asked
        .parameter("updateMask", "update_mask")
        .filter(|mask| !mask.is_empty() && mask != "*");
    let chosen: Vec<&str> = match &mask {
        Some(mask) => mask.split(',').map(str::trim).collect(),
        None => WRITABLE
            .into_iter()
            .filter(|field| body.contains_key(*field))
            .collect(),
    };
    for field in chosen {
        let value = body.get(field);
        match field {
            "name" => hook.name = name(value)?,
            "uri" => hook.uri = uri(value)?,
            "subscribed_events" => hook.events = events(value)?,
            "state" => hook.set_state(state(value)?, asked.now),
            _ => {
                let text = format!("Invalid path in `update_mask`: '{field}'.");
                return Err(ApiError::invalid(text));
            }
        }
    }
    hook.updated = asked.now;
    Ok(())
}

fn list(model: &Model, asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let size = match asked.parameter("pageSize", "page_size") {
        None => PAGE,
        Some(text) => text
            .parse::<usize>()
            .map_err(|_| ApiError::invalid("`page_size` is not a number."))?,
    };
    let size = if size == 0 {
        PAGE
    } else {
        size.min(LARGEST_PAGE)
    };
    let token = asked
        .parameter("pageToken", "page_token")
        .filter(|token| !token.is_empty());
    let after = match token {
        None => 0,
        Some(token) => BASE64URL_NOPAD
            .decode(token.as_bytes())
            .ok()
            .and_then(|bytes| <[u8; 8]>::try_from(bytes).ok())
            .map(u64::from_be_bytes)
            .ok_or_else(|| ApiError::invalid("The page token is invalid."))?,
    };
    let (page, next) = model.hooks.page(after, size);
    let mut body = Map::new();
    if !page.is_empty() {
        let list = page.into_iter().map(|hook| hook.render(asked.now));
        let list = list.map(Value::Object).collect();
        body.insert("webhooks".to_owned(), Value::Array(list));
    }
    if let Some(next) = next {
        let token = BASE64URL_NOPAD.encode(&next.to_be_bytes());
        body.insert("next_page_token".to_owned(), json!(token));
    }
    Ok(Reply::ok(&Value::Object(body)))
}
