//! What this program says, and to whom.

use std::io::{Write as _, stderr, stdout};
use std::net::SocketAddr;

use serde_json::Value;

/// One document, on standard output.
pub(crate) fn document(value: &Value) -> anyhow::Result<()> {
    writeln!(stdout(), "{value}")?;
    Ok(())
}

/// That connections are accepted from now on.
pub(crate) fn listening(at: SocketAddr) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "listening on {at}")?;
    out.flush()?;
    Ok(())
}

/// What went wrong. With standard error gone there is nobody to tell.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(stderr(), "{error:#}");
}
