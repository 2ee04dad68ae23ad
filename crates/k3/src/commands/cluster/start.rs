//! `k3 cluster start`: starts the supervisor, and waits until all nodes are ready.

use std::{fs, path::Path, time::Duration};

use k3_node::runtime::{ContainerOwner, detect::detect};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{
    super::{
        process::shell_quoted,
        server_flags::{ApiClient, ServerFlags},
    },
    count_nodes,
    directory::ClusterDirectory,
    process::DetachedProcess,
    supervisor,
};
use crate::command_error::CommandError;

/// Timeout until all nodes are ready. It includes starting a database container and pulling its image.
const LIMIT: Duration = Duration::from_mins(5);
/// Timeout of a request.
const ANSWER: Duration = Duration::from_secs(5);
/// Interval of progress messages.
const REPORT_PERIOD: Duration = Duration::from_secs(10);
/// Interval between readiness checks.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of lines of a failed node's log to print.
const LOG_LINES: usize = 15;
/// Number of exits of a node after which the start fails.
const MAX_EXITS: u32 = 2;

/// Counts the exits of a node's process. No exit is missed however briefly the process lived, because the file names the last
/// started process until the next one starts.
struct ExitCounter {
    process: Option<DetachedProcess>,
    /// Whether the exit of the last process was counted, or happened before the first observation.
    has_exited: bool,
    exits: u32,
}

/// Starts the supervisor and waits until all nodes are ready.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), CommandError> {
    let process = |number| DetachedProcess::last_started(&directory.pid(number));
    let mut counter: Vec<ExitCounter> = directory
        .numbers()
        .map(|number| ExitCounter::new(process(number)))
        .collect();
    require_runtime(directory).await?;
    supervisor::start(directory)?;
    print_line!(
        "waiting for {} to be ready",
        count_nodes(directory.cluster.nodes.len())
    );
    let mut next_report = Instant::now() + REPORT_PERIOD;
    let waited = timeout(LIMIT, async {
        while !are_all_ready(directory).await {
            if Instant::now() >= next_report {
                next_report += REPORT_PERIOD;
                report_waiting(directory).await;
            }
            if DetachedProcess::find(&directory.supervisor_pid()).is_none() {
                return Err(supervisor_exited(directory));
            }
            for (number, counter) in directory.numbers().zip(&mut counter) {
                counter.observe(process(number));
                if counter.exits >= MAX_EXITS {
                    return Err(node_keeps_exiting(directory, number));
                }
            }
            sleep(PAUSE).await;
        }
        Ok(())
    });
    waited.await.unwrap_or_else(|_| {
        Err(CommandError::new(
            format!("the cluster is not ready within {} s", LIMIT.as_secs()),
            "check `k3 cluster status`, and the files `log` in the directories of the nodes; `k3 cluster stop` stops it",
        ))
    })?;
    print_line!("export KUBECONFIG={}", shell_quoted(&directory.kubeconfig()));
    Ok(())
}

/// Fails at once without a container runtime, because the nodes would never become ready.
async fn require_runtime(directory: &ClusterDirectory) -> Result<(), CommandError> {
    let owner = ContainerOwner::new("", "");
    match detect(&directory.runtime(), &owner).await {
        Ok(_) => Ok(()),
        Err(error) => Err(CommandError::new(
            error.to_string(),
            "start Docker, Podman, containerd or CRI-O, and run this again",
        )),
    }
}

/// Prints which nodes are not ready yet.
async fn report_waiting(directory: &ClusterDirectory) {
    let ready = ready_nodes(directory).await;
    let waiting: Vec<_> = directory
        .nodes()
        .map(|(_, node)| node.name.as_str())
        .filter(|name| !ready.iter().flatten().any(|ready| ready == name))
        .collect();
    let server = if ready.is_some() {
        ""
    } else {
        "the API server does not answer yet; "
    };
    eprintln!("{server}not ready: {}", waiting.join(", "));
}

