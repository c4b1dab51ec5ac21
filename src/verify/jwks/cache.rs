//! How long a key set counts, and how often it may be asked for.
//!
//! Threats: a stranger's made-up kids make us ask without end, or push out the keys that work; an
//! outage of the key server keeps every true delivery out; a key that was withdrawn counts for ever.
//!
//! Rules, all by monotonic time:
//! - a set is fresh for as long as its server says, within 5 minutes to 24 hours;
//! - one attempt a minute, whatever wants it: expiry, an unknown kid, a failure before;
//! - once it is not fresh the set is asked for again before a key of it counts; if that fails, the
//!   keys there are count for 24 hours more;
//! - a kid that a fresh set did not have is not asked for again for 5 minutes, 128 such kids at most;
//! - a failed attempt changes no key, and an unknown kid never evicts one.
//!
//! Unknown and unavailable are told apart: "unknown" needs an attempt that succeeded last, or a true
//! delivery would be refused for good because the key server was down.

use std::collections::VecDeque;
use std::time::Duration;

use super::NoKey;
use super::document::{Keys, RsaKey};

const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_hours(24);
const UNSAID: Duration = Duration::from_hours(1);
/// How long keys count beyond their freshness while the server fails.
const STALE_IF_ERROR: Duration = Duration::from_hours(24);
/// Least time between two attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_mins(1);
const MISSING_FOR: Duration = Duration::from_mins(5);
const MAX_MISSING: usize = 128;

/// What is known of one key set.
#[derive(Debug, Default)]
pub(super) struct Cache {
    keys: Keys,
    fresh_until: Duration,
    attempted: Option<Attempt>,
    missing: VecDeque<(String, Duration)>,
}

#[derive(Debug)]
struct Attempt {
    at: Duration,
    succeeded: bool,
}

/// What to do about a kid.
#[derive(Debug)]
pub(super) enum Look {
    /// This is the answer.
    Answer(Result<RsaKey, NoKey>),
    /// Ask the server, then look once more.
    Ask,
}

impl Cache {
    /// What to do about `kid`. After [`Look::Ask`] an attempt must follow, and then
    /// [`answer`](Self::answer).
    pub(super) fn look(&self, kid: &str, now: Duration) -> Look {
        if self.is_fresh(now) && (self.keys.contains_key(kid) || self.is_missing(kid, now)) {
            return Look::Answer(self.answer(kid, now));
        }
        let may_ask = self
            .attempted
            .as_ref()
            .is_none_or(|last| now >= last.at.saturating_add(BETWEEN_ATTEMPTS));
        if may_ask {
            Look::Ask
        } else {
            Look::Answer(self.answer(kid, now))
        }
    }

    /// Whether the set needs no asking for what it has.
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        now < self.fresh_until
    }

    /// The best answer without asking.
    pub(super) fn answer(&self, kid: &str, now: Duration) -> Result<RsaKey, NoKey> {
        let usable = now < self.fresh_until.saturating_add(STALE_IF_ERROR);
        match self.keys.get(kid) {
            Some(key) if usable => Ok(key.clone()),
            _ if self.attempted.as_ref().is_some_and(|last| last.succeeded) => Err(NoKey::Unknown),
            _ => Err(NoKey::Unavailable),
        }
    }

    /// An attempt begins.
    pub(super) fn attempt(&mut self, now: Duration) {
        self.attempted = Some(Attempt {
            at: now,
            // Until it has succeeded; a task that dies half-way has failed.
            succeeded: false,
        });
    }

    /// The attempt succeeded.
    pub(super) fn store(&mut self, keys: Keys, fresh_for: Option<Duration>, now: Duration) {
        self.keys = keys;
        let fresh_for = fresh_for.unwrap_or(UNSAID).clamp(SHORTEST, LONGEST);
        self.fresh_until = now.saturating_add(fresh_for);
        if let Some(last) = &mut self.attempted {
            last.succeeded = true;
        }
    }

    /// `kid` was asked for and the set does not have it.
    pub(super) fn note_missing(&mut self, kid: &str, now: Duration) {
        self.missing
            .retain(|(known, until)| *until > now && known != kid);
        if self.missing.len() >= MAX_MISSING {
            self.missing.pop_front();
        }
        let until = now.saturating_add(MISSING_FOR);
        self.missing.push_back((kid.to_owned(), until));
    }

    fn is_missing(&self, kid: &str, now: Duration) -> bool {
        self.missing
            .iter()
            .any(|(known, until)| known == kid && *until > now)
    }
}

