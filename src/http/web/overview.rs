//! The first page: is all well, and what is going on.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::super::health::{LoopReport, Report};
use super::answer::{Refused, page};
use super::layout::{Page, Room};
use super::parts::{Tone, ago, badge, count, empty, span, time, words};
use super::plots::{Plot, figure};
use super::seat::Seat;
use super::verdict::{Concern, Verdict};
use super::{Desk, operations};
use crate::base::clock::Timestamp;
use crate::domain::ledger::{EventRecord, Operation};
use crate::reconcile::standing::Standing;
use crate::store::Gauges;

/// Over which lost webhooks are counted.
const LATELY: Duration = Duration::from_hours(24);
/// Things shown that are not as they should be.
const MOST: usize = 12;
/// Operations shown.
const NEWEST: u32 = 8;

/// What the page is made of.
struct Seen {
    now: Timestamp,
    report: Report,
    gauges: Option<Gauges>,
    verdict: Verdict,
    rescued: u64,
    last_event: Option<EventRecord>,
    newest: Vec<Operation>,
    subscription: Option<Standing>,
    plots: [Plot; 4],
}

pub(super) async fn show(State(desk): State<Desk>, seat: Seat) -> Result<Response<Body>, Refused> {
    let seen = look(&desk).await?;
    let title = seen.verdict.title();
    let content = Page {
        seat: &seat,
        room: Room::Overview,
        title: &title,
        head: html! { h1.hidden { "Overview" } },
        live: seen.show(),
        still: html! {},
    };
    Ok(page(StatusCode::OK, content.render()))
}

async fn look(desk: &Desk) -> Result<Seen, Refused> {
    let (health, store) = (&desk.admin.health, &desk.admin.store);
    let report = health.report().await;
    let gauges = health.figures().await.map(|figures| figures.gauges);
    let now = health.now();
    let alerts = store.open_alerts().await?;
    let samples = desk.web.samples.all();
    let plots = [
        Plot::rate("Deliveries", "a minute", &samples, |s| s.deliveries),
        Plot::level("Queue", "items", &samples, |s| s.queue),
        Plot::level("Open operations", "", &samples, |s| s.open),
        Plot::level("Effects on their way", "", &samples, |s| s.effects),
    ];
    Ok(Seen {
        verdict: Verdict::of(&report, gauges.as_ref(), &alerts),
        rescued: store.rescued_since(now.before(LATELY)).await?,
        last_event: operations::newest_event(store).await?,
        newest: operations::newest(store, NEWEST).await?,
        subscription: desk.admin.subscription.as_ref().map(|s| s.standing()),
        now,
        report,
        gauges,
        plots,
    })
}

impl Seen {
    fn show(&self) -> Markup {
        html! {
            section.verdict.(self.verdict.tone.class()) aria-label="Verdict" {
                p #sentence { (self.verdict.sentence(&self.well())) }
            }
            @if !self.verdict.concerns.is_empty() {
                ul.concerns aria-label="What is not as it should be" {
                    @for one in self.verdict.concerns.iter().take(MOST) { (concern(one)) }
                    @if let Some(rest @ 1..) = self.verdict.concerns.len().checked_sub(MOST) {
                        li.plain { span {} p { "and " (rest) " more" } a.button href="/alerts" { "To the alerts" } }
                    }
                }
            }
            section.tiles aria-label="Figures" { (self.tiles()) }
            section.plots aria-label="The last two hours" {
                @for plot in &self.plots { (plot.draw(self.now)) }
            }
            div.two {
                section {
                    h2 { "Newest operations" }
                    @if self.newest.is_empty() {
                        (empty("No operation yet.", &html! {
                            "Register the first: " code { "hookledger operations register --name NAME --job-kind KIND" }
                            ", or submit a job whose webhook comes here."
                        }))
                    } @else {
                        (operations::table(&self.newest, self.now, false))
                        p.more { a href="/operations" { "All operations" } }
                    }
                }
                section {
                    h2 { "Loops" }
                    (loops(&self.report.loops))
                    p.note { "As of " (time(self.now)) "." }
                }
            }
        }
    }

    /// What is told when nothing is wrong.
    fn well(&self) -> String {
        let open = self.gauges.map_or(0, |g| g.reserved + g.pending);
        let open = match open {
            0 => "nothing is open".to_owned(),
            n => format!(
                "{}, nothing is overdue",
                count(n, "operation is open", "operations are open")
            ),
        };
        let last = match &self.last_event {
            None => "no webhook has come yet".to_owned(),
            Some(event) => format!("the last webhook came {}", ago(event.received_at, self.now)),
        };
        format!("{open}, {last}")
    }

