//! The process of an operator: the examples' hub, and a ticker.
//!
//! It is this very test program, which runs one test that is none: a test cannot ask for a program of another crate.

use std::{
    env, fs,
    path::PathBuf,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ticker::Ticker;

/// Where the process finds its arguments: a line each.
const ARGS: &str = "K3_TEST_OPERATOR";

/// A running operator. Dropping it ends it.
pub(crate) struct TickerOperator {
    child: Child,
    directory: TempDir,
}

#[test]
#[ignore = "needs to be started by another test: it is the process of an operator"]
fn process() {
    let args = env::var(ARGS).unwrap();
    let args = ["hub"].into_iter().chain(args.lines());
    let app = hub::app()
        .setting("ticker.file", "Where to write", "")
        .with(Ticker);
    assert_eq!(app.main_with(args), ExitCode::SUCCESS);
}

// --- TickerOperator ---

impl TickerOperator {
    pub(crate) fn start(args: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["operator::process", "--exact", "--ignored", "--nocapture"])
            .env(ARGS, args.join("\n"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        TickerOperator { child, directory }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap()
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end_by(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for TickerOperator {
    fn drop(&mut self) {
        // Best effort: it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "operator {}:\n{}",
                self.id(),
                fs::read_to_string(self.log_file()).unwrap_or_default()
            );
        }
    }
}
