//! `k3 test-env`: a cluster for as long as a command runs.

use std::{ffi::OsString, io, os::unix::process::ExitStatusExt, path::PathBuf, process::ExitStatus};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
};

use crate::{
    TestEnv, TestStorage,
    command_error::CommandError,
    log::{self, LogLevel},
};

const EXAMPLES: &str = "\
Examples:
  k3 test-env -- kubectl get namespaces
  k3 test-env --crds config/crd/bases -- cargo test
  k3 test-env --simulated-nodes 3 -- pytest tests/
  USE_EXISTING_CLUSTER=true k3 test-env -- go test ./...

The command finds the cluster through KUBECONFIG. When it starts, the API server is ready, the namespace default has its
service account, and the kinds of --crds are served. When it exits, the cluster is removed. Any number may run at once.

Signals (INT, TERM, HUP, QUIT) are forwarded to the command; a signal before the command runs stops everything.

Exit codes: that of the command; 128 and the number of the signal if one ended it; 127 if there is no such command, 126 if it
cannot be run; 1 if the cluster cannot be started, 2 for a usage error.";

/// Run a command with a temporary cluster, and return its exit code.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TestEnvFlags {
    /// Number of simulated nodes: their pods run and terminate without containers
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000))]
    simulated_nodes: u32,

    /// `CustomResourceDefinitions` to install: a file, or a directory with *.yaml, *.yml and *.json; may be repeated
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,

    /// Storage backend
    #[arg(long, value_enum, value_name = "STORE", default_value_t = TestStorage::Memory)]
    storage: TestStorage,

    /// Controllers to run, as in `k3 start`; '' is none
    #[arg(long, value_name = "LIST", default_value = "*")]
    controllers: String,

    /// Log level of the cluster, on standard error
    #[arg(long, default_value = "error", value_name = "LEVELS")]
    log_level: LogLevel,

    /// The command and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Signals that end programs, received from its creation on.
struct TestEnvSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    quit: unix::Signal,
}

/// Runs the command, and ends the process with its exit code.
pub(super) fn run(flags: TestEnvFlags) -> Result<(), CommandError> {
    log::init_stderr(flags.log_level.clone());
    let runtime = crate::runtime::current_thread()?;
    let code = runtime.block_on(live(flags))?;
    // The cluster was stopped and its directory removed.
    std::process::exit(code)
}

async fn live(flags: TestEnvFlags) -> Result<i32, CommandError> {
    let mut signals = TestEnvSignals::listen().map_err(|error| {
        CommandError::new("cannot listen for signals", "this should not happen; try again").caused_by(error)
    })?;
    let mut settings = TestEnv::builder()
        .simulated_nodes(flags.simulated_nodes)
        .storage(flags.storage)
        .controllers(flags.controllers);
    for path in flags.crds {
        settings = settings.crds(path);
    }
    let env = tokio::select! {
        env = settings.start() => env?,
        signal = signals.next() => return Ok(128 + signal.as_raw()),
    };
    let Some((program, arguments)) = flags.command.split_first() else {
        return Err(CommandError::usage(
            "no command is given",
            "add a command after --",
        ));
    };
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", env.kubeconfig());
    match command.spawn() {
        Ok(mut child) => {
            let status = ended(&mut child, &mut signals).await.map_err(|error| {
                CommandError::new("cannot wait for the command", "this should not happen; try again")
                    .caused_by(error)
            })?;
            Ok(code(status))
        }
        Err(error) => {
            let name = program.display();
            let (code, advice) = match error.kind() {
                io::ErrorKind::NotFound => (127, "name a program on PATH, or its path"),
                _ => (126, "check that this user may run it"),
            };
            let failure = CommandError::new(format!("cannot run {name}"), advice).caused_by(error);
            eprintln!("{failure}");
            Ok(code)
        }
    }
}

/// Waits for the exit of the command, and forwards signals to it.
async fn ended(child: &mut Child, signals: &mut TestEnvSignals) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            signal = signals.next() => {
                let is_delivered = matches!(signal, Signal::INT | Signal::QUIT) && is_at_terminal();
                if let Some(id) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
                    && !is_delivered
                {
                    // The command may have exited already.
                    let _ = kill_process(id, signal);
                }
            }
        }
    }
}

/// Whether the terminal signals the command directly. Then signals are not forwarded, because many programs treat a second
/// Ctrl-C differently.
fn is_at_terminal() -> bool {
    rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The exit code as shells report it.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| Some(128 + status.signal()?))
        .unwrap_or(1)
}

// --- TestEnvSignals ---

impl TestEnvSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
            quit: unix::signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.quit.recv() => Signal::QUIT,
        }
    }
}
