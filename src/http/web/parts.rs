//! The small things that every page is made of: times, states, buttons, lists, pages of lists.

use std::time::Duration;

use maud::{Markup, Render, html};

use super::seat::{CSRF_FIELD, Seat};
use crate::base::clock::Timestamp;
use crate::domain::effect::EffectState;
use crate::domain::operation::OperationState;
use crate::domain::work::WorkState;

/// How something is to be taken; always said in words beside the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tone {
    /// Nothing special.
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Going,
    /// Worth a look.
    Watch,
    /// Somebody must act.
    Bad,
}

impl Tone {
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Going => "going",
            Self::Watch => "watch",
            Self::Bad => "bad",
        }
    }
}

/// A moment: in UTC, which the page's script turns into local time.
pub(super) fn time(at: Timestamp) -> Markup {
    let full = utc(at, "%Y-%m-%d %H:%M:%S UTC");
    html! { time datetime=(at) title=(full) { (utc(at, "%e %b %H:%M:%S UTC").trim()) } }
}

fn utc(at: Timestamp, format: &str) -> String {
    let moment = jiff::Timestamp::from_millisecond(at.as_millis());
    moment.map_or_else(|_| at.to_string(), |m| m.strftime(format).to_string())
}

/// A span of time in its two largest units.
pub(super) fn span(d: Duration) -> String {
    let s = d.as_secs();
    let two = |a: u64, unit: &str, b: u64, small: &str| match b {
        0 => format!("{a} {unit}"),
        _ => format!("{a} {unit} {b} {small}"),
    };
    match s {
        0 => format!("{} ms", d.as_millis()),
        1..10 if d.subsec_millis() >= 100 => format!("{s}.{} s", d.subsec_millis() / 100),
        1..60 => format!("{s} s"),
        60..3600 => two(s / 60, "min", s % 60, "s"),
        3600..86_400 => two(s / 3600, "h", s % 3600 / 60, "min"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

/// How long ago something was, or in what time it will be.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", span(at.since(now)));
    }
    match now.since(at) {
        age if age < Duration::from_secs(1) => "just now".to_owned(),
        age => format!("{} ago", span(age)),
    }
}

/// A state as a word with a tone.
pub(super) fn badge(word: &str, tone: Tone) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (word.replace('_', " ")) } }
}

pub(super) const fn tone_of_operation(state: OperationState) -> Tone {
    match state {
        OperationState::Reserved => Tone::Plain,
        OperationState::Pending => Tone::Going,
        OperationState::Succeeded => Tone::Good,
        OperationState::Gone | OperationState::Anomalous => Tone::Watch,
        OperationState::Failed
        | OperationState::Cancelled
        | OperationState::Expired
        | OperationState::Filtered
        | OperationState::Incomplete
        | OperationState::BudgetExceeded => Tone::Watch,
    }
}

pub(super) const fn tone_of_effect(state: EffectState) -> Tone {
    match state {
        EffectState::Planned | EffectState::Sending => Tone::Going,
        EffectState::Done => Tone::Good,
        EffectState::Ambiguous => Tone::Watch,
        EffectState::Held | EffectState::Dead => Tone::Bad,
    }
}

pub(super) const fn tone_of_work(state: WorkState) -> Tone {
    match state {
        WorkState::Ready | WorkState::Leased => Tone::Going,
        WorkState::Done => Tone::Good,
        WorkState::Dead => Tone::Bad,
    }
}

/// The session's word, for a form.
pub(super) fn hidden(seat: &Seat) -> Markup {
    html! { input type="hidden" name=(CSRF_FIELD) value=(seat.csrf()); }
}

/// A button that does something: a form of its own. Off for who may only look.
pub(super) struct Button<'b> {
    pub(super) seat: &'b Seat,
    /// Unique on its page, so that focus stays when the page shows itself anew.
    pub(super) id: String,
    pub(super) action: String,
    pub(super) label: &'b str,
    /// Fields that go along.
    pub(super) fields: Vec<(&'b str, String)>,
    /// The one to press.
    pub(super) main: bool,
}

