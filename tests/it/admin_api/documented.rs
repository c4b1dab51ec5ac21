//! docs/API.md says what the service says: each of its requests is made, in order, and each answer
//! compared to the letter.
//!
//! Run with `HOOKLEDGER_WRITE_DOCS=1` to write the answers down instead. In a request `EVENT`,
//! `EFFECT`, `ITEM` and `RESERVATION` stand for what the answers before it showed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;
use crate::support::world::{Says, succeeded};
use hookledger::domain::effect::Delivery;
use hookledger::domain::fault::Fault;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/API.md");
const BATCH: &str = "batches/abc123";

#[tokio::test]
async fn every_documented_request_is_answered_as_documented() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let api = Api::new().await;
    let mut names = BTreeMap::new();
    let (mut written, mut lines, mut requests) = (String::new(), text.lines(), 0);
    let mut answer = None;
    while let Some(line) = lines.next() {
        writeln!(written, "{line}").unwrap();
        if let Some(step) = line.strip_prefix("<!-- step: ") {
            take(&api, step.trim_end_matches(" -->")).await;
        } else if line == "```http" {
            let block: Vec<_> = lines.by_ref().take_while(|l| *l != "```").collect();
            writeln!(written, "{}\n```", block.join("\n")).unwrap();
            answer = Some(ask(&api, &block.join("\n"), &mut names).await);
            requests += 1;
        } else if line == "```answer" {
            let answer = answer.take().expect("an answer follows a request");
            writeln!(written, "{answer}\n```").unwrap();
            lines.by_ref().take_while(|l| *l != "```").for_each(drop);
        }
    }
    assert!(requests > 15, "only {requests} requests were found");
    if std::env::var_os("HOOKLEDGER_WRITE_DOCS").is_some() {
        std::fs::write(FILE, &written).unwrap();
    }
    let (said, documented) = (without_disk(&written), without_disk(&text));
    let differ = said.lines().zip(documented.lines()).find(|(a, b)| a != b);
    assert_eq!(
        differ, None,
        "(said, documented); HOOKLEDGER_WRITE_DOCS=1 writes it"
    );
    assert_eq!(said, documented);
}

/// What happens to the service between two requests.
async fn take(api: &Api, step: &str) {
    let world = &api.world;
    world.advance(Duration::from_mins(3));
    match step {
        "settle" => {
            world.api.says(BATCH, succeeded(BATCH));
            world.tell("msg_1", BATCH).await;
            world.work().await;
            world.notify.answer_next(Delivery::Refused {
                why: "the receiver answered 410".to_owned(),
            });
            world.send().await;
        }
        "dead letter" => {
            world.work().await;
            let video = "models/veo-3.1-generate-preview/operations/xyz789";
            let what = "the body is not JSON".to_owned();
            world
                .api
                .says(video, Says::Fault(Fault::Undecodable { what }));
            for _ in 0..40 {
                world.work().await;
                world.advance(Duration::from_hours(1));
                world.reconcile().await;
            }
        }
        "loop" => {
            let group = api.loops.clone();
            api.loops.spawn_loop("worker", move |_heart| {
                let group = group.clone();
                async move { group.stopping().await }
            });
        }
        other => panic!("unknown step {other}"),
    }
}

async fn ask(api: &Api, block: &str, names: &mut BTreeMap<&'static str, String>) -> String {
    let mut block = block.to_owned();
    for (name, value) in &*names {
        block = block.replace(name, value);
    }
    let (head, body) = block.split_once("\n\n").unwrap_or((block.as_str(), ""));
    let (method, path) = head.split_once(' ').unwrap();
    let body = (!body.is_empty()).then(|| serde_json::from_str(body).unwrap());
    let response = api.send(request(method.parse().unwrap(), path, body)).await;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    for (name, at) in [
        ("EVENT", "/events/0/id"),
        ("EFFECT", "/effects/0/id"),
        ("ITEM", "/items/0/id"),
    ] {
        if let Some(found) = value.pointer(at) {
            names.insert(name, found.to_string().trim_matches('"').to_owned());
        }
    }
    if path == "/api/v1/reservations" {
        names.insert("RESERVATION", value["id"].as_str().unwrap().to_owned());
    }
    format!("{status}\n\n{}", pretty(&text))
}

/// JSON over several lines, its fields in the order the service wrote them.
fn pretty(json: &str) -> String {
    let (mut out, mut depth, mut in_text, mut escaped) = (String::new(), 0, false, false);
    let mut rest = json.chars().peekable();
    while let Some(c) = rest.next() {
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                if let Some(end) = rest.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                newline(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => {
                in_text = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn newline(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

/// The only figure that is another on every machine.
fn without_disk(text: &str) -> String {
    let known = |line: &str| match line.split_once("\"disk_free_bytes\": ") {
        Some((before, rest)) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}\"disk_free_bytes\": …{after}")
        }
        _ => line.to_owned(),
    };
    text.lines().map(known).collect::<Vec<_>>().join("\n")
}
