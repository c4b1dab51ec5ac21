//! The outbox: what goes out, what did not arrive, and a person's word on it.

use axum::body::Body;
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use maud::{Markup, html};
use uuid::Uuid;

use super::super::admin::Refusal;
use super::super::admin::effects::{self as api, EffectParams};
use super::super::admin::input;
use super::Desk;
use super::answer::{Refused, page};
use super::filters::Asked;
use super::layout::{Page, Room};
use super::listing::{Listing, ROWS};
use super::parts::{Button, ago, badge, empty, time, tone_of_effect};
use super::seat::{Order, Seat};
use super::sign_in::place;
use crate::base::clock::Timestamp;
use crate::domain::effect::EffectState;
use crate::domain::ledger::EffectRecord;
use crate::store::{EffectFilter, EffectRetry};

fn filter(asked: &Asked, now: Timestamp) -> Result<EffectFilter, Refusal> {
    let (since, until) = asked.age(now);
    let params = EffectParams {
        q: asked.get("q"),
        state: asked.get("state"),
        effect: asked.get("effect"),
        cause: asked.get("cause"),
        since,
        until,
        ..EffectParams::default()
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
        room: Room::Effects,
        title: "Effects",
        tabs: html! {},
        fields: html! {
            (asked.choice("state", "State", &EffectState::ALL.map(EffectState::as_str)))
            (asked.text("q", "Operation begins", "batches/… or its end"))
            (asked.text("effect", "Effect", "notify"))
            (asked.text("cause", "On", "succeeded"))
            (asked.ages())
        },
        nothing: empty(
            "No effect here.",
            &html! {
                "Effects are planned when an operation ends. Which ones stands in "
                code { "[[effects]]" } " of the configuration."
            },
        ),
    };
    let read = |filter, cursor| async move { store.effects(&filter, cursor, ROWS).await };
    let rows = |found: &[EffectRecord]| table(&seat, found, now);
    list.answer(filter(&asked, now), read, rows).await
}

pub(super) async fn show(
    State(desk): State<Desk>,
    seat: Seat,
    Path(id): Path<String>,
) -> Result<Response<Body>, Refused> {
    let effect = api::find(&desk.admin, input::id(&id)?).await?;
    let now = desk.admin.health.now();
    let content = Page {
        seat: &seat,
        room: Room::Effects,
        title: &effect.effect,
        head: html! {},
        live: html! {
            header.head {
                h1 { "Effect " (effect.effect) }
                p { (badge(effect.state.as_str(), tone_of_effect(effect.state))) " " span.note { (meaning(effect.state)) } }
            }
            div.acts { (decisions(&seat, &effect)) }
            (facts(&effect, now))
        },
        still: html! {},
    };
    Ok(page(StatusCode::OK, content.render()))
}

/// What a person says about an effect: `retry`, `done` or `dead`.
pub(super) async fn decide(
    State(desk): State<Desk>,
    Path(id): Path<Uuid>,
    Order { seat, fields }: Order,
) -> Result<Response<Body>, Refused> {
    let back = place(fields.get("back")).to_owned();
    let (what, said) = match fields.get("as") {
        Some("retry") => (EffectRetry::Again, "It is due again, with the same key."),
        Some("done") => (
            EffectRetry::Done,
            "It counts as arrived and is not sent any more.",
        ),
        Some("dead") => (EffectRetry::Dead, "It is given up and not sent any more."),
        _ => {
            let why = "as must be one of retry, done, dead.";
            return Err(Refusal::bad_request(why).into());
        }
    };
    Ok(match api::decide(&desk.admin, id, what).await {
        Ok(effect) => seat.back(&desk, &back, format!("{}: {said}", effect.effect)),
        Err(refusal) => seat.sorry(&desk, &back, refusal.detail()),
    })
}

