//! One binary for all integration tests: linking dominates on small machines.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod admin_api;
mod config;
mod floors;
mod gemini_client;
mod http_serve;
mod metrics;
mod simulator_api;
mod simulator_faults;
mod simulator_serve;
mod simulator_support;
mod simulator_webhooks;
mod support;
