//! The table of metrics speaks the words of the rest of the program.

mod document;

use std::time::Duration;

use hookledger::domain::effect::EffectState;
use hookledger::domain::event::Verdict;
use hookledger::domain::fault::Fault;
use hookledger::domain::operation::OperationState;
use hookledger::domain::work::{Outcome, Reason};
use hookledger::telemetry::metrics::Metrics;
use hookledger::telemetry::metrics::table::{self as t, Label, Words};
use hookledger::verify::Reject;
use serde_json::json;

use crate::support::NOON;
use crate::support::world::{Says, World};

fn listed(label: &Label) -> Vec<&'static str> {
    match label.words {
        Words::Listed(words) => words.to_vec(),
        _ => Vec::new(),
    }
}

#[test]
fn labels_list_exactly_the_words_of_the_domain() {
    let reasons = Reason::ALL.map(Reason::as_str);
    assert_eq!(listed(&t::REASON), reasons);
    assert_eq!(listed(&t::CAUSE), reasons);
    let open: Vec<_> = EffectState::ALL
        .into_iter()
        .filter(|s| *s != EffectState::Done)
        .map(EffectState::as_str)
        .collect();
    assert_eq!(listed(&t::EFFECT_STATE), open);
    let refusals = Reject::ALL.map(Reject::label);
    assert_eq!(
        listed(&t::REFUSAL).get(..refusals.len()),
        Some(&refusals[..])
    );
    let verdicts = [Verdict::Accepted, Verdict::Ignored, Verdict::Duplicate];
    assert_eq!(listed(&t::VERDICT), verdicts.map(Verdict::as_str));
    let endings: Vec<_> = OperationState::ALL
        .into_iter()
        .filter(|s| s.is_settled() || s.is_closed_unproven())
        .map(OperationState::as_str)
        .collect();
    assert_eq!(listed(&t::ENDING), endings);
    let open: Vec<_> = OperationState::ALL
        .into_iter()
        .filter(|s| !s.is_settled())
        .map(OperationState::as_str)
        .collect();
    assert_eq!(listed(&t::OPEN_STATE), open);
    let outcomes = [
        Outcome::Settled,
        Outcome::AlreadySettled,
        Outcome::NotTerminal,
        Outcome::Closed,
        Outcome::NotOurs,
        Outcome::Pruned,
        Outcome::Unresolved,
    ];
    assert_eq!(listed(&t::WORK_OUTCOME), outcomes.map(Outcome::as_str));
    let what = String::new;
    let faults = [
        Fault::Throttled {
            retry_after: None,
            what: what(),
        },
        Fault::Unavailable {
            retry_after: None,
            what: what(),
        },
        Fault::KeyRefused { what: what() },
        Fault::Forbidden { what: what() },
        Fault::NotFound,
        Fault::Rejected { what: what() },
        Fault::Undecodable { what: what() },
    ];
    let fetches: Vec<_> = ["terminal", "running", "neither"]
        .into_iter()
        .chain(faults.iter().map(Fault::label))
        .collect();
    assert_eq!(listed(&t::FETCH), fetches);
}

/// An operation ended half a minute before its webhook came, whose item then waited for ten seconds.
#[tokio::test]
async fn lags_are_counted_from_what_is_due_and_from_what_the_provider_says() {
    let (recorder, page) = Metrics::local();
    // This thread runs the whole test, so its own recorder sees what is counted.
    let _counting = ::metrics::set_default_local_recorder(&recorder);
    let world = World::new().await;
    let name = "batches/a";
    world.register(name, "nightly").await;
    let ended = json!({"name": name, "done": true, "response": {}, "metadata": {
        "state": "BATCH_STATE_SUCCEEDED",
        "endTime": NOON.to_string(),
        "output": {"responsesFile": "files/batch-x"},
    }});
    world.api.says(name, Says::Body(ended));
    world.advance(Duration::from_secs(30));
    world.tell("m1", name).await;
    world.advance(Duration::from_secs(10));
    world.work().await;
    page.upkeep();
    let page = page.render();
    for line in [
        "hookledger_queue_lag_seconds_bucket{reason=\"webhook\",le=\"5\"} 0",
        "hookledger_queue_lag_seconds_bucket{reason=\"webhook\",le=\"15\"} 1",
        "hookledger_end_lag_seconds_sum{settled_by=\"webhook\"} 40",
    ] {
        assert!(page.contains(line), "{line}\nnot in\n{page}");
    }
}
