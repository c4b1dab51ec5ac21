//! Reading what the operator sent, strictly: an unknown field, parameter or word is refused with a
//! text that names it, because a typing error that is silently ignored looks like an answer.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query};
use http::request::Parts;
use http::{HeaderMap, Request, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::super::body::read_capped;
use super::super::state::AdminState;
use super::refusal::Refusal;
use crate::base::clock::{NotATimestamp, Timestamp};
use crate::domain::operation::{JobKind, NamePrefix, NotANamePrefix, OperationName};

/// Largest request body, bytes.
pub(super) const MAX_BODY: u64 = 1024 * 1024;
/// Largest `user_metadata`, serialised, bytes.
const MAX_METADATA: usize = 64 * 1024;
/// Longest free text in a query, bytes.
const MAX_TEXT: usize = 256;
/// Most rows of one page.
const MAX_LIMIT: u32 = 500;
/// Rows of one page when nobody says how many.
const DEFAULT_LIMIT: u32 = 50;

/// A JSON body. An empty one counts as `{}`, so that a request without options needs no body.
#[derive(Debug)]
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<AdminState>> for Input<T> {
    type Rejection = Refusal;

    async fn from_request(
        request: Request<axum::body::Body>,
        state: &Arc<AdminState>,
    ) -> Result<Self, Refusal> {
        let (head, body) = request.into_parts();
        let read = read_capped(&head.headers, body, MAX_BODY, state.body_timeout).await;
        let bytes =
            read.map_err(|error| Refusal::from(super::super::error::Problem::from(error)))?;
        if bytes.is_empty() {
            return parse(b"{}");
        }
        if !says_json(&head.headers) {
            return Err(Refusal::not_json());
        }
        parse(&bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Input<T>, Refusal> {
    // serde would also take a list of the fields' values, in an order that nobody promised.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refusal::bad_request("The body must be a JSON object."));
    }
    serde_json::from_slice(bytes).map(Input).map_err(|error| {
        Refusal::bad_request(format!("The body is not what is expected: {error}."))
    })
}

fn says_json(headers: &HeaderMap) -> bool {
    let Some(Ok(text)) = headers.get(header::CONTENT_TYPE).map(|v| v.to_str()) else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A body with nothing in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The query, into a struct that refuses what it does not know.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        read.map(|Query(params)| Self(params)).map_err(|error| {
            Refusal::bad_request(format!(
                "The query is not what is expected: {}.",
                error.body_text()
            ))
        })
    }
}

/// The variable part of the path, decoded.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read: Result<Path<String>, PathRejection> =
            Path::from_request_parts(parts, state).await;
        read.map(|Path(text)| Self(text))
            .map_err(|_| Refusal::bad_request("The path is not valid UTF-8 once decoded."))
    }
}

/// A word of a closed set, if one is given; `legal` are the words that `read` knows.
pub(super) fn word<T>(
    field: &str,
    text: Option<&str>,
    read: impl Fn(&str) -> Option<T>,
    legal: &[&str],
) -> Result<Option<T>, Refusal> {
    let Some(word) = given(text) else {
        return Ok(None);
    };
    read(word).map(Some).ok_or_else(|| {
        Refusal::bad_request(format!("{field} must be one of {}.", legal.join(", ")))
    })
}

/// A free text, such as a name that was configured, if one is given.
pub(super) fn text(field: &str, text: Option<&str>) -> Result<Option<String>, Refusal> {
    let given = given(text);
    if given.is_some_and(|t| t.len() > MAX_TEXT || t.contains(char::is_control)) {
        return Err(Refusal::bad_request(format!(
            "{field} must be at most {MAX_TEXT} bytes without control characters."
        )));
    }
    Ok(given.map(ToOwned::to_owned))
}

/// Yes or no, if either is given.
pub(super) fn flag(field: &str, text: Option<&str>) -> Result<Option<bool>, Refusal> {
    word(field, text, |word| word.parse().ok(), &["true", "false"])
}

/// A time, if one is given.
pub(super) fn time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, Refusal> {
    let parsed = given(text).map(str::parse).transpose();
    parsed.map_err(|error: NotATimestamp| Refusal::bad_request(format!("{field}: {error}.")))
}

/// The beginning of a name, if one is given.
pub(super) fn prefix(text: Option<&str>) -> Result<Option<NamePrefix>, Refusal> {
    let parsed = given(text).map(str::parse).transpose();
    parsed.map_err(|error: NotANamePrefix| Refusal::bad_request(format!("q {error}.")))
}

/// A parameter left empty is one not given.
pub(super) fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|t| !t.is_empty())
}

pub(super) fn cursor<T: std::str::FromStr>(text: Option<&str>) -> Result<Option<T>, Refusal> {
    let parsed = given(text).map(str::parse).transpose();
    parsed.map_err(|_| {
        Refusal::bad_request("cursor must be the next_cursor of an earlier page of this list.")
    })
}

pub(super) fn limit(text: Option<&str>) -> Result<u32, Refusal> {
    let Some(text) = given(text) else {
        return Ok(DEFAULT_LIMIT);
    };
    let parsed = text.parse().ok();
    parsed
        .filter(|n| (1..=MAX_LIMIT).contains(n))
        .ok_or_else(|| {
            Refusal::bad_request(format!("limit must be a number from 1 to {MAX_LIMIT}."))
        })
}

/// A UUID, of which there are many spellings and here one.
pub(in super::super) fn id(text: &str) -> Result<Uuid, Refusal> {
    as_id(text).ok_or_else(|| {
        Refusal::bad_request("The id in the path must be a UUID, as this API shows them.")
    })
}

pub(super) fn as_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.hyphenated().to_string() == text).then_some(id)
}

pub(super) fn name(text: &str) -> Result<OperationName, Refusal> {
    text.parse()
        .map_err(|error| Refusal::bad_request(format!("name: {error}.")))
}

pub(super) fn job_kind(text: &str) -> Result<JobKind, Refusal> {
    let kind: JobKind = text
        .parse()
        .map_err(|error| Refusal::bad_request(format!("{error}.")))?;
    if kind.is_unregistered() {
        return Err(Refusal::bad_request(
            "job_kind must not be `unregistered`: that is what an operation nobody registered is called.",
        ));
    }
    Ok(kind)
}

/// `user_metadata`: an object of a bounded size, or nothing.
pub(super) fn metadata(value: Option<Value>) -> Result<Option<Value>, Refusal> {
    let Some(value) = value else {
        return Ok(None);
    };
    if !value.is_object() {
        return Err(Refusal::bad_request("user_metadata must be a JSON object."));
    }
    let bytes = value.to_string().len();
    if bytes > MAX_METADATA {
        return Err(Refusal::bad_request(format!(
            "user_metadata is {bytes} bytes long; at most {MAX_METADATA} are taken."
        )));
    }
    Ok(Some(value))
}
