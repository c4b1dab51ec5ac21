//! `operations`: the ledger.

use std::fmt::Write as _;

use serde_json::{Value, json};
use uuid::Uuid;

use super::access::Access;
use super::args::{Nested, Operations, Which};
use super::failure::Failure;
use super::output::{Column, Output, cell, fields};
use super::{import, watch};
use crate::domain::operation::{JobKind, OperationName};

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("JOB KIND", "job_kind"),
    ("STATE", "state"),
    ("SETTLED BY", "settled_by"),
    ("EFFECTS DONE", "side_effect_done"),
    ("SUBMITTED", "submitted_at"),
];
const FIELDS: [&str; 21] = [
    "id",
    "name",
    "kind",
    "job_kind",
    "state",
    "requires_action",
    "overdue",
    "submitted_at",
    "registered_at",
    "settled_at",
    "settled_by",
    "told",
    "attempts",
    "next_check_at",
    "deadline_at",
    "not_found_since",
    "effects_expected",
    "effects_withheld",
    "side_effect_done",
    "user_metadata",
    "summary",
];
const LOG: [Column; 4] = [
    ("AT", "at"),
    ("WHAT", "what"),
    ("CAUSE", "cause"),
    ("DETAIL", "detail"),
];
const EFFECTS: [Column; 6] = [
    ("ID", "id"),
    ("EFFECT", "effect"),
    ("ON", "cause"),
    ("STATE", "state"),
    ("ATTEMPTS", "attempts"),
    ("LAST ERROR", "last_error"),
];

pub(super) async fn run(
    access: &Access,
    args: Nested<Operations>,
    output: &Output,
) -> Result<(), Failure> {
    match args.verb {
        Operations::Register {
            name,
            job_kind,
            user_metadata,
            reservation,
        } => {
            let operation = if let Some(id) = reservation {
                bind(access, id, name, &job_kind).await?
            } else {
                let metadata = metadata(user_metadata.as_deref())?;
                access.register(name, job_kind, metadata).await?
            };
            output.answer(&operation, |_| fields(&operation, &FIELDS))
        }
        Operations::Reserve {
            job_kind,
            user_metadata,
        } => {
            let metadata = metadata(user_metadata.as_deref())?;
            let reserved = access.reserve(job_kind, metadata).await?;
            output.answer(&reserved, |_| reservation(&reserved))
        }
        Operations::Import(args) => import::run(access, &args, output).await,
        Operations::List { flags, page } => {
            let ask = || access.operations(&flags, &page);
            let print = |out: &Output, found: &Value| out.list(found, "operations", &COLUMNS);
            watch::show(output, page.watch.every, ask, print, |_| false).await
        }
        Operations::Show { which, watch } => {
            let print = |out: &Output, whole: &Value| out.answer(whole, |out| show(out, whole));
            let settled = |whole: &Value| whole.get("settled_at").is_some_and(|at| !at.is_null());
            watch::show(
                output,
                watch.every,
                || access.operation(&which),
                print,
                settled,
            )
            .await
        }
        Operations::Retry { which } => {
            let operation = access.retry_operation(&which).await?;
            output.answer(&operation, |_| {
                let name = cell(operation.get("name"));
                if operation.get("settled_at").is_some_and(|at| !at.is_null()) {
                    format!(
                        "{name}: its dead, held and missing effects go out, with the same keys\n"
                    )
                } else {
                    format!("{name}: the API is asked again\n")
                }
            })
        }
    }
}

/// The job kind was said when the name was reserved; a different one now is a mistake worth a word.
async fn bind(
    access: &Access,
    id: Uuid,
    name: OperationName,
    job_kind: &JobKind,
) -> Result<Value, Failure> {
    let reserved = access.operation(&Which::Id(id)).await?;
    let kind = reserved.get("job_kind").and_then(Value::as_str);
    if kind != Some(job_kind.as_str()) {
        return Err(Failure::conflict(format!(
            "the reservation was made for the job kind {}",
            cell(reserved.get("job_kind"))
        )));
    }
    access.bind(id, name).await
}

fn metadata(text: Option<&str>) -> Result<Option<Value>, Failure> {
    let Some(text) = text else { return Ok(None) };
    match serde_json::from_str(text) {
        Ok(object @ Value::Object(_)) => Ok(Some(object)),
        _ => Err(Failure::usage(
            r#"--user-metadata takes a JSON object, as in '{"order": 7}'"#,
        )),
    }
}

fn reservation(reserved: &Value) -> String {
    let at = reserved
        .get("webhook_url")
        .or_else(|| reserved.get("webhook_path"));
    let record = json!({
        "id": reserved.get("id"),
        "webhook": at,
        "user_metadata": reserved.get("user_metadata"),
    });
    let mut text = fields(&record, &["id", "webhook", "user_metadata"]);
    text.push_str(
        "\nPut the webhook into webhook_config.uris of the create call, and the metadata into its \
         user_metadata.\n",
    );
    if reserved.get("webhook_url").is_none() {
        text.push_str(
            "The webhook lacks its address: put your public one before it, or set \
             server.public_url of the service.\n",
        );
    }
    text
}

fn show(out: &Output, whole: &Value) -> String {
    let list = |field: &str| whole.get(field).and_then(Value::as_array).cloned();
    let mut text = fields(whole, &FIELDS);
    for (heading, field, columns) in [
        ("history", "log", &LOG[..]),
        ("effects", "effects", &EFFECTS[..]),
    ] {
        let rows = list(field).unwrap_or_default();
        if !rows.is_empty() {
            _ = writeln!(text, "\n{heading}");
            text.push_str(&out.table(&rows, columns));
        }
    }
    text
}
