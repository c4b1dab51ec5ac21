//! A value that is made anew at most once a second, by one asker at a time.
//!
//! Race: the lock is held while the value is made, so those who come meanwhile wait and get that
//! one. If the maker is dropped (its client hung up), the lock is free and the next asker makes it.

use std::time::Duration;

use tokio::sync::Mutex;

/// How long a value is good.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Cached<T>(Mutex<Option<(Duration, T)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    /// The value of the last second, or a new one. `make` is given the one before.
    pub(super) async fn get<F>(&self, now: Duration, make: impl FnOnce(Option<T>) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let mut held = self.0.lock().await;
        if let Some((made, value)) = &*held
            && now.saturating_sub(*made) < FRESH
        {
            return value.clone();
        }
        let before = held.as_ref().map(|(_, value)| value.clone());
        let value = make(before).await;
        *held = Some((now, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_value_is_made_once_a_second_whoever_asks() {
        let (cached, made) = (Cached::default(), AtomicU32::new(0));
        let ask = |now| {
            cached.get(now, |_| async {
                tokio::task::yield_now().await;
                made.fetch_add(1, Ordering::Relaxed)
            })
        };
        let second = Duration::from_secs(1);
        assert_eq!(
            tokio::join!(ask(second), ask(second), ask(second)),
            (0, 0, 0)
        );
        assert_eq!(ask(second + second / 2).await, 0);
        assert_eq!(ask(second * 2).await, 1);
    }
}
