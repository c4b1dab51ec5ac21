//! The slow suites: rows of the test plan in `docs/TESTING.md`, each against the real program, its
//! real file and real processes around it.
//!
//! `cargo test --locked --test proof --features failpoints -- [PART OF A ROW'S NAME]…`
//!
//! `HOOKLEDGER_SEED` chooses other instants; each row prints the seed it used.
//! `HOOKLEDGER_TIER=b` asks for the counts of a release instead of those of every change. A row prints
//! the figures it saw; it fails by panicking. What a machine cannot do is skipped, and a skip fails
//! the run unless `.ci/skips` names the row. Counts and liveness are judged, never speed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and the figures are their product"
)]

#[path = "../it/support/mod.rs"]
#[expect(
    dead_code,
    reason = "shared with the integration tests, which use the rest"
)]
mod support;

mod backup;
mod canary;
mod clock;
mod crash;
mod deploys;
mod disk;
mod door;
mod faults;
mod flows;
mod load;
mod loops;
mod power;
mod proxy;
mod row;
mod stop;
mod storms;

use std::process::ExitCode;

use row::Row;

/// Every row, in the order in which they run.
const ROWS: &[&[Row]] = &[
    canary::ROWS,
    door::ROWS,
    crash::ROWS,
    power::ROWS,
    disk::ROWS,
    stop::ROWS,
    storms::ROWS,
    faults::ROWS,
    clock::ROWS,
    loops::ROWS,
    backup::ROWS,
    flows::ROWS,
    deploys::ROWS,
];

fn main() -> ExitCode {
    row::run(ROWS)
}
