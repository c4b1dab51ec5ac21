//! A cap on requests per second toward the API.
//!
//! Every request of the process passes here, whoever asked for it, so that a large backlog after an
//! outage does not spend the key's quota in one second. Time comes from the [`Clock`], so a test
//! owns it. Two waiters woken together both ask again: one goes, the other sleeps on.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::base::clock::Clock;

#[derive(Debug, Clone)]
struct Monotonic(Arc<dyn Clock>);

impl GovernorClock for Monotonic {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}

type Cap = RateLimiter<NotKeyed, InMemoryState, Monotonic, NoOpMiddleware<Duration>>;

/// The cap.
#[derive(Debug)]
pub struct Limit {
    clock: Arc<dyn Clock>,
    cap: Option<Cap>,
}

impl Limit {
    /// At most `per_second` requests a second, the first second's worth at once. 0 is no cap.
    pub fn new(per_second: u32, clock: Arc<dyn Clock>) -> Self {
        let cap = NonZeroU32::new(per_second).map(|n| {
            RateLimiter::direct_with_clock(Quota::per_second(n), Monotonic(Arc::clone(&clock)))
        });
        Self { clock, cap }
    }

    /// Waits until one more request may go.
    pub async fn wait(&self) {
        let Some(cap) = &self.cap else { return };
        while let Err(not_until) = cap.check() {
            let wait = not_until.wait_time_from(self.clock.monotonic());
            // Never a zero sleep: rounding must not turn waiting into spinning.
            self.clock.sleep(wait.max(Duration::from_millis(1))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{ManualClock, Timestamp};

    #[tokio::test]
    async fn the_cap_holds_by_the_clock_and_zero_is_none() {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(0)));
        let limit = Limit::new(2, clock.clone());
        limit.wait().await;
        limit.wait().await;
        let third = limit.wait();
        tokio::pin!(third);
        assert!(futures_util::poll!(third.as_mut()).is_pending());
        clock.advance(Duration::from_millis(499));
        assert!(futures_util::poll!(third.as_mut()).is_pending());
        clock.advance(Duration::from_millis(2));
        third.await;

        let free = Limit::new(0, clock);
        for _ in 0..1000 {
            free.wait().await;
        }
    }
}
