//! A row of docs/TESTING.md, and what runs all of them.

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;

use hookledger::base::clock::{Clock as _, SystemClock};

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Every change.
    A,
    /// Before a release, by hand.
    B,
}

impl Tier {
    /// The count of this tier.
    pub(crate) fn of<T>(self, a: T, b: T) -> T {
        match self {
            Self::A => a,
            Self::B => b,
        }
    }
}

/// Where a row's random choices come from: `HOOKLEDGER_SEED`, else always the same.
pub(crate) fn seed() -> u64 {
    std::env::var("HOOKLEDGER_SEED").map_or(20_260_122, |text| text.parse().unwrap())
}

/// How a row ended that did not panic.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The figures seen.
    Passed(String),
    /// What this machine lacks.
    Skipped(String),
}

type Running = Pin<Box<dyn Future<Output = Verdict>>>;

/// One row.
pub(crate) struct Row {
    /// Its number there, with a word that says what it is: `T1-kill-9`.
    pub(crate) name: &'static str,
    /// Runs it.
    pub(crate) run: fn(Tier) -> Running,
}

/// Runs the rows that the arguments ask for, and says how each ended.
pub(crate) fn run(groups: &[&[Row]]) -> ExitCode {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let tier = match std::env::var("HOOKLEDGER_TIER").as_deref() {
        Ok("b" | "B") => Tier::B,
        _ => Tier::A,
    };
    let allowed = allowed_skips();
    let clock = SystemClock::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for row in groups.iter().copied().flatten() {
        if !wanted.is_empty() && !wanted.iter().any(|part| row.name.contains(part.as_str())) {
            continue;
        }
        let since = clock.monotonic();
        let outcome = catch_unwind(AssertUnwindSafe(|| on_a_runtime((row.run)(tier))));
        let took = (clock.monotonic().saturating_sub(since)).as_secs();
        match outcome {
            Ok(Verdict::Passed(figures)) => {
                passed += 1;
                println!("ok      {} ({took} s): {figures}", row.name);
            }
            Ok(Verdict::Skipped(reason)) if allowed.contains(row.name) => {
                skipped += 1;
                println!("skipped {} ({took} s): {reason}", row.name);
            }
            Ok(Verdict::Skipped(reason)) => {
                failed += 1;
                println!(
                    "FAILED  {}: .ci/skips does not allow to skip it: {reason}",
                    row.name
                );
            }
            Err(panic) => {
                failed += 1;
                println!("FAILED  {} ({took} s): {}", row.name, said(&*panic));
            }
        }
    }
    if passed + failed + skipped == 0 {
        println!("no row is called like that");
        return ExitCode::FAILURE;
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A runtime of its own for each row: what one leaves running ends with it.
fn on_a_runtime(running: Running) -> Verdict {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(running)
}

/// The rows that may be skipped: `name: why`, one a line, `#` for remarks.
fn allowed_skips() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/skips");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
        .to_owned()
}
