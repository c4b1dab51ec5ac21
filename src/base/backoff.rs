//! How long to wait before trying again.
//!
//! Pure arithmetic: the caller brings the number of failures and a random number, stores the result
//! as a due time, and sleeps nowhere. ±20 % jitter keeps many retries from falling on one instant.

use std::time::Duration;

/// Largest share of the delay that jitter adds or takes.
pub const JITTER: f64 = 0.2;

/// An exponential schedule: `first`, doubled per failure, never over `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Longest delay before jitter.
    pub cap: Duration,
}

impl Backoff {
    /// The delay after `failures` failures (1 is the first), spread by `unit` from `0.0 .. 1.0`.
    pub fn delay(&self, failures: u32, unit: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let plain = self.first.saturating_mul(1 << doublings).min(self.cap);
        jittered(plain, unit)
    }

    /// As [`Backoff::delay`], but at least as long as the other side asked for, and at most a day.
    pub fn delay_at_least(&self, failures: u32, unit: f64, asked: Option<Duration>) -> Duration {
        let own = self.delay(failures, unit);
        asked.map_or(own, |asked| {
            // Jitter only upwards: asking again earlier than told is what got us here.
            let asked = asked.min(Duration::from_hours(24));
            own.max(asked + asked.mul_f64(JITTER * unit.clamp(0.0, 1.0)))
        })
    }
}

/// `plain` moved by up to ±20 %, by `unit` from `0.0 .. 1.0`.
pub fn jittered(plain: Duration, unit: f64) -> Duration {
    plain.mul_f64(1.0 - JITTER + 2.0 * JITTER * unit.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: Backoff = Backoff {
        first: Duration::from_secs(2),
        cap: Duration::from_secs(60),
    };

    #[test]
    fn it_doubles_up_to_the_cap_and_never_overflows() {
        let middle: Vec<u64> = (1..=7).map(|n| B.delay(n, 0.5).as_secs()).collect();
        assert_eq!(middle, [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(B.delay(u32::MAX, 1.0), Duration::from_secs(72));
        assert_eq!(B.delay(0, 0.5), B.delay(1, 0.5));
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        assert_eq!(B.delay(1, 0.0), Duration::from_millis(1600));
        assert_eq!(B.delay(1, 1.0), Duration::from_millis(2400));
    }

    #[test]
    fn a_wait_that_was_asked_for_is_never_cut_short() {
        let asked = Some(Duration::from_secs(30));
        assert!(B.delay_at_least(1, 0.0, asked) >= Duration::from_secs(30));
        assert!(B.delay_at_least(9, 1.0, asked) >= Duration::from_secs(60));
        let absurd = Some(Duration::from_hours(24 * 365));
        assert!(B.delay_at_least(1, 1.0, absurd) <= Duration::from_hours(29));
    }
}
