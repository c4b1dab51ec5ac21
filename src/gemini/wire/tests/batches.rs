//! Batches.

use serde_json::{Value, json};

use super::*;

/// A batch with this state, and whatever else the row adds at the top.
pub(super) fn batch(state: &str, more: &Value) -> Value {
    let mut body = json!({"name": BATCH, "metadata": {"state": state}});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

pub(super) fn finished_batch() -> Value {
    let file = "files/batch-3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge";
    json!({
        "name": BATCH,
        "metadata": {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": "models/gemini-3.5-flash-lite",
            "displayName": "nightly",
            "inputConfig": {"fileName": "files/voe5u4gdj968"},
            "output": {"responsesFile": file},
            "createTime": "2026-08-20T20:08:31.015405218Z",
            "endTime": "2026-08-20T20:10:25.852081585Z",
            "batchStats": {"requestCount": "9", "successfulRequestCount": "9"},
            "state": "BATCH_STATE_SUCCEEDED",
            "name": BATCH,
        },
        "done": true,
        "response": {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatchOutput",
            "responsesFile": file,
        },
    })
}

#[test]
fn a_finished_batch_is_read_whole() {
    let seen = seen(BATCH, &finished_batch()).unwrap();
    let counts = Counts {
        requests: 9,
        succeeded: 9,
        failed: 0,
    };
    assert_eq!(seen.observed, ended(OperationState::Succeeded));
    assert_eq!(seen.state_word.as_deref(), Some("BATCH_STATE_SUCCEEDED"));
    assert_eq!(seen.counts, Some(counts));
    assert_eq!(
        seen.ended_at.map(|t| t.to_string()).as_deref(),
        Some("2026-08-20T20:10:25.852Z")
    );
    let file = "files/batch-3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge".to_owned();
    assert_eq!(seen.output, Some(Output::File { name: file.clone() }));
    assert_eq!(
        seen.summary,
        json!({
            "state": "succeeded",
            "model": "models/gemini-3.5-flash-lite",
            "display_name": "nightly",
            "counts": {"requests": 9, "succeeded": 9, "failed": 0},
            "output": {"at": "file", "name": file},
            "created_at": "2026-08-20T20:08:31.015Z",
            "ended_at": "2026-08-20T20:10:25.852Z",
        })
    );
}

#[test]
fn batches_by_state() {
    use OperationState::{Cancelled, Expired, Failed, Succeeded};
    let file = json!({"response": {"responsesFile": "files/batch-a"}, "done": true});
    let error = |code: u64| json!({"done": true, "error": {"code": code, "message": "m"}});
    let rows = [
        (batch("BATCH_STATE_PENDING", &json!({})), Observed::Running),
        (batch("BATCH_STATE_RUNNING", &json!({})), Observed::Running),
        (batch("JOB_STATE_RUNNING", &json!({})), Observed::Running),
        (batch("JOB_STATE_QUEUED", &json!({})), Observed::Running),
        (
            batch("BATCH_STATE_CANCELLING", &json!({})),
            Observed::Running,
        ),
        (
            batch("BATCH_STATE_NEVER_SEEN", &json!({})),
            Observed::Running,
        ),
        (
            batch("BATCH_STATE_RUNNING", &json!({"error": {"code": 13}})),
            Observed::Running,
        ),
        (json!({"name": BATCH}), Observed::Running),
        (json!({"name": BATCH, "done": null}), Observed::Running),
        (
            json!({"name": BATCH, "state": "JOB_STATE_FAILED"}),
            ended(Failed),
        ),
        (batch("BATCH_STATE_SUCCEEDED", &file), ended(Succeeded)),
        (batch("JOB_STATE_SUCCEEDED", &file), ended(Succeeded)),
        (
            batch("BATCH_STATE_PARTIALLY_SUCCEEDED", &file),
            ended(Succeeded),
        ),
        (batch("BATCH_STATE_RUNNING", &file), ended(Succeeded)),
        (
            batch("BATCH_STATE_SUCCEEDED", &json!({})),
            Observed::OutputPending,
        ),
        (
            batch("BATCH_STATE_SUCCEEDED", &json!({"done": true})),
            Observed::OutputPending,
        ),
        (
            batch(
                "BATCH_STATE_SUCCEEDED",
                &json!({"done": true, "response": {}}),
            ),
            Observed::OutputPending,
        ),
        (
            batch(
                "BATCH_STATE_NEVER_SEEN",
                &json!({"done": true, "response": {}}),
            ),
            Observed::OutputPending,
        ),
        (
            batch("BATCH_STATE_RUNNING", &json!({"done": true})),
            Observed::Neither,
        ),
        (json!({"done": true}), Observed::Neither),
        (batch("BATCH_STATE_FAILED", &json!({})), ended(Failed)),
        (batch("BATCH_STATE_FAILED", &error(8)), ended(Failed)),
        (batch("BATCH_STATE_NEVER_SEEN", &error(13)), ended(Failed)),
        (batch("BATCH_STATE_SUCCEEDED", &error(13)), ended(Failed)),
        (batch("BATCH_STATE_CANCELLED", &json!({})), ended(Cancelled)),
        (batch("BATCH_STATE_CANCELLED", &error(1)), ended(Cancelled)),
        (batch("BATCH_STATE_FAILED", &error(1)), ended(Cancelled)),
        (
            json!({"done": true, "error": {"code": 1}}),
            ended(Cancelled),
        ),
        (batch("BATCH_STATE_EXPIRED", &json!({})), ended(Expired)),
        (batch("BATCH_STATE_EXPIRED", &error(4)), ended(Expired)),
    ];
    for (body, observed) in rows {
        assert_eq!(seen(BATCH, &body).unwrap().observed, observed, "{body}");
    }
}

#[test]
fn a_batchs_output_is_found_wherever_it_stands() {
    let file = |name: &str| {
        Some(Output::File {
            name: name.to_owned(),
        })
    };
    let inline = |responses| Some(Output::Inline { responses });
    let two = json!([{"response": {}}, {"error": {"code": 3}}]);
    let rows = [
        (
            json!({"response": {"responsesFile": "files/batch-a"}}),
            file("files/batch-a"),
        ),
        (
            json!({"metadata": {"output": {"responsesFile": "files/batch-a"}}}),
            file("files/batch-a"),
        ),
        (
            json!({"response": {"responsesFile": "https://generativelanguage.googleapis.com/v1beta/files/batch-a:download?alt=media"}}),
            file("files/batch-a"),
        ),
        (
            json!({"response": {"responsesFile": "gs://bucket/x.jsonl"}}),
            file("gs://bucket/x.jsonl"),
        ),
        (
            json!({"response": {"inlinedResponses": {"inlinedResponses": two}}}),
            inline(2),
        ),
        (json!({"response": {"inlinedResponses": two}}), inline(2)),
        (
            json!({"metadata": {"output": {"inlinedResponses": {"inlinedResponses": two}}}}),
            inline(2),
        ),
        (
            json!({"response": {"inlinedResponses": {"inlinedResponses": [{"response": {"embedding": {"values": [0.1]}}}]}}}),
            inline(1),
        ),
        (
            json!({"response": {"inlinedResponses": {"inlinedResponses": []}}}),
            None,
        ),
        (json!({"response": {"responsesFile": ""}}), None),
        (json!({"response": {"responsesFile": 7}}), None),
    ];
    for (mut body, output) in rows {
        body["done"] = json!(true);
        let seen = seen(BATCH, &body).unwrap();
        assert_eq!(seen.output, output, "{body}");
        let proven = seen.observed == ended(OperationState::Succeeded);
        assert_eq!(proven, seen.output.is_some(), "{body}");
    }
}

#[test]
fn counts_are_strings_or_numbers_and_zeros_are_left_out() {
    let counts = |stats: Value| {
        let body = json!({"name": BATCH, "metadata": {"batchStats": stats}});
        seen(BATCH, &body).unwrap().counts
    };
    let of = |requests, succeeded, failed| {
        Some(Counts {
            requests,
            succeeded,
            failed,
        })
    };
    assert_eq!(
        counts(
            json!({"requestCount": "4", "successfulRequestCount": "1", "pendingRequestCount": "3"})
        ),
        of(4, 1, 0)
    );
    assert_eq!(
        counts(json!({"requestCount": 4, "failedRequestCount": 4})),
        of(4, 0, 4)
    );
    assert_eq!(
        counts(json!({"requestCount": "many", "failedRequestCount": -1})),
        of(0, 0, 0)
    );
    assert_eq!(counts(json!("none")), None);
}
