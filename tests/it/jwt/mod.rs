//! Dynamic webhooks through the real door, with keys from a server that may be in any state.

mod keys;
mod proofs;
mod support;
