//! Floor 0: what every other floor may take for granted.
//!
//! Time, identity, randomness, secrets, back-off and stopping are *parameters* here, so that a test
//! can own them. clippy's `disallowed-methods` keeps the ambient versions out of the rest.

pub mod backoff;
pub mod clock;
pub mod failpoint;
pub mod ids;
pub mod secret;
pub mod shutdown;
pub mod swap;
