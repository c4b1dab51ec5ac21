//! Signing in by an admin token, and out.
//!
//! Wrong tokens are counted by address, in a bucket of the page's own: who guesses is told to go
//! away, and a right token from the same address is never refused for it. The place to go to
//! afterwards is a path of ours or the overview.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded;

use super::super::error::Problem;
use super::super::peers::{Client, Https};
use super::answer::{Refused, page, see_other};
use super::seat::{Fields, Posted, Seat};
use super::{Desk, layout};

const COOKIE: &str = "hookledger";

/// The ids that a request's cookies hold, ours by their name.
pub(super) fn cookies(headers: &HeaderMap) -> Vec<&str> {
    let all = headers.get_all(header::COOKIE).iter();
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE)
        .map(|(_, id)| id)
        .take(4)
        .collect()
}

/// First sign in, then come back.
pub(super) fn first(parts: &Parts) -> Response<Body> {
    if parts.headers.contains_key("hx-request") {
        // A script would follow a redirect and put the form into the page.
        let mut response = Problem::UNAUTHORIZED.into_response();
        let to = HeaderValue::from_static("/login");
        response.headers_mut().insert("hx-redirect", to);
        return response;
    }
    let here = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    if parts.method != Method::GET || here == "/" {
        return see_other("/login");
    }
    let next = form_urlencoded::byte_serialize(here.as_bytes());
    see_other(&format!("/login?next={}", next.collect::<String>()))
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    next: Option<String>,
}

pub(super) async fn form(
    State(desk): State<Desk>,
    Query(asked): Query<Asked>,
    seat: Result<Seat, Refused>,
    headers: HeaderMap,
) -> Response<Body> {
    let next = place(asked.next.as_deref());
    if seat.is_ok() {
        return see_other(next);
    }
    // A link from elsewhere comes without the cookie; one click from here brings it.
    let from_elsewhere = headers
        .get("sec-fetch-site")
        .is_some_and(|site| site == "cross-site");
    let status = StatusCode::OK;
    page(status, login(&desk, next, from_elsewhere, None))
}

pub(super) async fn sign_in(
    State(desk): State<Desk>,
    client: Option<Extension<Client>>,
    https: Option<Extension<Https>>,
    request: Request<Body>,
) -> Result<Response<Body>, Refused> {
    let (_, fields) = Fields::read(request, &desk).await?;
    let presented = fields.get("token").unwrap_or_default().trim();
    let next = place(fields.get("next"));
    let Some((token, name)) = desk.admin.tokens.sign_in(presented) else {
        let counted = client.is_none_or(|Extension(client)| desk.web.failures.count(client));
        tracing::warn!("a sign-in to the page was refused");
        let (status, why) = if counted {
            let why = "This is neither the token of admin.token nor one of admin.tokens.";
            (StatusCode::UNAUTHORIZED, why)
        } else {
            let why = "Too many wrong tokens came from this address. Wait a minute.";
            (StatusCode::TOO_MANY_REQUESTS, why)
        };
        return Ok(page(status, login(&desk, next, false, Some(why))));
    };
    let id = desk.web.sessions.open(token);
    tracing::info!(token = %name, "signed in to the page");
    let mut response = see_other(next);
    set_cookie(&mut response, &id, https);
    Ok(response)
}

pub(super) async fn sign_out(
    State(desk): State<Desk>,
    https: Option<Extension<Https>>,
    posted: Posted,
) -> Response<Body> {
    desk.web.sessions.close(posted.seat.key());
    let mut response = see_other("/login");
    set_cookie(&mut response, "", https);
    response
}

/// With no `id`, it is forgotten.
fn set_cookie(response: &mut Response<Body>, id: &str, https: Option<Extension<Https>>) {
    let secure = https.is_some_and(|Extension(Https(yes))| yes);
    let secure = if secure { "; Secure" } else { "" };
    let gone = if id.is_empty() { "; Max-Age=0" } else { "" };
    let cookie = format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict{secure}{gone}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// A path of ours. `//host` and `/\host` are other sites to a browser.
pub(super) fn place(next: Option<&str>) -> &str {
    let ours = |path: &&str| {
        let plain = path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        path.starts_with('/') && !path.starts_with("//") && plain
    };
    next.filter(ours).unwrap_or("/")
}

fn login(desk: &Desk, next: &str, from_elsewhere: bool, why_not: Option<&str>) -> Markup {
    let content = html! {
        h1 { "Sign in" }
        @if desk.admin.tokens.is_empty() {
            p.said.bad role="alert" {
                "No admin token is configured, so nobody can sign in. Set "
                code { "admin.token" } " (" code { "HOOKLEDGER_ADMIN_TOKEN" }
                ") and start the service again."
            }
        }
        @if let Some(why) = why_not {
            p.said.bad role="alert" { (why) }
        }
        @if from_elsewhere {
            p.said { "Signed in already? " a href=(next) { "Go on to the page" } "." }
        }
        form.login method="post" action="/login" {
            input type="hidden" name="next" value=(next);
            label for="token" { "Admin token" }
            input #token type="password" name="token" required autofocus
                autocomplete="current-password" aria-describedby="which";
            p.note #which {
                "The token of " code { "admin.token" } " (" code { "HOOKLEDGER_ADMIN_TOKEN" }
                ") or one of " code { "admin.tokens" } ". One of scope read sees everything and \
                changes nothing."
            }
            button.main type="submit" { "Sign in" }
        }
    };
    layout::bare("Sign in", &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_ours_are_gone_to() {
        for good in ["/", "/operations?state=pending", "/events/1"] {
            assert_eq!(place(Some(good)), good);
        }
        for bad in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "operations",
            "",
            "/a\r\nb",
            "/ü",
        ] {
            assert_eq!(place(Some(bad)), "/", "{bad}");
        }
        assert_eq!(place(None), "/");
    }

    #[test]
    fn our_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; hookledger=one; c".parse().unwrap());
        headers.append(header::COOKIE, "hookledger=two".parse().unwrap());
        headers.append(header::COOKIE, "nothookledger=x".parse().unwrap());
        assert_eq!(cookies(&headers), ["one", "two"]);
    }
}
