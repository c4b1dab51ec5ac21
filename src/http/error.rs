//! What a client is told when something is wrong: RFC 9457 problem documents.
//!
//! Every text is chosen here and is the same for all causes behind one answer, so that an answer
//! gives nothing away; causes go to the log. `code` is the stable word for programs.

use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

/// One kind of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: &'static str,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over references"
)]
fn as_number<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}

impl Problem {
    /// No such path; also what a wrong path token looks like.
    pub const NOT_FOUND: Self = Self::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "Not Found",
        "There is nothing at this path.",
    );
    /// The path exists, for another method.
    pub const METHOD_NOT_ALLOWED: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "Method Not Allowed",
        "This path does not take this method.",
    );
    /// Any proof missing or wrong.
    pub const UNAUTHORIZED: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "Unauthorized",
        "The request does not carry the proofs this path asks for.",
    );
    /// The token is known, and does not cover this.
    pub const FORBIDDEN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "Forbidden",
        "This token may look and not change anything.",
    );
    /// The request is not one this service can read.
    pub const BAD_REQUEST: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "bad_request",
        "Bad Request",
        "The request is malformed.",
    );
    /// `Host` is missing, repeated or unreadable.
    pub const BAD_HOST: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "bad_host",
        "Bad Request",
        "Exactly one valid Host header is needed.",
    );
    /// The body did not arrive in time.
    pub const BODY_TIMEOUT: Self = Self::new(
        StatusCode::REQUEST_TIMEOUT,
        "body_timeout",
        "Request Timeout",
        "The body did not arrive in time.",
    );
    /// The body is over the limit.
    pub const TOO_LARGE: Self = Self::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        "Content Too Large",
        "The body is larger than this path takes.",
    );
    /// Too many failures from one address.
    pub const TOO_MANY_FAILURES: Self = Self::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_failures",
        "Too Many Requests",
        "Too many refused requests from this address.",
    )
    .after(Duration::from_mins(1));
    /// A defect of ours.
    pub const INTERNAL: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "Internal Server Error",
        "The service failed to handle this request.",
    );
    /// Nothing was stored; the sender must try again.
    pub const UNAVAILABLE: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "Service Unavailable",
        "The request cannot be taken right now and was not stored. Try again.",
    )
    .after(Duration::from_secs(1));

    /// A kind of refusal.
    pub const fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: &'static str,
    ) -> Self {
        Self {
            status,
            code,
            title,
            detail,
            retry_after: None,
        }
    }

    /// The same, asking to come back after `wait` (sent in whole seconds, at least one).
    #[must_use]
    pub const fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Its HTTP status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Its sentence.
    pub const fn detail(&self) -> &'static str {
        self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        #[derive(Serialize)]
        struct Document {
            r#type: &'static str,
            #[serde(flatten)]
            problem: Problem,
        }
        let document = Document {
            r#type: "about:blank",
            problem: self,
        };
        // Plain strings and a number always serialise; an empty body is the harmless other case.
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_problem_is_a_document_with_status_and_code() {
        let response = Problem::UNAVAILABLE
            .after(Duration::from_millis(1200))
            .into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        let body = axum::body::to_bytes(response.into_body(), 4096)
            .await
            .unwrap();
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "type": "about:blank",
                "status": 503,
                "code": "unavailable",
                "title": "Service Unavailable",
                "detail": "The request cannot be taken right now and was not stored. Try again."
            })
        );
    }
}
