//! `k3 cluster start`: the processes that do not run.

use std::{env, fs, path::Path, process::Command, time::Duration};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{
    super::server_flags::{Cluster, ServerFlags},
    folder::{ClusterFolder, Role},
    process::Process,
};
use crate::failure::Failure;

/// How long all nodes may take to be ready: a database may have to be started, and its image brought, first.
const LIMIT: Duration = Duration::from_mins(5);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of the log of a node that failed is shown.
const LOG_LINES: usize = 15;

/// Starts the nodes that do not run, the first one first, and waits until all are ready.
pub(super) async fn run(folder: &ClusterFolder) -> Result<(), Failure> {
    let mut processes = Vec::new();
    for (number, node) in folder.nodes() {
        let process = match Process::find(&folder.pid(number)) {
            Some(process) => process,
            None => begin(folder, number)?,
        };
        processes.push(process);
        if node.role == Role::One {
            // The others need the file by which they find it.
            wait_for(folder, &processes, async || serves(folder).await).await?;
        }
    }
    println!("waiting for the nodes to be ready");
    wait_for(folder, &processes, async || {
        let ready = ready_nodes(folder).await.unwrap_or_default();
        folder.nodes().all(|(_, node)| ready.contains(&node.name))
    })
    .await?;
    println!(
        "all nodes are ready\nexport KUBECONFIG={}",
        folder.kubeconfig().display()
    );
    Ok(())
}

fn begin(folder: &ClusterFolder, number: usize) -> Result<Process, Failure> {
    let failed = |error| {
        let advice = "see that this user may start programs and write to the folder of the cluster";
        Failure::new(format!("cannot start node {number}"), advice).because(error)
    };
    let program = env::current_exe().map_err(failed)?;
    if number == 1 {
        // That of an earlier start would be taken for one of a server that serves.
        let _ = fs::remove_file(folder.kubeconfig());
    }
    let mut command = Command::new(program);
    command
        .args(["run", "--config"])
        .arg(folder.config(number))
        .current_dir(folder.node(number));
    let process = Process::start(&mut command, &folder.pid(number), &folder.log(number)).map_err(failed)?;
    println!("started node {number} (process {})", process.pid());
    Ok(process)
}

/// Waits for something, as long as all processes run.
async fn wait_for(
    folder: &ClusterFolder,
    processes: &[Process],
    mut is_so: impl AsyncFnMut() -> bool,
) -> Result<(), Failure> {
    let waited = timeout(LIMIT, async {
        while !is_so().await {
            let ended = processes.iter().position(|process| !process.is_alive());
            if let Some(index) = ended {
                let log = folder.log(index + 1);
                return Err(Failure::new(
                    format!("node {} ended", index + 1),
                    format!("the end of {}:\n{}", log.display(), last_lines(&log)),
                ));
            }
            sleep(PAUSE).await;
        }
        Ok(())
    });
    waited.await.unwrap_or_else(|_| {
        Err(Failure::new(
            format!("the cluster is not ready within {} s", LIMIT.as_secs()),
            "see `k3 cluster status`, and the files `log` in the folders of the nodes",
        ))
    })
}

fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

async fn serves(folder: &ClusterFolder) -> bool {
    if !folder.kubeconfig().exists() {
        return false;
    }
    ready_nodes(folder).await.is_some()
}

/// The names of the nodes that are ready; `None` if the server does not answer.
pub(super) async fn ready_nodes(folder: &ClusterFolder) -> Option<Vec<String>> {
    let flags = ServerFlags::of_kubeconfig(folder.kubeconfig());
    let cluster = Cluster::find(&flags).await.ok()?;
    let nodes = cluster.ask("GET", "/api/v1/nodes", None).await.ok()?;
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
