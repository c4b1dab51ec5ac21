//! Signing secrets that change while the service runs.
//!
//! Problem: a rotation brings a secret that must be accepted from the moment it is on disk, beside
//! the one before it, and nobody may believe in it before a delivery was signed with it.
//!
//! Design: one set, shared by the door and by whoever rotates. A check remembers which secrets
//! signed. While a rotation is open a signature by none of them proves nothing against the sender:
//! the provider may already sign with a secret that is still on its way here.
//!
//! Races: the set is replaced whole, so a check sees the secrets before or those after. A delivery
//! that was checked against those before a new one is refused for now, not for good, because the
//! rotation was open by then ([`SecretSet::is_rotating`] is asked after the check). Several may take
//! the file in at once; each reads it under one lock, so the last to read is the last to replace, and
//! an older text never covers a newer one.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::secret_file::{Kept, SecretFile, SecretFileError};
use super::signing_secret::SigningSecret;
use super::standard_webhooks::Presented;
use crate::base::clock::Timestamp;
use crate::base::secret::Secret;

/// The set; clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct SecretSet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    inner: RwLock<Inner>,
    /// Held while a file's text becomes the set.
    taking: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    secrets: Vec<Accepted>,
    rotating: bool,
}

#[derive(Debug, Clone)]
struct Accepted {
    text: Secret,
    key: SigningSecret,
    not_after: Option<Timestamp>,
    verified_at: Option<Timestamp>,
}

impl SecretSet {
    /// Accepts what `kept` holds, and nothing else, from now on. What is known about a secret that
    /// stays is kept.
    pub fn replace(&self, kept: &Kept) {
        let _taking = self.0.taking.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(kept);
    }

    /// Accepts what `file` holds now, and answers it. True when that is something else than before.
    ///
    /// # Errors
    /// The file cannot be used; then the set is what it was.
    pub fn take_in(&self, file: &SecretFile) -> Result<(Kept, bool), SecretFileError> {
        let _taking = self.0.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = file.load()?;
        let changed = self.put(&kept);
        Ok((kept, changed))
    }

    fn put(&self, kept: &Kept) -> bool {
        let mut inner = self.write();
        let secrets = kept.secrets.iter().filter_map(|one| {
            let before = |known: &&Accepted| known.text.expose() == one.secret.expose();
            Some(Accepted {
                text: one.secret.clone(),
                key: SigningSecret::parse(&one.secret).ok()?,
                not_after: one.not_after,
                verified_at: inner
                    .secrets
                    .iter()
                    .find(before)
                    .and_then(|known| known.verified_at),
            })
        });
        let secrets: Vec<Accepted> = secrets.collect();
        let texts = |list: &[Accepted]| {
            let text = |one: &Accepted| one.text.expose().to_owned();
            list.iter().map(text).collect::<Vec<_>>()
        };
        let changed = texts(&secrets) != texts(&inner.secrets);
        inner.secrets = secrets;
        inner.rotating = kept.rotation.is_some();
        changed
    }

    /// Whether a signature can mean anything: there is a secret, or one is on its way.
    pub fn is_in_use(&self) -> bool {
        let inner = self.read();
        inner.rotating || !inner.secrets.is_empty()
    }

    /// Whether a rotation is open.
    pub fn is_rotating(&self) -> bool {
        self.read().rotating
    }

    /// When a delivery was last signed with `secret`, since this process began.
    pub fn verified_at(&self, secret: &Secret) -> Option<Timestamp> {
        let inner = self.read();
        let known = inner
            .secrets
            .iter()
            .find(|known| known.text.expose() == secret.expose());
        known.and_then(|known| known.verified_at)
    }

    /// Whether one of the secrets signed; each that did is remembered. All are tried.
    pub(super) fn signed(&self, presented: &Presented, body: &[u8], now: Timestamp) -> bool {
        let inner = self.read();
        // What was in use before a rotation is good until the new one is proven.
        let current = |one: &&Accepted| inner.rotating || one.not_after.is_none_or(|end| now < end);
        let matched: Vec<Secret> = inner
            .secrets
            .iter()
            .filter(current)
            .filter(|one| presented.is_signed_by(std::slice::from_ref(&one.key), body))
            .map(|one| one.text.clone())
            .collect();
        drop(inner);
        if matched.is_empty() {
            return false;
        }
        let mut inner = self.write();
        for one in &mut inner.secrets {
            if matched.iter().any(|m| m.expose() == one.text.expose()) {
                one.verified_at = Some(now);
            }
        }
        true
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.0.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}
