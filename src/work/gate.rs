//! When nobody may ask the API at all.
//!
//! A refused key will not get better by asking again for each of a thousand operations, and a server
//! that names a time to wait means it for everybody. While the gate is shut, the worker claims
//! nothing, so no item is touched and none is charged. A shut key gate is probed now and then with a
//! request that every working key may make; the first success opens it.

use std::sync::Mutex;
use std::time::Duration;

use crate::base::backoff::Backoff;

/// Pause between probes of a refused key, doubled up to its cap.
const PROBE: Backoff = Backoff {
    first: Duration::from_secs(15),
    cap: Duration::from_mins(5),
};
/// Silence of the API that counts as an outage and not as a hiccup.
const OUTAGE: Duration = Duration::from_secs(30);
/// Longest pause a throttling server gets from us as a whole.
const MAX_THROTTLE: Duration = Duration::from_mins(5);

/// Whether the API may be asked now. Times are monotonic.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    throttled_until: Duration,
    refused: Option<Refused>,
    unreachable_since: Option<Duration>,
}

/// Whether the API can be asked, as far as was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetching {
    /// Nothing speaks against it.
    Works,
    /// It refuses the key.
    KeyRefused,
    /// It has not answered as itself for half a minute or longer.
    Unreachable,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    probes: u32,
    next_probe: Duration,
}

/// What a worker may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Ask.
    Open,
    /// Wait this long.
    Wait(Duration),
    /// Ask once whether the key works again.
    Probe,
}

impl Gate {
    /// What may be done at `now`.
    pub(super) fn pass(&self, now: Duration) -> Pass {
        let state = *self.lock();
        match state.refused {
            Some(refused) if now >= refused.next_probe => Pass::Probe,
            Some(refused) => Pass::Wait(refused.next_probe.saturating_sub(now)),
            None if now < state.throttled_until => {
                Pass::Wait(state.throttled_until.saturating_sub(now))
            }
            None => Pass::Open,
        }
    }

    /// Whether the API can be asked, as far as was seen by `now`.
    pub(super) fn fetching(&self, now: Duration) -> Fetching {
        let state = *self.lock();
        let silent = state
            .unreachable_since
            .map(|since| now.saturating_sub(since));
        match (state.refused, silent) {
            (Some(_), _) => Fetching::KeyRefused,
            (None, Some(silent)) if silent >= OUTAGE => Fetching::Unreachable,
            (None, _) => Fetching::Works,
        }
    }

    /// A request got no answer of the API's own.
    pub(super) fn unreachable(&self, now: Duration) {
        self.lock().unreachable_since.get_or_insert(now);
    }

    /// A request got an answer of the API's own, whatever it said.
    pub(super) fn reached(&self) {
        self.lock().unreachable_since = None;
    }

    /// The key was refused. True when it was accepted before.
    pub(super) fn refuse(&self, now: Duration, unit: f64) -> bool {
        let mut state = self.lock();
        let probes = state.refused.map_or(0, |r| r.probes) + 1;
        let first = state.refused.is_none();
        state.refused = Some(Refused {
            probes,
            next_probe: now + PROBE.delay(probes, unit),
        });
        first
    }

    /// The key was refused when somebody last looked: it is probed before anything else is asked.
    pub(super) fn suspect(&self, now: Duration) {
        self.lock().refused.get_or_insert(Refused {
            probes: 0,
            next_probe: now,
        });
    }

    /// The key works. True when it was refused before.
    pub(super) fn accept(&self) -> bool {
        self.lock().refused.take().is_some()
    }

    /// The server asked everybody to wait.
    pub(super) fn throttle(&self, now: Duration, asked: Duration) {
        let mut state = self.lock();
        state.throttled_until = state.throttled_until.max(now + asked.min(MAX_THROTTLE));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_refused_key_is_probed_ever_more_rarely_until_it_works() {
        let gate = Gate::default();
        assert_eq!(gate.pass(SECOND), Pass::Open);
        assert!(gate.refuse(SECOND, 0.5), "the first refusal is news");
        assert_eq!(gate.pass(SECOND), Pass::Wait(15 * SECOND));
        assert_eq!(gate.pass(16 * SECOND), Pass::Probe);
        assert!(!gate.refuse(16 * SECOND, 0.5), "the second is not");
        assert_eq!(gate.pass(17 * SECOND), Pass::Wait(29 * SECOND));
        assert!(gate.accept());
        assert!(!gate.accept());
        assert_eq!(gate.pass(17 * SECOND), Pass::Open);
    }

    #[test]
    fn an_outage_is_silence_that_lasts() {
        let gate = Gate::default();
        gate.unreachable(SECOND);
        assert_eq!(gate.fetching(30 * SECOND), Fetching::Works, "a hiccup");
        gate.unreachable(31 * SECOND);
        assert_eq!(gate.fetching(31 * SECOND), Fetching::Unreachable);
        gate.reached();
        assert_eq!(gate.fetching(99 * SECOND), Fetching::Works);
    }

    #[test]
    fn a_throttle_holds_everybody_but_not_for_ever() {
        let gate = Gate::default();
        gate.throttle(SECOND, 30 * SECOND);
        gate.throttle(SECOND, 5 * SECOND);
        assert_eq!(
            gate.pass(SECOND),
            Pass::Wait(30 * SECOND),
            "the longer one counts"
        );
        gate.throttle(SECOND, Duration::from_hours(9));
        assert_eq!(gate.pass(SECOND), Pass::Wait(MAX_THROTTLE));
    }
}
