//! `[admin]`: where the operator's listener is, and the tokens that open its API.
//!
//! One token is the simple form, `admin.token`: it may do everything and is called `admin`. Several
//! are `[[admin.tokens]]`, each with a name for the log and a scope. Both may be used at once.

use std::net::SocketAddr;

use super::environment::variable_for;
use super::read::Reader;
use super::secrets::{needed, strong};
use super::sections::is_name;
use super::settings::{Admin, AdminToken, Scope, Settings};
use crate::base::secret::Secret;

const SCOPES: [(&str, Scope); 2] = [("read", Scope::Read), ("full", Scope::Full)];

/// Reads the section; `listen` is read by the caller, like every address.
pub(super) fn admin(r: &mut Reader<'_>, listen: SocketAddr) -> Admin {
    let token = r.secret("admin.token");
    let places = r.tables("admin.tokens");
    Admin {
        listen,
        token,
        tokens: places.iter().filter_map(|at| named(r, at)).collect(),
    }
}

/// One `[[admin.tokens]]`. Without its secret it is nobody's.
fn named(r: &mut Reader<'_>, at: &str) -> Option<AdminToken> {
    let key = |name: &str| key_of(at, name);
    if at.parse::<usize>().is_err() {
        let what = "is not a place in a list of tokens";
        let fix = "write [[admin.tokens]] above it";
        r.problem(&format!("admin.tokens.{at}"), what, fix);
    }
    let name = r.string(&key("name"), "a text", "a name such as dashboard");
    if !is_name(&name, 64) && r.sound(&[&key("name")]) {
        let fix = "use 1 to 64 characters from A-Z a-z 0-9 . _ -";
        r.problem(&key("name"), "is not a legal name", fix);
    }
    let scope = r.word(&key("scope"), None, &SCOPES, Scope::Read);
    let token = r.secret(&key("token"));
    if r.purpose == super::Purpose::Serve {
        needed(r, &key("token"), token.as_ref());
    }
    Some(AdminToken {
        place: at.to_owned(),
        name,
        scope,
        token: token?,
    })
}

fn key_of(place: &str, name: &str) -> String {
    format!("admin.tokens.{place}.{name}")
}

/// What must hold between the listener, its tokens and the other secrets.
pub(super) fn check(r: &mut Reader<'_>, s: &Settings) {
    let (public, admin) = (s.server.listen, s.admin.listen);
    if clash(public, admin) && r.sound(&["server.listen", "admin.listen"]) {
        let fix = "give each listener a port of its own";
        r.problem("admin.listen", "is the same address as server.listen", fix);
    }
    let open = s.admin.all().next().is_none();
    if !admin.ip().is_loopback() && open && r.sound(&["admin.listen", "admin.token"]) {
        let what = "can be reached from other machines, and there is no admin.token";
        let fix = format!(
            "set {}, or listen on 127.0.0.1",
            variable_for("admin.token")
        );
        r.problem("admin.listen", what, fix);
    }
    strong(r, "admin.token", s.admin.token.as_ref());
    // The other secrets that must not open the API as well: who delivers would be its operator.
    let mut seen: Vec<(String, Option<&str>, &Secret)> = Vec::new();
    for (key, secret) in [
        ("hooks.path_token", &s.hooks.path_token),
        ("hooks.shared_secret", &s.hooks.shared_secret),
    ] {
        seen.extend(secret.as_ref().map(|secret| (key.to_owned(), None, secret)));
    }
    for token in s.admin.all() {
        let key = token
            .place
            .map_or_else(|| "admin.token".to_owned(), |place| key_of(place, "token"));
        if token.secret.expose().contains(' ') && r.sound(&[&key]) {
            let fix = "use characters that a bearer token may have";
            r.problem(&key, "has a space in it", fix);
        }
        let same = |(_, _, secret): &&(String, Option<&str>, &Secret)| {
            secret.expose() == token.secret.expose()
        };
        if let Some((other, ..)) = seen.iter().find(same)
            && r.sound(&[&key, other])
        {
            let what = format!("is the same as {other}");
            r.problem(&key, what, "make one of its own");
        }
        let called = |(_, name, _): &&(String, Option<&str>, &Secret)| *name == Some(token.name);
        if let Some((other, ..)) = seen.iter().find(called)
            && let Some(place) = token.place
        {
            let name = key_of(place, "name");
            let what = format!("is the name of {other} too");
            r.problem(
                &name,
                what,
                "give each token a name of its own: it is in the log",
            );
        }
        seen.push((key, Some(token.name), token.secret));
    }
}

fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port()
        && a.port() != 0
        && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}
