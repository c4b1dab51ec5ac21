//! Floor 1: logs, metrics and traces.
//!
//! Both speak in words that were decided here: a log line has one shape, a metric has one name, one
//! sentence and a bounded set of labels.

pub mod logging;
pub mod metrics;
pub mod traces;
