//! `k3 start`: everything in one process, until it is told to stop.

use super::StartFlags;
use crate::{
    commands::process::{self, Announce},
    failure::Failure,
};

/// Runs a server until it is told to stop.
pub(crate) fn run(flags: StartFlags) -> Result<(), Failure> {
    process::init(&flags.api.log)?;
    let databases = flags.databases()?;
    process::run_with_database(&databases, flags.settings()?, Announce::Kubeconfig)
}
