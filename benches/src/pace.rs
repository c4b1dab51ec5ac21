//! Sending at a rate, whatever the answers do.
//!
//! A delivery's time counts from the instant it was meant to leave. Were it counted from when a
//! connection was free, a contestant that stalls would keep its own worst times out of the figures.
//!
//! A thread of its own paces, because the timers of tokio wake by the millisecond.

use std::sync::Arc;
use std::time::Duration;

use hookledger::base::clock::Clock;
use tokio::sync::mpsc;

/// Which delivery, and when it was meant to leave, on `clock`'s monotonic time.
pub(crate) type Due = (u64, Duration);

/// Starts pacing: `rate` a second for `span`, from now. Ends early when nobody listens.
pub(crate) fn start(
    clock: Arc<dyn Clock>,
    rate: f64,
    span: Duration,
) -> anyhow::Result<mpsc::UnboundedReceiver<Due>> {
    let (tell, told) = mpsc::unbounded_channel();
    let began = clock.monotonic();
    std::thread::Builder::new()
        .name("pace".to_owned())
        .spawn(move || {
            let mut n: u32 = 0;
            loop {
                let at = Duration::from_secs_f64(f64::from(n) / rate);
                if at >= span {
                    return;
                }
                let due = began + at;
                let wait = due.saturating_sub(clock.monotonic());
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                if tell.send((u64::from(n), due)).is_err() {
                    return;
                }
                n += 1;
            }
        })?;
    Ok(told)
}
