//! A bucket of failed proofs per address.
//!
//! Whoever fails often is told to go away instead of being told, each time, that a guess was wrong.
//! Only failures take from the bucket and only failures are answered differently when it is empty: a
//! valid delivery from the same address, say another tenant behind the same gateway, never notices.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::peers::{Client, counting_key};
use crate::base::clock::Clock;

/// Failures an address may collect in a minute.
pub const FAILURES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).unwrap();
/// Most addresses remembered.
const MAX_ADDRESSES: usize = 10_000;

/// governor's view of our clock.
#[derive(Debug, Clone)]
struct Monotonic(Arc<dyn Clock>);

impl governor::clock::Clock for Monotonic {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}

/// Failed proofs by address.
#[derive(Debug)]
pub struct Failures {
    buckets: RateLimiter<IpAddr, HashMapStateStore<IpAddr>, Monotonic, Middleware>,
    max_addresses: usize,
}

type Middleware = governor::middleware::NoOpMiddleware<Duration>;

impl Failures {
    /// Nobody has failed yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::remembering(clock, MAX_ADDRESSES)
    }

    fn remembering(clock: Arc<dyn Clock>, max_addresses: usize) -> Self {
        let quota = Quota::per_minute(FAILURES_PER_MINUTE);
        Self {
            buckets: RateLimiter::new(quota, HashMapStateStore::default(), Monotonic(clock)),
            max_addresses,
        }
    }

    /// Counts a failure of `client`. False when it has failed too often.
    pub fn count(&self, client: Client) -> bool {
        if !client.limited {
            return true;
        }
        if self.buckets.len() >= self.max_addresses {
            self.buckets.retain_recent();
            if self.buckets.len() >= self.max_addresses {
                // So many addresses failing within a minute are one attacker.
                return false;
            }
        }
        self.buckets
            .check_key(&counting_key(client.address))
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{ManualClock, Timestamp};

    fn client(n: u8) -> Client {
        Client {
            address: [192, 0, 2, n].into(),
            limited: true,
        }
    }

    #[test]
    fn the_bucket_holds_a_minutes_worth_and_refills() {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(0)));
        let failures = Failures::new(clock.clone());
        assert!((0..60).all(|_| failures.count(client(1))));
        assert!(!failures.count(client(1)));
        assert!(failures.count(client(2)), "another address");
        let unlimited = Client {
            limited: false,
            ..client(1)
        };
        assert!((0..200).all(|_| failures.count(unlimited)));
        clock.advance(Duration::from_secs(1));
        assert!(failures.count(client(1)));
        assert!(!failures.count(client(1)));
        clock.advance(Duration::from_mins(1));
        assert!((0..60).all(|_| failures.count(client(1))));
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(0)));
        let failures = Failures::remembering(clock.clone(), 3);
        assert!((0..3).all(|n| failures.count(client(n))));
        assert!(!failures.count(client(3)));
        assert!(!failures.count(client(0)));
        clock.advance(Duration::from_mins(2));
        assert!(failures.count(client(3)));
        assert!(failures.buckets.len() <= 3);
    }
}
