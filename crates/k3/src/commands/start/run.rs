//! `k3 start`: everything in one process, until a signal.

use super::StartFlags;
use crate::{
    command_error::CommandError,
    commands::process::{self, KubeconfigNotice},
};

/// Runs a control plane until a signal.
pub(crate) fn run(flags: StartFlags) -> Result<(), CommandError> {
    process::init(&flags.api.log)?;
    let databases = flags.databases()?;
    process::run_with_database(&databases, flags.settings()?, KubeconfigNotice::Kubeconfig)
}
