//! Standard input as it comes, and a terminal that passes every key on.

use std::{
    future::pending,
    io::{Read, stdin},
    thread,
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::failed::Failed;

/// What is read before it is sent.
const PIECE: usize = 16 << 10;

/// Standard input.
pub(super) struct Keyboard(mpsc::Receiver<Vec<u8>>);

/// A terminal that does nothing by itself. Dropping it makes it what it was.
pub(super) struct RawTerminal {
    before: Termios,
}

// --- Keyboard ---

impl Keyboard {
    /// Begins to read. The thread that does ends with the process: nothing wakes it while nobody types.
    pub(super) fn open() -> Self {
        let (sender, receiver) = mpsc::channel(4);
        thread::spawn(move || {
            let mut piece = vec![0; PIECE];
            let mut input = stdin().lock();
            while let Ok(length @ 1..) = input.read(&mut piece) {
                if sender.blocking_send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// The next bytes; nothing at the end. Who has no input waits for ever.
    pub(super) async fn next(keyboard: &mut Option<Self>) -> Option<Vec<u8>> {
        match keyboard {
            Some(Self(receiver)) => receiver.recv().await,
            None => pending().await,
        }
    }
}

// --- RawTerminal ---

impl RawTerminal {
    pub(super) fn enter() -> Result<Self, Failed> {
        let failed = |error: rustix::io::Errno| Failed::new(format!("cannot use the terminal: {error}"));
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Best effort: the terminal may be gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
