//! `queue`: work items.

use serde_json::Value;

use super::access::Access;
use super::args::{Nested, Queue};
use super::failure::Failure;
use super::output::{Column, Output};

const COLUMNS: [Column; 8] = [
    ("ID", "id"),
    ("OPERATION", "operation"),
    ("REASON", "reason"),
    ("STATE", "state"),
    ("OUTCOME", "outcome"),
    ("ATTEMPTS", "attempts"),
    ("DUE", "available_at"),
    ("LAST ERROR", "last_error"),
];

pub(super) async fn run(
    access: &Access,
    args: Nested<Queue>,
    output: &Output,
) -> Result<(), Failure> {
    match args.verb {
        Queue::List { flags, page } => {
            output.list(&access.queue(&flags, &page).await?, "items", &COLUMNS)
        }
        Queue::Retry { id } => {
            let done = access.retry_queue(id).await?;
            let count = done.get("retried").and_then(Value::as_u64).unwrap_or(0);
            if let (Some(id), 0) = (id, count) {
                return Err(Failure::not_found(format!("there is no dead item {id}")));
            }
            output.answer(&done, |_| format!("{count} put back\n"))
        }
    }
}
