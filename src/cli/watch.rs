//! `--watch`: the same question again and again.
//!
//! On a terminal the answer takes the place of the one before; in a pipe it is printed only when it has
//! changed, with `--json` as one line each, so that a program can follow. Ctrl-C ends it in good order.

use std::time::Duration;

use serde_json::Value;

use super::failure::Failure;
use super::output::Output;
use crate::base::clock::{Clock as _, SystemClock};

/// Asks once, or with `every` until `over` says so or somebody interrupts.
pub(super) async fn show<F>(
    output: &Output,
    every: Option<Duration>,
    ask: impl Fn() -> F,
    print: impl Fn(&Output, &Value) -> Result<(), Failure>,
    over: impl Fn(&Value) -> bool,
) -> Result<(), Failure>
where
    F: Future<Output = Result<Value, Failure>>,
{
    let Some(every) = every else {
        return print(output, &ask().await?);
    };
    let (clock, output) = (SystemClock::new(), output.following());
    let mut last = None;
    loop {
        let answer = tokio::select! {
            answer = ask() => answer?,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        let ended = over(&answer);
        if last.as_ref() != Some(&answer) {
            output.again()?;
            print(&output, &answer)?;
        }
        if ended {
            return Ok(());
        }
        last = Some(answer);
        tokio::select! {
            () = clock.sleep(every) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}
