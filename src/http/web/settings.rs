//! The configuration in force, key by key, with where each was set. Secrets never get here as text.

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use maud::{Markup, html};
use serde_json::Value;

use super::Desk;
use super::answer::{Refused, page};
use super::layout::{Page, Room};
use super::parts::empty;
use super::seat::Seat;
use crate::config::Effective;

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
            Some(effective) => table(effective),
            None => empty(
                "Not known yet.",
                &html! { "The service has only just started. Load the page again." },
            ),
        },
    };
    Ok(page(StatusCode::OK, content.render()))
}

fn table(effective: &Effective) -> Markup {
    html! {
        div.scroll {
            table.cards.settings {
                thead { tr { th { "Key" } th { "Value" } th { "Set by" } } }
                tbody {
                    @for one in effective.entries() {
                        @let from = one.origin.to_string();
                        tr.set[from != "default"] {
                            td.wide { code { (one.key) } }
                            td data-label="Value" { code { (shown(&one.value)) } }
                            td data-label="Set by" { (from) }
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
