//! The shapes seen and documented, one row each.

mod batches;
mod properties;
mod videos;

use serde_json::{Value, json};

use self::batches::batch;
use super::*;

const BATCH: &str = "batches/3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge";
const VIDEO: &str = "models/veo-3.1-generate-preview/operations/9p5ug42emn2z";
const INTERACTION: &str = "interactions/v1_ChdXS0l4YWZXTk9xbk0xZThQczhE";
const OTHER: &str = "tunedModels/mine/operations/abc";

/// Largest serialised summary, in bytes.
const MAX_SUMMARY_BYTES: usize = 8 * 1024;

fn seen(name: &str, body: &Value) -> Result<Observation, Fault> {
    observe(&name.parse().unwrap(), body.to_string().as_bytes())
}

fn ended(state: OperationState) -> Observed {
    Observed::Ended(state)
}

#[test]
fn the_hash_is_of_the_bytes_as_they_came() {
    let seen = observe(&BATCH.parse().unwrap(), br#"{"done":false}"#).unwrap();
    // printf '{"done":false}' | sha256sum
    assert_eq!(
        seen.body_hash,
        "faf75df0d10a3c777e65bc6cc6158c7d107bf33cb5abae7c9f325b86225123c0"
    );
}

#[test]
fn interactions_by_status() {
    use OperationState::{BudgetExceeded, Cancelled, Failed, Incomplete, Succeeded};
    for (status, observed) in [
        ("queued", Observed::Running),
        ("in_progress", Observed::Running),
        ("never_seen", Observed::Running),
        ("requires_action", Observed::RequiresAction),
        ("completed", ended(Succeeded)),
        ("failed", ended(Failed)),
        ("cancelled", ended(Cancelled)),
        ("incomplete", ended(Incomplete)),
        ("budget_exceeded", ended(BudgetExceeded)),
    ] {
        let id = INTERACTION.strip_prefix("interactions/").unwrap();
        let body = json!({"id": id, "status": status, "agent": "deep-research", "steps": [{}, {}],
            "created": "2026-10-01T00:00:00Z", "updated": "2026-10-01T00:05:00Z",
            "errors": [{"code": "model_overloaded", "message": "busy"}]});
        let seen = seen(INTERACTION, &body).unwrap();
        assert_eq!(seen.observed, observed, "{status}");
        assert_eq!(seen.state_word.as_deref(), Some(status));
        let over = matches!(observed, Observed::Ended(_));
        assert_eq!(seen.ended_at.is_some(), over, "{status}");
        assert_eq!(
            seen.output,
            over.then_some(Output::Inline { responses: 2 }),
            "{status}"
        );
        assert_eq!(seen.summary["model"], "deep-research");
        let error = json!({"code": "model_overloaded", "message": "busy"});
        assert_eq!(seen.summary["error"], error);
    }
}

#[test]
fn what_is_no_such_resource_is_undecodable() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_inside = format!(r#"{{"response":{deep}"#);
    for (name, body) in [
        (BATCH, ""),
        (BATCH, "{}"),
        (BATCH, "null"),
        (BATCH, "[]"),
        (BATCH, "<html>Sign in</html>"),
        (
            BATCH,
            r#"{"name":"batches/3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge","done":tr"#,
        ),
        (BATCH, r#"{"name":"batches/another","done":true}"#),
        (
            BATCH,
            r#"{"name":"xbatches3a96ht58d9rd3fci7tg3qlrhlfawe5ykp6ge"}"#,
        ),
        (BATCH, r#"{"name":7,"done":true}"#),
        (
            BATCH,
            r#"{"error":{"code":5,"message":"wrapped in a 200"}}"#,
        ),
        (BATCH, "{\"name\":\"\u{0}\"}"),
        (BATCH, &deep),
        (BATCH, &deep_inside),
        (VIDEO, r#"{"error":{"code":5}}"#),
        (VIDEO, r#"{"name":"models/veo/operations/another"}"#),
        (INTERACTION, "{}"),
        (INTERACTION, r#"{"id":"another","status":"completed"}"#),
        (INTERACTION, r#"{"status":7}"#),
    ] {
        let fault = observe(&name.parse().unwrap(), body.as_bytes()).unwrap_err();
        assert_eq!(fault.label(), "undecodable", "{name} {body:.80}");
    }
    let binary = observe(&BATCH.parse().unwrap(), b"{\"name\":\"\xff\"}");
    assert!(binary.is_err());
}

#[test]
fn depth_costs_no_stack() {
    let depth = 200_000;
    let body = format!(
        r#"{{"done":true,"response":{}1{}}}"#,
        r#"{"a":"#.repeat(depth),
        "}".repeat(depth)
    );
    let seen = observe(&OTHER.parse().unwrap(), body.as_bytes()).unwrap();
    assert_eq!(seen.observed, ended(OperationState::Succeeded));
}

#[test]
fn a_summary_stays_small_and_says_what_it_leaves_out() {
    let reason = "\u{1F600}\"".repeat(1000);
    let uris: Vec<Value> = (0..300)
        .map(|n| json!({"video": {"uri": format!("https://x.example/files/{n}?{}", "y".repeat(300))}}))
        .collect();
    let body = json!({"name": VIDEO, "done": true,
        "metadata": {"model": reason, "createTime": "2026-01-01T00:00:00Z"},
        "response": {"generateVideoResponse": {"generatedSamples": uris,
            "raiMediaFilteredCount": 99, "raiMediaFilteredReasons": vec![reason.clone(); 99]}}});
    let summary = seen(VIDEO, &body).unwrap().summary;
    assert!(summary.to_string().len() <= MAX_SUMMARY_BYTES);
    let shown = summary["output"]["uris"].as_array().unwrap().len();
    assert!(shown > 3, "{shown}");
    assert_eq!(summary["output"]["left_out"], 256 - shown);
    assert!(summary["filtered"]["left_out"].as_u64().unwrap() > 50);

    let failed = batch(
        "BATCH_STATE_FAILED",
        &json!({"done": true,
        "error": {"code": 8, "message": format!("AIzaSecretSecret {}", "z".repeat(9000))}}),
    );
    let error = seen(BATCH, &failed).unwrap().summary["error"].clone();
    assert_eq!(error["code"], 8);
    let message = error["message"].as_str().unwrap();
    assert_eq!(message.chars().count(), 500);
    assert!(!message.contains("SecretSecret"));
}
