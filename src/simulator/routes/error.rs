//! Google's two error envelopes.
//!
//! Batches, files, models and operations answer a numeric code with a status word and details;
//! interactions and webhooks answer a string code and nothing else. Which one applies depends on the path alone.

use serde_json::{Value, json};

use super::reply::Reply;

/// Which envelope a path uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope {
    Classic,
    Interactions,
}

/// An error of the API.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    http: u16,
    status: &'static str,
    message: String,
    details: Vec<Value>,
    retry_after: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(http: u16, status: &'static str, message: impl Into<String>) -> Self {
        Self {
            http,
            status,
            message: message.into(),
            details: Vec::new(),
            retry_after: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(404, "NOT_FOUND", "Requested entity was not found.")
    }

    pub(crate) fn file_not_yours(name: &str) -> Self {
        let id = name.trim_start_matches("files/");
        let message =
            format!("You do not have permission to access the File {id} or it may not exist.");
        Self::new(403, "PERMISSION_DENIED", message)
    }

    pub(crate) fn no_key() -> Self {
        let message = "Method doesn't allow unregistered callers (callers without established \
                       identity). Please use API Key or other form of API consumer identity to \
                       call this API.";
        Self::new(403, "PERMISSION_DENIED", message)
    }

    pub(crate) fn key_invalid() -> Self {
        let mut error = Self::invalid("API key not valid. Please pass a valid API key.");
        error.details.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }));
        error
    }

    /// 429; `RetryInfo` and `Retry-After` only when a wait is given, as with the real one.
    pub(crate) fn rate_limited(wait_ms: Option<u64>) -> Self {
        let message =
            "You exceeded your current quota, please check your plan and billing details.";
        let mut error = Self::new(429, "RESOURCE_EXHAUSTED", message);
        error.details.push(json!({
            "@type": "type.googleapis.com/google.rpc.Help",
            "links": [{
                "description": "Learn more about Gemini API quotas",
                "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
            }],
        }));
        if let Some(ms) = wait_ms {
            let delay = match (ms / 1000, ms % 1000) {
                (seconds, 0) => format!("{seconds}s"),
                (seconds, rest) => format!("{seconds}.{rest:03}s"),
            };
            error.details.push(json!({
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": delay,
            }));
            error.retry_after = Some(ms.div_ceil(1000));
        }
        error
    }

    /// The string code of the interactions envelope.
    fn code(&self) -> &'static str {
        match self.status {
            "INVALID_ARGUMENT" => "invalid_request",
            "FAILED_PRECONDITION" => "failed_precondition",
            "UNAUTHENTICATED" => "authentication",
            "PAYMENT_REQUIRED" => "payment_required",
            "PERMISSION_DENIED" => "permission_denied",
            "NOT_FOUND" => "not_found",
            "RESOURCE_EXHAUSTED" => "rate_limit_exceeded",
            "UNAVAILABLE" => "service_unavailable",
            _ => "api_error",
        }
    }

    pub(crate) fn render(&self, envelope: Envelope) -> Reply {
        let body = match envelope {
            Envelope::Interactions => {
                json!({"error": {"code": self.code(), "message": self.message}})
            }
            Envelope::Classic => {
                let mut error = json!({
                    "code": self.http,
                    "message": self.message,
                    "status": self.status,
                });
                if let (false, Some(map)) = (self.details.is_empty(), error.as_object_mut()) {
                    map.insert("details".to_owned(), json!(self.details));
                }
                json!({"error": error})
            }
        };
        let reply = Reply::json(self.http, &body);
        match self.retry_after {
            Some(seconds) => reply.with("retry-after", seconds.to_string()),
            None => reply,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(error: &ApiError, envelope: Envelope) -> Value {
        serde_json::from_slice(&error.render(envelope).body).unwrap()
    }

    #[test]
    fn the_two_envelopes_differ() {
        let error = ApiError::not_found();
        assert_eq!(
            body(&error, Envelope::Classic)["error"],
            json!({"code": 404, "message": "Requested entity was not found.", "status": "NOT_FOUND"})
        );
        assert_eq!(
            body(&error, Envelope::Interactions)["error"],
            json!({"code": "not_found", "message": "Requested entity was not found."})
        );
    }

    #[test]
    fn retry_info_comes_only_when_asked_for() {
        let with = body(&ApiError::rate_limited(Some(4750)), Envelope::Classic);
        assert_eq!(with["error"]["details"][1]["retryDelay"], "4.750s");
        let without = body(&ApiError::rate_limited(None), Envelope::Classic);
        assert_eq!(without["error"]["details"].as_array().unwrap().len(), 1);
    }
}
