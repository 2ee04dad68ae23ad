//! `k3 cluster stop`: the end of all processes.

use std::time::Duration;

use super::{
    folder::ClusterFolder,
    process::{End, Process},
};
use crate::failure::Failure;

/// How long a process may take: the first one may have a database to stop.
const GRACE: Duration = Duration::from_mins(1);

/// Ends the processes, those that need the first one before it.
pub(super) async fn run(folder: &ClusterFolder) -> Result<(), Failure> {
    for number in folder.numbers().rev() {
        let Some(process) = Process::find(&folder.pid(number)) else {
            println!("node {number} does not run");
            continue;
        };
        let ended = process.end(GRACE).await.map_err(|error| {
            let advice = "see whose process it is";
            Failure::new(
                format!("cannot end node {number} (process {})", process.pid()),
                advice,
            )
            .because(error)
        })?;
        match ended {
            End::Before => println!("node {number} does not run"),
            End::Asked => println!("stopped node {number}"),
            End::Killed => println!(
                "killed node {number}: it did not stop within {} s",
                GRACE.as_secs()
            ),
        }
    }
    Ok(())
}
