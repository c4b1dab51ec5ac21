//! The `results` effect with an API in memory and a real directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use hookledger::config::settings::Action;
use hookledger::domain::effect::Delivery;
use hookledger::domain::fault::Fault;
use hookledger::domain::observation::{Observation, Observed, Output};
use hookledger::domain::operation::{OperationName, OperationState};
use hookledger::effects::Message;
use hookledger::gemini::{Download, FetchedBody, FileName, GeminiApi};
use serde_json::{Value, json};

use super::{LIMIT, effect_with, message, told};

/// One file as the API would give it.
#[derive(Debug, Clone, Default)]
struct File {
    chunks: Vec<Result<Bytes, Fault>>,
    length: Option<u64>,
    media_type: Option<String>,
    /// Never ends after its chunks.
    hangs: bool,
}

impl File {
    fn of(text: &str) -> Self {
        // Cut in odd places, as a network does.
        let chunks: Vec<_> = text
            .as_bytes()
            .chunks(7)
            .map(|c| Ok(Bytes::copy_from_slice(c)))
            .collect();
        Self {
            chunks,
            length: Some(text.len() as u64),
            ..Self::default()
        }
    }
}

#[derive(Debug, Default)]
struct Memory {
    files: Mutex<HashMap<String, Result<File, Fault>>>,
    body: Mutex<Option<(Bytes, Option<Output>)>>,
    asked: Mutex<Vec<String>>,
}

