//! The signals by which a server is told to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// INT, TERM and QUIT, heard from the moment this is made.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
}

// --- Signals ---

impl Signals {
    /// Begins to hear them. Must be called inside a Tokio runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next, and names it. Nothing is lost when this is dropped while it waits.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }
}
