//! What each call of the API does to the model, and what it answers.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::create;
use super::error::ApiError;
use super::reply::Reply;
use super::upload;
use super::webhook_service;
use crate::base::clock::Timestamp;
use crate::base::ids::Ids;
use crate::simulator::state::Model;
use crate::simulator::state::job::{Draft, Job, Outcome};

/// Batches on a page when nobody says, and at most.
const PAGE: usize = 50;
const LARGEST_PAGE: usize = 1000;

/// Models the list shows; jobs may name others.
const MODELS: [(&str, &[&str]); 3] = [
    (
        "gemini-2.5-flash",
        &["generateContent", "batchGenerateContent"],
    ),
    (
        "gemini-embedding-001",
        &["embedContent", "asyncBatchEmbedContent"],
    ),
    ("veo-3.1-generate-preview", &["predictLongRunning"]),
];

/// What a call brings besides its path.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) headers: &'a http::HeaderMap,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) now: Timestamp,
    pub(crate) complete_after: Duration,
    pub(crate) ids: &'a dyn Ids,
}

impl Asked<'_> {
    /// A query parameter by its `camelCase` or `snake_case` name.
    pub(crate) fn parameter(&self, camel: &str, snake: &str) -> Option<String> {
        url::form_urlencoded::parse(self.query.as_bytes())
            .find(|(name, _)| name == camel || name == snake)
            .map(|(_, value)| value.into_owned())
    }
}

/// Carries out a call.
pub(crate) fn answer(
    model: &mut Model,
    call: &Call<'_>,
    asked: &Asked<'_>,
) -> Result<Reply, ApiError> {
    let now = asked.now;
    match call {
        Call::CreateBatch { model: name, embed } => {
            let after = asked.complete_after;
            let draft = create::batch(asked.body, name, *embed, model, now, after)?;
            start(model, draft, asked)
        }
        Call::CreateVideo { model: name } => {
            let draft = create::video(asked.body, name, asked.complete_after)?;
            let name = model.start(draft, now, asked.ids);
            Ok(Reply::ok(&json!({"name": name})))
        }
        Call::CreateInteraction => {
            let draft = create::interaction(asked.body, asked.complete_after)?;
            start(model, draft, asked)
        }
        Call::GetBatch(id) => shown(model, &batch_name(id)?, now),
        Call::GetVideo { model: name, id } => {
            shown(model, &format!("models/{name}/operations/{id}"), now)
        }
        Call::GetInteraction(id) => shown(model, &format!("interactions/{id}"), now),
        Call::ListBatches => list(model, asked),
        Call::CancelBatch(id) => {
            let name = batch_name(id)?;
            let over = job(model, &name)?.is_over();
            if !over {
                cancel(model, &name, asked);
            }
            Ok(Reply::ok(&json!({})))
        }
        Call::CancelInteraction(id) => {
            let name = format!("interactions/{id}");
            if job(model, &name)?.is_over() {
                let text = "The interaction has already ended.";
                return Err(ApiError::new(400, "FAILED_PRECONDITION", text));
            }
            cancel(model, &name, asked);
            shown(model, &name, now)
        }
        Call::DeleteBatch(id) => delete(model, &batch_name(id)?),
        Call::DeleteInteraction(id) => delete(model, &format!("interactions/{id}")),
        Call::ListModels => {
            let models: Vec<Value> = MODELS.iter().map(|(name, can)| card(name, can)).collect();
            Ok(Reply::ok(&json!({"models": models})))
        }
        Call::GetModel(name) => MODELS
            .iter()
            .find(|(known, _)| known == name)
            .map(|(name, can)| Reply::ok(&card(name, can)))
            .ok_or_else(ApiError::not_found),
        Call::Upload { .. }
        | Call::ListFiles
        | Call::GetFile(_)
        | Call::DownloadFile(_)
        | Call::DeleteFile(_) => upload::answer(model, call, asked),
        Call::CreateWebhook
        | Call::ListWebhooks
        | Call::GetWebhook(_)
        | Call::UpdateWebhook(_)
        | Call::DeleteWebhook(_)
        | Call::PingWebhook(_)
        | Call::RotateSecret(_) => webhook_service::answer(model, call, asked),
        // Not the model's: whoever serves answers it.
        Call::Jwks => Err(ApiError::not_found()),
    }
}

fn card(name: &str, can: &[&str]) -> Value {
    json!({
        "name": format!("models/{name}"),
        "version": "001",
        "displayName": name,
        "supportedGenerationMethods": can,
    })
}

/// A batch's name; an id that cannot be one is another error than an unknown one.
fn batch_name(id: &str) -> Result<String, ApiError> {
    let plausible = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if id.is_empty() || !id.bytes().all(plausible) {
        return Err(ApiError::invalid("Could not parse the batch name"));
    }
    Ok(format!("batches/{id}"))
}

fn job<'a>(model: &'a Model, name: &str) -> Result<&'a Job, ApiError> {
    model.shown(name).ok_or_else(ApiError::not_found)
}

fn shown(model: &Model, name: &str, now: Timestamp) -> Result<Reply, ApiError> {
    let job = job(model, name)?;
    Ok(Reply::ok(&Model::render(job, now)))
}

fn start(model: &mut Model, draft: Draft, asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let name = model.start(draft, asked.now, asked.ids);
    // A job that takes no time is over in the answer to its creation.
    model.advance(asked.now, asked.ids);
    shown(model, &name, asked.now)
}

fn cancel(model: &mut Model, name: &str, asked: &Asked<'_>) {
    // Only a job that ended meanwhile refuses, and then there is nothing to cancel.
    let _ = model.end(name, Outcome::Cancelled, asked.now, asked.ids);
}

fn delete(model: &mut Model, name: &str) -> Result<Reply, ApiError> {
    if model.delete(name) {
        Ok(Reply::ok(&json!({})))
    } else {
        Err(ApiError::not_found())
    }
}

fn list(model: &Model, asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let size = match asked.parameter("pageSize", "page_size") {
        None => PAGE,
        Some(text) => text
            .parse::<usize>()
            .map_err(|_| ApiError::invalid("page_size is not a number."))?,
    };
    let size = if size == 0 {
        PAGE
    } else {
        size.min(LARGEST_PAGE)
    };
    let token = asked
        .parameter("pageToken", "page_token")
        .filter(|token| !token.is_empty());
    let before = match token {
        None => None,
        Some(token) => Some(
            BASE64URL_NOPAD
                .decode(token.as_bytes())
                .ok()
                .and_then(|bytes| <[u8; 8]>::try_from(bytes).ok())
                .map(u64::from_be_bytes)
                .ok_or_else(|| ApiError::invalid("The page token is invalid."))?,
        ),
    };
    let (page, next) = model.batches(before, size);
    let mut body = Map::new();
    if !page.is_empty() {
        let list = page.into_iter().map(|job| Model::render(job, asked.now));
        body.insert("operations".to_owned(), Value::Array(list.collect()));
    }
    if let Some(next) = next {
        let token = BASE64URL_NOPAD.encode(&next.to_be_bytes());
        body.insert("nextPageToken".to_owned(), json!(token));
    }
    Ok(Reply::ok(&Value::Object(body)))
}
