//! The fake API over real HTTP, with the bodies the official clients send.

use hookledger::base::secret::Secret;
use hookledger::simulator::SimulatorConfig;
use serde_json::{Value, json};

use crate::simulator_support::Sim;

const INLINE: &str = r#"{"batch": {"inputConfig": {"requests": {"requests": [{"request": {"contents": [{"parts": [{"text": "hi"}], "role": "user"}]}, "metadata": {"key": "k1"}}, {"request": {"contents": [{"parts": [{"text": "two"}], "role": "user"}]}}]}}, "displayName": "t"}}"#;
const MODEL: &str = "models/gemini-2.5-flash:batchGenerateContent";

fn name(body: &Value) -> &str {
    body["name"].as_str().unwrap()
}

#[tokio::test]
async fn an_inline_batch_goes_from_pending_to_succeeded_under_both_versions() {
    let sim = Sim::plain().await;
    for version in ["v1", "v1beta"] {
        let made = sim.post(&format!("/{version}/{MODEL}"), INLINE).await;
        assert_eq!(made["metadata"]["state"], "BATCH_STATE_PENDING");
        assert_eq!(made["metadata"]["displayName"], "t");
        assert!(made.get("done").is_none());
        let path = format!("/{version}/{}", name(&made));
        assert_eq!(name(&made).len(), "batches/".len() + 36);

        sim.pass(500);
        let running = sim.get(&path).await;
        assert_eq!(running["metadata"]["state"], "BATCH_STATE_RUNNING");
        assert_eq!(
            running["metadata"]["batchStats"],
            json!({"requestCount": "2", "pendingRequestCount": "2"})
        );

        sim.pass(1500);
        let done = sim.get(&path).await;
        assert_eq!(done["done"], true);
        assert_eq!(done["metadata"]["state"], "BATCH_STATE_SUCCEEDED");
        assert_eq!(
            done["metadata"]["batchStats"],
            json!({"requestCount": "2", "successfulRequestCount": "2"})
        );
        let answers = &done["metadata"]["output"]["inlinedResponses"]["inlinedResponses"];
        assert_eq!(answers[0]["metadata"]["key"], "k1");
        assert_eq!(
            answers[0]["response"]["candidates"][0]["content"]["parts"][0]["text"],
            "echo: hi"
        );
        assert!(answers[1].get("metadata").is_none());
        assert_eq!(
            done["response"]["inlinedResponses"],
            done["metadata"]["output"]["inlinedResponses"]
        );
        let end = done["metadata"]["endTime"].as_str().unwrap();
        assert_eq!(end.len(), "2026-08-20T20:10:25.852081585Z".len(), "{end}");
    }
}

#[tokio::test]
async fn a_file_is_uploaded_in_two_requests_and_its_batch_answers_in_a_file() {
    let sim = Sim::plain().await;
    let lines = concat!(
        r#"{"key":"a","request":{"contents":[{"parts":[{"text":"one"}]}]}}"#,
        "\n",
        r#"{"key":"b","request":{"contents":[{"parts":[{"text":"two"}]}]}}"#,
        "\n"
    );
    let begun = sim
        .request("POST", "/upload/v1beta/files")
        .header("x-goog-upload-protocol", "resumable")
        .header("x-goog-upload-command", "start")
        .header("x-goog-upload-header-content-length", lines.len())
        .header("x-goog-upload-header-content-type", "application/jsonl")
        .body(r#"{"file": {"mime_type": "application/jsonl", "size_bytes": 64}}"#)
        .send()
        .await
        .unwrap();
    let url = begun.headers()["x-goog-upload-url"].to_str().unwrap();
    assert!(url.starts_with(&sim.base), "{url}");
    // The second request carries no API key.
    let put = sim
        .http
        .post(url)
        .header("x-goog-upload-command", "upload, finalize")
        .header("x-goog-upload-offset", 0)
        .body(lines);
    let put = put.send().await.unwrap();
    assert_eq!(put.headers()["x-goog-upload-status"], "final");
    let file: Value = put.json().await.unwrap();
    let file = file["file"].clone();
    assert_eq!(file["state"], "ACTIVE");
    assert_eq!(file["sizeBytes"], lines.len().to_string());

    let create = json!({"batch": {"inputConfig": {"fileName": file["name"]}, "displayName": "t"}});
    let made = sim.post(&format!("/v1/{MODEL}"), &create.to_string()).await;
    assert_eq!(made["metadata"]["inputConfig"]["fileName"], file["name"]);
    sim.pass(2000);
    let done = sim.get(&format!("/v1/{}", name(&made))).await;
    let result = done["response"]["responsesFile"].as_str().unwrap();
    let id = name(&made).strip_prefix("batches/").unwrap();
    assert_eq!(result, format!("files/batch-{id}"));
    for path in [
        format!("/download/v1beta/{result}:download?alt=media"),
        format!("/v1/{result}:download?alt=media"),
    ] {
        let text = sim.request("GET", &path).send().await.unwrap();
        let text = text.text().await.unwrap();
        let keys: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].clone())
            .collect();
        assert_eq!(keys, ["a", "b"]);
    }
    // An uploaded file is no result.
    let upload = format!("/v1/{}:download?alt=media", file["name"].as_str().unwrap());
    assert_eq!(sim.ask("GET", &upload, "").await.0, 400);
    let path = format!("/v1/{}", file["name"].as_str().unwrap());
    assert_eq!(sim.ask("DELETE", &path, "").await.0, 200);
    assert_eq!(sim.ask("GET", &path, "").await.0, 403);
}

