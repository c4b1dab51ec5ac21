//! The provider's record of where deliveries go: asked for, compared and looked after.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

mod client;
mod rotation;
pub(crate) mod scene;
mod watch;
