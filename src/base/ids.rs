//! Identity and randomness, as one parameter.
//!
//! Ledger, event and effect ids are `UUIDv7`: they sort by the time they were made, which keeps the
//! tables' indexes growing at one end. Within one millisecond the order is kept by a counter, so a
//! list ordered by id is a list ordered by arrival.

use std::fmt;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;

use super::clock::Timestamp;

/// Where ids and randomness come from.
pub trait Ids: Send + Sync + fmt::Debug {
    /// A new `UUIDv7` made at `now`, greater than every id this source made before.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// Fills `bytes` with randomness fit for secrets.
    fn fill(&self, bytes: &mut [u8]);

    /// A number in `0.0 .. 1.0`, for jitter.
    fn unit(&self) -> f64;
}

/// Ids from a seeded or system-seeded generator.
#[derive(Debug)]
pub struct RandomIds {
    state: Mutex<State>,
}

struct State {
    rng: StdRng,
    last_ms: i64,
    counter: u16,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl RandomIds {
    /// A source seeded by the operating system.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where ambient randomness is read"
    )]
    pub fn from_system() -> Self {
        Self::with(StdRng::from_rng(&mut rand::rng()))
    }

    /// A source that repeats itself: for tests only, never for secrets.
    pub fn seeded(seed: u64) -> Self {
        Self::with(StdRng::seed_from_u64(seed))
    }

    fn with(rng: StdRng) -> Self {
        Self {
            state: Mutex::new(State {
                rng,
                last_ms: i64::MIN,
                counter: 0,
            }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Ids for RandomIds {
    fn uuid(&self, now: Timestamp) -> Uuid {
        let mut state = self.lock();
        let ms = now.as_millis().max(0);
        if ms > state.last_ms {
            state.last_ms = ms;
            state.counter = 0;
        } else if state.counter < 0x0fff {
            state.counter += 1;
        } else {
            // 4,096 ids in one millisecond, or a clock set back for that long: borrow from the
            // future rather than break the order.
            state.last_ms += 1;
            state.counter = 0;
        }
        let [_, _, t0, t1, t2, t3, t4, t5] = state.last_ms.to_be_bytes();
        let [c0, c1] = state.counter.to_be_bytes();
        let mut bytes = [t0, t1, t2, t3, t4, t5, c0, c1, 0, 0, 0, 0, 0, 0, 0, 0];
        let (_, random) = bytes.split_at_mut(8);
        state.rng.fill_bytes(random);
        uuid::Builder::from_bytes(bytes)
            .with_version(uuid::Version::SortRand)
            .with_variant(uuid::Variant::RFC4122)
            .into_uuid()
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.lock().rng.fill_bytes(bytes);
    }

    fn unit(&self) -> f64 {
        self.lock().rng.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_within_a_millisecond_and_when_the_clock_is_set_back() {
        let ids = RandomIds::seeded(7);
        let mut last = ids.uuid(Timestamp::from_millis(1_700_000_000_000));
        for step in [0, 0, -5_000, 0, 1] {
            for _ in 0..3000 {
                let next = ids.uuid(Timestamp::from_millis(1_700_000_000_000 + step));
                assert!(next > last, "{next} after {last}");
                last = next;
            }
        }
        assert_eq!(last.get_version_num(), 7);
    }

    #[test]
    fn a_seed_repeats_and_the_system_does_not() {
        let at = Timestamp::from_millis(1);
        assert_eq!(RandomIds::seeded(1).uuid(at), RandomIds::seeded(1).uuid(at));
        assert_ne!(
            RandomIds::from_system().uuid(at),
            RandomIds::from_system().uuid(at)
        );
    }
}
