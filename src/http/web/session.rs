//! Who is signed in.
//!
//! Problem: a browser cannot keep an admin token safely, and must be able to be signed out.
//!
//! Design: signing in trades the token for a random id of 256 bits in a cookie. Kept are, in memory
//! only, the id's digest and the token's digest: whoever reads the memory of sessions can use none.
//! Which token it was is looked up again at every request, so a token that is withdrawn or narrowed
//! by a reload ends or narrows its sessions at once. A session ends when it was not used for twelve
//! hours; a page that only refreshes itself is not in use, nor is its stream. When there are too many, of
//! one token or in all, the one of them that was left alone for the longest gives way: whoever may only
//! look can sign nobody else out.
//!
//! Races: the table has one lock, held for a look-up.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use super::super::admin::TokenDigest;
use crate::base::clock::Clock;
use crate::base::ids::Ids;

/// A session that was not used for so long has ended.
const IDLE: Duration = Duration::from_hours(12);
/// Most sessions at once.
const MOST: usize = 256;
/// Most of one token: whoever may only look must not sign others out by signing in.
const MOST_OF_ONE: usize = 16;

/// A session's id as it is kept.
pub(super) type Key = [u8; 32];

/// What is said once, on the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// Whether it is bad news.
    pub(super) bad: bool,
    /// The sentence.
    pub(super) text: String,
}

struct Session {
    token: TokenDigest,
    csrf: String,
    used: Duration,
    said: Option<Said>,
}

/// A session that was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) key: Key,
    pub(super) token: TokenDigest,
    pub(super) csrf: String,
}

/// The open sessions.
pub(super) struct Sessions {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    open: Mutex<HashMap<Key, Session>>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    pub(super) fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            clock,
            ids,
            open: Mutex::default(),
        }
    }

    /// Opens one for the holder of this token, and gives the id for the cookie.
    pub(super) fn open(&self, token: TokenDigest) -> String {
        let (id, csrf) = (self.random(), self.random());
        let now = self.clock.monotonic();
        let mut open = self.lock();
        open.retain(|_, session| now.saturating_sub(session.used) < IDLE);
        let own = |session: &Session| session.token == token;
        let full = open.values().filter(|session| own(session)).count() >= MOST_OF_ONE;
        if full || open.len() >= MOST {
            let may_go = open.iter().filter(|(_, session)| !full || own(session));
            let oldest = may_go.min_by_key(|(_, session)| session.used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                open.remove(&key);
            }
        }
        let session = Session {
            token,
            csrf,
            used: now,
            said: None,
        };
        open.insert(key_of(&id), session);
        id
    }

    /// The session of this id, unless it has ended. `in_use` says that a person is there.
    pub(super) fn find(&self, id: &str, in_use: bool) -> Option<Found> {
        let (key, now) = (key_of(id), self.clock.monotonic());
        let mut open = self.lock();
        let session = open.get_mut(&key)?;
        if now.saturating_sub(session.used) >= IDLE {
            open.remove(&key);
            return None;
        }
        if in_use {
            session.used = now;
        }
        Some(Found {
            key,
            token: session.token,
            csrf: session.csrf.clone(),
        })
    }

    /// Whether it is still there, without using it.
    pub(super) fn lives(&self, key: &Key) -> bool {
        let now = self.clock.monotonic();
        let open = self.lock();
        let session = open.get(key);
        session.is_some_and(|s| now.saturating_sub(s.used) < IDLE)
    }

    pub(super) fn close(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Leaves a sentence for the next page.
    pub(super) fn say(&self, key: &Key, said: Said) {
        if let Some(session) = self.lock().get_mut(key) {
            session.said = Some(said);
        }
    }

    /// Takes it.
    pub(super) fn said(&self, key: &Key) -> Option<Said> {
        self.lock().get_mut(key)?.said.take()
    }

    fn random(&self) -> String {
        let mut bytes = [0; 32];
        self.ids.fill(&mut bytes);
        BASE64URL_NOPAD.encode(&bytes)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(id: &str) -> Key {
    Sha256::digest(id).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{ManualClock, Timestamp};
    use crate::base::ids::RandomIds;

    fn sessions() -> (Arc<ManualClock>, Sessions) {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(0)));
        let ids = Arc::new(RandomIds::from_system());
        (clock.clone(), Sessions::new(clock, ids))
    }

    #[test]
    fn a_session_lives_while_a_person_uses_it() {
        let (clock, sessions) = sessions();
        let id = sessions.open([1; 32]);
        for _ in 0..3 {
            clock.advance(IDLE / 3 * 2);
            assert!(sessions.find(&id, true).is_some());
        }
        // A page that refreshes itself for half a day, with nobody before it.
        clock.advance(IDLE / 2);
        assert!(sessions.find(&id, false).is_some());
        clock.advance(IDLE / 2);
        assert!(sessions.find(&id, true).is_none());
        assert!(sessions.find("", true).is_none());
    }

    #[test]
    fn one_token_signs_nobody_else_out() {
        let (clock, sessions) = sessions();
        let other = sessions.open([1; 32]);
        let first = sessions.open([2; 32]);
        for _ in 0..MOST {
            clock.advance(Duration::from_secs(1));
            sessions.open([2; 32]);
        }
        assert!(sessions.find(&other, true).is_some());
        assert!(sessions.find(&first, true).is_none());
        assert_eq!(sessions.lock().len(), MOST_OF_ONE + 1);
    }

    #[test]
    fn the_table_is_bounded_and_the_least_used_gives_way() {
        let (clock, sessions) = sessions();
        let ids: Vec<String> = (0..MOST)
            .map(|n| {
                clock.advance(Duration::from_secs(1));
                sessions.open([u8::try_from(n / MOST_OF_ONE).unwrap(); 32])
            })
            .collect();
        assert!(sessions.find(&ids[0], true).is_some());
        clock.advance(Duration::from_secs(1));
        sessions.open([99; 32]);
        assert_eq!(sessions.lock().len(), MOST);
        assert!(sessions.find(&ids[0], true).is_some());
        assert!(sessions.find(&ids[1], true).is_none());
    }

    #[test]
    fn ids_are_long_different_and_not_kept() {
        let (_, sessions) = sessions();
        let (a, b) = (sessions.open([1; 32]), sessions.open([1; 32]));
        assert_ne!(a, b);
        assert_eq!(BASE64URL_NOPAD.decode(a.as_bytes()).unwrap().len(), 32);
        let found = sessions.find(&a, true).unwrap();
        assert_ne!(found.csrf, sessions.find(&b, true).unwrap().csrf);
        assert_ne!(found.csrf, a);
        assert!(!format!("{sessions:?}").contains(&a));
        sessions.close(&found.key);
        assert!(sessions.find(&a, true).is_none() && !sessions.lives(&found.key));
    }
}
