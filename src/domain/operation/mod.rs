//! Operations: their names, kinds, states, and what they are for.

mod job_kind;
mod name;
mod prefix;
mod state;

pub use job_kind::{JobKind, NotAJobKind};
pub use name::{
    Kind, MAX_NAME_BYTES, MAX_SEGMENT_BYTES, NotAnOperationName, OperationName, OperationRef,
};
pub use prefix::{NamePrefix, NotANamePrefix};
pub use state::OperationState;