    fn tiles(&self) -> Markup {
        let g = self.gauges.unwrap_or_default();
        let due = g.oldest_due.filter(|due| *due <= self.now);
        let rate = self.plots.first().map_or(0.0, Plot::last);
        html! {
            (tile("Receiving", &html! { (figure(rate)) small { " a minute" } }, Tone::Plain, &html! {
                @match &self.last_event {
                    None => "no webhook yet",
                    Some(event) => { "last " (ago(event.received_at, self.now)) }
                }
            }))
            (tile("Queue", &html! { (g.ready + g.leased) }, Tone::Plain, &html! {
                @match due {
                    None => "nothing is due",
                    Some(due) => { "oldest due for " (span(self.now.since(due))) }
                }
            }))
            (tile("Open operations", &html! { (g.reserved + g.pending) }, watch(g.overdue), &html! {
                (g.overdue) " overdue"
            }))
            (tile("Rescued, no webhook", &html! { (self.rescued) }, watch(self.rescued), &html! {
                "in 24 hours"
            }))
            (effects_tile(&g))
            (self.subscription_tile())
        }
    }

    fn subscription_tile(&self) -> Markup {
        let name = "Subscription";
        let Some(standing) = self.subscription else {
            let note = html! { "set " code { "subscription.enabled" } };
            return tile(name, &html! { "not watched" }, Tone::Plain, &note);
        };
        let (word, tone) = match standing.look {
            None => ("not seen yet", Tone::Plain),
            Some((_, "matching")) => ("enabled", Tone::Good),
            Some((_, "drift")) => ("enabled, differs", Tone::Watch),
            Some((_, "failed")) => ("not reachable", Tone::Watch),
            Some((_, other)) => (other, Tone::Bad),
        };
        let note = html! {
            @match (standing.canary, standing.pings) {
                (None, false) => "no canary is sent",
                (None, true) => "no canary back yet",
                (Some((at, word)), _) => {
                    "canary " (word) " " (ago(at, self.now))
                    @if let (Some(took), "arrived") = (standing.canary_took, word) { ", in " (span(took)) }
                }
            }
        };
        tile(name, &html! { (word) }, tone, &note)
    }
}

const fn watch(n: u64) -> Tone {
    if n > 0 { Tone::Watch } else { Tone::Plain }
}

fn tile(name: &str, value: &Markup, tone: Tone, note: &Markup) -> Markup {
    html! {
        div.tile.(tone.class()) {
            h2 { (name) }
            p.value { (value) }
            p.note { (note) }
        }
    }
}

/// In large what somebody must decide on; only if there is nothing of that, what goes on by itself.
fn effects_tile(g: &Gauges) -> Markup {
    let waiting = g.effects_dead + g.effects_held;
    if waiting == 0 {
        let note = html! { (g.effects_ambiguous) " ambiguous, none dead or held" };
        let value = html! { (g.effects_open) small { " on their way" } };
        return tile("Effects", &value, watch(g.effects_ambiguous), &note);
    }
    let value =
        html! { (waiting) small { @if waiting == 1 { " waits" } @else { " wait" } " for you" } };
    let note = html! {
        (g.effects_dead) " dead, " (g.effects_held) " held; " (g.effects_open) " on their way"
    };
    tile("Effects", &value, Tone::Bad, &note)
}

fn concern(one: &Concern) -> Markup {
    let word = if one.tone == Tone::Bad { "act" } else { "look" };
    html! {
        li.(one.tone.class()) {
            (badge(word, one.tone))
            div {
                p.what { strong { (words(&one.what)) } }
                p.note { (words(&one.why)) }
            }
            @if let Some((path, words)) = &one.way {
                a.button href=(path) { (words) }
            }
        }
    }
}

fn loops(all: &[LoopReport]) -> Markup {
    html! {
        ul.loops {
            @for one in all {
                @let silent = one.age_ms > one.bound_ms;
                li {
                    (badge(if silent { "silent" } else { "turns" }, if silent { Tone::Bad } else { Tone::Good }))
                    span { (one.name) }
                    span.note {
                        (span(Duration::from_millis(one.age_ms))) " ago"
                        @if one.restarts > 0 { ", started again " (count(one.restarts, "time", "times")) }
                    }
                }
            }
        }
    }
}
