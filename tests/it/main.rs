//! One binary for all integration tests: linking dominates on small machines.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod floors;
mod http_abuse;
mod http_door;
mod http_hooks;
mod http_serve;
mod http_stop;
mod http_support;
