//! What a request must show before it gets a page, or changes something.
//!
//! A page needs a session. A change needs more, because a browser sends the cookie along whoever
//! made it send the request: the session's own word in the form, which no other site can read; and,
//! as far as the browser says where the request came from, that it was us. `SameSite=Strict` is the
//! third of these. Each alone would do. A token that may only read changes nothing, whatever it
//! presses: [`Order`] asks for all of it, and every button's handler takes an [`Order`].

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts};
use axum::response::IntoResponse;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::super::admin::TokenDigest;
use super::super::body::read_capped;
use super::super::error::Problem;
use super::super::peers::Https;
use super::answer::{Refused, see_other};
use super::live::LIVE;
use super::session::{Found, Said};
use super::{Desk, sign_in};
use crate::config::settings::Scope;

/// Largest form, bytes.
const MAX_FORM: u64 = 16 * 1024;
/// Paths that only lead on: what is to be said is left for the page behind them.
const LEADS_ON: [&str; 2] = ["/login", "/operations/named"];
/// The field that carries the session's word.
pub(super) const CSRF_FIELD: &str = "csrf";

/// Somebody who is signed in, before a page.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    session: Found,
    /// The token's name.
    pub(super) name: Arc<str>,
    scope: Scope,
    /// Path and query of this page.
    pub(super) here: String,
    /// How the browser reached us, as in `https://ledger.example`.
    pub(super) origin: String,
    /// What the page before left to be said.
    pub(super) said: Option<Said>,
}

impl Seat {
    /// Whether buttons work.
    pub(super) const fn may_change(&self) -> bool {
        matches!(self.scope, Scope::Full)
    }

    /// The word for forms.
    pub(super) fn csrf(&self) -> &str {
        &self.session.csrf
    }

    pub(super) const fn token(&self) -> TokenDigest {
        self.session.token
    }

    pub(super) const fn key(&self) -> &super::session::Key {
        &self.session.key
    }

    /// Back to a page of ours, where this is said.
    pub(super) fn back(&self, desk: &Desk, to: &str, text: impl Into<String>) -> Response<Body> {
        let (bad, text) = (false, text.into());
        desk.web.sessions.say(self.key(), Said { bad, text });
        see_other(to)
    }

    /// Back to a page of ours, with bad news.
    pub(super) fn sorry(&self, desk: &Desk, to: &str, text: impl Into<String>) -> Response<Body> {
        let (bad, text) = (true, text.into());
        desk.web.sessions.say(self.key(), Said { bad, text });
        see_other(to)
    }

    fn of(parts: &Parts, desk: &Desk) -> Option<Self> {
        // The page that fetches itself again is nobody at the keyboard, and gets nothing said; nor is
        // its stream, which a browser opens anew for as long as the page is there.
        let by_itself = parts.headers.contains_key("hx-request") || parts.uri.path() == LIVE;
        let ids = sign_in::cookies(&parts.headers);
        let sessions = &desk.web.sessions;
        let session = ids
            .into_iter()
            .find_map(|id| sessions.find(id, !by_itself))?;
        let Some((name, scope)) = desk.admin.tokens.by_digest(&session.token) else {
            sessions.close(&session.key);
            return None;
        };
        let here = parts.uri.path_and_query();
        let host = parts
            .headers
            .get(header::HOST)
            .and_then(|h| h.to_str().ok());
        let https = parts
            .extensions
            .get::<Https>()
            .is_some_and(|Https(yes)| *yes);
        let scheme = if https { "https" } else { "http" };
        let leads_on = LEADS_ON.contains(&parts.uri.path());
        let shown = parts.method == Method::GET && !by_itself && !leads_on;
        Some(Self {
            said: shown.then(|| sessions.said(&session.key)).flatten(),
            session,
            name,
            scope,
            origin: format!("{scheme}://{}", host.unwrap_or("localhost")),
            here: here.map_or("/", |p| p.as_str()).to_owned(),
        })
    }
}

impl FromRequestParts<Desk> for Seat {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, desk: &Desk) -> Result<Self, Refused> {
        Self::of(parts, desk).ok_or_else(|| Refused::from(sign_in::first(parts)))
    }
}

