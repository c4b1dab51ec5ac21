//! kill -9.
