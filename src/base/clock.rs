//! Wall time, monotonic time and waiting, as one parameter.
//!
//! Problem: leases, deadlines and ages decide what the service does, so a test must be able to move
//! time, and a jump of the machine's clock must not expire a lease.
//!
//! Design: [`Clock::now`] is wall time and is only ever written down or compared with times that
//! were written down. [`Clock::monotonic`] never goes back and is what leases are measured with; it
//! is meaningless in another process, so leases are void at start-up. [`ManualClock`] moves both
//! together unless told otherwise.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// A moment, in milliseconds since the Unix epoch. Prints as RFC 3339 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This moment moved forward; saturates at the end of time.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }

    /// This moment moved back; saturates at the beginning of time.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(millis(by)))
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not an RFC 3339 time.
#[derive(Debug, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-01-22T12:00:00Z")]
pub struct NotATimestamp;

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let t: jiff::Timestamp = s.parse().map_err(|_| NotATimestamp)?;
        Ok(Self(t.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where time comes from.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall time. May jump either way.
    fn now(&self) -> Timestamp;

    /// Time since this clock was made. Never goes back.
    fn monotonic(&self) -> Duration;

    /// Waits until `for_` has passed by [`Clock::monotonic`].
    async fn sleep(&self, for_: Duration);
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(
        clippy::disallowed_methods,
        clippy::new_without_default,
        reason = "the one place where the machine's clock is read"
    )]
    pub fn new() -> Self {
        Self {
            started: std::time::Instant::now(),
        }
    }
}

#[async_trait]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the machine's clock is read"
)]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A machine set before 1970 reads as 1970: it must not bring the service down.
        Timestamp(since.map(millis).unwrap_or_default())
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, for_: Duration) {
        tokio::time::sleep(for_).await;
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<(Timestamp, Duration)>,
    moved: Notify,
}

impl ManualClock {
    /// A clock standing at `start`, monotonic time zero.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            state: Mutex::new((start, Duration::ZERO)),
            moved: Notify::new(),
        }
    }

    /// Moves wall and monotonic time forward together and wakes every sleeper that is due.
    pub fn advance(&self, by: Duration) {
        let mut state = self.lock();
        *state = (state.0.after(by), state.1 + by);
        drop(state);
        self.moved.notify_waiters();
    }

    /// Sets the wall clock alone, as an administrator or NTP would.
    pub fn jump_to(&self, wall: Timestamp) {
        self.lock().0 = wall;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Timestamp, Duration)> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.lock().1
    }

    async fn sleep(&self, for_: Duration) {
        let due = self.monotonic() + for_;
        loop {
            // Registered before the check, so that a move in between is not missed.
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.monotonic() >= due {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_prints_and_reads_rfc_3339() {
        let t: Timestamp = "2026-01-22T12:00:00.015405218Z".parse().unwrap();
        assert_eq!(t.as_millis(), 1_769_083_200_015);
        assert_eq!(t.to_string(), "2026-01-22T12:00:00.015Z");
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn ages_never_go_negative_and_moves_saturate() {
        let early = Timestamp::from_millis(5);
        assert_eq!(early.since(Timestamp::from_millis(9)), Duration::ZERO);
        assert_eq!(
            Timestamp::from_millis(i64::MAX)
                .after(Duration::MAX)
                .as_millis(),
            i64::MAX
        );
        assert_eq!(Timestamp::from_millis(-1).as_seconds(), -1);
    }

    #[tokio::test]
    async fn a_manual_sleep_ends_when_the_clock_passes_it() {
        let clock = ManualClock::starting_at(Timestamp::from_millis(0));
        let sleep = clock.sleep(Duration::from_secs(5));
        tokio::pin!(sleep);
        assert!(futures_util::poll!(sleep.as_mut()).is_pending());
        clock.advance(Duration::from_secs(4));
        assert!(futures_util::poll!(sleep.as_mut()).is_pending());
        clock.advance(Duration::from_secs(1));
        sleep.await;
    }

    #[test]
    fn a_jump_of_the_wall_clock_leaves_monotonic_time_alone() {
        let clock = ManualClock::starting_at(Timestamp::from_millis(1_000_000));
        clock.advance(Duration::from_secs(1));
        clock.jump_to(Timestamp::from_millis(0));
        assert_eq!(clock.monotonic(), Duration::from_secs(1));
        assert_eq!(clock.now(), Timestamp::from_millis(0));
    }
}