#[tokio::test]
async fn embeddings_answer_small_vectors() {
    let sim = Sim::plain().await;
    let made = sim
        .post(
            "/v1/models/gemini-embedding-001:asyncBatchEmbedContent",
            r#"{"batch": {"inputConfig": {"requests": {"requests": [{"request": {"content": {"parts": [{"text": "a"}], "role": "user"}}}]}}}}"#,
        )
        .await;
    sim.pass(2000);
    let done = sim.get(&format!("/v1/{}", name(&made))).await;
    let first = &done["metadata"]["output"]["inlinedResponses"]["inlinedResponses"][0];
    let values = &first["response"]["embedding"]["values"];
    assert_eq!(values.as_array().unwrap().len(), 3, "{first}");
}

#[tokio::test]
async fn batches_are_listed_newest_first_by_pages_and_cancelled_and_deleted() {
    let sim = Sim::plain().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        let body = sim.post(&format!("/v1/{MODEL}"), INLINE).await;
        made.push(name(&body).to_owned());
    }
    made.reverse();
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = sim
            .get(&format!("/v1/batches?pageSize=2&pageToken={token}"))
            .await;
        let page_names = page["operations"].as_array().unwrap().iter();
        seen.extend(page_names.map(|body| name(body).to_owned()));
        match page["nextPageToken"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(seen, made);

    let path = format!("/v1/{}", made[0]);
    assert_eq!(sim.post(&format!("{path}:cancel"), "").await, json!({}));
    let cancelled = sim.get(&path).await;
    assert_eq!(cancelled["metadata"]["state"], "BATCH_STATE_CANCELLED");
    assert_eq!(cancelled["error"]["code"], 1);
    assert_eq!(sim.ask("DELETE", &path, "").await.0, 200);
    let (status, body) = sim.ask("GET", &path, "").await;
    assert_eq!(
        (status, &body["error"]["status"]),
        (404, &json!("NOT_FOUND"))
    );
    let left = sim.get("/v1/batches").await;
    assert_eq!(left["operations"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_video_has_only_a_name_while_it_runs_and_a_google_uri_when_done() {
    let sim = Sim::plain().await;
    let made = sim
        .post(
            "/v1beta/models/veo-3.1-generate-preview:predictLongRunning",
            r#"{"instances": [{"prompt": "cat"}], "parameters": {"durationSeconds": 8, "aspectRatio": "16:9"}}"#,
        )
        .await;
    let path = format!("/v1beta/{}", name(&made));
    assert_eq!(sim.get(&path).await, json!({"name": name(&made)}));
    sim.pass(2000);
    let done = sim.get(&path).await;
    let uri = done["response"]["generateVideoResponse"]["generatedSamples"][0]["video"]["uri"]
        .as_str()
        .unwrap();
    let file = uri
        .strip_prefix("https://generativelanguage.googleapis.com")
        .unwrap();
    let bytes = sim.request("GET", file).send().await.unwrap();
    let bytes = bytes.bytes().await.unwrap();
    assert_eq!(&bytes[4..12], b"ftypmp42");
    assert!(bytes.ends_with(b"cat"));

    let (status, body) = sim
        .ask(
            "POST",
            "/v1beta/models/veo:predictLongRunning",
            r#"{"instances": [{"prompt": "cat"}], "parameters": {"durationSeconds": "8"}}"#,
        )
        .await;
    assert_eq!(
        (status, &body["error"]["status"]),
        (400, &json!("INVALID_ARGUMENT"))
    );
}

#[tokio::test]
async fn an_interaction_completes_or_is_cancelled_and_its_errors_have_a_string_code() {
    let sim = Sim::plain().await;
    let create = r#"{"model":"gemini-2.5-flash","background":true,"input":"hi","store":true,"webhook_config":{"uris":["https://example.com/h"],"user_metadata":{"a":"b"}}}"#;
    let made = sim.post("/v1/interactions", create).await;
    assert_eq!(made["status"], "in_progress");
    assert_eq!(made["object"], "interaction");
    assert_eq!(made["webhook_config"]["user_metadata"], json!({"a": "b"}));
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("v1_"));
    sim.pass(2000);
    let path = format!("/v1/interactions/{id}");
    let done = sim.get(&format!("{path}?stream=false")).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["steps"][0]["content"][0]["text"], "echo: hi");
    let (status, body) = sim.ask("POST", &format!("{path}/cancel"), "").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("failed_precondition"))
    );

    let other = sim.post("/v1/interactions", create).await;
    let path = format!("/v1/interactions/{}", other["id"].as_str().unwrap());
    let cancelled = sim.post(&format!("{path}/cancel"), "").await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(sim.ask("DELETE", &path, "").await.0, 200);
    let (status, body) = sim.ask("GET", &path, "").await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")));

    let without =
        r#"{"model":"m","input":"hi","webhook_config":{"uris":["https://example.com/h"]}}"#;
    let (status, body) = sim.ask("POST", "/v1/interactions", without).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("invalid_request"))
    );
}

