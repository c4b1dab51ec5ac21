//! Answers gone wrong, as a client meets them, and the control API that asks for them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::simulator_support::Sim;

async fn running_batch(sim: &Sim) -> String {
    let made = sim
        .post("/_sim/operations", r#"{"kind":"batch","manual":true}"#)
        .await;
    made.get("name").unwrap().as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_status_fault_answers_in_its_shape_and_is_spent() {
    let sim = Sim::plain().await;
    let path = format!("/v1beta/{}", running_batch(&sim).await);
    for (fault, status, word) in [
        ("rate_limited", 429, Some("RESOURCE_EXHAUSTED")),
        ("server_error", 500, Some("INTERNAL")),
        ("unavailable", 503, Some("UNAVAILABLE")),
        ("not_found", 404, Some("NOT_FOUND")),
        ("html_not_found", 404, None),
        ("bad_gateway", 502, None),
        ("key_invalid", 400, Some("INVALID_ARGUMENT")),
        ("unauthenticated", 401, Some("UNAUTHENTICATED")),
        ("payment_required", 402, Some("PAYMENT_REQUIRED")),
        ("forbidden", 403, Some("PERMISSION_DENIED")),
    ] {
        sim.post("/_sim/faults", &json!({"fault": fault}).to_string())
            .await;
        let (got, body) = sim.ask("GET", &path, "").await;
        assert_eq!(got, status, "{fault}");
        assert_eq!(body["error"]["status"].as_str(), word, "{fault}");
        sim.get(&path).await;
    }
}

#[tokio::test]
async fn interactions_answer_faults_in_their_own_envelope() {
    let sim = Sim::plain().await;
    sim.post("/_sim/faults", r#"{"fault":"rate_limited"}"#)
        .await;
    let (status, body) = sim.ask("GET", "/v1/interactions/v1_x", "").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (429, &json!("rate_limit_exceeded"))
    );
}

#[tokio::test]
async fn retry_info_and_header_come_when_a_wait_is_given() {
    let sim = Sim::plain().await;
    let fault = r#"{"fault":"rate_limited","retry_after_ms":58000}"#;
    sim.post("/_sim/faults", fault).await;
    let answer = sim.request("GET", "/v1/models").send().await.unwrap();
    assert_eq!(answer.headers()["retry-after"], "58");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["details"][1]["retryDelay"], "58s");
}

#[tokio::test]
async fn a_broken_connection_and_a_cut_body_are_errors_of_the_transport() {
    let sim = Sim::plain().await;
    let path = format!("/v1beta/{}", running_batch(&sim).await);
    for fault in ["reset", "truncated"] {
        sim.post("/_sim/faults", &json!({"fault": fault}).to_string())
            .await;
        let answer = match sim.request("GET", &path).send().await {
            Ok(answer) => answer.bytes().await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert!(answer.is_err(), "{fault}");
    }
    sim.post("/_sim/faults", r#"{"fault":"garbage"}"#).await;
    let answer = sim.request("GET", &path).send().await.unwrap();
    let bytes = answer.bytes().await.unwrap();
    assert!(serde_json::from_slice::<Value>(&bytes).is_err());
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_has_made_its_job() {
    let sim = Sim::plain().await;
    sim.post("/_sim/faults", r#"{"fault":"reset","method":"POST"}"#)
        .await;
    let create = r#"{"batch":{"displayName":"only-one","inputConfig":{"requests":{"requests":[{"request":{}}]}}}}"#;
    let lost = sim
        .request("POST", "/v1/models/m:batchGenerateContent")
        .body(create)
        .send()
        .await;
    assert!(lost.is_err() || lost.unwrap().bytes().await.is_err());
    let listed = sim.get("/v1/batches").await;
    assert_eq!(
        listed["operations"][0]["metadata"]["displayName"],
        "only-one"
    );
}

#[tokio::test]
async fn a_hang_lasts_as_long_as_the_clock_says() {
    let sim = Sim::plain().await;
    sim.post("/_sim/faults", r#"{"fault":"hang","ms":30000}"#)
        .await;
    let mut asked = std::pin::pin!(sim.get("/v1/models"));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut asked).await;
    assert!(early.is_err(), "it should hang");
    // The request may reach its hang a little later than the first move of the clock.
    let answer = loop {
        sim.pass(30_000);
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(200), &mut asked).await {
            break answer;
        }
    };
    assert!(answer["models"].is_array());
}

#[tokio::test]
async fn a_wrong_name_is_the_only_thing_wrong() {
    let sim = Sim::plain().await;
    let name = running_batch(&sim).await;
    sim.post(
        "/_sim/faults",
        &json!({"fault":"wrong_name","name":name}).to_string(),
    )
    .await;
    let wrong = sim.get(&format!("/v1/{name}")).await;
    assert_ne!(wrong["name"], name.as_str());
    assert_eq!(wrong["name"].as_str().unwrap().len(), name.len());
    assert_eq!(wrong["metadata"]["state"], "BATCH_STATE_PENDING");
}

#[tokio::test]
async fn a_job_can_be_invisible_for_looks_or_for_a_time() {
    let sim = Sim::plain().await;
    let hidden = r#"{"kind":"interaction","visible_after_looks":2}"#;
    let name = sim.post("/_sim/operations", hidden).await["name"].clone();
    let path = format!("/v1/{}", name.as_str().unwrap());
    for expected in [404, 404, 200] {
        assert_eq!(sim.ask("GET", &path, "").await.0, expected);
    }
    let hidden = r#"{"kind":"video","visibleAfterMs":5000}"#;
    let name = sim.post("/_sim/operations", hidden).await["name"].clone();
    let path = format!("/v1/{}", name.as_str().unwrap());
    assert_eq!(sim.ask("GET", &path, "").await.0, 404);
    sim.post("/_sim/advance", r#"{"ms":5000}"#).await;
    assert_eq!(sim.ask("GET", &path, "").await.0, 200);
}

#[tokio::test]
async fn success_can_come_before_its_output() {
    let sim = Sim::plain().await;
    let early =
        r#"{"kind":"batch","complete_after_ms":0,"output_after_ms":4000,"failed_requests":1}"#;
    let name = sim.post("/_sim/operations", early).await["name"].clone();
    let path = format!("/v1/{}", name.as_str().unwrap());
    let before = sim.get(&path).await;
    assert_eq!(before["metadata"]["state"], "BATCH_STATE_SUCCEEDED");
    assert!(before.get("response").is_none() && before["metadata"].get("output").is_none());
    sim.pass(4000);
    let after = sim.get(&path).await;
    assert_eq!(after["metadata"]["batchStats"]["failedRequestCount"], "1");
    let answers = &after["response"]["inlinedResponses"]["inlinedResponses"];
    assert_eq!(answers[0]["error"]["code"], 3);
    assert_eq!(answers[1]["metadata"]["key"], "request-2");
}

#[tokio::test]
async fn a_job_ends_when_told_and_only_once_and_only_as_its_kind_can() {
    let sim = Sim::plain().await;
    let video = sim
        .post("/_sim/operations", r#"{"kind":"video","manual":true}"#)
        .await;
    let name = video["name"].as_str().unwrap();
    let finish = format!("/_sim/operations/{name}/finish");
    let (status, _) = sim.ask("POST", &finish, r#"{"outcome":"expired"}"#).await;
    assert_eq!(status, 400);
    let done = sim.post(&finish, r#"{"outcome":"filtered"}"#).await;
    let response = &done["response"]["generateVideoResponse"];
    assert_eq!(response["raiMediaFilteredCount"], 1);
    assert!(response.get("generatedSamples").is_none());
    assert_eq!(sim.ask("POST", &finish, "").await.0, 409);
    let unknown = "/_sim/operations/batches/none/finish";
    assert_eq!(sim.ask("POST", unknown, "").await.0, 404);

    // Parked is not over.
    let parked = r#"{"kind":"interaction","outcome":"requires_action","complete_after_ms":0}"#;
    let name = sim.post("/_sim/operations", parked).await["name"].clone();
    let name = name.as_str().unwrap();
    assert_eq!(
        sim.get(&format!("/v1/{name}")).await["status"],
        "requires_action"
    );
    sim.post(&format!("/_sim/operations/{name}/finish"), "")
        .await;
    assert_eq!(sim.get(&format!("/v1/{name}")).await["status"], "completed");
}

#[tokio::test]
async fn a_misspelt_control_field_is_refused_and_faults_can_be_cleared() {
    let sim = Sim::plain().await;
    for (path, body) in [
        ("/_sim/operations", r#"{"kind":"batch","outcom":"failed"}"#),
        (
            "/_sim/operations",
            r#"{"kind":"video","outcome":"expired"}"#,
        ),
        ("/_sim/faults", r#"{"fault":"rate_limit"}"#),
        ("/_sim/faults", r#"{"webhook":{"deliver":"never"}}"#),
    ] {
        assert_eq!(sim.ask("POST", path, body).await.0, 400, "{body}");
    }
    let list = r#"[{"fault":"unavailable","count":0},{"webhook":{"deliver":"drop"}}]"#;
    assert_eq!(sim.post("/_sim/faults", list).await, json!({"set": 2}));
    assert_eq!(sim.ask("GET", "/v1/models", "").await.0, 503);
    assert_eq!(sim.ask("DELETE", "/_sim/faults", "").await.0, 200);
    sim.get("/v1/models").await;
}

#[tokio::test]
async fn the_request_log_shows_method_path_and_time_and_no_key() {
    let sim = Sim::plain().await;
    sim.get("/v1/batches?pageSize=10&key=secret").await;
    let log = sim.get("/_sim/requests").await;
    assert_eq!(
        log["requests"],
        json!([{"method": "GET", "path": "/v1/batches", "at": "2026-01-22T12:00:00.000Z"}])
    );
}
