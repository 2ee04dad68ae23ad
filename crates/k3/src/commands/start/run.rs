//! `k3 start`: everything in one process, until a signal.

use super::StartFlags;
use crate::{
    commands::process::{self, Announce},
    failure::Failure,
};

/// Runs a control plane until a signal.
pub(crate) fn run(flags: StartFlags) -> Result<(), Failure> {
    process::init(&flags.api.log)?;
    let databases = flags.databases()?;
    process::run_with_database(&databases, flags.settings()?, Announce::Kubeconfig)
}
