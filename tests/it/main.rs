//! One binary for all integration tests: linking dominates on small machines.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod admin_api;
mod adversity;
mod alerts;
mod cli;
mod config;
mod configuration_doc;
mod corpus;
mod crash;
mod demo;
mod deployment;
mod effects;
mod floors;
mod gemini_client;
mod http_abuse;
mod http_addresses;
mod http_door;
mod http_hooks;
mod http_serve;
mod http_stop;
mod http_store;
mod http_support;
mod jwt;
mod ledger;
mod logging;
mod metrics;
mod model;
mod openapi;
mod page_doc;
mod payloads;
mod service;
mod simulator_api;
mod simulator_faults;
mod simulator_jwt;
mod simulator_registered;
mod simulator_serve;
mod simulator_support;
mod simulator_webhooks;
mod store;
mod subscription;
mod support;
mod testing_doc;
mod traces;
mod verification_doc;
mod web;