impl<'b> Button<'b> {
    pub(super) fn new(
        seat: &'b Seat,
        id: impl Into<String>,
        action: impl Into<String>,
        label: &'b str,
    ) -> Self {
        Self {
            seat,
            id: id.into(),
            action: action.into(),
            label,
            fields: Vec::new(),
            main: false,
        }
    }

    /// With a field that goes along.
    pub(super) fn with(mut self, name: &'b str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// As the one to press.
    pub(super) const fn main(mut self) -> Self {
        self.main = true;
        self
    }
}

impl Render for Button<'_> {
    fn render(&self) -> Markup {
        let off = !self.seat.may_change();
        let why = off.then_some("Your token may only look");
        html! {
            form.act method="post" action=(self.action) {
                (hidden(self.seat))
                @for (name, value) in &self.fields {
                    input type="hidden" name=(name) value=(value);
                }
                button id=(self.id) .main[self.main] type="submit" disabled[off] title=[why] {
                    (self.label)
                }
            }
        }
    }
}

/// Nothing to show, and what to do next.
pub(super) fn empty(what: &str, next: &Markup) -> Markup {
    html! {
        div.empty {
            p { strong { (what) } }
            p { (next) }
        }
    }
}

/// The way to the next page of a list, and back to its beginning.
pub(super) fn pager(
    path: &str,
    query: &[(&str, &str)],
    from: Option<&str>,
    next: Option<&str>,
) -> Markup {
    let link = |cursor: Option<&str>| {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()));
        if let Some(cursor) = cursor {
            text.append_pair("cursor", cursor);
        }
        let text = text.finish();
        if text.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{text}")
        }
    };
    html! {
        @if from.is_some() || next.is_some() {
            nav.pager aria-label="Pages of the list" {
                @if from.is_some() { a #newest href=(link(None)) { "Newest" } }
                @if let Some(next) = next { a #older rel="next" href=(link(Some(next))) { "Older" } }
            }
        }
    }
}

/// A text of ours in which commands and keys stand between back ticks.
pub(super) fn words(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() {
            @if n % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A command to be copied.
pub(super) fn copied(id: &str, text: &str) -> Markup {
    html! {
        div.copied {
            pre id=(id) tabindex="0" { (text) }
            button type="button" data-copy=(id) hidden { "Copy" }
        }
    }
}

/// As one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| String::new(), std::borrow::Cow::into_owned)
}

/// A number with its noun.
pub(super) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units() {
        for (ms, text) in [
            (350, "350 ms"),
            (2345, "2.3 s"),
            (3050, "3 s"),
            (59_000, "59 s"),
            (60_000, "1 min"),
            (252_000, "4 min 12 s"),
            (7_500_000, "2 h 5 min"),
            (270_000_000, "3 d 3 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
        let (then, now) = (Timestamp::from_millis(0), Timestamp::from_millis(61_000));
        assert_eq!(ago(then, now), "1 min 1 s ago");
        assert_eq!(ago(now, then), "in 1 min 1 s");
        assert_eq!(ago(now, now), "just now");
    }

    #[test]
    fn times_are_utc_until_the_script_turns_them() {
        let shown = time(Timestamp::from_millis(1_796_077_267_123)).into_string();
        assert_eq!(
            shown,
            "<time datetime=\"2026-11-30T22:21:07.123Z\" title=\"2026-11-30 22:21:07 UTC\">30 Nov \
             22:21:07 UTC</time>"
        );
    }

    #[test]
    fn a_list_keeps_its_filters_from_page_to_page() {
        let shown = pager("/x", &[("state", "dead"), ("q", "")], None, Some("a&b"));
        let shown = shown.into_string();
        assert!(
            shown.contains("href=\"/x?state=dead&amp;cursor=a%26b\""),
            "{shown}"
        );
        assert_eq!(pager("/x", &[], None, None).into_string(), "");
    }
}