/// A form's fields.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter().filter(|(n, _)| n == name);
        match (all.next(), all.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// Reads the form of a request that came from a page of ours.
    pub(super) async fn read(
        request: Request<Body>,
        desk: &Desk,
    ) -> Result<(Parts, Self), Refused> {
        let (parts, body) = request.into_parts();
        if !is_our_own(&parts.headers) {
            return Err(Refused::page(
                StatusCode::FORBIDDEN,
                "This did not come from a page of ours",
                "The browser says that another site sent this request, so nothing was done.",
            ));
        }
        let patience = desk.admin.body_timeout;
        let read = read_capped(&parts.headers, body, MAX_FORM, patience).await;
        let bytes = read.map_err(|error| Refused::from(Problem::from(error).into_response()))?;
        let fields = form_urlencoded::parse(&bytes);
        let fields = fields.map(|(n, v)| (n.into_owned(), v.into_owned()));
        Ok((parts, Self(fields.collect())))
    }
}

/// A form by somebody who is signed in, from a page of this very session.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) seat: Seat,
    pub(super) fields: Fields,
    path: String,
}

impl FromRequest<Desk> for Posted {
    type Rejection = Refused;

    async fn from_request(request: Request<Body>, desk: &Desk) -> Result<Self, Refused> {
        let (parts, fields) = Fields::read(request, desk).await?;
        let seat = Seat::of(&parts, desk);
        let seat = seat.ok_or_else(|| Refused::from(sign_in::first(&parts)))?;
        let word = fields.get(CSRF_FIELD).unwrap_or_default();
        if !bool::from(word.as_bytes().ct_eq(seat.csrf().as_bytes())) {
            return Err(Refused::page(
                StatusCode::FORBIDDEN,
                "This form is not of this session",
                "It was made before you signed in last, or by somebody else. Nothing was done; go \
                 back, load the page again and press once more.",
            ));
        }
        let path = parts.uri.path().to_owned();
        Ok(Self { seat, fields, path })
    }
}

/// A form by somebody who may change something.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) seat: Seat,
    pub(super) fields: Fields,
}

impl FromRequest<Desk> for Order {
    type Rejection = Refused;

    async fn from_request(request: Request<Body>, desk: &Desk) -> Result<Self, Refused> {
        let Posted { seat, fields, path } = Posted::from_request(request, desk).await?;
        let token = &seat.name;
        if !seat.may_change() {
            tracing::warn!(%token, path, "an admin token that may only read was refused");
            return Err(Refused::page(
                StatusCode::FORBIDDEN,
                "This token may only look",
                "Nothing was done. Sign in by a token of scope full to press buttons.",
            ));
        }
        tracing::info!(%token, path, "an admin request by the page");
        Ok(Self { seat, fields })
    }
}

/// Whether a request that changes something came from a page of ours, as far as the browser tells.
/// One that tells nothing is no browser of the last years; the form's word still has to be right.
fn is_our_own(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return true;
    };
    let authority = origin.to_str().ok().and_then(|o| o.split_once("://"));
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    match (authority, host) {
        (Some((_, authority)), Some(host)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_of_another_site_is_known_by_what_the_browser_says() {
        let own = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "ledger.example:8081".parse().unwrap());
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            is_our_own(&headers)
        };
        let (site, origin) = ("sec-fetch-site", "origin");
        assert!(own(&[]));
        assert!(own(&[(site, "same-origin")]));
        // A proxy may change the host; the browser's own word stands above it.
        assert!(own(&[
            (site, "same-origin"),
            (origin, "https://ledger.example")
        ]));
        assert!(own(&[(origin, "http://ledger.example:8081")]));
        for other in ["cross-site", "same-site", "none", ""] {
            assert!(!own(&[(site, other)]), "{other}");
        }
        for other in [
            "null",
            "",
            "http://ledger.example",
            "http://evil.example:8081",
            "http://ledger.example:8081.evil.example",
        ] {
            assert!(!own(&[(origin, other)]), "{other}");
        }
    }
}
