//! `operations import`: a ledger that lost its file, or never had one, gets the provider's batches.
//!
//! This command reads the list, with the configured key and rate; each page goes into the ledger by
//! way of the service or of its file before the next is asked for. Repeating it is harmless, so one
//! that was cut off is simply run again.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::access::Access;
use super::args::Import;
use super::failure::Failure;
use super::output::{Output, cell};
use super::progress::Progress;
use crate::base::clock::{Clock, SystemClock};
use crate::gemini::client::HttpGemini;

/// Pages read at most: the provider's own list never came near it.
const MAX_PAGES: u32 = 10_000;

pub(super) async fn run(access: &Access, args: &Import, output: &Output) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let api = HttpGemini::new(&access.settings().gemini, clock)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let (mut all, mut unreadable, mut token) = (Vec::new(), 0, None);
    let bar = Progress::new("names read", None);
    for _ in 0..MAX_PAGES {
        let page = api
            .batches(token.as_deref())
            .await
            .map_err(|fault| Failure::failed(format!("the list could not be read: {fault}")))?;
        unreadable += page.unreadable;
        bar.add(u64::try_from(page.names.len()).unwrap_or(0));
        if !page.names.is_empty() {
            let answer = access.import(page.names, args).await?;
            let done = answer.get("operations").and_then(Value::as_array);
            all.extend(done.into_iter().flatten().cloned());
        }
        if page.next.is_none() || page.next == token {
            token = None;
            break;
        }
        token = page.next;
    }
    drop(bar);
    let count = |word: &str| {
        let has = |one: &&Value| one.get("outcome").and_then(Value::as_str) == Some(word);
        all.iter().filter(has).count()
    };
    let document = json!({
        "dry_run": args.dry_run,
        "new": count("new"),
        "known": count("known"),
        "pruned": count("pruned"),
        "unreadable": unreadable,
        "more": token.is_some(),
        "operations": all,
    });
    output.answer(&document, |_| text(&document))
}

fn text(document: &Value) -> String {
    let mut text = String::new();
    let all = document.get("operations").and_then(Value::as_array);
    for one in all.into_iter().flatten() {
        if one.get("outcome").and_then(Value::as_str) == Some("new") {
            _ = writeln!(text, "+ {}", cell(one.get("name")));
        }
    }
    let number = |name: &str| cell(document.get(name));
    let would = if document.get("dry_run") == Some(&Value::Bool(true)) {
        "would be "
    } else {
        ""
    };
    _ = writeln!(
        text,
        "{} {would}new, {} known, {} pruned before, {} without a usable name",
        number("new"),
        number("known"),
        number("pruned"),
        number("unreadable"),
    );
    if document.get("more") == Some(&Value::Bool(true)) {
        text.push_str("the list goes on; it was not read to its end\n");
    }
    text
}
