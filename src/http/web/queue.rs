//! The work queue, and its dead letters put back.

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::super::admin::Refusal;
use super::super::admin::queue::QueueParams;
use super::Desk;
use super::answer::{Refused, page};
use super::filters::Asked;
use super::layout::{Page, Room};
use super::listing::{Listing, ROWS};
use super::parts::{Button, ago, badge, count, empty, time, tone_of_work};
use super::seat::{Order, Seat};
use super::{operations, sign_in};
use crate::base::clock::Timestamp;
use crate::domain::ledger::WorkRecord;
use crate::domain::work::{Reason, WorkState};
use crate::store::{StoreError, WorkFilter};

/// Dead letters shown before all are put back.
const SHOWN: u32 = 10;

/// Dead letters put back by one press: so many pages of so many.
const PAGES: usize = 20;
const PAGE: u32 = 500;

const DEAD: &str = "/queue?state=dead";

fn filter(asked: &Asked, now: Timestamp) -> Result<WorkFilter, Refusal> {
    let (since, until) = asked.age(now);
    let params = QueueParams {
        q: asked.get("q"),
        state: asked.get("state"),
        reason: asked.get("reason"),
        since,
        until,
        ..QueueParams::default()
    };
    params.filter()
}

pub(super) async fn list(
    State(desk): State<Desk>,
    seat: Seat,
    asked: Asked,
) -> Result<Response<Body>, Refused> {
    let now = desk.admin.health.now();
    let dead = asked.get("state").as_deref() == Some("dead");
    let store = &desk.admin.store;
    let list = Listing {
        seat: &seat,
        asked: &asked,
        room: Room::Queue,
        title: if dead { "Dead letters" } else { "Queue" },
        tabs: tabs(&asked),
        fields: html! {
            (asked.choice("state", "State", &WorkState::ALL.map(WorkState::as_str)))
            (asked.choice("reason", "Why", &Reason::ALL.map(Reason::as_str)))
            (asked.text("q", "Operation begins", "batches/… or its end"))
            (asked.ages())
        },
        nothing: nothing(dead),
    };
    let read = |filter, cursor| async move { store.work_items(&filter, cursor, ROWS).await };
    let rows = |found: &[WorkRecord]| {
        html! {
            @if dead { p { a.button #all href=(all(&asked)) { "Retry all dead letters" } } }
            (table(&seat, found, now))
        }
    };
    list.answer(filter(&asked, now), read, rows).await
}

/// The way to the confirmation, with the filters along.
fn all(asked: &Asked) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(asked.pairs());
    format!("/queue/retry?{}", query.finish())
}

fn tabs(asked: &Asked) -> Markup {
    let now = asked.get("state").unwrap_or_default();
    html! {
        nav.tabs aria-label="Parts of the queue" {
            @for (word, words) in [("", "All"), ("ready", "Waiting"), ("leased", "In hand"), ("dead", "Dead letters"), ("done", "Done")] {
                @let path = if word.is_empty() { "/queue".to_owned() } else { format!("/queue?state={word}") };
                a href=(path) aria-current=[(word == now).then_some("page")] { (words) }
            }
        }
    }
}

fn nothing(dead: bool) -> Markup {
    if dead {
        empty(
            "No dead letter.",
            &html! { "A look that fails too often would be here, with its reason." },
        )
    } else {
        let next = html! { "A webhook, a registration and the timer each put a look here; it stays listed after it is done." };
        empty("Nothing is in this part of the queue.", &next)
    }
}

fn table(seat: &Seat, all: &[WorkRecord], now: Timestamp) -> Markup {
    let dead = all.iter().any(|one| one.state == WorkState::Dead);
    html! {
        div.scroll {
            table.cards {
                thead { tr { th { "Operation" } th { "State" } th { "Why" } th { "Due" } th { "How it went" } @if dead { th { "Decide" } } } }
                tbody {
                    @for one in all {
                        tr {
                            td.wide { a.name id={ "w-" (one.id) } href=(operations::way(&one.operation)) { (one.operation) } }
                            td data-label="State" { (badge(one.state.as_str(), tone_of_work(one.state))) }
                            td data-label="Why" { (one.reason.as_str()) }
                            td data-label="Due" { (time(one.available_at)) }
                            td data-label="How it went" { (course(one, now)) }
                            @if dead { td data-label="Decide" {
                                @if one.state == WorkState::Dead {
                                    (Button::new(seat, format!("retry-{}", one.id), "/queue/retry", "Retry")
                                        .with("id", one.id.to_string()).with("back", seat.here.clone()))
                                }
                            } }
                        }
                    }
                }
            }
        }
    }
}

fn course(one: &WorkRecord, now: Timestamp) -> Markup {
    html! {
        @match one.outcome.as_deref() {
            Some("not_terminal") => "still running ",
            Some(outcome) => { (outcome.replace('_', " ")) " " }
            None => {}
        }
        @if let (Some(error), true) = (&one.last_error, one.state != WorkState::Done) { (error) "; " }
        @if one.attempts > 0 { (count(one.attempts.into(), "charged attempt", "charged attempts")) }
        @if let Some(at) = one.finished_at { span.note { " " (ago(at, now)) } }
    }
}

/// Puts those that fit back, or only counts them, and says whether there are more.
async fn put_back(
    desk: &Desk,
    filter: &WorkFilter,
    dry_run: bool,
) -> Result<(u64, bool), StoreError> {
    let (mut all, mut cursor) = (0, None);
    for _ in 0..PAGES {
        let registrar = &desk.admin.registrar;
        let page = registrar.retry_items(filter, cursor, PAGE, dry_run).await?;
        all += if dry_run { page.matched } else { page.done };
        cursor = page.next_cursor.and_then(|c| c.parse().ok());
        if cursor.is_none() {
            return Ok((all, false));
        }
    }
    Ok((all, true))
}

/// How many there are, before all of them are put back.
pub(super) async fn confirm(
    State(desk): State<Desk>,
    seat: Seat,
    asked: Asked,
) -> Result<Response<Body>, Refused> {
    let mut filter = filter(&asked, desk.admin.health.now())?;
    filter.state = Some(WorkState::Dead);
    let (dead, more) = put_back(&desk, &filter, true).await?;
    let store = &desk.admin.store;
    let first = store.work_items(&filter, None, SHOWN).await?.items;
    // The times stand as they are now: what dies later is not meant.
    let button = Button::new(&seat, "retry-all", "/queue/retry", "Retry all of them")
        .with("all", "yes")
        .with("back", DEAD)
        .with("q", asked.get("q").unwrap_or_default())
        .with("reason", asked.get("reason").unwrap_or_default())
        .with(
            "since",
            filter.since.map_or_else(String::new, |t| t.to_string()),
        )
        .with(
            "until",
            filter.until.map_or_else(String::new, |t| t.to_string()),
        )
        .main();
    let least = if more { "at least " } else { "" };
    let content = Page {
        seat: &seat,
        room: Room::Queue,
        title: "Retry dead letters",
        head: html! { h1 { "Retry dead letters" } },
        live: html! {
            @if dead == 0 {
                (nothing(true))
            } @else {
                p {
                    "Nothing has been done yet. This puts "
                    strong { (least) (count(dead, "dead letter", "dead letters")) }
                    " back into the queue, each due at once:"
                }
                ul.plainly {
                    @for one in &first {
                        li { span.name { (one.operation) } " " span.note { (one.last_error.as_deref().unwrap_or("no reason was kept")) } }
                    }
                    @if let Some(rest @ 1..) = dead.checked_sub(first.len() as u64) { li { "and " (rest) " more" } }
                }
                div.acts {
                    (button)
                    a href=(DEAD) { "Back to the list" }
                }
            }
        },
        still: html! {},
    };
    Ok(page(StatusCode::OK, content.render()))
}

/// Puts one dead letter back, or all that fit.
pub(super) async fn retry(
    State(desk): State<Desk>,
    Order { seat, fields }: Order,
) -> Result<Response<Body>, Refused> {
    let back = sign_in::place(fields.get("back")).to_owned();
    let (retried, more) = match (fields.get("id").map(str::parse), fields.get("all")) {
        (Some(Ok(id)), None) => {
            let item = desk.admin.registrar.retry_item(id, false).await?;
            (item.done, false)
        }
        (None, Some("yes")) => {
            let given = |name: &str| fields.get(name).map(ToOwned::to_owned);
            let params = QueueParams {
                q: given("q"),
                reason: given("reason"),
                since: given("since"),
                until: given("until"),
                ..QueueParams::default()
            };
            put_back(&desk, &params.filter()?, false).await?
        }
        _ => return Err(Refusal::bad_request("Name one by its id, or say all=yes.").into()),
    };
    let rest = if more {
        " There are more: press again."
    } else {
        ""
    };
    let said = match retried {
        0 => "None was dead any more.".to_owned(),
        n => format!("Put back: {}.{rest}", count(n, "item", "items")),
    };
    Ok(seat.back(&desk, &back, said))
}
