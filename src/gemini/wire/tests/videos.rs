//! Videos and other operations.

use serde_json::{Value, json};

use super::*;

fn video_done(response: &Value) -> Value {
    json!({"name": VIDEO, "done": true, "response": response})
}

/// What a finished video with this inside its response means, and how many URIs it shows.
fn finished(inner: &str) -> (Observed, usize) {
    shape(&format!(
        r#"{{"name":"{VIDEO}","done":true,"response":{inner}}}"#
    ))
}

fn shape(body: &str) -> (Observed, usize) {
    let seen = observe(&VIDEO.parse().unwrap(), body.as_bytes()).unwrap();
    let uris = match seen.output {
        Some(Output::Media { uris }) => uris.len(),
        other => other.map_or(0, |_| usize::MAX),
    };
    (seen.observed, uris)
}

const SAMPLES: &str = r#"[{"video":{"uri":"https://generativelanguage.googleapis.com/v1beta/files/04pmwg9vlfwb:download?alt=media"}}]"#;

#[test]
fn finished_videos_by_the_place_of_their_samples() {
    let succeeded = (ended(OperationState::Succeeded), 1);
    for inner in [
        format!(r#"{{"generateVideoResponse":{{"generatedSamples":{SAMPLES}}}}}"#),
        format!(
            r#"{{"generateVideoResponse":{{"generatedSamples":{SAMPLES},"raiMediaFilteredCount":1}}}}"#
        ),
        format!(r#"{{"generatedVideos":{SAMPLES}}}"#),
        r#"{"videos":[{"gcsUri":"gs://b/v.mp4"}]}"#.to_owned(),
    ] {
        assert_eq!(finished(&inner), succeeded, "{inner}");
    }
}

#[test]
fn videos_without_a_sample() {
    let filtered = ended(OperationState::Filtered);
    for (inner, observed) in [
        (
            r#"{"raiMediaFilteredCount":1,"raiMediaFilteredReasons":["audio"]}"#,
            filtered,
        ),
        (r#"{"raiMediaFilteredCount":"1"}"#, filtered),
        (r#"{"raiMediaFilteredReasons":["audio"]}"#, filtered),
        (r#"{"raiMediaFilteredCount":0}"#, Observed::Neither),
        (
            r#"{"generatedSamples":[{"video":{}}]}"#,
            Observed::OutputPending,
        ),
        ("{}", Observed::Neither),
    ] {
        let nested = format!(r#"{{"generateVideoResponse":{inner}}}"#);
        assert_eq!(finished(&nested), (observed, 0), "{nested}");
        assert_eq!(finished(inner), (observed, 0), "{inner}");
    }
    assert_eq!(finished("null"), (Observed::Neither, 0));
    assert_eq!(finished("7"), (Observed::Neither, 0));
}

#[test]
fn videos_without_a_response() {
    for (rest, observed) in [
        ("", Observed::Running),
        (r#","done":false,"metadata":{}"#, Observed::Running),
        (r#","error":{"code":13}"#, Observed::Running),
        (r#","done":true"#, Observed::Neither),
        (
            r#","done":true,"error":{"code":13,"message":"m"}"#,
            ended(OperationState::Failed),
        ),
        (
            r#","done":true,"error":{"code":1}"#,
            ended(OperationState::Cancelled),
        ),
    ] {
        let body = format!(r#"{{"name":"{VIDEO}"{rest}}}"#);
        assert_eq!(shape(&body), (observed, 0), "{body}");
    }
}

#[test]
fn what_was_filtered_is_told_in_both_endings() {
    let response = |samples: Value| {
        json!({"generateVideoResponse": {"generatedSamples": samples,
            "raiMediaFilteredCount": 1, "raiMediaFilteredReasons": ["bad\naudio"]}})
    };
    for (samples, state) in [
        (json!([]), "filtered"),
        (
            json!([{"video": {"uri": "https://x.example/files/a"}}]),
            "succeeded",
        ),
    ] {
        let seen = seen(VIDEO, &video_done(&response(samples))).unwrap();
        assert_eq!(seen.summary["state"], state);
        let told = json!({"count": 1, "reasons": ["bad\\naudio"]});
        assert_eq!(seen.summary["filtered"], told);
    }
}

#[test]
fn other_operations_succeed_with_any_response() {
    use OperationState::{Cancelled, Failed, Succeeded};
    for (body, observed) in [
        (json!({"name": OTHER}), Observed::Running),
        (
            json!({"name": OTHER, "done": true, "response": {}}),
            ended(Succeeded),
        ),
        (
            json!({"name": OTHER, "done": true, "error": {"code": 3}}),
            ended(Failed),
        ),
        (
            json!({"name": OTHER, "done": true, "error": {"code": 1}}),
            ended(Cancelled),
        ),
        (json!({"name": OTHER, "done": true}), Observed::Neither),
        (
            json!({"name": OTHER, "done": true, "error": {"code": 0}, "response": {}}),
            ended(Succeeded),
        ),
    ] {
        assert_eq!(seen(OTHER, &body).unwrap().observed, observed, "{body}");
    }
}
