//! The open alerts, each with what to do about it.

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use maud::html;

use super::Desk;
use super::answer::{Refused, page};
use super::layout::{Page, Room};
use super::parts::{Tone, ago, badge, empty, time, words};
use super::seat::Seat;
use super::verdict::{way_of, what_to_do};

pub(super) async fn list(State(desk): State<Desk>, seat: Seat) -> Result<Response<Body>, Refused> {
    let alerts = desk.admin.store.open_alerts().await?;
    let now = desk.admin.health.now();
    let content = Page {
        seat: &seat,
        room: Room::Alerts,
        title: "Alerts",
        head: html! { h1 { "Alerts" } },
        live: html! {
            @if alerts.is_empty() {
                (empty("No alert is open.", &html! {
                    "Each fires once and ends by itself when its cause does. Who is told stands in "
                    code { "alerts.to" } " of the configuration."
                }))
            } @else {
                ul.concerns {
                    @for one in &alerts {
                        li.bad {
                            (badge("open", Tone::Bad))
                            div {
                                p.what { strong { (words(&one.summary)) } }
                                p.note { (words(what_to_do(&one.subject))) }
                                p.note { code { (one.subject) } " since " (time(one.opened_at)) ", " (ago(one.opened_at, now)) }
                            }
                            @if let Some((path, to)) = way_of(&one.subject) { a.button href=(path) { (to) } }
                        }
                    }
                }
            }
        },
        still: html! {},
    };
    Ok(page(StatusCode::OK, content.render()))
}
