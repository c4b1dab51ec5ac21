//! hookledger: nobody loses the end of a Gemini API long-running job.
//!
//! A floor may use the floors below it, never beside or above:
//!
//! ```text
//! 7  cli · main
//! 6  app                          the only composition root
//! 5  http · simulator             axum: parse, call one use case, render
//! 4  receive · work · reconcile   use cases; each loop is thin around a public `step()`
//! 3  effects                      side effects and alerts going out
//! 2  store · verify · gemini      one foreign thing each
//! 1  domain · config · telemetry  pure types, state tables, decisions; settings; metric names
//! 0  base                         clock, ids, secrets, backoff, shutdown
//! ```
//!
//! `tests/it/floors.rs` checks every `crate::` path against this table.

pub mod app;
pub mod base;
pub mod cli;
pub mod config;
pub mod domain;
pub mod effects;
pub mod gemini;
pub mod http;
pub mod receive;
pub mod reconcile;
pub mod simulator;
pub mod store;
pub mod telemetry;
pub mod verify;
pub mod work;
