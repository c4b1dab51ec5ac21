//! What the operating system may ask of the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, heard from the moment this is made: whoever starts the process may want it
/// gone while a large file is still being checked.
#[derive(Debug)]
pub struct Asked {
    terminate: Signal,
    interrupt: Signal,
}

impl Asked {
    /// Listens from now on.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Completes with the name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// SIGHUP. From the moment this is made it ends the process no more.
#[derive(Debug)]
pub(super) struct Hangup(Signal);

impl Hangup {
    /// Listens from now on.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Completes at the next one; several that came together are one.
    pub(super) async fn next(&mut self) {
        // Without a handler there is nothing to wait for, and no reason to turn in circles.
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
