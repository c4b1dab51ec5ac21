//! The SQLite engine: everything that knows SQL is below this line.

pub(super) mod alerts;
mod audit;
pub(super) mod backup;
pub(super) mod claim;
mod commit;
pub(super) mod deliveries;
pub(super) mod import;
pub(super) mod ledger;
pub(super) mod lists;
pub(super) mod outbox;
pub(super) mod over;
pub(super) mod pool;
pub(super) mod queue;
pub(super) mod register;
pub(super) mod reports;
pub(super) mod requests;
pub(super) mod resolve;
pub(super) mod restore;
pub(super) mod rows;
pub(super) mod settle;
mod story;
pub(super) mod sweep;
mod unsettled;
pub(super) mod upkeep;
pub(super) mod write;