impl Memory {
    fn put(&self, name: &str, file: Result<File, Fault>) {
        self.files.lock().unwrap().insert(name.to_owned(), file);
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl GeminiApi for Memory {
    async fn operation(&self, name: &OperationName) -> Result<FetchedBody, Fault> {
        self.asked.lock().unwrap().push(name.to_string());
        let (bytes, output) = self.body.lock().unwrap().clone().ok_or(Fault::NotFound)?;
        Ok(FetchedBody {
            observation: Observation {
                name: name.clone(),
                observed: Observed::Ended(OperationState::Succeeded),
                state_word: None,
                summary: Value::Null,
                body_hash: String::new(),
                output,
                counts: None,
                ended_at: None,
            },
            bytes,
        })
    }

    async fn probe(&self) -> Result<(), Fault> {
        Ok(())
    }

    async fn download(&self, file: &FileName) -> Result<Download, Fault> {
        self.asked.lock().unwrap().push(file.as_str().to_owned());
        let known = self.files.lock().unwrap().get(file.as_str()).cloned();
        let file = known.unwrap_or(Err(Fault::NotFound))?;
        let bytes = stream::iter(file.chunks);
        Ok(Download {
            length: file.length,
            media_type: file.media_type,
            bytes: if file.hangs {
                Box::pin(bytes.chain(stream::pending()))
            } else {
                Box::pin(bytes)
            },
        })
    }
}

struct Case {
    api: Arc<Memory>,
    dir: tempfile::TempDir,
    timeout: Duration,
}

impl Case {
    fn new() -> Self {
        Self {
            api: Arc::default(),
            dir: tempfile::tempdir().unwrap(),
            timeout: LIMIT,
        }
    }

    async fn deliver(&self, one: &Message) -> Delivery {
        let action = Action::Results {
            directory: self.dir.path().join("results"),
        };
        let gemini: Arc<dyn GeminiApi> = self.api.clone();
        effect_with(action, self.timeout, &gemini)
            .deliver(one)
            .await
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("results/batches_a")
    }

    fn names(&self) -> Vec<String> {
        names(&self.folder())
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder().join(file)).unwrap()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    all
}

fn payload(state: &str, summary: &Value) -> String {
    json!({"type": "operation.settled", "timestamp": "2026-01-22T12:00:00Z", "data": {
        "id": "1", "name": "batches/a", "kind": "batch", "job_kind": "nightly", "state": state,
        "settled_by": "webhook", "user_metadata": {"k": 1}, "summary": summary}})
    .to_string()
}

fn batch_file(requests: u64) -> Message {
    message(payload(
        "succeeded",
        &json!({"output": {"at": "file", "name": "files/batch-x1"},
                "counts": {"requests": requests, "succeeded": requests, "failed": 0}}),
    ))
}

const LINES: &str = "{\"key\":\"1\"}\n{\"key\":\"2\"}\n{\"key\":\"3\"}";

#[tokio::test]
async fn a_batch_file_comes_home_whole_and_only_once() {
    let case = Case::new();
    case.api.put("files/batch-x1", Ok(File::of(LINES)));
    let one = batch_file(3);
    assert_eq!(case.deliver(&one).await, Delivery::Done);
    assert_eq!(
        case.names(),
        ["manifest.json", "operation.json", "responses.jsonl"]
    );
    assert_eq!(case.read("responses.jsonl"), LINES);
    assert_eq!(case.read("operation.json").as_bytes(), one.payload);
    let manifest: Value = serde_json::from_str(&case.read("manifest.json")).unwrap();
    assert_eq!(manifest["name"], "batches/a");
    assert_eq!(
        (&manifest["state"], &manifest["key"]),
        (&json!("succeeded"), &json!(one.key))
    );
    assert_eq!(
        manifest["files"][1],
        json!({"file": "responses.jsonl", "bytes": 35, "lines": 3,
               "sha256": "d6331c030551afd826a28294e917425c43fb7a0fd8bdebf1a6a07b75d2fc2fba"})
    );

    // Delivered again: nothing is asked. Damaged: it is fetched again. Another key: as well.
    assert_eq!(case.deliver(&one).await, Delivery::Done);
    assert_eq!(case.api.asked().len(), 1);
    std::fs::write(case.folder().join("responses.jsonl"), "short").unwrap();
    assert_eq!(case.deliver(&one).await, Delivery::Done);
    assert_eq!(case.read("responses.jsonl"), LINES);
    let other = Message {
        key: "other".to_owned(),
        ..one
    };
    assert_eq!(case.deliver(&other).await, Delivery::Done);
    assert_eq!(case.api.asked().len(), 3);
}

#[tokio::test]
async fn lines_that_do_not_match_the_count_are_kept_aside_and_tried_again() {
    let case = Case::new();
    case.api.put("files/batch-x1", Ok(File::of(LINES)));
    let (word, why) = told(case.deliver(&batch_file(4)).await);
    assert_eq!(word, "retry");
    assert!(
        why.contains("3 lines") && why.contains("4 requests"),
        "{why}"
    );
    assert_eq!(
        case.names(),
        ["operation.json", "responses.jsonl.unexpected"]
    );

    case.api
        .put("files/batch-x1", Ok(File::of(&format!("{LINES}\n{{}}\n"))));
    assert_eq!(case.deliver(&batch_file(4)).await, Delivery::Done);
    assert_eq!(
        case.names(),
        ["manifest.json", "operation.json", "responses.jsonl"]
    );
}

#[tokio::test]
async fn a_download_cut_short_leaves_nothing_and_is_tried_again() {
    let case = Case::new();
    let whole = File::of(LINES);
    let cut = File {
        length: Some(36),
        ..whole.clone()
    };
    let mut broken = whole.clone();
    broken.chunks.push(Err(Fault::Throttled {
        retry_after: Some(Duration::from_secs(58)),
        what: "PerMinute".to_owned(),
    }));
    case.api.put("files/batch-x1", Ok(cut));
    let (word, why) = told(case.deliver(&batch_file(3)).await);
    assert_eq!(
        (word, why.as_str()),
        ("retry", "the download ended at 35 of 36 bytes")
    );
    case.api.put("files/batch-x1", Ok(broken));
    let delivery = case.deliver(&batch_file(3)).await;
    assert!(
        matches!(&delivery, Delivery::Retry { after: Some(after), .. } if after.as_secs() == 58),
        "{delivery:?}"
    );
    assert_eq!(case.names(), ["operation.json"]);
}

#[tokio::test]
async fn a_download_that_hangs_ends_at_the_limit_and_leaves_nothing() {
    let mut case = Case::new();
    case.timeout = Duration::from_millis(300);
    case.api.put(
        "files/batch-x1",
        Ok(File {
            hangs: true,
            ..File::of(LINES)
        }),
    );
    let (word, why) = told(case.deliver(&batch_file(3)).await);
    assert_eq!(
        (word, why.as_str()),
        ("retry", "the download did not end in time")
    );
    assert_eq!(case.names(), ["operation.json"]);
}

#[tokio::test]
async fn every_fault_of_the_api_is_a_retry() {
    let what = || "x".to_owned();
    for fault in [
        Fault::NotFound,
        Fault::Forbidden { what: what() },
        Fault::KeyRefused { what: what() },
        Fault::Unavailable {
            retry_after: None,
            what: what(),
        },
        Fault::Rejected { what: what() },
        Fault::Undecodable { what: what() },
    ] {
        let case = Case::new();
        case.api.put("files/batch-x1", Err(fault.clone()));
        let (word, why) = told(case.deliver(&batch_file(3)).await);
        assert_eq!((word, why), ("retry", fault.to_string()));
    }
}

#[tokio::test]
async fn inline_responses_become_lines() {
    let case = Case::new();
    let body = json!({"done": true, "response": {"inlinedResponses": {"inlinedResponses": [
        {"response": {"text": "a\nb"}, "metadata": {"key": "1"}}, {"error": {"code": 3}}]}}});
    // Broken over lines, as the provider answers.
    let pretty = serde_json::to_string_pretty(&body).unwrap();
    *case.api.body.lock().unwrap() = Some((pretty.into(), None));
    let inline = |responses: u64| {
        let summary = json!({"output": {"at": "inline", "responses": responses}});
        message(payload("succeeded", &summary))
    };
    assert_eq!(told(case.deliver(&inline(3)).await).0, "retry");
    assert_eq!(case.deliver(&inline(2)).await, Delivery::Done);
    let saved = case.read("responses.jsonl");
    let lines: Vec<Value> = saved
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let expected = &body["response"]["inlinedResponses"]["inlinedResponses"];
    assert_eq!(&Value::from(lines), expected);
    assert_eq!(
        case.names(),
        ["manifest.json", "operation.json", "responses.jsonl"]
    );
}

#[tokio::test]
async fn media_is_fetched_by_file_id_and_what_can_be_saved_is() {
    let case = Case::new();
    let mp4 = File {
        media_type: Some("video/mp4".to_owned()),
        ..File::of("moving pictures")
    };
    case.api.put("files/04pm", Ok(mp4.clone()));
    case.api.put(
        "files/05pm",
        Ok(File {
            media_type: None,
            length: None,
            ..mp4
        }),
    );
    let media = |uris: &[&str]| {
        let summary = json!({"output": {"at": "media", "uris": uris}});
        message(payload("succeeded", &summary))
    };
    let first = "https://evil.example/v1beta/files/04pm:download?alt=media";
    let delivery = case.deliver(&media(&[first, "files/05pm"])).await;
    assert_eq!(delivery, Delivery::Done);
    assert_eq!(case.api.asked(), ["files/04pm", "files/05pm"]);
    assert_eq!(
        case.names(),
        [
            "manifest.json",
            "media-1.mp4",
            "media-2.bin",
            "operation.json"
        ]
    );
    assert_eq!(case.read("media-1.mp4"), "moving pictures");
    let manifest: Value = serde_json::from_str(&case.read("manifest.json")).unwrap();
    assert_eq!(manifest["files"][1]["lines"], Value::Null);

    let case = Case {
        api: case.api,
        ..Case::new()
    };
    let (word, _) = told(case.deliver(&media(&["gs://bucket/x", first])).await);
    assert_eq!(word, "refused");
    assert_eq!(case.names(), ["media-2.mp4", "operation.json"]);
    // A fault that may pass outweighs it.
    let uris = ["gs://bucket/x", first, "files/missing"];
    assert_eq!(told(case.deliver(&media(&uris)).await).0, "retry");
}

#[tokio::test]
async fn an_ending_without_output_asks_the_api_nothing() {
    let case = Case::new();
    let one = message(payload("failed", &json!({"error": {"code": 13}})));
    assert_eq!(case.deliver(&one).await, Delivery::Done);
    assert_eq!(case.names(), ["manifest.json", "operation.json"]);
    assert_eq!(case.api.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_earlier_state_told_late_does_not_replace_the_outcome() {
    let case = Case::new();
    case.api.put("files/batch-x1", Ok(File::of(LINES)));
    assert_eq!(case.deliver(&batch_file(3)).await, Delivery::Done);
    let saved = case.read("manifest.json");
    let late = Message {
        key: "late".to_owned(),
        ..message(payload("gone", &json!({})))
    };
    assert_eq!(case.deliver(&late).await, Delivery::Done);
    assert_eq!(case.read("manifest.json"), saved);

    // The other way round the success wins.
    let case = Case {
        api: case.api,
        ..Case::new()
    };
    assert_eq!(case.deliver(&late).await, Delivery::Done);
    assert_eq!(case.deliver(&batch_file(3)).await, Delivery::Done);
    assert_eq!(case.read("manifest.json"), saved);
}

#[tokio::test]
async fn an_interaction_is_saved_as_its_body() {
    let case = Case::new();
    let body = Bytes::from_static(b"{\"id\": \"v1_x\",\n \"status\": \"completed\"}");
    let mut one = message(payload(
        "succeeded",
        &json!({"output": {"at": "inline", "responses": 1}}),
    ));
    one.operation = Some("interactions/v1_x".parse().unwrap());
    *case.api.body.lock().unwrap() = Some((body.clone(), None));
    assert_eq!(case.deliver(&one).await, Delivery::Done);
    let folder = case.dir.path().join("results/interactions_v1_x");
    assert_eq!(
        names(&folder),
        ["manifest.json", "operation.json", "response.json"]
    );
    assert_eq!(std::fs::read(folder.join("response.json")).unwrap(), body);
}

#[tokio::test]
async fn a_success_whose_summary_does_not_say_where_is_looked_up() {
    let uris = vec!["files/x1".to_owned(), "files/x2".to_owned()];
    let file = Output::File {
        name: "files/x1".to_owned(),
    };
    for (summary, output, files) in [
        (json!({}), file, vec!["responses.jsonl"]),
        // Shortened, because summaries are bounded.
        (
            json!({"output": {"at": "media", "uris": ["files/x1"], "left_out": 1}}),
            Output::Media { uris },
            vec!["media-1.bin", "media-2.bin"],
        ),
    ] {
        let case = Case::new();
        case.api.put("files/x1", Ok(File::of(LINES)));
        case.api.put("files/x2", Ok(File::of(LINES)));
        *case.api.body.lock().unwrap() = Some((Bytes::from_static(b"{}"), Some(output)));
        let one = message(payload("succeeded", &summary));
        assert_eq!(case.deliver(&one).await, Delivery::Done);
        let mut expected = files;
        expected.extend(["manifest.json", "operation.json"]);
        expected.sort_unstable();
        assert_eq!(case.names(), expected);
    }
}

#[tokio::test]
async fn alerts_and_unreadable_payloads_are_refused() {
    let case = Case::new();
    let mut alert = batch_file(3);
    alert.operation = None;
    assert_eq!(told(case.deliver(&alert).await).0, "refused");
    assert_eq!(told(case.deliver(&message("not json")).await).0, "refused");
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_a_retry() {
    let case = Case::new();
    // A file where the directory should be.
    std::fs::write(case.dir.path().join("results"), "").unwrap();
    let (word, why) = told(case.deliver(&batch_file(3)).await);
    assert_eq!(word, "retry");
    assert!(why.starts_with("the results could not be written"), "{why}");
    assert!(!why.contains(case.dir.path().to_str().unwrap()), "{why}");
}
