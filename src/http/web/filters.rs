//! What a list is narrowed by, as the form above it sends it.
//!
//! The words are those of the API's parameters, and the API's own reading of them makes the filter,
//! so a list here and a list there hold the same rows. A person says an age where a program says
//! times.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use maud::{Markup, html};

use super::super::admin::Refusal;
use super::answer::Refused;
use crate::base::clock::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// What may be chosen as an age: the word, the words, and how many seconds.
const AGES: [(&str, &str, u64); 7] = [
    ("within-15m", "last 15 minutes", 15 * MINUTE),
    ("within-1h", "last hour", HOUR),
    ("within-1d", "last day", DAY),
    ("within-7d", "last week", 7 * DAY),
    ("over-1h", "older than an hour", HOUR),
    ("over-6h", "older than 6 hours", 6 * HOUR),
    ("over-1d", "older than a day", DAY),
];

/// The query of a list.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let pairs = read.map_err(|_| Refusal::bad_request("The address cannot be read."))?;
        let given = pairs.0.into_iter().filter(|(_, value)| !value.is_empty());
        Ok(Self(given.collect()))
    }
}

impl Asked {
    /// What was said for this name.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| value.trim().to_owned())
    }

    fn word(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Where the page begins.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.0.get("cursor").map(String::as_str)
    }

    /// The age as `since` and `until`.
    pub(super) fn age(&self, now: Timestamp) -> (Option<String>, Option<String>) {
        let word = self.word("age");
        let Some((_, _, seconds)) = AGES.iter().find(|(w, ..)| *w == word) else {
            return (self.get("since"), self.get("until"));
        };
        let then = Some(now.before(Duration::from_secs(*seconds)).to_string());
        if word.starts_with("within") {
            (then, None)
        } else {
            (None, then)
        }
    }

    /// Everything but the place in the list.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        let all = self
            .0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| *name != "cursor").collect()
    }

    /// Whether the list is narrowed at all.
    pub(super) fn narrows(&self) -> bool {
        !self.pairs().is_empty()
    }

    /// A text field.
    pub(super) fn text(&self, name: &str, label: &str, example: &str) -> Markup {
        html! {
            label { (label)
                input type="search" id={ "by-" (name) } name=(name) value=(self.word(name))
                    placeholder=(example) autocomplete="off" spellcheck="false";
            }
        }
    }

    /// One word of several.
    pub(super) fn choice(&self, name: &str, label: &str, words: &[&str]) -> Markup {
        let all = words.iter().map(|word| (*word, word.replace('_', " ")));
        self.select(name, label, all)
    }

    /// How old.
    pub(super) fn ages(&self) -> Markup {
        let all = AGES
            .iter()
            .map(|(word, words, _)| (*word, (*words).to_owned()));
        self.select("age", "Age", all)
    }

    fn select<'w>(
        &self,
        name: &str,
        label: &str,
        all: impl Iterator<Item = (&'w str, String)>,
    ) -> Markup {
        let chosen = self.word(name);
        html! {
            label { (label)
                select id={ "by-" (name) } name=(name) {
                    option value="" { "any" }
                    @for (word, words) in all {
                        option value=(word) selected[word == chosen] { (words) }
                    }
                }
            }
        }
    }
}

/// The form above a list.
pub(super) fn form(path: &str, asked: &Asked, fields: &Markup) -> Markup {
    html! {
        form.filters method="get" action=(path) role="search" {
            (fields)
            div.acts {
                button #narrow type="submit" { "Show" }
                @if asked.narrows() { a href=(path) { "Clear" } }
            }
        }
    }
}

/// A list that cannot be, with the reason.
pub(super) fn refused(refusal: &Refusal) -> Markup {
    html! { p.said.bad role="alert" { (refusal.detail()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Asked {
        let pairs = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        Asked(pairs.collect())
    }

    #[test]
    fn an_age_is_two_times() {
        let now = Timestamp::from_millis(10_000_000);
        let then = Some("1970-01-01T01:46:40.000Z".to_owned());
        assert_eq!(
            asked(&[("age", "within-1h")]).age(now),
            (then.clone(), None)
        );
        assert_eq!(asked(&[("age", "over-1h")]).age(now), (None, then));
        assert_eq!(asked(&[("age", "x")]).age(now), (None, None));
    }

    #[test]
    fn what_was_asked_stands_in_the_form_escaped() {
        let asked = asked(&[("q", "\"><script>"), ("state", "dead"), ("cursor", "c")]);
        let text = asked.text("q", "Name", "").into_string();
        assert!(text.contains("&quot;&gt;&lt;script&gt;"), "{text}");
        let choice = asked.choice("state", "State", &["dead", "budget_exceeded"]);
        let choice = choice.into_string();
        assert!(
            choice.contains("<option value=\"dead\" selected>dead"),
            "{choice}"
        );
        assert!(choice.contains(">budget exceeded<"), "{choice}");
        assert_eq!(asked.pairs(), [("q", "\"><script>"), ("state", "dead")]);
    }
}
