//! Who may use the operator's API.
//!
//! Tokens are kept and compared as their SHA-256 digests, so a comparison is over 32 bytes whatever
//! was presented and tells, by time, nothing about how much of it was right. Without a configured
//! token nobody may, which is said plainly: an API that is open until somebody closes it is found
//! open.
//!
//! GET changes nothing anywhere in this API, so the scope is judged by the method alone: a route that
//! is added later cannot forget to ask.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::IntoResponse;
use http::{HeaderMap, Method, Request, Response, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::super::error::Problem;
use super::super::state::AdminState;
use super::refusal::Refusal;
use crate::base::swap::Swap;
use crate::config::settings::{Admin, AnyToken, Scope};

/// A token as it is kept.
pub(in super::super) type TokenDigest = [u8; 32];

/// One accepted token, by its digest.
#[derive(Clone)]
struct Known {
    name: Arc<str>,
    scope: Scope,
    digest: TokenDigest,
}

/// The accepted tokens; clones are the same ones. Replaced whole, so a request is judged by those
/// before or those after.
#[derive(Clone)]
pub struct AdminTokens(Swap<Vec<Known>>);

impl std::fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AdminTokens").finish_non_exhaustive()
    }
}

impl AdminTokens {
    /// Accepts the tokens of `admin`.
    pub fn new(admin: &Admin) -> Self {
        Self(Swap::new(known(admin)))
    }

    /// Accepts the tokens of `admin`, and no others, from now on.
    pub fn replace(&self, admin: &Admin) {
        self.0.set(known(admin));
    }

    /// Whether `presented` is one of them.
    pub fn accepts(&self, presented: &str) -> bool {
        self.holder(presented).is_some()
    }

    /// The digest and the name of the token presented, if it is one of them.
    pub(in super::super) fn sign_in(&self, presented: &str) -> Option<(TokenDigest, Arc<str>)> {
        let (name, _) = self.holder(presented)?;
        Some((Sha256::digest(presented).into(), name))
    }

    /// Whose token has this digest now.
    pub(in super::super) fn by_digest(&self, digest: &TokenDigest) -> Option<(Arc<str>, Scope)> {
        let mut holder = None;
        for one in &*self.0.get() {
            if bool::from(digest.ct_eq(&one.digest)) {
                holder = Some((Arc::clone(&one.name), one.scope));
            }
        }
        holder
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.get().is_empty()
    }

    /// Whose token it is. All are compared, so the time does not tell which one matched.
    fn holder(&self, presented: &str) -> Option<(Arc<str>, Scope)> {
        self.by_digest(&Sha256::digest(presented).into())
    }
}

fn known(admin: &Admin) -> Vec<Known> {
    let known = |token: AnyToken<'_>| Known {
        name: token.name.into(),
        scope: token.scope,
        digest: Sha256::digest(token.secret.expose()).into(),
    };
    admin.all().map(known).collect()
}

/// The name of the token that a request came with, as a request extension.
#[derive(Debug, Clone)]
pub(super) struct Holder(pub(super) Arc<str>);

/// Lets a request through whose token covers it. Who changed something is logged by the token's name.
pub(super) async fn require_token(
    State(state): State<Arc<AdminState>>,
    mut request: Request<Body>,
    next: Next,
) -> Response<Body> {
    if state.tokens.is_empty() {
        return Refusal::from(Problem::UNAUTHORIZED)
            .because(
                "No admin token is configured, so the API refuses every request. Set admin.token \
                 (HOOKLEDGER_ADMIN_TOKEN) and start the service again.",
            )
            .into_response();
    }
    let Some(presented) = bearer(request.headers()) else {
        return Refusal::from(Problem::UNAUTHORIZED)
            .because(
                "Send exactly one header Authorization: Bearer TOKEN, with the token of \
                 admin.token (HOOKLEDGER_ADMIN_TOKEN).",
            )
            .into_response();
    };
    let Some((token, scope)) = state.tokens.holder(presented) else {
        return Refusal::from(Problem::UNAUTHORIZED)
            .because(
                "The bearer token is neither the one of admin.token (HOOKLEDGER_ADMIN_TOKEN) nor \
                 one of admin.tokens.",
            )
            .into_response();
    };
    let method = request.method().clone();
    if matches!(method, Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    // As the documentation lists it, without /api/v1: the router has taken that off.
    let path = request.uri().path().to_owned();
    if scope == Scope::Read {
        tracing::warn!(%token, %method, path, "an admin token that may only read was refused");
        return Refusal::from(Problem::FORBIDDEN).into_response();
    }
    request.extensions_mut().insert(Holder(Arc::clone(&token)));
    // Before it is carried out: a client that hangs up ends this future, and not what it began.
    tracing::info!(%token, %method, path, "an admin request");
    next.run(request).await
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
    use crate::base::secret::Secret;
    use crate::config::settings::AdminToken;

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

    fn admin(tokens: &[(&str, Scope, &str)]) -> Admin {
        let tokens = tokens.iter().map(|(name, scope, text)| AdminToken {
            place: String::new(),
            name: (*name).to_owned(),
            scope: *scope,
            token: Secret::new(*text),
        });
        Admin {
            listen: ([127, 0, 0, 1], 0).into(),
            token: Some(Secret::new("correct-horse-battery-staple")),
            tokens: tokens.collect(),
        }
    }

    #[test]
    fn a_token_is_accepted_whole_and_is_its_holder_s() {
        let first = ("first", Scope::Read, "staple-correct-horse-battery");
        let last = ("last", Scope::Full, "battery-staple-correct-horse");
        let tokens = AdminTokens::new(&admin(&[first, last]));
        let holder = |text: &str| {
            let found = tokens.holder(text);
            found.map(|(name, scope)| (name.to_string(), scope))
        };
        for (name, scope, text) in [
            ("admin", Scope::Full, "correct-horse-battery-staple"),
            first,
            last,
        ] {
            assert_eq!(holder(text), Some((name.to_owned(), scope)));
        }
        for wrong in [
            "",
            "correct-horse-battery-stapl",
            "correct-horse-battery-staple2",
        ] {
            assert_eq!(holder(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{tokens:?}"), "AdminTokens(..)");
        tokens.replace(&admin(&[last]));
        assert_eq!(holder(first.2), None);
        assert!(holder(last.2).is_some());
    }
}
