//! The program `k3`, as a user runs it. Dropping what was started ends it.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server that has reported that it is ready.
pub(crate) struct Server {
    child: Child,
    /// Kept open: a program that cannot write its output any more may end.
    _output: BufReader<ChildStdout>,
    /// The file of the printed line `export KUBECONFIG=...`.
    pub(crate) kubeconfig: PathBuf,
}

/// A directory for a server's data.
pub(crate) struct TestDataDir(TempDir);

/// A command of the program with a clean environment.
pub(crate) fn k3(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| name.starts_with("K3_"));
        if is_ours || name == "CONFIG_PATH" || name == "NODE_NAME" {
            command.env_remove(name);
        }
    }
    // Only tests of databases may use the container runtime of this machine.
    command.env("K3_DATABASE_AUTOSTART", "false");
    command.args(args).stdin(Stdio::null());
    command
}

// --- TestDataDir ---

impl TestDataDir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A call of `k3 start` on this directory and a free port, without a node, for the same reason.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = k3(&["start", "--secure-port", "0", "--no-node", "--data-dir"]);
        command.arg(self.path()).args(args);
        command
    }

    /// Starts a server, and waits until it serves.
    pub(crate) fn start(&self, args: &[&str]) -> Server {
        self.serve(self.command(args))
    }

    /// The same by a call of one's own, whose data directory this is.
    pub(crate) fn serve(&self, mut command: Command) -> Server {
        let log = fs::File::create(self.path().join("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let Some(path) = line.trim_end().strip_prefix("export KUBECONFIG=") else {
            let status = child.wait().unwrap();
            panic!("{status}, having printed {line:?}:\n{}", self.log());
        };
        Server {
            kubeconfig: path.into(),
            child,
            _output: output,
        }
    }

    /// What the server wrote to standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap()
    }
}

// --- Server ---

impl Server {
    /// Sends a signal, and waits for the end.
    pub(crate) fn end_by(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.child.wait().unwrap()
    }

    /// Its process.
    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        let text = fs::read_to_string(&self.kubeconfig).unwrap();
        let server = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("server: "))
            .unwrap();
        server.rsplit(':').next().unwrap().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Best effort: it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end: its exit code, and what it wrote to standard output and to standard error.
pub(crate) fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
