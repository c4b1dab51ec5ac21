//! The life of operations: by webhook, by reconciliation, in every order.

use std::time::Duration;

mod deliveries;
mod effects;
mod entering;
mod plateau;
mod retention;
mod settling;
mod trouble;

const A: &str = "batches/a";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
