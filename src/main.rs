//! The `hookledger` program.

fn main() {}
