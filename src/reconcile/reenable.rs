//! When a record that the provider disabled may be enabled again.
//!
//! Problem: the provider disables an endpoint because deliveries to it fail. One that is enabled at
//! once each time goes on failing, and the provider may have worse than disabling for that.
//!
//! Design: the first time at once, since most causes have passed by then. A record that is found
//! disabled again within [`HEALTHY`] of that waits, from then on ever longer; one that delivered for
//! longer starts anew. Nothing of it is written down: a process that starts tries once.

use std::time::Duration;

use crate::base::backoff::Backoff;

/// Enabled for so long, it works: what disables it then is something new.
const HEALTHY: Duration = Duration::from_hours(1);
/// Pause since it was last enabled, by how often in a row that did not last.
const PAUSE: Backoff = Backoff {
    first: Duration::from_mins(10),
    cap: Duration::from_hours(6),
};

/// What became of enabling it. Times are monotonic.
#[derive(Debug, Default)]
pub(super) struct Reenable {
    enabled_at: Option<Duration>,
    /// Whether the end of the last time is counted already.
    counted: bool,
    in_a_row: u32,
}

impl Reenable {
    /// It was found disabled: true when it may be enabled now.
    pub(super) fn may(&mut self, now: Duration) -> bool {
        let Some(at) = self.enabled_at else {
            return true;
        };
        if !self.counted {
            self.counted = true;
            let lasted = now.saturating_sub(at) >= HEALTHY;
            self.in_a_row = if lasted { 0 } else { self.in_a_row + 1 };
        }
        now >= at + self.pause()
    }

    /// The provider was asked to enable it, and did not refuse.
    pub(super) fn asked(&mut self, now: Duration) {
        self.enabled_at = Some(now);
        self.counted = false;
    }

    /// How often in a row it did not last.
    pub(super) const fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// How long it waits, counted from when it was last enabled.
    pub(super) fn pause(&self) -> Duration {
        match self.in_a_row {
            0 => Duration::ZERO,
            // One record at one provider: there is nobody to keep apart by jitter.
            times => PAUSE.delay(times, 0.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    /// At which of the looks, five minutes apart, it was enabled; it is disabled at each of them.
    fn enabled_at(minutes: u32) -> Vec<u32> {
        let mut reenable = Reenable::default();
        let looks = (0..minutes).step_by(5);
        looks
            .filter(|minute| {
                let may = reenable.may(*minute * MINUTE);
                if may {
                    reenable.asked(*minute * MINUTE);
                }
                may
            })
            .collect()
    }

    #[test]
    fn it_is_enabled_ever_more_rarely_up_to_the_cap() {
        let times = enabled_at(48 * 60);
        assert_eq!(times[..6], [0, 10, 30, 70, 150, 310]);
        let last: Vec<u32> = times.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(last[last.len() - 3..], [360, 360, 360], "{last:?}");
    }

    #[test]
    fn one_that_delivered_for_an_hour_starts_anew() {
        let mut reenable = Reenable::default();
        assert!(reenable.may(MINUTE));
        reenable.asked(MINUTE);
        assert!(!reenable.may(6 * MINUTE) && !reenable.may(10 * MINUTE));
        assert_eq!((reenable.in_a_row(), reenable.pause()), (1, 10 * MINUTE));
        assert!(reenable.may(11 * MINUTE));
        reenable.asked(11 * MINUTE);
        assert!(reenable.may(70 * MINUTE), "59 minutes are no hour");
        assert_eq!((reenable.in_a_row(), reenable.pause()), (2, 20 * MINUTE));
        reenable.asked(100 * MINUTE);
        assert!(reenable.may(160 * MINUTE));
        assert_eq!(reenable.in_a_row(), 0);
    }
}
