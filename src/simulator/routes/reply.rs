//! An answer before it is put on the wire, so that a fault can still spoil it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

/// Status, headers and the whole body.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
        }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json; charset=UTF-8", body.to_string())
    }

    pub(crate) fn ok(body: &Value) -> Self {
        Self::json(200, body)
    }

    pub(crate) fn html(status: u16, title: &str) -> Self {
        let page = format!(
            "<!DOCTYPE html>\n<html lang=en>\n<title>Error {status} ({title})</title>\n\
             <p><b>{status}.</b> That's an error. {title}.\n</html>\n"
        );
        Self::new(status, "text/html; charset=UTF-8", page)
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The answer, whole.
    pub(crate) fn whole(self) -> Response {
        let body = Body::from(self.body.clone());
        self.with_body(body)
    }

    /// Promises the whole length, sends `share` of it in percent and breaks the connection.
    pub(crate) fn broken(mut self, share: usize) -> Response {
        let length = self.body.len();
        let sent = self.body.slice(..length * share.min(100) / 100);
        self.headers.push(("content-length", length.to_string()));
        let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let first = (!sent.is_empty()).then_some(Ok(sent));
        let pieces = first.into_iter().chain([Err(broken())]);
        let body = Body::from_stream(stream::iter(pieces));
        self.with_body(body)
    }

    fn with_body(self, body: Body) -> Response {
        let mut response = body.into_response();
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.remove(http::header::CONTENT_TYPE);
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}
