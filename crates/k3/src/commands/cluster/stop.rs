//! `k3 cluster stop`: the end of all processes.

use std::{path::Path, time::Duration};

use super::{
    directory::ClusterDirectory,
    process::{Process, StopOutcome},
};
use crate::failure::Failure;

/// How long a process may take: the first one may have a database to stop.
const GRACE: Duration = Duration::from_mins(1);

/// Ends the processes: first who would start them again, then those that need the first one, then it.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), Failure> {
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

async fn stop(file: &Path, what: &str) -> Result<StopOutcome, Failure> {
    let Some(process) = Process::find(file) else {
        return Ok(StopOutcome::NotRunning);
    };
    process.stop(GRACE).await.map_err(|error| {
        let what = format!("cannot end {what} (process {})", process.pid());
        Failure::new(what, "see whose process it is").caused_by(error)
    })
}
