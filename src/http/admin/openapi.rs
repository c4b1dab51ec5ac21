//! `GET /openapi.json`: this API, described for programs.
//!
//! The document is written by hand, in parts beside this file, each with the paths of one noun;
//! they are put together once. `tests/it/openapi.rs` holds it against the routes of the source and
//! against every answer that the tests of this API see, so that neither can drift.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderValue, Response, header};
use serde_json::Value;

use super::super::error::Problem;

const PARTS: [&str; 9] = [
    include_str!("openapi/head.json"),
    include_str!("openapi/operations.json"),
    include_str!("openapi/events.json"),
    include_str!("openapi/queue.json"),
    include_str!("openapi/effects.json"),
    include_str!("openapi/service.json"),
    include_str!("openapi/schemas-ledger.json"),
    include_str!("openapi/schemas-flow.json"),
    include_str!("openapi/schemas-service.json"),
];

/// The whole document; `None` if a part is no JSON, which the tests exclude.
static DOCUMENT: LazyLock<Option<String>> = LazyLock::new(|| {
    let mut whole = Value::Null;
    for part in PARTS {
        merge(&mut whole, serde_json::from_str(part).ok()?);
    }
    Some(whole.to_string())
});

/// Lays objects into one another; anything else replaces.
fn merge(into: &mut Value, part: Value) {
    match (into, part) {
        (Value::Object(into), Value::Object(part)) => {
            for (name, value) in part {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, part) => *into = part,
    }
}

pub(super) async fn document() -> Response<Body> {
    let Some(text) = &*DOCUMENT else {
        return Problem::INTERNAL.into_response();
    };
    let mut response = Response::new(Body::from(text.as_str()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
