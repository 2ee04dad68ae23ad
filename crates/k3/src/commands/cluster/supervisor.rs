//! The process that looks after those of a cluster: what has ended begins again.
//!
//! Promises: a node that runs is left alone, whoever started it; one that ends again and again is not begun more often than every
//! half minute; nothing is ended here, that is for `k3 cluster stop`.

use std::{
    env, fs, io,
    process::{Child, Command},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{directory::ClusterDirectory, process::Process, start::serves};
use crate::{commands::process, failure::Failure};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// How much time is between two beginnings of a node: at first, and at most.
const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Who has run for so long has not failed to start.
const STABLE: Duration = Duration::from_mins(1);

/// How variables begin that say what the files of nodes say.
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
    "K3_MYSQL_URL",
    "K3_DATABASE_INSTANCE",
    "K3_NODE_NAME",
    "K3_NODE_PORT",
    "K3_NODE_RUNTIME",
    "K3_NODE_DISABLED",
];

/// A node, as its keeper sees it.
struct NodeProcess {
    number: usize,
    /// Held so that it does not stay a corpse when it has ended.
    child: Option<Child>,
    started_at: Instant,
    /// How long after that it may begin again.
    backoff: Duration,
    /// Whether its API was seen since then.
    has_served: bool,
}

/// Starts the process that looks after a cluster, unless one does already.
pub(super) fn start(directory: &ClusterDirectory) -> Result<(), Failure> {
    if Process::find(&directory.supervisor_pid()).is_some() {
        return Ok(());
    }
    let mut command = program()?;
    // Not in the directory itself, which it must not hold.
    command
        .args(["cluster", "keep", "--dir"])
        .arg(directory.path())
        .current_dir("/");
    Process::start(
        &mut command,
        &directory.supervisor_pid(),
        &directory.supervisor_log(),
    )
    .map(drop)
    .map_err(|error| cannot_start("the process that looks after the nodes", error))
}

/// Looks after a cluster until a signal comes.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), Failure> {
    let mut signals = process::signals()?;
    tokio::select! {
        ended = supervise(directory) => ended,
        name = signals.next() => {
            eprintln!("{name}: nobody looks after the nodes any more");
            Ok(())
        }
    }
}

async fn supervise(directory: &ClusterDirectory) -> Result<(), Failure> {
    let mut nodes: Vec<NodeProcess> = directory.numbers().map(NodeProcess::new).collect();
    loop {
        for node in &mut nodes {
            node.restart_if_stopped(directory)?;
            // The others need the file by which they find the first.
            while node.number == 1 && !node.has_served {
                node.has_served = serves(directory).await;
                sleep(PAUSE).await;
                node.restart_if_stopped(directory)?;
            }
        }
        sleep(PAUSE).await;
    }
}

/// This program. What the files of the nodes say is not for the environment to change: there, nodes differ.
fn program() -> Result<Command, Failure> {
    let program = env::current_exe().map_err(|error| cannot_start("this program again", error))?;
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let starts = |prefix: &&str| name.to_str().is_some_and(|name| name.starts_with(*prefix));
        if CONFIGURED_VARIABLES.iter().any(starts) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

fn cannot_start(what: &str, error: io::Error) -> Failure {
    let advice = "see that this user may start programs and write to the directory of the cluster";
    Failure::new(format!("cannot start {what}"), advice).caused_by(error)
}

// --- NodeProcess ---

impl NodeProcess {
    fn new(number: usize) -> Self {
        Self {
            number,
            child: None,
            started_at: Instant::now(),
            backoff: Duration::ZERO,
            has_served: false,
        }
    }

    /// Begins it, if it does not run and has waited for long enough.
    fn restart_if_stopped(&mut self, directory: &ClusterDirectory) -> Result<(), Failure> {
        let number = self.number;
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            eprintln!("node {number} ended ({status})");
            self.child = None;
        }
        if Process::find(&directory.pid(number)).is_some() {
            if self.started_at.elapsed() > STABLE {
                self.backoff = Duration::ZERO;
            }
            return Ok(());
        }
        if self.started_at.elapsed() < self.backoff {
            return Ok(());
        }
        if number == 1 {
            // That of an earlier start would be taken for one of a server that serves.
            let _ = fs::remove_file(directory.kubeconfig());
        }
        let mut command = program()?;
        command
            .args(["run", "--config"])
            .arg(directory.config(number))
            .current_dir(directory.node(number));
        let started = Process::start(&mut command, &directory.pid(number), &directory.output(number));
        let child = started.map_err(|error| cannot_start(&format!("node {number}"), error))?;
        eprintln!("started node {number} (process {})", child.id());
        self.child = Some(child);
        self.started_at = Instant::now();
        self.has_served = false;
        self.backoff = (self.backoff * 2).clamp(MIN_BACKOFF, MAX_BACKOFF);
        Ok(())
    }
}
