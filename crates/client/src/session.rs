//! A command at work: the server it asks, what is known of it, and where answers go.

use std::{
    cell::RefCell,
    io::{IsTerminal, stdin},
    path::PathBuf,
};

use tokio::sync::Mutex;

use crate::{api::Api, discovery::Discovery, failed::Failed, screen::Screen};

/// What the program around the commands knows.
#[derive(Debug)]
pub struct Surroundings {
    /// The kubeconfig that counts before `$KUBECONFIG`.
    pub preferred_kubeconfig: Option<PathBuf>,
    /// The kubeconfig that counts after `$KUBECONFIG` and before `~/.kube/config`.
    pub configured_kubeconfig: Option<PathBuf>,
    /// The kubeconfig that counts when there is no other.
    pub admin_kubeconfig: PathBuf,
    /// The whole command line, for completion.
    pub program: fn() -> clap::Command,
}

/// A command at work.
pub(crate) struct Session {
    pub(crate) api: Api,
    /// The namespace one works in.
    pub(crate) namespace: String,
    /// Only one thing is asked at a time.
    pub(crate) discovery: Mutex<Discovery>,
    /// Borrowed for one piece of output, never across an await.
    screen: RefCell<Screen>,
}

// --- Session ---

impl Session {
    pub(crate) fn new(api: Api, namespace: String) -> Self {
        Self {
            api,
            namespace,
            discovery: Mutex::default(),
            screen: RefCell::new(Screen::open()),
        }
    }

    /// Writes a piece of output, and shows it at once.
    pub(crate) fn show(&self, write: impl FnOnce(&mut Screen) -> std::io::Result<()>) -> Result<(), Failed> {
        use std::io::Write;
        let mut screen = self.screen.borrow_mut();
        write(&mut screen)?;
        screen.flush()?;
        Ok(())
    }

    /// Shows a line.
    pub(crate) fn say(&self, line: impl std::fmt::Display) -> Result<(), Failed> {
        use std::io::Write;
        self.show(|screen| writeln!(screen, "{line}"))
    }
}

/// Whether somebody types what is read.
pub(crate) fn is_typed() -> bool {
    stdin().is_terminal()
}
