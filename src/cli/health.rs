//! `health`: asks the public listener on this machine, as a container's health check does.
//!
//! Needs no secret, and answers 0 or 1 alone: container engines give other codes other meanings.

use serde_json::{Value, json};
use url::Url;

use super::args::{Global, Health};
use super::client;
use super::failure::Failure;
use super::load;
use super::output::{Output, cell};

pub(super) async fn run(global: &Global, args: &Health, output: &Output) -> Result<(), Failure> {
    let base = if let Some(text) = &args.url {
        Url::parse(text).ok()
    } else {
        let loaded = load::for_client(global).map_err(|f| Failure::failed(f.to_string()))?;
        client::base_of(loaded.settings.server.listen).ok()
    };
    let mut url = base
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| Failure::failed("--url takes an address such as http://127.0.0.1:8080"))?;
    let path = match (args.live, args.ready) {
        (true, _) => "/livez",
        (_, true) => "/readyz",
        _ => "/healthz",
    };
    let below = format!("{}{path}", url.path().trim_end_matches('/'));
    url.set_path(&below);
    // Not the whole URL: it may hold a password.
    let asked = url.origin().ascii_serialization();
    let (well, document) = client::health(url).await.unwrap_or_else(|why| {
        let why = format!("{why} ({asked})");
        (false, json!({"status": "unreachable", "why": why}))
    });
    output.answer(&document, |_| line(&document))?;
    if well { Ok(()) } else { Err(Failure::Silent) }
}

fn line(document: &Value) -> String {
    let mut text = cell(document.get("status"));
    if let Some(why) = document.get("why") {
        text = format!("{text}: {}", cell(Some(why)));
    }
    text.push('\n');
    text
}
