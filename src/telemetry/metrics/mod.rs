//! What is counted.
//!
//! [`table`] says every name once, with its sentence and the words its labels may take; nothing else
//! in the program names a metric. The functions here are how the floors above count. A word that is
//! not in the table becomes `other`, so the number of series is bounded whatever is passed; names of
//! sources and effects come from the configuration and are bounded by it.
//!
//! The recorder is global and installed once; tests use [`Metrics::local`] with
//! `metrics::with_local_recorder`. Without a recorder counting does nothing.

mod install;
mod record;
pub mod table;

pub use install::{Metrics, describe_all};
pub use record::*;
