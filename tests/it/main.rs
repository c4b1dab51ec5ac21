//! One binary for all integration tests: linking dominates on small machines.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod effects;
mod floors;
