//! The last two hours in figures, for the plots: one sample every ten seconds, in memory.
//!
//! A plot is for seeing when something began. What must be kept for longer is in `/metrics`.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::super::health::Health;
use crate::base::clock::Timestamp;
use crate::store::Store;

/// Two hours of one every ten seconds.
const MOST: usize = 720;

/// The figures of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    /// Deliveries committed since the process began.
    pub(super) deliveries: u64,
    /// Work items that are open.
    pub(super) queue: u64,
    /// Operations that are open.
    pub(super) open: u64,
    /// Effects on their way.
    pub(super) effects: u64,
}

/// The samples, oldest first.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    /// Takes one. When the figures cannot be read there is none, and the plot has a gap.
    pub(super) async fn take(&self, health: &Health, store: &Store) {
        let Some(figures) = health.figures().await else {
            return;
        };
        let g = figures.gauges;
        self.push(Sample {
            at: health.now(),
            deliveries: store.commits().1,
            queue: g.ready + g.leased,
            open: g.reserved + g.pending,
            effects: g.effects_open,
        });
    }

    fn push(&self, sample: Sample) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(sample);
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Sample> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_two_hours_are_kept() {
        let samples = Samples::default();
        let count = i64::try_from(MOST).unwrap() + 5;
        for n in 0..count {
            samples.push(Sample {
                at: Timestamp::from_millis(n * 10_000),
                deliveries: 0,
                queue: 0,
                open: 0,
                effects: 0,
            });
        }
        let all = samples.all();
        assert_eq!(all.len(), MOST);
        assert_eq!(all[0].at, Timestamp::from_millis(50_000));
    }
}
