//! The frame around every page.
//!
//! A page may be live: its content then fetches itself again when the stream says that something has
//! changed. Without script the same page is made once, and nothing is missing but that.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::assets;
use super::parts::hidden;
use super::seat::Seat;

/// No evaluation, no styles of its own, nothing from elsewhere: what the policy forbids anyway.
const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyEnabled":false,"historyCacheSize":0}"#;

/// Which room of the house a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Overview,
    Operations,
    Events,
    Queue,
    Effects,
    Alerts,
    Settings,
}

impl Room {
    const ALL: [Self; 7] = [
        Self::Overview,
        Self::Operations,
        Self::Events,
        Self::Queue,
        Self::Effects,
        Self::Alerts,
        Self::Settings,
    ];

    /// Where it is.
    pub(super) const fn path(self) -> &'static str {
        self.place().0
    }

    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("/", "Overview"),
            Self::Operations => ("/operations", "Operations"),
            Self::Events => ("/events", "Events"),
            Self::Queue => ("/queue", "Queue"),
            Self::Effects => ("/effects", "Effects"),
            Self::Alerts => ("/alerts", "Alerts"),
            Self::Settings => ("/settings", "Settings"),
        }
    }
}

/// A page with its navigation.
pub(super) struct Page<'p> {
    pub(super) seat: &'p Seat,
    pub(super) room: Room,
    /// For the browser's tab.
    pub(super) title: &'p str,
    /// What stays as it is, such as a form that is being filled in.
    pub(super) head: Markup,
    /// What changes; shown anew when it does.
    pub(super) live: Markup,
    /// Below it, what stays as it is.
    pub(super) still: Markup,
}

impl Page<'_> {
    pub(super) fn render(&self) -> Markup {
        let seat = self.seat;
        frame(
            self.title,
            &html! {
                a.skip href="#main" { "To the content" }
                header.top {
                    div.bar {
                        a.brand href="/" { (PreEscaped(MARK)) "hookledger" }
                        nav aria-label="Rooms" {
                            @for room in Room::ALL {
                                @let (path, name) = room.place();
                                a href=(path) aria-current=[(room == self.room).then_some("page")] { (name) }
                            }
                        }
                        form.who method="post" action="/logout" {
                            (hidden(seat))
                            span.note {
                                (seat.name)
                                @if !seat.may_change() { " · may only look" }
                            }
                            button.quiet #sign-out type="submit" { "Sign out" }
                        }
                    }
                }
                main #main hx-ext="sse" sse-connect="/live" {
                    @if let Some(said) = &seat.said {
                        p.said.bad[said.bad] role="status" { (said.text) }
                    }
                    (self.head)
                    div #live hx-get=(seat.here) hx-trigger="sse:changed" hx-select="#live" hx-swap="outerHTML" {
                        (self.live)
                    }
                    (self.still)
                }
            },
        )
    }
}

/// A page for somebody who is not signed in, or for whom there is none.
pub(super) fn bare(title: &str, content: &Markup) -> Markup {
    frame(
        title,
        &html! {
            main.bare #main {
                p.brand { (PreEscaped(MARK)) "hookledger" }
                (content)
            }
        },
    )
}

fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (title) " · hookledger" }
                link rel="icon" href=(assets::url("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(assets::url("page.css"));
                @for script in ["htmx.min.js", "htmx-sse.min.js", "page.js"] {
                    script src=(assets::url(script)) defer {}
                }
            }
            body { (body) }
        }
    }
}

/// A hook that holds a line of the ledger.
const MARK: &str = r#"<svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><path d="M4 5h16M4 10h9M4 15h6"/><path class="hook" d="M17 8v7a3.5 3.5 0 1 1-7 0"/><circle cx="17" cy="7.2" r="1.6"/></svg>"#;