/// What can be said about it, as buttons.
fn decisions(seat: &Seat, one: &EffectRecord) -> Markup {
    let button = |word: &'static str, label: &'static str| {
        let action = format!("/effects/{}/decide", one.id);
        let button = Button::new(seat, format!("{word}-{}", one.id), action, label);
        button.with("as", word).with("back", seat.here.clone())
    };
    html! {
        @match one.state {
            EffectState::Dead => (button("retry", "Retry").main()),
            EffectState::Held | EffectState::Ambiguous => {
                (button("retry", "Send again"))
                (button("done", "It arrived"))
                (button("dead", "Give up"))
            }
            EffectState::Planned => {
                (button("retry", "Send now"))
                (button("dead", "Give up"))
            }
            EffectState::Sending | EffectState::Done => {}
        }
    }
}

const fn meaning(state: EffectState) -> &'static str {
    match state {
        EffectState::Planned => "due at its next attempt",
        EffectState::Sending => "on its way right now",
        EffectState::Done => "the receiver said yes",
        EffectState::Ambiguous => "it may have arrived; it is sent again with the same key",
        EffectState::Held => "it may have arrived; it waits for your word",
        EffectState::Dead => "given up, or refused for good",
    }
}

fn table(seat: &Seat, all: &[EffectRecord], now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead { tr {
                    th { "Effect" } th { "State" } th { "Operation" } th { "Planned" } th { "How it went" } th { "Decide" }
                } }
                tbody {
                    @for one in all {
                        tr {
                            td { a id={ "e-" (one.id) } href={ "/effects/" (one.id) } { (one.effect) } span.note { " on " (one.cause.replace('_', " ")) } }
                            td data-label="State" { (badge(one.state.as_str(), tone_of_effect(one.state))) }
                            td data-label="Operation" { (subject(one)) }
                            td data-label="Planned" { (time(one.planned_at)) }
                            td data-label="How it went" { (course(one, now)) }
                            td data-label="Decide" { div.acts { (decisions(seat, one)) } }
                        }
                    }
                }
            }
        }
    }
}

fn subject(one: &EffectRecord) -> Markup {
    html! {
        @match (&one.operation_name, one.operation_id) {
            (Some(name), Some(id)) => a.name href={ "/operations/" (id) } { (name) },
            (Some(name), None) => span.name { (name) },
            _ => span.note { "an alert" },
        }
    }
}

fn course(one: &EffectRecord, now: Timestamp) -> Markup {
    let due = matches!(one.state, EffectState::Planned | EffectState::Ambiguous);
    html! {
        @if let (Some(why), true) = (&one.last_error, one.state != EffectState::Done) { (why) "; " }
        (one.attempts) @if one.attempts == 1 { " attempt" } @else { " attempts" }
        @if due { ", next " (ago(one.next_attempt_at, now)) }
        @if let Some(at) = one.finished_at { span.note { ", ended " (ago(at, now)) } }
    }
}

/// The effects of one operation, each with what can be said about it.
pub(super) fn cards(seat: &Seat, all: &[EffectRecord], now: Timestamp) -> Markup {
    html! {
        @if all.is_empty() {
            (empty("No effect yet.", &html! {
                "It has not ended, or none of " code { "[[effects]]" } " is for its job kind and ending."
            }))
        } @else {
            ul.effects {
                @for one in all {
                    li {
                        p {
                            (badge(one.state.as_str(), tone_of_effect(one.state))) " "
                            a href={ "/effects/" (one.id) } { strong { (one.effect) } } " "
                            span.note { "on " (one.cause.replace('_', " ")) }
                        }
                        p { (course(one, now)) }
                        div.acts { (decisions(seat, one)) }
                    }
                }
            }
        }
    }
}

fn facts(one: &EffectRecord, now: Timestamp) -> Markup {
    html! {
        dl {
            dt { "Operation" } dd { (subject(one)) }
            dt { "On" } dd { (one.cause.replace('_', " ")) }
            dt { "How it went" } dd { (course(one, now)) }
            dt { "Key" } dd { code { (one.idempotency_key) } " " span.note { "the same in every attempt" } }
            dt { "Planned" } dd { (time(one.planned_at)) }
            @if matches!(one.state, EffectState::Planned | EffectState::Ambiguous) {
                dt { "Next attempt" } dd { (time(one.next_attempt_at)) }
                dt { "Given up" } dd { (time(one.give_up_at)) }
            }
            @if let Some(at) = one.finished_at { dt { "Ended" } dd { (time(at)) } }
            dt { "Id" } dd { code { (one.id) } }
        }
    }
}
