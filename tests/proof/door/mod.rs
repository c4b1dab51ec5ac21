//! Strangers at the door, while true deliveries go on.

mod bodies;
mod headers;
mod stalled;

use crate::row::Row;

/// The rows about the door.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "T20-stalled-sockets",
        run: |tier| Box::pin(stalled::run(tier)),
    },
    Row {
        name: "T21-bodies",
        run: |tier| Box::pin(bodies::run(tier)),
    },
    Row {
        name: "T22-headers",
        run: |tier| Box::pin(headers::run(tier)),
    },
];
