//! `k3 cluster clear`: stops and removes a cluster.

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use k3_node::{
    agent::owner_of_directory,
    runtime::{
        RuntimeError,
        detect::{RuntimeSelection, detect, detect_docker},
    },
};

use super::{
    directory::{ClusterDirectory, RemovalResult},
    stop,
};
use crate::{command_error::CommandError, databases::INSTANCE_LABEL};

/// Stop and remove a cluster: processes, containers of pods, databases with their data, directory.
#[derive(Debug, Args)]
pub(super) struct ClearFlags {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = ".k3")]
    dir: PathBuf,

    /// Do not ask for confirmation
    #[arg(long)]
    force: bool,
}

/// Objects that were removed from the container runtime.
#[derive(Default)]
struct RemovedObjects {
    pods: usize,
    databases: usize,
    volumes: usize,
}

/// Ends and removes a cluster.
pub(super) async fn run(flags: &ClearFlags) -> Result<(), CommandError> {
    let directory = ClusterDirectory::open(&flags.dir)?;
    if !flags.force && !confirm(&directory)? {
        return Err(CommandError::new(
            "nothing was removed: not confirmed",
            "type yes, or use --force to skip the question",
        ));
    }
    stop::run(&directory).await?;
    let removed = remove_containers(&directory).await?;
    print_line!(
        "removed {} pods, {} databases and {} volumes from the container runtime",
        removed.pods,
        removed.databases,
        removed.volumes
    );
    match directory.remove()? {
        RemovalResult::Complete => print_line!("removed {}", directory.path().display()),
        RemovalResult::ForeignFilesKept => print_line!(
            "removed the cluster; {} is kept, because it contains other files",
            directory.path().display()
        ),
    }
    Ok(())
}

/// Asks for confirmation with `yes`.
fn confirm(directory: &ClusterDirectory) -> Result<bool, CommandError> {
    print_text!(
        "This ends the cluster {} with {} nodes and removes its containers, its data and {}.\nType yes to go on: ",
        directory.cluster.id,
        directory.cluster.nodes.len(),
        directory.path().display()
    );
    let unasked = |what| CommandError::new(what, "use --force to skip the question");
    let mut answer = String::new();
    let read = io::stdout()
        .flush()
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(|error| unasked("cannot ask").caused_by(error))?;
    if read == 0 {
        // A script must not mistake this for success.
        return Err(unasked("nothing was removed: no answer on standard input"));
    }
    Ok(answer.trim() == "yes")
}

async fn remove_containers(directory: &ClusterDirectory) -> Result<RemovedObjects, CommandError> {
    let failed = |error: RuntimeError| cannot_remove(error);
    let mut removed = RemovedObjects::default();
    let mut has_answered = false;
    let wanted = directory.runtime();
    for (number, node) in directory.nodes() {
        let owner = owner_of_directory(&directory.data(number).join("node"), &node.name);
        let owner = owner.map_err(cannot_remove)?;
        match detect(&wanted, &owner).await {
            Ok(runtime) => {
                has_answered = true;
                for sandbox in runtime.list_pod_sandboxes().await.map_err(failed)? {
                    runtime.stop_pod_sandbox(&sandbox.id).await.map_err(failed)?;
                    runtime.remove_pod_sandbox(&sandbox.id).await.map_err(failed)?;
                    removed.pods += 1;
                }
            }
            // The runtime answered before: its containers must not be forgotten.
            Err(error) if has_answered => return Err(cannot_remove(error)),
            Err(error) => {
                eprintln!("skipping containers: {error}");
                return Ok(removed);
            }
        }
    }
    remove_databases(&wanted, &directory.cluster.id, &mut removed)
        .await
        .map_err(failed)?;
    Ok(removed)
}

async fn remove_databases(
    wanted: &RuntimeSelection,
    id: &str,
    removed: &mut RemovedObjects,
) -> Result<(), RuntimeError> {
    // Databases need Docker or Podman.
    let Ok(engine) = detect_docker(wanted).await else {
        return Ok(());
    };
    for container in engine.list_containers_with_label(INSTANCE_LABEL, id).await? {
        engine.remove_service_container(&container).await?;
        removed.databases += 1;
    }
    removed.volumes = engine.remove_volumes_with_label(INSTANCE_LABEL, id).await?.len();
    Ok(())
}

fn cannot_remove(error: impl Error + Send + Sync + 'static) -> CommandError {
    CommandError::new(
        "cannot remove the containers of the cluster",
        "check the container runtime, and run this again",
    )
    .caused_by(error)
}
