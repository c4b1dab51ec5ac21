//! Files: the resumable upload of two requests, metadata, download.
//!
//! The first request names the file and is answered with a URL; the second, which carries no API
//! key, brings the bytes there. Bytes may come in several pieces, each at the offset reached so far.

use serde_json::{Value, json};

use super::api::Asked;
use super::call::Call;
use super::create;
use super::error::ApiError;
use super::reply::Reply;
use crate::simulator::state::Model;
use crate::simulator::state::files::{Piece, UploadStart};

/// Whether this request continues an upload, which needs no API key.
pub(crate) fn is_continued(call: &Call<'_>, query: &str) -> bool {
    matches!(call, Call::Upload { .. })
        && url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "upload_id")
}

pub(crate) fn answer(
    model: &mut Model,
    call: &Call<'_>,
    asked: &Asked<'_>,
) -> Result<Reply, ApiError> {
    let now = asked.now;
    match call {
        Call::Upload { version } => match asked.parameter("upload_id", "upload_id") {
            Some(id) => proceed(model, &id, asked),
            None => begin(model, version, asked),
        },
        Call::GetFile(id) => {
            let name = format!("files/{id}");
            let file = model.files.get(&name, now);
            file.map(|file| Reply::ok(&file.render()))
                .ok_or_else(|| ApiError::file_not_yours(&name))
        }
        Call::DownloadFile(id) => {
            let name = format!("files/{id}");
            let file = model
                .files
                .get(&name, now)
                .ok_or_else(|| ApiError::file_not_yours(&name))?;
            if !file.is_downloadable() {
                let text = "Only generated files can be downloaded.";
                return Err(ApiError::new(400, "FAILED_PRECONDITION", text));
            }
            if asked.parameter("alt", "alt").as_deref() != Some("media") {
                return Ok(Reply::ok(&file.render()));
            }
            let kind = "application/octet-stream";
            Ok(Reply::new(200, kind, file.bytes.clone()))
        }
        Call::DeleteFile(id) => {
            let name = format!("files/{id}");
            if model.files.delete(&name) {
                Ok(Reply::ok(&json!({})))
            } else {
                Err(ApiError::file_not_yours(&name))
            }
        }
        _ => {
            let files: Vec<Value> = model.files.list(now).iter().map(|f| f.render()).collect();
            Ok(Reply::ok(&json!({"files": files})))
        }
    }
}

fn header<'a>(asked: &'a Asked<'_>, name: &str) -> Option<&'a str> {
    asked.headers.get(name)?.to_str().ok()
}

fn begin(model: &mut Model, version: &str, asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let resumable = header(asked, "x-goog-upload-protocol") == Some("resumable");
    if !resumable || header(asked, "x-goog-upload-command") != Some("start") {
        return Err(ApiError::invalid(
            "Only resumable uploads are simulated: X-Goog-Upload-Protocol: resumable, \
             X-Goog-Upload-Command: start.",
        ));
    }
    let body = create::object(asked.body)?;
    let file = body.get("file").unwrap_or(&Value::Null);
    let text = |camel: &str, snake: &str| {
        let value = file.get(camel).or_else(|| file.get(snake));
        value.and_then(Value::as_str).map(str::to_owned)
    };
    let mime_type = text("mimeType", "mime_type")
        .or_else(|| header(asked, "x-goog-upload-header-content-type").map(str::to_owned))
        .unwrap_or_else(|| "application/octet-stream".to_owned());
    let start = UploadStart {
        mime_type,
        display_name: text("displayName", "display_name"),
        name: text("name", "name"),
    };
    let id = model.files.begin(start, asked.ids);
    let host = header(asked, "host").unwrap_or("127.0.0.1");
    let url =
        format!("http://{host}/upload/{version}/files?upload_id={id}&upload_protocol=resumable");
    Ok(Reply::ok(&json!({}))
        .with("x-goog-upload-url", url)
        .with("x-goog-upload-status", "active".to_owned()))
}

fn proceed(model: &mut Model, id: &str, asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let command = header(asked, "x-goog-upload-command").unwrap_or_default();
    let is = |word: &str| command.split(',').any(|part| part.trim() == word);
    if is("query") {
        let received = model
            .files
            .received(id)
            .ok_or_else(|| ApiError::invalid("Upload not found."))?;
        return Ok(Reply::ok(&json!({}))
            .with("x-goog-upload-status", "active".to_owned())
            .with("x-goog-upload-size-received", received.to_string()));
    }
    let offset = header(asked, "x-goog-upload-offset")
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ApiError::invalid("X-Goog-Upload-Offset is required."))?;
    let piece = if is("upload") { asked.body } else { b"" };
    match model
        .files
        .add(id, offset, piece, is("finalize"), asked.now, asked.ids)
    {
        Piece::Active(received) => Ok(Reply::ok(&json!({}))
            .with("x-goog-upload-status", "active".to_owned())
            .with("x-goog-upload-size-received", received.to_string())),
        Piece::Final(file) => Ok(Reply::ok(&json!({"file": file.render()}))
            .with("x-goog-upload-status", "final".to_owned())),
        Piece::Refused(text) => Err(ApiError::invalid(text)),
    }
}
