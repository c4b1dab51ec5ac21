//! The list of operations.

use axum::body::Body;
use axum::extract::State;
use http::Response;
use maud::{Markup, html};
use url::form_urlencoded;

use super::super::admin::Refusal;
use super::super::admin::operations::{self as api, OperationParams};
use super::Desk;
use super::answer::{Refused, see_other};
use super::filters::Asked;
use super::layout::Room;
use super::listing::{Listing, ROWS};
use super::parts::{Tone, ago, badge, empty, span, time, tone_of_operation};
use super::seat::Seat;
use crate::base::clock::Timestamp;
use crate::domain::ledger::{EventRecord, Operation, Told};
use crate::domain::operation::{Kind, OperationState};
use crate::domain::work::Reason;
use crate::store::{EventFilter, OperationFilter, Reader, StoreError};

fn filter(asked: &Asked, now: Timestamp) -> Result<OperationFilter, Refusal> {
    let (since, until) = asked.age(now);
    let params = OperationParams {
        q: asked.get("q"),
        kind: asked.get("kind"),
        job_kind: asked.get("job_kind"),
        state: asked.get("state"),
        settled_by: asked.get("settled_by"),
        overdue: asked.get("overdue"),
        told: asked.get("told"),
        since,
        until,
        ..OperationParams::default()
    };
    params.filter()
}

fn fields(asked: &Asked) -> Markup {
    html! {
        (asked.text("q", "Name begins", "batches/… or its end"))
        (asked.choice("state", "State", &OperationState::ALL.map(OperationState::as_str)))
        (asked.choice("kind", "Kind", &Kind::ALL.map(Kind::as_str)))
        (asked.text("job_kind", "Job kind", "nightly"))
        (asked.choice("settled_by", "Settled by", &Reason::ALL.map(Reason::as_str)))
        (asked.choice("told", "Webhook", &Told::ALL.map(Told::as_str)))
        (asked.choice("overdue", "Overdue", &["true", "false"]))
        (asked.ages())
    }
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
        room: Room::Operations,
        title: "Operations",
        tabs: html! {},
        fields: fields(&asked),
        nothing: nothing(&asked),
    };
    let read = |filter, cursor| async move { store.operations(&filter, cursor, ROWS).await };
    let rows = |found: &[Operation]| table(found, now, true);
    list.answer(filter(&asked, now), read, rows).await
}

fn nothing(asked: &Asked) -> Markup {
    let next = html! {
        @if asked.narrows() {
            "Take a filter away, or go on with older ones below."
        } @else {
            "Register the first: "
            code { "hookledger operations register --name NAME --job-kind KIND" } "."
        }
    };
    empty("No operation here.", &next)
}

/// Where an event's own word for its operation leads.
pub(super) async fn named(
    State(desk): State<Desk>,
    _: Seat,
    asked: Asked,
) -> Result<Response<Body>, Refused> {
    let name = asked.get("name").unwrap_or_default();
    if let Ok(found) = api::find(&desk.admin, &name).await {
        return Ok(see_other(&format!("/operations/{}", found.id)));
    }
    let query = form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>();
    Ok(see_other(&format!("/operations?q={query}")))
}

/// The way to an operation by what something else calls it.
pub(super) fn way(name: &str) -> String {
    let name = form_urlencoded::byte_serialize(name.as_bytes());
    format!("/operations/named?name={}", name.collect::<String>())
}

/// The newest ones.
pub(super) async fn newest(store: &Reader, limit: u32) -> Result<Vec<Operation>, StoreError> {
    let all = OperationFilter::default();
    Ok(store.operations(&all, None, limit).await?.items)
}

/// The newest delivery.
pub(super) async fn newest_event(store: &Reader) -> Result<Option<EventRecord>, StoreError> {
    let newest = store.events(&EventFilter::default(), None, 1).await?;
    Ok(newest.items.into_iter().next())
}

/// `whole` has room for the time of submission.
pub(super) fn table(all: &[Operation], now: Timestamp, whole: bool) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead { tr {
                    th { "Operation" } th { "State" } th { "Job" } @if whole { th { "Submitted" } } th { "Settled" }
                } }
                tbody {
                    @for one in all {
                        tr {
                            td.wide { a id={ "o-" (one.id) } href={ "/operations/" (one.id) } { (name(one)) } }
                            td data-label="State" { (state(one)) }
                            td data-label="Job" { (one.job_kind) }
                            @if whole { td data-label="Submitted" { (time(one.submitted_at)) } }
                            td.tight data-label="Settled" { (ending(one, now)) }
                        }
                    }
                }
            }
        }
    }
}

/// What it is called.
pub(super) fn name(one: &Operation) -> Markup {
    html! {
        @match &one.name {
            Some(name) => span.name { (name) },
            None => span.name { "reserved " (one.id) },
        }
    }
}

/// Its state, and the flags that stand beside it.
pub(super) fn state(one: &Operation) -> Markup {
    html! {
        (badge(one.state.as_str(), tone_of_operation(one.state)))
        @if one.overdue { " " (badge("overdue", Tone::Watch)) }
        @if one.requires_action { " " (badge("requires action", Tone::Bad)) }
        @if one.effects_withheld { " " (badge("effects withheld", Tone::Watch)) }
        @if one.told == Told::Rescued { " " (badge("rescued", Tone::Watch)) }
    }
}

fn ending(one: &Operation, now: Timestamp) -> Markup {
    html! {
        @match (one.settled_at, one.settled_by) {
            (Some(at), Some(by)) => {
                "by " (by.as_str()) " "
                span.note { "after " (span(at.since(one.submitted_at))) }
            }
            _ => span.note {
                @match one.next_check_at {
                    Some(next) if next > now => { "next look " (ago(next, now)) }
                    Some(_) => "a look is due",
                    None => "not yet",
                }
            }
        }
    }
}
