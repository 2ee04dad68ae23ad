//! Signals that stop a server.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGQUIT.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
}

// --- StopSignals ---

impl StopSignals {
    /// Starts to listen. Must be called inside a Tokio runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal, and returns its name. Cancel safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }
}
