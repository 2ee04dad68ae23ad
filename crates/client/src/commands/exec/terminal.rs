//! Asynchronous stdin, and the raw mode of the terminal.

use std::{
    future::pending,
    io::{Read, stdin},
    thread,
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::error::ClientError;

/// Size of the read buffer.
const CHUNK_SIZE: usize = 16 << 10;

/// Stdin, read by a thread.
pub(super) struct StdinReader(mpsc::Receiver<Vec<u8>>);

/// A terminal in raw mode; the previous mode is restored on drop.
pub(super) struct RawTerminal {
    before: Termios,
}

// --- StdinReader ---

impl StdinReader {
    /// Starts the reading thread. It ends with the process, because nothing can interrupt its blocking read.
    pub(super) fn open() -> Self {
        let (sender, receiver) = mpsc::channel(4);
        thread::spawn(move || {
            let mut chunk = vec![0; CHUNK_SIZE];
            let mut input = stdin().lock();
            while let Ok(length @ 1..) = input.read(&mut chunk) {
                if sender.blocking_send(chunk[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// Returns the next bytes, or `None` at the end. Never completes when there is no reader.
    pub(super) async fn next(input: &mut Option<Self>) -> Option<Vec<u8>> {
        match input {
            Some(Self(receiver)) => receiver.recv().await,
            None => pending().await,
        }
    }
}

// --- RawTerminal ---

impl RawTerminal {
    pub(super) fn enter() -> Result<Self, ClientError> {
        let failed = |error: rustix::io::Errno| ClientError::new(format!("cannot use the terminal: {error}"));
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Best effort: the terminal may be closed already.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
