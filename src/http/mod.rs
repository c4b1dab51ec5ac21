//! Floor 5: HTTP in.
//!
//! [`serve`](serve::serve) accepts connections under limits and deadlines, [`layers`] dresses every
//! request alike, [`hooks`] is the public door. Handlers parse, call one use case and render.

pub mod body;
pub mod error;
pub mod failures;
pub mod hooks;
pub mod layers;
pub mod limits;
pub mod peers;
mod permits;
mod receiver;
pub mod serve;
mod unread;
mod write_deadline;
