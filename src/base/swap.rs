//! A value that is replaced whole while others read it.
//!
//! Secrets change while requests are being judged by them. A reader takes the value that is in force
//! and keeps it for as long as it likes; nobody ever sees a mixture, and nobody waits.

use std::sync::{Arc, PoisonError, RwLock};

/// The value; clones are the same one.
pub struct Swap<T>(Arc<RwLock<Arc<T>>>);

impl<T> Swap<T> {
    /// With this value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The value in force.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in its place.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> Clone for Swap<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl<T> From<T> for Swap<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_what_it_took_and_clones_see_the_new_one() {
        let swap = Swap::new("old");
        let clone = swap.clone();
        let taken = swap.get();
        clone.set("new");
        assert_eq!((*taken, *swap.get()), ("old", "new"));
    }
}
