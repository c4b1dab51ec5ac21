//! Floor 4: from a work item to a settled operation and its delivered effects.
//!
//! | file | idea |
//! |---|---|
//! | `step` | the worker: claim what is due, look; and its loop |
//! | `write_down` | the end of a look: written, then told |
//! | `look` | one item: resolve what it names, ask the API, decide |
//! | `decide` | pure: what an answer or a fault means |
//! | `gate` | when nobody may ask the API at all |
//! | `policy` | when operations are looked at and worried about |
//! | `register` | putting jobs into the ledger |
//! | `bulk` | putting many dead things back |
//! | `send` | the outbox's sender and its loop |
//! | `slots` | how many things run at once |
//! | `tell` | what a look changed, in the log and in numbers |
//! | `turns` | the loop that the worker and the sender share |

mod bulk;
mod decide;
mod gate;
mod look;
pub mod policy;
pub mod register;
pub mod send;
mod slots;
pub mod step;
mod tell;
mod trace;
mod turns;
mod write_down;

pub use gate::Fetching;
pub use policy::Policy;
pub use register::Registrar;
pub use send::Sender;
pub use step::{ItemEnd, Worker};

/// The worker's and the sender's loops look around at least this often, whatever they were told.
pub const SAFETY_POLL: std::time::Duration = std::time::Duration::from_secs(30);
/// Pause before a result that could not be written down is written once more.
const WRITE_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