/// How long an answer says that it is fresh, less its age so far. `None` when it says nothing.
pub(super) fn fresh_for(cache_control: &str, age: Option<&str>) -> Option<Duration> {
    let directives = || cache_control.split(',').map(str::trim);
    if directives()
        .any(|d| d.eq_ignore_ascii_case("no-store") || d.eq_ignore_ascii_case("no-cache"))
    {
        return Some(Duration::ZERO);
    }
    let seconds = directives().find_map(|directive| {
        let (name, value) = directive.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim()
            .eq_ignore_ascii_case("max-age")
            .then(|| value.parse::<u64>().ok())
            .flatten()
    })?;
    let age = age.and_then(|a| a.trim().parse().ok()).unwrap_or(0);
    Some(Duration::from_secs(seconds.saturating_sub(age)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_mins(1);
    const HOUR: Duration = Duration::from_hours(1);

    fn set(kids: &[&str]) -> Keys {
        let n = data_encoding::BASE64URL_NOPAD.encode(&[0xff; 256]);
        kids.iter()
            .map(|kid| {
                let key = RsaKey::from_components(&n, "AQAB").unwrap();
                ((*kid).to_owned(), key)
            })
            .collect()
    }

    fn word(look: &Look) -> &'static str {
        match look {
            Look::Answer(Ok(_)) => "key",
            Look::Answer(Err(NoKey::Unknown)) => "unknown",
            Look::Answer(Err(NoKey::Unavailable)) => "unavailable",
            Look::Ask => "ask",
        }
    }

    fn looked(cache: &Cache, kid: &str, now: Duration) -> &'static str {
        word(&cache.look(kid, now))
    }

    fn fetched(kids: &[&str], fresh: Option<Duration>) -> Cache {
        let mut cache = Cache::default();
        cache.attempt(Duration::ZERO);
        cache.store(set(kids), fresh, Duration::ZERO);
        cache
    }

    #[test]
    fn an_empty_cache_asks_once_a_minute_and_is_unavailable_in_between() {
        let mut cache = Cache::default();
        assert_eq!(looked(&cache, "a", Duration::ZERO), "ask");
        cache.attempt(Duration::ZERO);
        assert_eq!(looked(&cache, "a", MIN.mul_f64(0.9)), "unavailable");
        assert_eq!(looked(&cache, "a", MIN), "ask");
    }

    #[test]
    fn freshness_is_bounded_both_ways_and_an_hour_when_unsaid() {
        for (said, fresh) in [
            (Some(Duration::ZERO), 5 * MIN),
            (Some(HOUR * 2), HOUR * 2),
            (Some(HOUR * 1000), HOUR * 24),
            (None, HOUR),
        ] {
            let cache = fetched(&["a"], said);
            assert_eq!(looked(&cache, "a", fresh.mul_f64(0.99)), "key", "{said:?}");
            assert_eq!(looked(&cache, "a", fresh), "ask", "{said:?}");
        }
    }

    #[test]
    fn stale_keys_count_for_a_day_while_asking_fails() {
        let mut cache = fetched(&["a"], None);
        cache.attempt(HOUR);
        assert_eq!(looked(&cache, "a", HOUR), "key");
        assert_eq!(looked(&cache, "b", HOUR), "unavailable");
        let end = HOUR + STALE_IF_ERROR;
        cache.attempt(end.saturating_sub(MIN / 2));
        assert_eq!(looked(&cache, "a", end.saturating_sub(MIN / 4)), "key");
        assert_eq!(looked(&cache, "a", end), "unavailable");
    }

    #[test]
    fn an_unknown_kid_asks_at_most_once_a_minute_and_evicts_nothing() {
        let mut cache = fetched(&["a"], None);
        assert_eq!(looked(&cache, "b", MIN / 2), "unknown");
        assert_eq!(looked(&cache, "b", MIN), "ask");
        cache.attempt(MIN);
        cache.store(set(&["a"]), None, MIN);
        for n in 0..10_000 {
            cache.note_missing(&format!("made up {n}"), MIN);
        }
        assert_eq!(cache.missing.len(), MAX_MISSING);
        cache.note_missing("b", MIN);
        assert_eq!(looked(&cache, "a", 2 * MIN), "key");
        assert_eq!(looked(&cache, "b", 3 * MIN), "unknown", "asked for lately");
        assert_eq!(looked(&cache, "c", 3 * MIN), "ask");
        assert_eq!(looked(&cache, "b", 6 * MIN), "ask", "long enough ago");
    }

    #[test]
    fn an_unknown_kid_while_the_server_fails_is_unavailable_and_not_unknown() {
        let mut cache = fetched(&["a"], None);
        cache.attempt(2 * MIN);
        assert_eq!(looked(&cache, "b", 2 * MIN), "unavailable");
        assert_eq!(looked(&cache, "a", 2 * MIN), "key");
    }

    #[test]
    fn a_new_set_replaces_the_old_and_clears_what_was_missing() {
        let mut cache = fetched(&["a"], None);
        cache.note_missing("b", Duration::ZERO);
        cache.attempt(2 * MIN);
        cache.store(set(&["b"]), None, 2 * MIN);
        assert_eq!(looked(&cache, "b", 2 * MIN), "key");
        assert_eq!(looked(&cache, "a", 2 * MIN), "unknown");
    }

    #[test]
    fn max_age_is_read_as_servers_write_it() {
        for (said, age, fresh) in [
            ("public, max-age=19845, must-revalidate", None, Some(19845)),
            ("Max-Age=\"60\"", None, Some(60)),
            ("max-age=100", Some("40"), Some(60)),
            ("max-age=100", Some("400"), Some(0)),
            ("no-store", None, Some(0)),
            ("max-age=60, no-cache", None, Some(0)),
            ("max-age=-1", None, None),
            ("max-age=99999999999999999999999", None, None),
            ("s-maxage=5", None, None),
            ("", None, None),
        ] {
            let found = fresh_for(said, age).map(|d| d.as_secs());
            assert_eq!(found, fresh, "{said}");
        }
    }
}
