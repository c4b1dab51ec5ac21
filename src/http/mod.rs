//! Floor 5: HTTP in.
//!
//! [`serve`](serve::serve) accepts connections under limits and deadlines, [`layers`] dresses every
//! request alike. Handlers parse, call one use case and render.

pub mod body;
pub mod error;
pub mod layers;
pub mod limits;
pub mod peers;
pub mod serve;
mod unread;
mod write_deadline;
