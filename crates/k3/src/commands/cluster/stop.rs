//! `k3 cluster stop`: the end of all processes.

use std::{path::Path, time::Duration};

use super::{
    directory::ClusterDirectory,
    process::{End, Process},
};
use crate::failure::Failure;

/// How long a process may take: the first one may have a database to stop.
const GRACE: Duration = Duration::from_mins(1);

/// Ends the processes: first who would start them again, then those that need the first one, then it.
pub(super) async fn run(directory: &ClusterDirectory) -> Result<(), Failure> {
    end(&directory.keeper_pid(), "the process that looks after the nodes").await?;
    for number in directory.numbers().rev() {
        match end(&directory.pid(number), &format!("node {number}")).await? {
            End::Before => print_line!("node {number} does not run"),
            End::Asked => print_line!("stopped node {number}"),
            End::Killed => print_line!(
                "killed node {number}: it did not stop within {} s",
                GRACE.as_secs()
            ),
        }
    }
    Ok(())
}

async fn end(file: &Path, what: &str) -> Result<End, Failure> {
    let Some(process) = Process::find(file) else {
        return Ok(End::Before);
    };
    process.end(GRACE).await.map_err(|error| {
        let what = format!("cannot end {what} (process {})", process.pid());
        Failure::new(what, "see whose process it is").caused_by(error)
    })
}
