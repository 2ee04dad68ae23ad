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
    process::Process,
    supervisor,
};
use crate::failure::Failure;

/// How long all nodes may take to be ready: a database may have to be started, and its image brought, first.
const LIMIT: Duration = Duration::from_mins(5);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How often it is said what is waited for.
const REPORT_PERIOD: Duration = Duration::from_secs(10);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of the log of a node that failed is shown.
const LOG_LINES: usize = 15;
/// Exits of a node that make the start fail.
const MAX_EXITS: u32 = 2;

/// The process of a node that was started last, and how many have ended while one looked. None is missed, however short its life:
/// each is in the file until the next one is.
struct ExitCounter {
    process: Option<Process>,
    /// Whether its end was count_nodes, or was before one looked.
    has_exited: bool,
    exits: u32,
}

/// Has all nodes started and looked after, and waits until they are ready.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), Failure> {
    let process = |number| Process::last_started(&directory.pid(number));
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
            if Process::find(&directory.supervisor_pid()).is_none() {
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
        Err(Failure::new(
            format!("the cluster is not ready within {} s", LIMIT.as_secs()),
            "check `k3 cluster status`, and the files `log` in the directories of the nodes; `k3 cluster stop` stops it",
        ))
    })?;
    print_line!("export KUBECONFIG={}", shell_quoted(&directory.kubeconfig()));
    Ok(())
}

/// Nodes without a container runtime are never ready: that is an error at once, not after minutes.
async fn require_runtime(directory: &ClusterDirectory) -> Result<(), Failure> {
    let owner = ContainerOwner::new("", "");
    match detect(&directory.runtime(), &owner).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(
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
    let is_well = |number| Process::find(&directory.pid(number)).is_some();
    directory
        .nodes()
        .all(|(number, node)| ready.contains(&node.name) && is_well(number))
}

fn node_keeps_exiting(directory: &ClusterDirectory, number: usize) -> Failure {
    let output = directory.output(number);
    Failure::new(
        format!("node {number} keeps exiting"),
        format!(
            "it is tried further, until `k3 cluster stop`; the end of {} (and see `log` beside it):\n{}",
            output.display(),
            last_lines(&output)
        ),
    )
}

fn supervisor_exited(directory: &ClusterDirectory) -> Failure {
    let log = directory.supervisor_log();
    Failure::new(
        "the process that looks after the nodes ended",
        format!("the end of {}:\n{}", log.display(), last_lines(&log)),
    )
}

fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Whether the first node serves.
pub(super) async fn serves(directory: &ClusterDirectory) -> bool {
    if !directory.kubeconfig().exists() {
        return false;
    }
    ready_nodes(directory).await.is_some()
}

/// The names of the nodes that are ready; `None` if the server does not answer.
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
    /// Begins to look.
    fn new(process: Option<Process>) -> Self {
        Self {
            has_exited: !process.as_ref().is_some_and(Process::is_alive),
            process,
            exits: 0,
        }
    }

    fn observe(&mut self, process: Option<Process>) {
        if self.process != process {
            self.exits += u32::from(!self.has_exited);
            self.has_exited = process.is_none();
            self.process = process;
        }
        if !self.has_exited && !self.process.as_ref().is_some_and(Process::is_alive) {
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
            Process::start(&mut command, &self.file(), &self.directory.path().join("output")).unwrap()
        }

        fn last(&self) -> Option<Process> {
            Process::last_started(&self.file())
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
        // What ended before is not count_nodes.
        let mut counter = ExitCounter::new(fixture.last());
        counter.observe(fixture.last());
        assert_eq!(counter.exits, 0);
        // Nobody looked while this one lived.
        end(fixture.start());
        for _ in 0..2 {
            counter.observe(fixture.last());
            assert_eq!(counter.exits, 1);
        }
        let child = fixture.start();
        counter.observe(fixture.last());
        assert_eq!(counter.exits, 1);
        // This one ended, and the next had begun when one looked.
        end(child);
        let child = fixture.start();
        counter.observe(fixture.last());
        assert_eq!(counter.exits, 2);
        end(child);
        counter.observe(None);
        assert_eq!(counter.exits, 3);
    }
}
