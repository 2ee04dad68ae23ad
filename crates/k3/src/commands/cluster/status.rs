//! `k3 cluster status` and `k3 cluster list`.

use super::{
    super::table::table, directory::ClusterDirectory, process::DetachedProcess, registry, start::ready_nodes,
};
use crate::command_error::CommandError;

/// Prints the nodes of a cluster and their state.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), CommandError> {
    let ready = ready_nodes(directory).await.unwrap_or_default();
    let mut rows = vec![["NUMBER", "NAME", "ROLE", "PROCESS", "NODE", "PORT"].map(str::to_owned)];
    for (number, node) in directory.nodes() {
        let process = DetachedProcess::find(&directory.pid(number));
        rows.push([
            number.to_string(),
            node.name.clone(),
            node.role.name().to_owned(),
            process.map_or_else(|| "stopped".to_owned(), |process| process.pid().to_string()),
            if ready.contains(&node.name) {
                "ready"
            } else {
                "not ready"
            }
            .to_owned(),
            node.port.to_string(),
        ]);
    }
    print_text!("{}", table(&rows));
    let is_supervised = DetachedProcess::find(&directory.supervisor_pid()).is_some();
    if !is_supervised && rows.iter().any(|row| row[4] == "ready") {
        eprintln!("the supervisor does not run: `k3 cluster start` starts it");
    }
    Ok(())
}

/// Prints the clusters of this user.
pub(super) fn list() -> Result<(), CommandError> {
    let mut rows = vec![["ID", "NODES", "RUNNING", "STORAGE", "DIRECTORY"].map(str::to_owned)];
    for directory in registry::all()? {
        let running = directory
            .numbers()
            .filter(|number| DetachedProcess::find(&directory.pid(*number)).is_some());
        rows.push([
            directory.cluster.id.clone(),
            directory.cluster.nodes.len().to_string(),
            running.count().to_string(),
            directory.cluster.storage.clone(),
            directory.path().display().to_string(),
        ]);
    }
    print_text!("{}", table(&rows));
    Ok(())
}
