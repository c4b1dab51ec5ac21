//! The provider's record of where deliveries go: asked for, compared and looked after.

mod client;
mod rotation;
mod scene;
mod watch;
