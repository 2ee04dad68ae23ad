//! `k3 cluster stop`: stops all processes.

use std::{path::Path, time::Duration};

use super::{
    directory::ClusterDirectory,
    process::{DetachedProcess, StopOutcome},
};
use crate::command_error::CommandError;

/// Grace period of a process. The first node may have to stop a database.
const GRACE: Duration = Duration::from_mins(1);

/// Stops the supervisor first, because it would restart nodes; the first node last, because the others depend on it.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), CommandError> {
    stop(&directory.supervisor_pid(), "the supervisor").await?;
    for number in directory.numbers().rev() {
        match stop(&directory.pid(number), &format!("node {number}")).await? {
            StopOutcome::NotRunning => print_line!("node {number} does not run"),
            StopOutcome::Terminated => print_line!("stopped node {number}"),
            StopOutcome::Killed => print_line!(
                "killed node {number}: it did not stop within {} s",
                GRACE.as_secs()
            ),
        }
    }
    Ok(())
}

async fn stop(file: &Path, what: &str) -> Result<StopOutcome, CommandError> {
    let Some(process) = DetachedProcess::find(file) else {
        return Ok(StopOutcome::NotRunning);
    };
    process.stop(GRACE).await.map_err(|error| {
        let what = format!("failed to stop {what} (process {})", process.pid());
        CommandError::new(what, "check the owner of the process").caused_by(error)
    })
}
