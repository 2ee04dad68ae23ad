//! The supervisor process of a cluster: restarts nodes that exit.
//!
//! A running node is left alone. A node that keeps exiting is restarted with a back-off of up to 30 seconds. The supervisor
//! stops no process; `k3 cluster stop` does.

use std::{
    env, fs, io,
    process::{Child, Command},
    time::Duration,
};

use k3_storage::backend::BACKENDS;
use kubecontroller::{Backoff, BackoffDelays};
use tokio::time::{Instant, sleep};

use super::{directory::ClusterDirectory, process::DetachedProcess, start::serves};
use crate::{command_error::CommandError, commands::process};

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(500);
/// Back-off between restarts.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30));
/// A node that ran this long resets its back-off.
const STABLE: Duration = Duration::from_mins(1);

/// Prefixes of variables that would override the configuration of nodes.
const CONFIGURED_VARIABLES: &[&str] = &[
    "CONFIG_PATH",
    "NODE_NAME",
    "K3_ROLE",
    "K3_DATA_DIR",
    "K3_SERVER",
    "K3_TOKEN",
    "K3_CA",
    "K3_KUBECONFIG",
    "K3_API_PORT",
    "K3_WEB_PORT",
    "K3_STORAGE_",
    "K3_DATABASE_INSTANCE",
    "K3_NODE_NAME",
    "K3_NODE_PORT",
    "K3_NODE_RUNTIME",
    "K3_NODE_DISABLED",
];

/// A supervised node.
struct NodeProcess {
    number: usize,
    /// Kept to reap the process.
    child: Option<Child>,
    started_at: Instant,
    /// How long after that it may be restarted.
    backoff: Duration,
    delays: BackoffDelays,
    /// Whether its API has answered since then.
    has_served: bool,
}

/// Starts the supervisor of a cluster, unless one runs.
pub(super) fn start(directory: &ClusterDirectory) -> Result<(), CommandError> {
    if DetachedProcess::find(&directory.supervisor_pid()).is_some() {
        return Ok(());
    }
    let mut command = program()?;
    // Not in the directory itself, which must stay removable.
    command
        .args(["cluster", "keep", "--dir"])
        .arg(directory.path())
        .current_dir("/");
    DetachedProcess::start(
        &mut command,
        &directory.supervisor_pid(),
        &directory.supervisor_log(),
    )
    .map(drop)
    .map_err(|error| cannot_start("the supervisor", error))
}

/// Supervises a cluster until a signal.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), CommandError> {
    let mut signals = process::signals()?;
    tokio::select! {
        ended = supervise(directory) => ended,
        name = signals.next() => {
            eprintln!("{name}: supervisor stopped");
            Ok(())
        }
    }
}

async fn supervise(directory: &ClusterDirectory) -> Result<(), CommandError> {
    let mut nodes: Vec<NodeProcess> = directory.numbers().map(NodeProcess::new).collect();
    loop {
        for node in &mut nodes {
            node.restart_if_stopped(directory)?;
            // The others need the kubeconfig that the first one writes.
            while node.number == 1 && !node.has_served {
                node.has_served = serves(directory).await;
                sleep(PAUSE).await;
                node.restart_if_stopped(directory)?;
            }
        }
        sleep(PAUSE).await;
    }
}

/// This program, without environment variables that would override the configuration of nodes.
fn program() -> Result<Command, CommandError> {
    let program = env::current_exe().map_err(|error| cannot_start("this program again", error))?;
    let mut command = Command::new(program);
    let settings = BACKENDS.iter().flat_map(|backend| backend.settings().all);
    let of_backends: Vec<_> = settings.filter_map(|setting| setting.variable).collect();
    for (name, _) in env::vars_os() {
        let starts = |prefix: &&str| name.to_str().is_some_and(|name| name.starts_with(*prefix));
        if CONFIGURED_VARIABLES.iter().chain(&of_backends).any(starts) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

fn cannot_start(what: &str, error: io::Error) -> CommandError {
    let advice = "check that this user may start programs and write to the directory of the cluster";
    CommandError::new(format!("cannot start {what}"), advice).caused_by(error)
}

// --- NodeProcess ---

impl NodeProcess {
    fn new(number: usize) -> Self {
        Self {
            number,
            child: None,
            started_at: Instant::now(),
            backoff: Duration::ZERO,
            delays: BACKOFF.delays(),
            has_served: false,
        }
    }

    /// Starts the node if it does not run and its back-off is over.
    fn restart_if_stopped(&mut self, directory: &ClusterDirectory) -> Result<(), CommandError> {
        let number = self.number;
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            eprintln!("node {number} exited ({status})");
            self.child = None;
        }
        if DetachedProcess::find(&directory.pid(number)).is_some() {
            if self.started_at.elapsed() > STABLE {
                self.backoff = Duration::ZERO;
                self.delays.reset();
            }
            return Ok(());
        }
        if self.started_at.elapsed() < self.backoff {
            return Ok(());
        }
        if number == 1 {
            // A stale kubeconfig would be mistaken for that of a running server.
            let _ = fs::remove_file(directory.kubeconfig());
        }
        let mut command = program()?;
        command
            .args(["run", "--config"])
            .arg(directory.config(number))
            .current_dir(directory.node(number));
        let started = DetachedProcess::start(&mut command, &directory.pid(number), &directory.output(number));
        let child = started.map_err(|error| cannot_start(&format!("node {number}"), error))?;
        eprintln!("started node {number} (process {})", child.id());
        self.child = Some(child);
        self.started_at = Instant::now();
        self.has_served = false;
        self.backoff = self.delays.next_delay();
        Ok(())
    }
}
