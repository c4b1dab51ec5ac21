//! `alerts`: what is open.

use serde_json::Value;

use super::access::Access;
use super::args::{Alerts, Nested};
use super::failure::Failure;
use super::output::{Column, Output};
use super::watch;

const COLUMNS: [Column; 3] = [
    ("SUBJECT", "subject"),
    ("OPENED", "opened_at"),
    ("SUMMARY", "summary"),
];

pub(super) async fn run(
    access: &Access,
    args: Nested<Alerts>,
    output: &Output,
) -> Result<(), Failure> {
    match args.verb {
        Alerts::List { watch } => {
            let print = |out: &Output, found: &Value| out.list(found, "alerts", &COLUMNS);
            watch::show(output, watch.every, || access.alerts(), print, |_| false).await
        }
    }
}
