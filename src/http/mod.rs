//! Floor 5: HTTP in.
//!
//! [`serve`](serve::serve) accepts connections under limits and deadlines, [`layers`] dresses every
//! request alike. [`hooks`] is the public door, [`admin`] the operator's API; [`health`] answers
//! probes, [`metrics`] renders the numbers, [`web`] is the operator's page. Handlers parse, call one use case and render.

pub mod admin;
pub mod body;
pub mod echo;
pub mod error;
pub mod failures;
mod gauges;
pub mod health;
pub mod hooks;
pub mod layers;
pub mod limits;
pub mod listeners;
pub mod metrics;
pub mod peers;
mod permits;
mod receiver;
pub mod serve;
pub mod state;
mod unread;
pub mod web;
mod write_deadline;
