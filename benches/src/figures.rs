//! Times, and what is said about them.

use std::time::Duration;

use serde_json::{Value, json};

/// Times of one run, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<u32>);

impl Times {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0
            .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn join(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Percentiles by the nearest rank, none of them made up between two times.
    pub(crate) fn summary(&mut self) -> Value {
        self.0.sort_unstable();
        json!({
            "count": self.0.len(),
            "p50": self.rank(500),
            "p90": self.rank(900),
            "p99": self.rank(990),
            "p999": self.rank(999),
            "max": self.rank(1000),
        })
    }

    fn rank(&self, permille: usize) -> Option<u32> {
        let nth = (self.0.len() * permille).div_ceil(1000);
        self.0.get(nth.saturating_sub(1)).copied()
    }
}

/// So many a second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    let count = u32::try_from(count).map_or(f64::MAX, f64::from);
    count / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let mut times = Times::default();
        for n in (1..=1000).rev() {
            times.add(Duration::from_micros(n));
        }
        let said = times.summary();
        for (name, value) in [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)] {
            assert_eq!(said[name], value, "{name}");
        }
        assert_eq!(said["max"], 1000);
        assert_eq!(Times::default().summary()["p50"], Value::Null);
    }
}
