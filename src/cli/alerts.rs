//! `alerts`: what is open.

use super::access::Access;
use super::args::{Alerts, Nested};
use super::failure::Failure;
use super::output::{Column, Output};

const COLUMNS: [Column; 3] = [
    ("SUBJECT", "subject"),
    ("OPENED", "opened_at"),
    ("SUMMARY", "summary"),
];

pub(super) async fn run(
    access: &Access,
    args: &Nested<Alerts>,
    output: &Output,
) -> Result<(), Failure> {
    match args.verb {
        Alerts::List => output.list(&access.alerts().await?, "alerts", &COLUMNS),
    }
}
