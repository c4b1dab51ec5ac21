//! How far a signed timestamp may be from now.
//!
//! Problem: a recorded delivery stays rightly signed for ever. The window bounds how long a copy is
//! of use; dedupe rows, which live much longer than the window, bound what it does within.
//!
//! Nobody documented whether the provider stamps a retry anew, so "too old" and "too early" are
//! told apart from a bad signature and from each other: a rise of the first means that the window
//! must be widened, of the second that a clock is wrong.

use std::time::Duration;

use super::reject::Reject;
use crate::base::clock::Timestamp;

/// The accepted distance between a signed timestamp and now, either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    seconds: i64,
}

impl Window {
    /// A window of `tolerance` both ways, in whole seconds: signed timestamps are no finer.
    pub fn new(tolerance: Duration) -> Self {
        Self {
            seconds: i64::try_from(tolerance.as_secs()).unwrap_or(i64::MAX),
        }
    }

    /// Whether something signed at `signed_at` is acceptable at `now`. The bounds are included.
    pub fn check(self, signed_at: Timestamp, now: Timestamp) -> Result<(), Reject> {
        let age = now.as_seconds().saturating_sub(signed_at.as_seconds());
        if age > self.seconds {
            Err(Reject::TooOld)
        } else if age < self.seconds.saturating_neg() {
            Err(Reject::TooEarly)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_includes_its_bounds_and_tells_the_sides_apart() {
        let window = Window::new(Duration::from_secs(300));
        let now = Timestamp::from_millis(1_769_083_200_999);
        let at = |shift: i64| Timestamp::from_millis((1_769_083_200 + shift) * 1000);
        assert_eq!(window.check(at(-301), now), Err(Reject::TooOld));
        assert_eq!(window.check(at(-300), now), Ok(()));
        assert_eq!(window.check(at(0), now), Ok(()));
        assert_eq!(window.check(at(300), now), Ok(()));
        assert_eq!(window.check(at(301), now), Err(Reject::TooEarly));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let window = Window::new(Duration::MAX);
        let (first, last) = (
            Timestamp::from_millis(i64::MIN),
            Timestamp::from_millis(i64::MAX),
        );
        assert_eq!(window.check(first, last), Ok(()));
        assert_eq!(window.check(last, first), Ok(()));
        let narrow = Window::new(Duration::ZERO);
        assert_eq!(narrow.check(first, last), Err(Reject::TooOld));
        assert_eq!(narrow.check(last, first), Err(Reject::TooEarly));
    }
}
