//! Reading a verified body, leniently.
//!
//! The provider publishes one envelope and sends what it likes: short ids or full names, several
//! places for one field, types nobody has seen yet, pings with no body we know. None of that may be
//! an error, because an answer other than 2xx makes the provider retry for a day and may end in a
//! disabled subscription. So this never fails; what it cannot use it says in `ignored_because`.

use serde_json::Value;

use crate::domain::event::{EventFacts, kind_of_event};
use crate::domain::operation::OperationRef;

/// Longest event type kept.
const MAX_TYPE: usize = 128;
/// Longest `event_id` used as a dedupe key.
const MAX_EVENT_ID: usize = 256;

/// States by which a body itself says that its operation is still running.
const RUNNING: [&str; 7] = [
    "PENDING",
    "RUNNING",
    "QUEUED",
    "IN_PROGRESS",
    "PROCESSING",
    "CANCELLING",
    "STARTED",
];

/// Reads what a delivery says. `webhook_id` is the accepted header, if it had one.
pub fn read(body: &[u8], webhook_id: Option<&str>) -> EventFacts {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let Some(json) = json.filter(Value::is_object) else {
        return EventFacts {
            event_type: None,
            operation: None,
            dedupe_key: webhook_id.map(|id| format!("id:{id}")),
            says_running: false,
            user_metadata: None,
            ignored_because: Some("the body is no JSON object"),
        };
    };
    let event_type = text(&json, &["type", "event_type", "eventType"])
        .filter(|t| t.len() <= MAX_TYPE && !t.chars().any(char::is_control));
    let kind = event_type.and_then(kind_of_event);
    let raw = OPERATION.iter().find_map(|path| string_at(&json, path));
    let is_ping = event_type.is_some_and(says_ping);
    // A ping may name the webhook in the place where others name their operation.
    let operation = raw
        .filter(|_| !is_ping)
        .and_then(|raw| OperationRef::parse(raw, kind));
    let state = STATE.iter().find_map(|path| string_at(&json, path));
    let says_running = state.is_some_and(is_running)
        || DONE
            .iter()
            .any(|path| at(&json, path) == Some(&Value::Bool(false)));
    let dedupe_key = webhook_id
        .map(|id| format!("id:{id}"))
        .or_else(|| event_id(&json).map(|id| format!("ev:{id}")))
        .or_else(|| {
            let said = state.or(event_type).unwrap_or("");
            // A state as long as a body is no state; without a key the delivery is new.
            operation
                .as_ref()
                .filter(|_| said.len() <= MAX_TYPE)
                .map(|o| format!("syn:{}:{said}", o.raw()))
        });
    let ignored_because = match (&operation, raw) {
        _ if is_ping => Some("it is a ping"),
        (None, None) => Some("the body names no operation"),
        (None, Some(_)) => Some("what the body names is no operation"),
        (Some(_), _) if says_running => Some("the body says that the operation is still running"),
        (Some(_), _) => None,
    };
    EventFacts {
        event_type: event_type.map(ToOwned::to_owned),
        operation,
        dedupe_key,
        says_running,
        user_metadata: METADATA.iter().find_map(|path| at(&json, path)).cloned(),
        ignored_because,
    }
}

/// `ping`, `webhook.ping`: whatever its last word is.
fn says_ping(event_type: &str) -> bool {
    event_type.rsplit('.').next() == Some("ping")
}

/// Where the operation's name may be, the first that is there.
const OPERATION: [&[&str]; 5] = [
    &["operation", "name"],
    &["name"],
    &["opName"],
    &["data", "name"],
    &["data", "id"],
];
const STATE: [&[&str]; 6] = [
    &["state"],
    &["data", "state"],
    &["data", "status"],
    &["operation", "state"],
    &["operation", "metadata", "state"],
    &["status"],
];
const DONE: [&[&str]; 3] = [&["operation", "done"], &["done"], &["data", "done"]];
const METADATA: [&[&str]; 3] = [
    &["user_metadata"],
    &["data", "user_metadata"],
    &["userMetadata"],
];

fn at<'v>(json: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter()
        .try_fold(json, |value, key| value.get(key))
        .filter(|v| !v.is_null())
}

fn string_at<'v>(json: &'v Value, path: &[&str]) -> Option<&'v str> {
    at(json, path)
        .and_then(Value::as_str)
        .filter(|s| !s.is_empty())
}

fn text<'v>(json: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| string_at(json, &[key]))
}

fn event_id(json: &Value) -> Option<String> {
    let id = [&["event_id"][..], &["eventId"], &["data", "event_id"]]
        .iter()
        .find_map(|path| string_at(json, path))?;
    (id.len() <= MAX_EVENT_ID).then(|| id.to_owned())
}

