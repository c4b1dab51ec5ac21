//! What the operator's API says when it refuses: a problem document whose `detail` names the field
//! and the fix.
//!
//! The public door must give nothing away; here the caller holds the admin token, so the text is
//! about this very request. Causes inside the service still go to the log alone.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::super::error::Problem;
use crate::store::StoreError;

/// Longest text repeated from a parser, in characters.
const MAX_DETAIL: usize = 400;

/// A refused request.
#[derive(Debug, Clone)]
pub struct Refusal {
    problem: Problem,
    detail: Option<Cow<'static, str>>,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            detail: None,
        }
    }
}

impl From<StoreError> for Refusal {
    /// The one place where the store's errors become answers, and where they are logged.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "an admin request failed in the store");
        match error {
            StoreError::Busy | StoreError::Locked => Self::from(Problem::UNAVAILABLE),
            StoreError::Full => Self::from(Problem::UNAVAILABLE.after(Duration::from_secs(30)))
                .because("The disk that holds the database is full. Nothing was stored."),
            StoreError::Broken(_) => Self::from(
                Problem::UNAVAILABLE.after(Duration::from_secs(30)),
            )
            .because("The database file cannot be trusted any more; the service is stopping."),
            StoreError::Fenced { .. }
            | StoreError::Inconsistent { .. }
            | StoreError::Database(_) => Self::from(Problem::INTERNAL)
                .because("The database answered with an error. The log of the service says more."),
        }
    }
}

impl Refusal {
    /// 400, with this detail.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::from(Problem::BAD_REQUEST).because(detail)
    }

    /// 404, with this detail.
    pub fn not_found(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::from(Problem::NOT_FOUND).because(detail)
    }

    /// 409, with this detail.
    pub fn conflict(detail: impl Into<Cow<'static, str>>) -> Self {
        const CONFLICT: Problem = Problem::new(
            StatusCode::CONFLICT,
            "conflict",
            "Conflict",
            "The request contradicts what is stored.",
        );
        Self::from(CONFLICT).because(detail)
    }

    /// 415: a body that does not say it is JSON.
    pub fn not_json() -> Self {
        Self::from(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "Unsupported Media Type",
            "The body must be JSON; send Content-Type: application/json.",
        ))
    }

    /// Its HTTP status.
    pub const fn status(&self) -> StatusCode {
        self.problem.status()
    }

    /// What is told about it.
    pub fn detail(&self) -> &str {
        let own = self.detail.as_deref();
        own.unwrap_or_else(|| self.problem.detail())
    }

    /// The same refusal with a detail of its own.
    #[must_use]
    pub fn because(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let document = self.detail.and_then(|detail| {
            let mut document = serde_json::to_value(self.problem).ok()?;
            let fields = document.as_object_mut()?;
            let detail: String = detail.chars().take(MAX_DETAIL).collect();
            fields.insert("type".to_owned(), Value::from("about:blank"));
            fields.insert("detail".to_owned(), Value::from(detail));
            Some(document)
        });
        let mut response = self.problem.into_response();
        if let Some(document) = document {
            *response.body_mut() = Body::from(document.to_string());
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"hookledger admin\""),
            );
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_s_errors_become_answers_that_say_whether_to_come_back() {
        let answer = |error: StoreError| {
            let response = Refusal::from(error).into_response();
            let again = response.headers().contains_key("retry-after");
            (response.status().as_u16(), again)
        };
        assert_eq!(answer(StoreError::Busy), (503, true));
        assert_eq!(answer(StoreError::Locked), (503, true));
        assert_eq!(answer(StoreError::Full), (503, true));
        assert_eq!(answer(StoreError::Broken("x".to_owned())), (503, true));
        assert_eq!(answer(StoreError::Database("x".to_owned())), (500, false));
    }

    #[tokio::test]
    async fn causes_stay_out_of_the_answer() {
        let error = StoreError::Database("canary".to_owned());
        let body = Refusal::from(error).into_response().into_body();
        let body = axum::body::to_bytes(body, 4096).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains("database") && !text.contains("canary"));
    }
}
