//! Event bodies: read to one of the documented ends, and never to a name that could do harm.
//!
//! The first line is the `webhook-id`, or empty; the rest is the body.

use std::sync::LazyLock;

use hookledger::domain::event::EventFacts;
use hookledger::domain::operation::OperationRef;
use hookledger::receive::parse;
use hookledger::verify::standard_webhooks::well_formed_id;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;
use url::Url;

/// Every reason for which a delivery may be ignored.
const REASONS: [&str; 5] = [
    "the body is no JSON object",
    "it is a ping",
    "the body names no operation",
    "what the body names is no operation",
    "the body says that the operation is still running",
];

static BASE: LazyLock<Url> = LazyLock::new(|| "https://api.example/v1beta/".parse().unwrap());

pub(super) fn check(input: &[u8]) {
    let (line, body) = super::first_line(input);
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(line) {
        headers.insert("webhook-id", value);
    }
    let id = well_formed_id(&headers);
    let facts = parse::read(body, id);
    holds(&facts, id, body.len());
    let Ok(json) = serde_json::from_slice::<Value>(body) else {
        assert_eq!(facts.ignored_because, Some(REASONS[0]));
        return;
    };
    // White space and the order of members are the sender's business.
    let respelled = parse::read(format!("{json:#}").as_bytes(), id);
    let but_metadata = |facts: EventFacts| EventFacts {
        user_metadata: None,
        ..facts
    };
    let had = facts.user_metadata.is_some();
    assert_eq!(had, respelled.user_metadata.is_some());
    assert_eq!(but_metadata(respelled), but_metadata(facts));
}

fn holds(facts: &EventFacts, id: Option<&str>, bytes: usize) {
    match (facts.ignored_because, &facts.operation) {
        (Some(why), operation) => {
            assert!(REASONS.contains(&why), "{why}");
            let running = why == REASONS[4];
            assert_eq!(operation.is_some(), running, "{why}");
        }
        (None, operation) => assert!(operation.is_some() && !facts.says_running),
    }
    if let Some(event_type) = &facts.event_type {
        assert!((1..=128).contains(&event_type.len()));
        assert!(!event_type.chars().any(char::is_control));
    }
    match (&facts.dedupe_key, id) {
        (Some(key), Some(id)) => assert_eq!(*key, format!("id:{id}")),
        (None, Some(id)) => panic!("{id} is not used"),
        (Some(key), None) => {
            assert!(key.starts_with("ev:") || key.starts_with("syn:"), "{key}");
            assert!(key.len() <= 512, "a key of {} bytes", key.len());
        }
        // What identifies it is too long for a key.
        (None, None) => assert!(facts.operation.is_none() || bytes > 128),
    }
    for name in facts.operation.iter().flat_map(OperationRef::candidates) {
        let url = BASE.join(name.as_str()).unwrap();
        assert_eq!(url.as_str(), format!("{}{name}", *BASE));
    }
}
