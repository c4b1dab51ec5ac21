//! `--watch`: the same question again and again.
//!
//! On a terminal the answer takes the place of the one before; in a pipe it is printed only when it has
//! changed, with `--json` as one line each, so that a program can follow. Ctrl-C ends it in good order.
//!
//! Race: Ctrl-C may come at any instant, while an answer is printed too. One listener for the whole time
//! remembers it; one made anew for each wait would know nothing of what came before it.

use std::time::Duration;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

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
    let mut interrupted = signal(SignalKind::interrupt())
        .map_err(|error| Failure::failed(format!("cannot wait for Ctrl-C: {error}")))?;
    let (clock, output) = (SystemClock::new(), output.following());
    let mut last = None;
    loop {
        let answer = tokio::select! {
            answer = ask() => answer?,
            _ = interrupted.recv() => return Ok(()),
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
            _ = interrupted.recv() => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures_util::FutureExt as _;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    // The signal is told by another thread than the one that prints, as in the program.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_interruption_while_an_answer_is_printed_is_not_lost() {
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            // A bound, so that the test ends when nobody heard it.
            let answer = if asked.get() < 20 {
                Ok(Value::from(asked.get()))
            } else {
                Err(Failure::failed("it was not heard"))
            };
            async { answer }
        };
        let told = RefCell::new(signal(SignalKind::interrupt()).unwrap());
        let print = |_: &Output, answer: &Value| {
            if *answer == 2 {
                kill_process(getpid(), Signal::INT).unwrap();
                while told.borrow_mut().recv().now_or_never().is_none() {
                    std::thread::yield_now();
                }
            }
            Ok(())
        };
        let every = Some(Duration::from_millis(5));
        let ended = show(&Output::new(true), every, ask, print, |_| false).await;
        assert!(ended.is_ok(), "{ended:?}");
    }
}