async fn are_all_ready(directory: &ClusterDirectory) -> bool {
    let ready = ready_nodes(directory).await.unwrap_or_default();
    let is_well = |number| DetachedProcess::find(&directory.pid(number)).is_some();
    directory
        .nodes()
        .all(|(number, node)| ready.contains(&node.name) && is_well(number))
}

fn node_keeps_exiting(directory: &ClusterDirectory, number: usize) -> CommandError {
    let output = directory.output(number);
    CommandError::new(
        format!("node {number} keeps exiting"),
        format!(
            "the supervisor restarts it until `k3 cluster stop`; last lines of {} (see also `log` in the same directory):\n{}",
            output.display(),
            last_lines(&output)
        ),
    )
}

fn supervisor_exited(directory: &ClusterDirectory) -> CommandError {
    let log = directory.supervisor_log();
    CommandError::new(
        "the supervisor exited",
        format!("last lines of {}:\n{}", log.display(), last_lines(&log)),
    )
}

fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Whether the API server responds.
pub(super) async fn serves(directory: &ClusterDirectory) -> bool {
    if !directory.kubeconfig().exists() {
        return false;
    }
    ready_nodes(directory).await.is_some()
}

/// Returns the names of the ready nodes, or `None` if the API server does not respond.
pub(super) async fn ready_nodes(directory: &ClusterDirectory) -> Option<Vec<String>> {
    let flags = ServerFlags::new(Some(directory.kubeconfig()), None);
    let request = async {
        let cluster = ApiClient::connect(&flags).await.ok()?;
        cluster.request("GET", "/api/v1/nodes", None).await.ok()
    };
    let nodes = timeout(ANSWER, request).await.ok()??;
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .filter(|condition| condition["type"] == "Ready")
            .any(|condition| condition["status"] == "True")
    };
    let names = nodes["items"].as_array()?.iter().filter(is_ready);
    Some(
        names
            .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
            .collect(),
    )
}

// --- ExitCounter ---

impl ExitCounter {
    /// Starts to observe with the last started process.
    fn new(process: Option<DetachedProcess>) -> Self {
        Self {
            has_exited: !process.as_ref().is_some_and(DetachedProcess::is_alive),
            process,
            exits: 0,
        }
    }

    fn observe(&mut self, process: Option<DetachedProcess>) {
        if self.process != process {
            self.exits += u32::from(!self.has_exited);
            self.has_exited = process.is_none();
            self.process = process;
        }
        if !self.has_exited && !self.process.as_ref().is_some_and(DetachedProcess::is_alive) {
            self.exits += 1;
            self.has_exited = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::PathBuf,
        process::{Child, Command},
    };

    use super::*;

    struct ProcessFixture {
        directory: tempfile::TempDir,
    }

    impl ProcessFixture {
        fn file(&self) -> PathBuf {
            self.directory.path().join("pid")
        }

        fn start(&self) -> Child {
            let mut command = Command::new("sleep");
            command.arg("1000");
            DetachedProcess::start(&mut command, &self.file(), &self.directory.path().join("output")).unwrap()
        }

        fn last(&self) -> Option<DetachedProcess> {
            DetachedProcess::last_started(&self.file())
        }
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn counts_each_exit_once() {
        let fixture = ProcessFixture {
            directory: tempfile::tempdir().unwrap(),
        };
        end(fixture.start());
        // An exit before the first observation is not counted.
        let mut counter = ExitCounter::new(fixture.last());
        counter.observe(fixture.last());
        assert_eq!(counter.exits, 0);
        // This process started and exited between two observations.
        end(fixture.start());
        for _ in 0..2 {
            counter.observe(fixture.last());
            assert_eq!(counter.exits, 1);
        }
        let child = fixture.start();
        counter.observe(fixture.last());
        assert_eq!(counter.exits, 1);
        // This process exited and the next one started between two observations.
        end(child);
        let child = fixture.start();
        counter.observe(fixture.last());
        assert_eq!(counter.exits, 2);
        end(child);
        counter.observe(None);
        assert_eq!(counter.exits, 3);
    }
}