fn is_running(state: &str) -> bool {
    let upper = state.to_ascii_uppercase();
    let word = upper
        .strip_prefix("BATCH_STATE_")
        .or_else(|| upper.strip_prefix("JOB_STATE_"))
        .unwrap_or(&upper);
    RUNNING.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(body: &str) -> (Option<String>, Option<&'static str>) {
        let facts = read(body.as_bytes(), None);
        (
            facts.operation.map(|o| o.raw().to_owned()),
            facts.ignored_because,
        )
    }

    #[test]
    fn every_known_shape_names_its_operation() {
        for (body, name) in [
            (
                r#"{"type":"batch.succeeded","version":"v1","data":{"id":"batch_123456","output_file_uri":"gs://b/r.jsonl"}}"#,
                "batch_123456",
            ),
            (
                r#"{"type":"batch.succeeded","data":{"id":"batches/a"}}"#,
                "batches/a",
            ),
            (
                r#"{"type":"video.generated","data":{"id":"models/m/operations/o","video_uri":"x"}}"#,
                "models/m/operations/o",
            ),
            (
                r#"{"operation":{"name":"models/m/operations/o","done":true}}"#,
                "models/m/operations/o",
            ),
            (
                r#"{"opName":"batches/a","state":"SUCCEEDED","event_id":"e"}"#,
                "batches/a",
            ),
            (r#"{"name":"batches/a","data":{"id":"other"}}"#, "batches/a"),
            (
                r#"{"type":"future.thing","data":{"name":"batches/a"},"extra":[1,{"x":null}]}"#,
                "batches/a",
            ),
        ] {
            assert_eq!(named(body), (Some(name.to_owned()), None), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_ignored_with_a_reason_and_never_an_error() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        for body in [
            "",
            "null",
            "[]",
            "\"x\"",
            "{",
            "\u{feff}{}",
            "{}",
            r#"{"type":"ping"}"#,
            r#"{"type":7,"data":{"id":7}}"#,
            r#"{"data":{"id":""}}"#,
            r#"{"data":{"id":null}}"#,
            r#"{"data":{"id":"https://evil.example/x"}}"#,
            r#"{"data":{"id":"../../x"}}"#,
            r#"{"data":{"id":"a\u0000b"}}"#,
            r#"{"data":[{"id":"x"}]}"#,
            deep.as_str(),
            r#"{"data":{"id":1e999}}"#,
        ] {
            let (name, why) = named(body);
            assert_eq!(name, None, "{body:.40}");
            assert!(why.is_some(), "{body:.40}");
        }
        assert!(read(&[0xff, 0xfe, 0x00], None).ignored_because.is_some());
    }

    #[test]
    fn a_ping_names_no_operation_whatever_it_names() {
        for word in ["ping", "webhook.ping"] {
            let body = format!(r#"{{"type":"{word}","data":{{"id":"k0h9q38f6ejj"}}}}"#);
            assert_eq!(named(&body), (None, Some("it is a ping")));
        }
        let body = r#"{"type":"batch.pinged","data":{"id":"k0h9q38f6ejj"}}"#;
        assert!(named(body).0.is_some());
    }

    #[test]
    fn a_body_that_says_running_is_ignored_but_one_that_asks_for_action_is_not() {
        for state in [
            "BATCH_STATE_RUNNING",
            "JOB_STATE_PENDING",
            "in_progress",
            "queued",
        ] {
            let body = format!(r#"{{"data":{{"id":"batches/a","state":"{state}"}}}}"#);
            assert!(read(body.as_bytes(), None).says_running, "{state}");
        }
        assert!(
            named(r#"{"operation":{"name":"batches/a","done":false}}"#)
                .1
                .is_some()
        );
        let asks = r#"{"type":"interaction.requires_action","data":{"id":"v1_x","status":"requires_action"}}"#;
        assert_eq!(named(asks).1, None);
    }

    #[test]
    fn the_dedupe_key_says_where_it_comes_from() {
        let key = |body: &str, id| read(body.as_bytes(), id).dedupe_key;
        let body = r#"{"type":"batch.failed","event_id":"e1","data":{"id":"b1"}}"#;
        assert_eq!(key(body, Some("m1")).as_deref(), Some("id:m1"));
        assert_eq!(key(body, None).as_deref(), Some("ev:e1"));
        let plain = r#"{"type":"batch.failed","data":{"id":"b1"}}"#;
        assert_eq!(key(plain, None).as_deref(), Some("syn:b1:batch.failed"));
        assert_eq!(key(r#"{"type":"ping"}"#, None), None);
        assert_eq!(key("not json", Some("m2")).as_deref(), Some("id:m2"));
    }

    #[test]
    fn no_dedupe_key_is_as_long_as_a_body() {
        for (state, has_key) in [(MAX_TYPE, true), (MAX_TYPE + 1, false), (200_000, false)] {
            let state = "x".repeat(state);
            let body = format!(r#"{{"name":"batches/a","state":"{state}"}}"#);
            assert_eq!(read(body.as_bytes(), None).dedupe_key.is_some(), has_key);
        }
    }

    #[test]
    fn user_metadata_is_found_in_each_of_its_places() {
        for body in [
            r#"{"user_metadata":{"job":"42"}}"#,
            r#"{"data":{"user_metadata":{"job":"42"}}}"#,
        ] {
            let found = read(body.as_bytes(), None).user_metadata.unwrap();
            assert_eq!(found["job"], "42", "{body}");
        }
    }
}