#[tokio::test]
async fn camel_case_user_metadata_is_refused_in_googles_words() {
    let sim = Sim::plain().await;
    let mut batch: Value = serde_json::from_str(INLINE).unwrap();
    batch["batch"]["webhookConfig"] =
        json!({"uris": ["https://example.com/h"], "userMetadata": {"job": "42"}});
    let (status, body) = sim
        .ask("POST", &format!("/v1/{MODEL}"), &batch.to_string())
        .await;
    assert_eq!(status, 400);
    assert_eq!(
        body["error"]["message"],
        "Invalid JSON payload received. Unknown name \"userMetadata\" at 'batch.webhook_config': Cannot find field."
    );
    batch["batch"]["webhookConfig"] =
        json!({"uris": ["https://example.com/h"], "user_metadata": {"job": "42"}});
    sim.post(&format!("/v1/{MODEL}"), &batch.to_string()).await;
}

#[tokio::test]
async fn a_key_must_be_there_and_be_the_right_one() {
    let sim = Sim::with(SimulatorConfig {
        api_key: Some(Secret::new("the-right-key")),
        ..SimulatorConfig::default()
    })
    .await;
    let url = format!("{}/v1beta/models", sim.base);
    let none = sim.http.get(&url).send().await.unwrap();
    assert_eq!(none.status().as_u16(), 403);
    let (status, body) = sim.ask("GET", "/v1beta/models", "").await;
    assert_eq!(status, 400);
    assert_eq!(body["error"]["details"][0]["reason"], "API_KEY_INVALID");
    let right = sim.http.get(&url).header("x-goog-api-key", "the-right-key");
    let right: Value = right.send().await.unwrap().json().await.unwrap();
    assert!(right["models"][0]["name"].is_string(), "{right}");
}

#[tokio::test]
async fn a_batch_name_that_cannot_be_one_is_told_apart_from_an_unknown_one() {
    let sim = Sim::plain().await;
    let (status, body) = sim.ask("GET", "/v1beta/batches/test-batch", "").await;
    assert_eq!(status, 400);
    assert_eq!(body["error"]["message"], "Could not parse the batch name");
    assert_eq!(sim.ask("GET", "/v1beta/batches/abc", "").await.0, 404);
    let page = sim.request("GET", "/v1beta/nothing").send().await.unwrap();
    let kind = page.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(
        (page.status().as_u16(), kind.as_str()),
        (404, "text/html; charset=UTF-8")
    );
}
