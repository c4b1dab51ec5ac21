//! `events`: captured deliveries.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use uuid::Uuid;

use super::access::Access;
use super::args::{Events, Nested};
use super::bulk::{self, Bulk, Job};
use super::curl::{self, Delivery, Fresh};
use super::failure::Failure;
use super::output::{Column, Output, cell, fields, printable, printable_lines};
use super::watch;
use crate::base::clock::{Clock as _, SystemClock};
use crate::base::ids::{Ids as _, RandomIds};
use crate::verify::SigningSecret;

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("SOURCE", "source"),
    ("RECEIVED", "received_at"),
    ("VERDICT", "verdict"),
    ("TYPE", "event_type"),
    ("OPERATION", "operation"),
    ("COPIES", "duplicates"),
];
const FIELDS: [&str; 11] = [
    "id",
    "source",
    "received_at",
    "verdict",
    "why",
    "event_type",
    "operation",
    "webhook_id",
    "proof",
    "duplicates",
    "body_bytes",
];

pub(super) async fn run(
    access: &Access,
    args: Nested<Events>,
    output: &Output,
) -> Result<(), Failure> {
    match args.verb {
        Events::List { flags, page } => {
            let ask = || access.events(&flags, &page);
            let print = |out: &Output, found: &Value| out.list(found, "events", &COLUMNS);
            watch::show(output, page.watch.every, ask, print, |_| false).await
        }
        Events::Show { id } => {
            let event = access.event(id).await?;
            output.answer(&event, |_| show(&event))
        }
        Events::Curl {
            id,
            out,
            fresh,
            url,
        } => {
            let delivery = curl::read(&access.event(id).await?)?;
            let target = curl::target(access.settings(), &delivery.source, url.as_deref())?;
            let fresh = if fresh {
                Some(renewed(access, &delivery)?)
            } else {
                None
            };
            print(
                id,
                &delivery,
                &target,
                fresh.as_ref(),
                out.as_deref(),
                output,
            )
        }
        Events::Replay {
            id: None,
            words,
            dry_run,
        } => {
            if words.span.since.is_none() {
                return Err(Failure::usage(
                    "which? Name an event, or say --since to replay all that came since then",
                ));
            }
            let bulk = Bulk {
                job: Job::Replay(words.filter()),
                query: words.query(),
            };
            bulk::run(access, bulk, dry_run, output).await
        }
        Events::Replay {
            id: Some(id),
            words,
            dry_run,
        } => {
            if dry_run || words.any() {
                return Err(Failure::usage(
                    "an event is named; leave out what chooses among many",
                ));
            }
            let replayed = access.replay(id).await?;
            output.answer(&replayed, |_| {
                let (new, status) = (cell(replayed.get("event_id")), cell(replayed.get("status")));
                format!("replayed as {new}: {status}\n")
            })
        }
    }
}

/// A new identity for the delivery, signed when a secret is known here.
fn renewed(access: &Access, delivery: &Delivery) -> Result<Fresh, Failure> {
    let settings = access.settings();
    let now = SystemClock::new().now();
    let id = format!("replay-{}", RandomIds::from_system().uuid(now));
    let source = settings.sources.get(&delivery.source);
    let signature = match source.and_then(|s| s.signing_secrets.first()) {
        None => None,
        Some(secret) => {
            let key = SigningSecret::parse(secret).map_err(|why| {
                let name = &delivery.source;
                Failure::usage(format!("sources.{name}.signing_secrets[0] {why}"))
            })?;
            Some(key.sign(&id, now, &delivery.body))
        }
    };
    Ok(Fresh {
        id,
        at: now,
        signature,
        tolerance: settings.hooks.tolerance,
    })
}

fn print(
    id: Uuid,
    delivery: &Delivery,
    target: &curl::Target,
    fresh: Option<&Fresh>,
    out: Option<&Path>,
    output: &Output,
) -> Result<(), Failure> {
    let Some(directory) = out else {
        let command = curl::command(id, delivery, target, fresh, &curl::Body::Inline)?;
        return output.answer(&json!({"event_id": id, "command": command}), |_| {
            command.clone()
        });
    };
    let (body, script) = (format!("{id}.body"), format!("{id}.sh"));
    let command = curl::command(id, delivery, target, fresh, &curl::Body::Beside(&body))?;
    std::fs::create_dir_all(directory)
        .and_then(|()| curl::write_file(&directory.join(&body), &delivery.body, 0o600))
        .and_then(|()| {
            let text = format!("#!/bin/sh\n{command}");
            curl::write_file(&directory.join(&script), text.as_bytes(), 0o700)
        })
        .map_err(|error| Failure::failed(format!("cannot write to --out: {error}")))?;
    let (body, script) = (directory.join(body), directory.join(script));
    let document = json!({"event_id": id, "body": body, "script": script});
    output.answer(&document, |_| {
        format!("{}\n{}\n", body.display(), script.display())
    })
}

fn show(event: &Value) -> String {
    let mut text = fields(event, &FIELDS);
    text.push_str("\nheaders\n");
    for pair in event
        .get("headers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = pair.get(0).and_then(Value::as_str).unwrap_or_default();
        _ = writeln!(text, "{}: {}", printable(name), cell(pair.get(1)));
    }
    match event.get("body").and_then(Value::as_str) {
        Some(body) => _ = writeln!(text, "\nbody\n{}", printable_lines(body)),
        None => {
            _ = writeln!(
                text,
                "\nbody, which is no text, in base64\n{}",
                cell(event.get("body_base64"))
            );
        }
    }
    text
}
