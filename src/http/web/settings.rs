//! The configuration in force, key by key, with where each was set. Secrets never get here as text.

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use maud::{Markup, html};
use serde_json::Value;

use super::Desk;
use super::answer::{Refused, page};
use super::layout::{Page, Room};
use super::parts::{count, empty};
use super::seat::Seat;
use crate::config::{Effective, Entry, Origin};

pub(super) async fn show(State(desk): State<Desk>, seat: Seat) -> Result<Response<Body>, Refused> {
    let effective = desk.web.effective.get();
    let content = Page {
        seat: &seat,
        room: Room::Settings,
        title: "Settings",
        head: html! {
            h1 { "Settings" }
            p.note { "As the service was started, version " (env!("CARGO_PKG_VERSION")) ". Secrets are masked; SIGHUP reads them again." }
        },
        live: html! {},
        still: match &*effective {
            Some(effective) => tables(effective),
            None => empty(
                "Not known yet.",
                &html! { "The service has only just started. Load the page again." },
            ),
        },
    };
    Ok(page(StatusCode::OK, content.render()))
}

/// What somebody has set stands first: it is what one comes to see.
fn tables(effective: &Effective) -> Markup {
    let (left, set): (Vec<_>, Vec<_>) = effective
        .entries()
        .iter()
        .partition(|one| one.origin == Origin::Default);
    html! {
        @if !set.is_empty() {
            h2 { "Set here" }
            (table(&set, true))
        }
        details open[set.is_empty()] {
            summary { "As they came: " (count(left.len() as u64, "key", "keys")) }
            (table(&left, false))
        }
    }
}

/// `from` has room for where each was set.
fn table(entries: &[&Entry], from: bool) -> Markup {
    html! {
        div.scroll {
            table.cards.settings {
                thead { tr { th { "Key" } th { "Value" } @if from { th { "Set by" } } } }
                tbody {
                    @for one in entries {
                        tr {
                            td.wide { code { (one.key) } }
                            td data-label="Value" { code { (shown(&one.value)) } }
                            @if from { td data-label="Set by" { (one.origin.to_string()) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "not set".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
