//! Captured deliveries: the list, and one with every byte of it.

use axum::body::Body;
use axum::extract::{Path, State};
use data_encoding::BASE64;
use http::{Response, StatusCode};
use maud::{Markup, html};
use uuid::Uuid;

use super::super::admin::Refusal;
use super::super::admin::events::{self as api, EventParams};
use super::super::admin::input;
use super::answer::{Refused, page};
use super::filters::Asked;
use super::layout::{Page, Room};
use super::listing::{Listing, ROWS};
use super::parts::{Button, Tone, ago, badge, copied, count, empty, time};
use super::pretty::pretty;
use super::seat::{Order, Seat};
use super::{Desk, operations};
use crate::base::clock::Timestamp;
use crate::domain::event::Verdict;
use crate::domain::ledger::{CapturedEvent, EventRecord};
use crate::receive::curl;
use crate::store::EventFilter;

fn filter(asked: &Asked, now: Timestamp) -> Result<EventFilter, Refusal> {
    let (since, until) = asked.age(now);
    let params = EventParams {
        q: asked.get("q"),
        source: asked.get("source"),
        r#type: asked.get("type"),
        verdict: asked.get("verdict"),
        since,
        until,
        ..EventParams::default()
    };
    params.filter()
}

pub(super) async fn list(
    State(desk): State<Desk>,
    seat: Seat,
    asked: Asked,
) -> Result<Response<Body>, Refused> {
    let now = desk.admin.health.now();
    let store = &desk.admin.store;
    let list = Listing {
        seat: &seat,
        asked: &asked,
        room: Room::Events,
        title: "Events",
        tabs: html! {},
        fields: html! {
            (asked.text("q", "Operation begins", "batches/… or its end"))
            (asked.text("type", "Type", "batch.succeeded"))
            (asked.choice("verdict", "Verdict", &["accepted", "ignored"]))
            (asked.text("source", "Source", "gemini"))
            (asked.ages())
        },
        nothing: empty(
            "No delivery here.",
            &html! {
                "Give the provider the address of this service: "
                code { "hookledger webhooks sync --dry-run" } " shows it, and what differs."
            },
        ),
    };
    let read = |filter, cursor| async move { store.events(&filter, cursor, ROWS).await };
    let rows = |found: &[EventRecord]| table(found, now);
    list.answer(filter(&asked, now), read, rows).await
}

fn verdict(one: &EventRecord) -> Markup {
    let tone = match one.verdict {
        Verdict::Accepted => Tone::Good,
        Verdict::Ignored | Verdict::Duplicate => Tone::Plain,
    };
    html! {
        (badge(one.verdict.as_str(), tone))
        @if one.proof == "replay" { " " (badge("replay", Tone::Going)) }
    }
}

fn kind(one: &EventRecord) -> &str {
    one.event_type.as_deref().unwrap_or("without a type")
}

fn operation(one: &EventRecord) -> Markup {
    html! {
        @match &one.operation {
            Some(name) => a.name href=(operations::way(name)) { (name) },
            None => span.note { "names none" },
        }
    }
}

