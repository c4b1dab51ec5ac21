//! Who may use the operator's API.
//!
//! The token is kept and compared as its SHA-256 digest, so a comparison is over 32 bytes whatever
//! was presented and tells, by time, nothing about how much of it was right. Without a configured
//! token nobody may, which is said plainly: an API that is open until somebody closes it is found
//! open.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::IntoResponse;
use http::{HeaderMap, Request, Response, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::super::error::Problem;
use super::super::state::AdminState;
use super::refusal::Refusal;
use crate::base::secret::Secret;

/// The bearer token, by its digest.
#[derive(Clone)]
pub(crate) struct AdminToken([u8; 32]);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken")
    }
}

impl AdminToken {
    pub(crate) fn new(token: &Secret) -> Self {
        Self(Sha256::digest(token.expose()).into())
    }

    fn accepts(&self, presented: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        digest.ct_eq(&self.0).into()
    }
}

/// Lets a request through that carries the token.
pub(super) async fn require_token(
    State(state): State<Arc<AdminState>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let Some(token) = &state.token else {
        return Refusal::from(Problem::UNAUTHORIZED)
            .because(
                "No admin token is configured, so the API refuses every request. Set admin.token \
                 (HOOKLEDGER_ADMIN_TOKEN) and start the service again.",
            )
            .into_response();
    };
    match bearer(request.headers()) {
        Some(presented) if token.accepts(presented) => next.run(request).await,
        Some(_) => Refusal::from(Problem::UNAUTHORIZED)
            .because("The bearer token is not the one of admin.token (HOOKLEDGER_ADMIN_TOKEN).")
            .into_response(),
        None => Refusal::from(Problem::UNAUTHORIZED)
            .because(
                "Send exactly one header Authorization: Bearer TOKEN, with the token of \
                 admin.token (HOOKLEDGER_ADMIN_TOKEN).",
            )
            .into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn one_bearer_header_is_read_and_nothing_else() {
        assert_eq!(bearer(&headers(&["Bearer abc"])), Some("abc"));
        assert_eq!(bearer(&headers(&["bearer  abc "])), Some("abc"));
        for none in [
            &[] as &[&str],
            &["Basic abc"],
            &["abc"],
            &["Bearer a", "Bearer a"],
        ] {
            assert_eq!(bearer(&headers(none)), None, "{none:?}");
        }
    }

    #[test]
    fn the_token_is_accepted_whole() {
        let token = AdminToken::new(&Secret::new("correct-horse-battery-staple"));
        assert!(token.accepts("correct-horse-battery-staple"));
        for wrong in [
            "",
            "correct-horse-battery-stapl",
            "correct-horse-battery-staple2",
        ] {
            assert!(!token.accepts(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "AdminToken");
    }
}
