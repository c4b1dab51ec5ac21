//! One operation: its timeline, what it is, its effects and its deliveries, and what can be done.

use axum::body::Body;
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use maud::{Markup, html};
use uuid::Uuid;

use super::super::admin::operations as api;
use super::answer::{Refused, page};
use super::layout::{Page, Room};
use super::parts::{Button, ago, copied, quoted, span, time};
use super::seat::{Order, Seat};
use super::timeline::{Moment, Story};
use super::{Desk, drawing, effects, operations};
use crate::base::clock::Timestamp;
use crate::domain::ledger::Operation;
use crate::store::EventFilter;

/// Most deliveries and looks told.
const MOST: u32 = 100;

pub(super) async fn show(
    State(desk): State<Desk>,
    seat: Seat,
    Path(id): Path<String>,
) -> Result<Response<Body>, Refused> {
    let story = tell(&desk, &id).await?;
    let now = desk.admin.health.now();
    let moments = story.moments(now);
    let o = &story.operation;
    let title = o.name.as_ref().map_or("Reserved", |name| name.segment());
    let content = Page {
        seat: &seat,
        room: Room::Operations,
        title,
        head: html! {},
        live: html! {
            header.head {
                h1 { (operations::name(o)) }
                p { (operations::state(o)) " " span.note { (standing(o, now)) } }
            }
            div.acts { (acts(&seat, o)) }
            section.card {
                h2 { "What happened" }
                (drawing::draw(&moments))
                (list(&moments, now))
            }
            div.two.even {
                section {
                    h2 { "Effects" }
                    (effects::cards(&seat, &story.effects, now))
                }
                section {
                    h2 { "Facts" }
                    (facts(o))
                }
            }
        },
        still: curl(&seat, o),
    };
    Ok(page(StatusCode::OK, content.render()))
}

async fn tell(desk: &Desk, id: &str) -> Result<Story, Refused> {
    let store = &desk.admin.store;
    let operation = api::find(&desk.admin, id).await?;
    let segment = operation
        .name
        .as_ref()
        .map(|name| name.segment().to_owned());
    let (events, looks) = match segment {
        None => (Vec::new(), Vec::new()),
        Some(segment) => {
            let looks = store.looks_of(&segment, MOST).await?;
            let filter = EventFilter {
                segment: Some(segment),
                ..EventFilter::default()
            };
            (store.events(&filter, None, MOST).await?.items, looks)
        }
    };
    Ok(Story {
        log: store.operation_log(operation.id).await?,
        effects: store.effects_of(operation.id).await?,
        operation,
        events,
        looks,
    })
}

pub(super) async fn fetch(
    State(desk): State<Desk>,
    Path(id): Path<Uuid>,
    Order { seat, .. }: Order,
) -> Result<Response<Body>, Refused> {
    let here = format!("/operations/{id}");
    let operation = api::find(&desk.admin, &id.to_string()).await?;
    let settled = operation.state.is_settled();
    Ok(match api::look_again(&desk.admin, operation).await {
        Ok(_) if settled => seat.back(&desk, &here, "Its dead and held effects are due again."),
        Ok(_) => seat.back(&desk, &here, "A fetch is queued; its end is shown here."),
        Err(refusal) => seat.sorry(&desk, &here, refusal.detail()),
    })
}

fn standing(o: &Operation, now: Timestamp) -> String {
    match (o.settled_at, o.settled_by) {
        (Some(at), Some(by)) => format!(
            "settled by {} {} after it was submitted, {}",
            by.as_str(),
            span(at.since(o.submitted_at)),
            ago(at, now)
        ),
        _ => format!("submitted {}", ago(o.submitted_at, now)),
    }
}

fn acts(seat: &Seat, o: &Operation) -> Markup {
    let action = format!("/operations/{}/fetch", o.id);
    html! {
        @if o.name.is_none() {
            p.note { "It is reserved and has no name yet; bind it first." }
        } @else if o.state.is_settled() {
            (Button::new(seat, "again", action, "Send effects again"))
        } @else {
            (Button::new(seat, "fetch", action, "Fetch now").main())
        }
    }
}

/// The same by the API.
fn curl(seat: &Seat, o: &Operation) -> Markup {
    let name = match &o.name {
        Some(name) => name.to_string(),
        None => o.id.to_string(),
    };
    let url = format!("{}/api/v1/operations/{name}", seat.origin);
    let bearer = "-H \"Authorization: Bearer ${HOOKLEDGER_ADMIN_TOKEN:?}\"";
    let show = format!("curl -sS {bearer} {}", quoted(&url));
    let again = format!(
        "curl -sS -X POST {bearer} {}",
        quoted(&format!("{url}/retry"))
    );
    html! {
        section {
            h2 { "The same by the API" }
            (copied("curl-show", &show))
            @if o.name.is_some() { (copied("curl-again", &again)) }
        }
    }
}

fn list(moments: &[Moment], now: Timestamp) -> Markup {
    let before = std::iter::once(None).chain(moments.iter().map(Some));
    html! {
        ol.moments {
            @for (one, before) in moments.iter().zip(before) {
                @let gap = before.map_or(std::time::Duration::ZERO, |b| one.at.since(b.at));
                @if gap.as_secs() >= 1 {
                    li.gap aria-hidden="true" { span { (span(gap)) } }
                }
                li.(if one.ahead { "ahead" } else { one.tone.class() }) {
                    span.when {
                        (time(one.at))
                        @if one.ahead { span.note { (ago(one.at, now)) } }
                    }
                    span.what {
                        span.by { (one.lane.name()) }
                        @match &one.way {
                            Some(way) => a href=(way) { (one.what) },
                            None => strong { (one.what) },
                        }
                        span.note { (one.cause) }
                    }
                }
            }
        }
    }
}

fn facts(o: &Operation) -> Markup {
    let json = |value: &serde_json::Value| {
        serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
    };
    html! {
        dl {
            dt { "Ledger id" } dd { code { (o.id) } }
            dt { "Kind" } dd { (o.kind.map_or("not known yet", |kind| kind.as_str())) }
            dt { "Job kind" } dd { (o.job_kind) }
            dt { "Registered" } dd {
                @match o.registered_at { Some(at) => (time(at)), None => "no: it was adopted" }
            }
            dt { "Webhook" } dd { (told(o)) }
            dt { "Fetches" } dd { (o.attempts) }
            @if let Some(at) = o.deadline_at { dt { "Deadline" } dd { (time(at)) } }
            @if let Some(hash) = &o.body_hash { dt { "Body" } dd { code { "sha256 " (hash) } } }
        }
        @if let Some(metadata) = &o.user_metadata {
            h3 { "User metadata" }
            pre { (json(metadata)) }
        }
        @if let Some(summary) = &o.summary {
            h3 { "As the API said last" }
            pre { (json(summary)) }
        }
    }
}

fn told(o: &Operation) -> &'static str {
    match o.told.as_str() {
        "webhook" => "told its ending in time",
        "rescued" => "never came; the ending was found by the timer",
        "late" => "came late; the ending had been found by the timer",
        "no_event" => "none was to be expected",
        _ => "not decided yet",
    }
}
