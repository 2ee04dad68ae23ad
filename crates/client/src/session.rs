//! The state of a running command: the API client, the discovered resources, and the output.

use std::{
    cell::RefCell,
    io::{IsTerminal, stdin},
    path::PathBuf,
};

use tokio::sync::Mutex;

use crate::{api::ApiClient, discovery::DiscoveryCache, error::ClientError, stdout::StdoutWriter};

/// Defaults that the embedding program passes to the commands.
#[derive(Debug)]
pub struct ClientDefaults {
    /// Kubeconfig that takes precedence over `$KUBECONFIG`.
    pub preferred_kubeconfig: Option<PathBuf>,
    /// Kubeconfig used after `$KUBECONFIG` and before `~/.kube/config`.
    pub configured_kubeconfig: Option<PathBuf>,
    /// Kubeconfig used when no other exists.
    pub admin_kubeconfig: PathBuf,
    /// The clap command of the whole program, for completion.
    pub program: fn() -> clap::Command,
}

/// The state of a running command.
pub(crate) struct CommandSession {
    pub(crate) api: ApiClient,
    /// The namespace of requests that name none.
    pub(crate) namespace: String,
    /// The namespace that was given by `--namespace`: objects of manifests must not have another one.
    pub(crate) required_namespace: Option<String>,
    /// Locked across requests, so that concurrent lookups do not request discovery twice.
    pub(crate) discovery: Mutex<DiscoveryCache>,
    /// Borrowed for one piece of output, never across an await.
    screen: RefCell<StdoutWriter>,
}

// --- CommandSession ---

impl CommandSession {
    pub(crate) fn new(api: ApiClient, namespace: String, required_namespace: Option<String>) -> Self {
        Self {
            api,
            namespace,
            required_namespace,
            discovery: Mutex::default(),
            screen: RefCell::new(StdoutWriter::open()),
        }
    }

    /// Writes output and flushes it.
    pub(crate) fn show(
        &self,
        write: impl FnOnce(&mut StdoutWriter) -> std::io::Result<()>,
    ) -> Result<(), ClientError> {
        use std::io::Write;
        let mut screen = self.screen.borrow_mut();
        write(&mut screen)?;
        screen.flush()?;
        Ok(())
    }

    /// Prints a line.
    pub(crate) fn print_line(&self, line: impl std::fmt::Display) -> Result<(), ClientError> {
        use std::io::Write;
        self.show(|screen| writeln!(screen, "{line}"))
    }
}

/// Whether stdin is a terminal.
pub(crate) fn is_stdin_terminal() -> bool {
    stdin().is_terminal()
}
