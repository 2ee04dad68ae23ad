//! Runs commands against a server of canned bytes, and keeps what they print.
//!
//! A test names each request that it expects. A request that no route has is answered with 404 and text that is no `Status`.

mod apply;
mod deletion;
mod errors;
mod execution;
mod listing;
mod log_streams;
mod rollouts;
mod server;
mod waiting;

use std::{cell::RefCell, io, path::PathBuf};

use clap::Parser;
use tempfile::NamedTempFile;

pub(crate) use self::server::{CannedServer, cut_off, json_answer, raw, stream};
use crate::{ClientCommand, ClientDefaults, ClientError, ConnectFlags, session::CommandSession};

thread_local! {
    /// What the commands of this test printed: each test has a thread of its own.
    static PRINTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Standard output of commands in tests.
pub(crate) struct CapturedOutput;

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: ClientCommand,
}

/// What a command printed, and its error.
pub(crate) struct CommandOutcome {
    pub(crate) printed: String,
    pub(crate) error: Option<ClientError>,
}

// --- CapturedOutput ---

impl io::Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        PRINTED.with_borrow_mut(|printed| printed.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// --- CommandOutcome ---

impl CommandOutcome {
    /// What a command printed that did not fail.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert!(self.error.is_none(), "{:?} after {:?}", self.error, self.printed);
        self.printed
    }

    /// The text of the error.
    #[track_caller]
    pub(crate) fn failure(self) -> String {
        self.error.expect("the command fails").to_string()
    }
}

/// Runs a command line, such as `get pods`, against a server.
pub(crate) fn run(server: &CannedServer, line: &str) -> CommandOutcome {
    run_arguments(server, line.split(' '))
}

/// Runs a command whose arguments contain spaces.
pub(crate) fn run_arguments<'w>(
    server: &CannedServer,
    arguments: impl IntoIterator<Item = &'w str>,
) -> CommandOutcome {
    let kubeconfig = server.kubeconfig();
    let defaults = defaults(&kubeconfig);
    let argv = std::iter::once("k3").chain(arguments);
    let program = Program::try_parse_from(argv).unwrap_or_else(|error| panic!("{error}"));
    PRINTED.with_borrow_mut(Vec::clear);
    let error = program.command.run(&defaults).err();
    let printed = PRINTED.with_borrow_mut(std::mem::take);
    CommandOutcome {
        printed: String::from_utf8(printed).expect("the canned bytes are text"),
        error,
    }
}

/// A session with a server, for tests of parts of a command.
pub(crate) async fn session(server: &CannedServer) -> CommandSession {
    let kubeconfig = server.kubeconfig();
    let flags = ConnectFlags::default();
    flags
        .connect(&defaults(&kubeconfig))
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

fn defaults(kubeconfig: &NamedTempFile) -> ClientDefaults {
    ClientDefaults {
        preferred_kubeconfig: Some(kubeconfig.path().to_owned()),
        configured_kubeconfig: None,
        admin_kubeconfig: PathBuf::from("/nonexistent"),
        program: <Program as clap::CommandFactory>::command,
    }
}
