//! `queue`: work items.

use serde_json::Value;

use super::access::Access;
use super::args::{Nested, Queue};
use super::bulk::{self, Bulk, Job};
use super::failure::Failure;
use super::output::{Column, Output};
use super::watch;
use crate::domain::work::WorkState;

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
            let ask = || access.queue(&flags, &page);
            let print = |out: &Output, found: &Value| out.list(found, "items", &COLUMNS);
            watch::show(output, page.watch.every, ask, print, |_| false).await
        }
        Queue::Retry { id, flags, dry_run } => {
            if flags.state().is_some_and(|state| state != WorkState::Dead) {
                return Err(Failure::usage("only dead items are put back; --state dead"));
            }
            let query = flags.query();
            let job = match id {
                None => Job::Items(flags.filter()),
                Some(id) if query.pairs().is_empty() => Job::Item(id),
                Some(_) => {
                    return Err(Failure::usage(
                        "an item is named; leave out what chooses among many",
                    ));
                }
            };
            bulk::run(access, Bulk { job, query }, dry_run, output).await
        }
    }
}
