//! Floor 5: HTTP in.
//!
//! [`serve`](serve::serve) accepts connections under limits and deadlines, [`layers`] dresses every
//! request alike. [`admin`] is the operator's API, [`health`] answers probes,
//! [`metrics`] renders the numbers. Handlers parse, call one use case and render.

pub mod admin;
pub mod body;
pub mod error;
mod gauges;
pub mod health;
pub mod layers;
pub mod limits;
pub mod metrics;
pub mod peers;
pub mod serve;
pub mod state;
mod unread;
mod write_deadline;
