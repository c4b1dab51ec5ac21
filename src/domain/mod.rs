//! Floor 1: what the words mean. Pure types, state tables and decisions; no I/O, no clock of its own.

pub mod effect;
pub mod event;
pub mod fault;
pub mod ledger;
pub mod observation;
pub mod operation;
pub mod recovered;
pub mod work;
