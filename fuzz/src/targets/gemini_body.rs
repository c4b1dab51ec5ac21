//! What the API answers: read to a bounded observation, or refused as undecodable.
//!
//! The first line is the name that was asked for; the rest is the body.

use hookledger::domain::fault::Fault;
use hookledger::domain::observation::{Observation, Observed, Output};
use hookledger::domain::operation::OperationName;
use hookledger::gemini::{FileName, wire};
use serde_json::Value;
use serde_json::value::RawValue;

pub(super) fn check(input: &[u8]) {
    let (line, body) = super::first_line(input);
    let Ok(name) = String::from_utf8_lossy(line).parse::<OperationName>() else {
        return;
    };
    let json: Option<Value> = serde_json::from_slice(body).ok();
    match wire::observe(&name, body) {
        Ok(seen) => {
            holds(&name, &seen);
            // Cut short it is nothing: a connection that breaks ends no job.
            let end = body.trim_ascii_end().len();
            if let Some(cut) = body.get(..end.saturating_sub(1)) {
                assert!(wire::observe(&name, cut).is_err(), "believed half of it");
            }
        }
        Err(fault) => assert!(matches!(fault, Fault::Undecodable { .. }), "{fault:?}"),
    }
    if let Some(json) = json {
        let (tight, wide) = (json.to_string(), format!("{json:#}"));
        let look = |text: &str| wire::observe(&name, text.as_bytes()).map(|seen| seen.observed);
        assert_eq!(look(&tight), look(&wide));
    }
    for line in wire::inline_results(name.kind(), body).unwrap_or_default() {
        assert!(!line.get().contains(['\n', '\r']));
        // By its grammar alone: a number keeps its digits, also one that no float holds.
        assert!(serde_json::from_str::<&RawValue>(line.get()).is_ok());
    }
}

fn holds(name: &OperationName, seen: &Observation) {
    assert_eq!(&seen.name, name);
    assert!(seen.summary.is_object());
    assert!(seen.summary.to_string().len() <= 8 * 1024, "a long summary");
    assert_eq!(seen.body_hash.len(), 64);
    let ended = matches!(seen.observed, Observed::Ended(_));
    if let Observed::Ended(state) = seen.observed {
        assert!(state.is_settled(), "{state:?}");
    }
    assert!(ended || seen.ended_at.is_none());
    if let Some(word) = &seen.state_word {
        assert!(
            word.chars().count() <= 65 && !word.chars().any(char::is_control),
            "{word:?}"
        );
    }
    match &seen.output {
        // An odd name is shown to people and never asked for: a line, and short.
        Some(Output::File { name }) => assert!(
            name.parse::<FileName>().is_ok()
                || (name.chars().count() <= 257 && !name.chars().any(char::is_control)),
            "{name}"
        ),
        Some(Output::Media { uris }) => {
            assert!(!uris.is_empty() && uris.len() <= 256);
            assert!(uris.iter().all(|uri| (1..=2048).contains(&uri.len())));
        }
        Some(Output::Inline { .. }) | None => {}
    }
}