fn table(all: &[EventRecord], now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead { tr { th { "Event" } th { "Verdict" } th { "Operation" } th { "Source" } th { "Came" } th { "Copies" } } }
                tbody {
                    @for one in all {
                        tr {
                            td { a id={ "v-" (one.id) } href={ "/events/" (one.id) } { (kind(one)) } }
                            td data-label="Verdict" { (verdict(one)) @if let Some(why) = &one.why { " " span.note { (why) } } }
                            td data-label="Operation" { (operation(one)) }
                            td data-label="Source" { (one.source) }
                            td data-label="Came" { (time(one.received_at)) " " span.note { (ago(one.received_at, now)) } }
                            td data-label="Copies" { (one.duplicates) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) async fn show(
    State(desk): State<Desk>,
    seat: Seat,
    Path(id): Path<String>,
) -> Result<Response<Body>, Refused> {
    let event = api::find(&desk.admin, input::id(&id)?).await?;
    let (one, now) = (&event.record, desk.admin.health.now());
    let content = Page {
        seat: &seat,
        room: Room::Events,
        title: kind(one),
        head: html! {},
        live: html! {
            header.head {
                h1 { (kind(one)) }
                p { (verdict(one)) " " span.note { "came " (ago(one.received_at, now)) } }
            }
            @if one.emptied_at.is_none() {
                div.acts {
                    (Button::new(&seat, "replay", format!("/events/{}/replay", one.id), "Replay").main())
                    span.note { "Puts it through the queue once more; no effect is repeated by it." }
                }
            }
            (facts(one))
        },
        still: inside(&desk, &event),
    };
    Ok(page(StatusCode::OK, content.render()))
}

fn facts(one: &EventRecord) -> Markup {
    html! {
        dl {
            dt { "Operation" } dd { (operation(one)) }
            dt { "Verdict" } dd { (one.verdict.as_str()) @if let Some(why) = &one.why { ": " (why) } }
            dt { "Proven by" } dd { (one.proof.replace('_', " ")) }
            dt { "Came" } dd { (time(one.received_at)) " from " (one.source) }
            dt { "Copies" } dd { (count(one.duplicates, "redelivery", "redeliveries")) " folded into it" }
            @if let Some(id) = &one.webhook_id { dt { "webhook-id" } dd { code { (id) } } }
            dt { "Id" } dd { code { (one.id) } }
        }
    }
}

/// Headers, body, and the command that sends it again.
fn inside(desk: &Desk, event: &CapturedEvent) -> Markup {
    if let Some(at) = event.record.emptied_at {
        let when =
            html! { "They were removed " (time(at)) ", by " code { "store.body_retention" } "." };
        return empty("Its headers and body are not kept any more.", &when);
    }
    let text = std::str::from_utf8(&event.body).ok();
    let json = text.and_then(|t| serde_json::from_str::<serde_json::Value>(t).ok());
    let set_out = json.as_ref().and_then(pretty);
    html! {
        section {
            h2 { "Headers" }
            @if event.headers.is_empty() {
                p.note { "None was kept. Those that carry secrets never are." }
            } @else {
                dl.headers {
                    @for (name, value) in &event.headers {
                        dt { (name) }
                        dd { @match std::str::from_utf8(value) {
                            Ok(text) => code { (text) },
                            Err(_) => { code { (BASE64.encode(value)) } " " span.note { "base64" } }
                        } }
                    }
                }
            }
        }
        section {
            h2 { "Body" }
            @if json.is_some() && set_out.is_none() {
                p.note { "Set out line by line it would be far larger than it is: as it came." }
            }
            @if let Some(text) = &set_out { pre #body tabindex="0" { (text) } }
            details open[set_out.is_none()] {
                summary { "Raw, " (count(event.body.len() as u64, "byte", "bytes")) }
                pre #raw tabindex="0" {
                    @match text {
                        Some(text) => (text),
                        None => { "no text; in base64:\n" (BASE64.encode(&event.body)) }
                    }
                }
            }
        }
        section {
            h2 { "Send it again through the front door" }
            (command(desk, event))
        }
    }
}

fn command(desk: &Desk, event: &CapturedEvent) -> Markup {
    let delivery = curl::Delivery {
        source: event.record.source.clone(),
        headers: event.headers.clone(),
        body: event.body.clone(),
    };
    let target = desk.web.target(&delivery.source);
    let id = event.record.id;
    match curl::command(id, &delivery, target, None, &curl::Body::Inline) {
        Ok(text) => html! {
            p.note { "Secrets stay variables. " code { "hookledger events curl " (id) " --fresh" } " signs it anew." }
            (copied("curl", &text))
        },
        Err(why) => html! { p.note { (why) } },
    }
}

pub(super) async fn replay(
    State(desk): State<Desk>,
    Path(id): Path<Uuid>,
    Order { seat, .. }: Order,
) -> Result<Response<Body>, Refused> {
    Ok(match api::play_again(&desk.admin, id).await {
        Ok(received) => {
            let said = format!(
                "Replayed: {}. This is the new event.",
                received.verdict.as_str()
            );
            seat.back(&desk, &format!("/events/{}", received.event_id), said)
        }
        Err(refusal) => seat.sorry(&desk, &format!("/events/{id}"), refusal.detail()),
    })
}
