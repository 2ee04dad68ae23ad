//! Why a container could not be created.

use std::io;

use super::{hosts::HostsError, spec::SpecError};
use crate::{environment::EnvironmentError, runtime::RuntimeError, volumes::VolumeManagerError};

/// Why a container could not be created. The message is that of its waiting state.
#[derive(Debug, thiserror::Error)]
pub(super) enum CreateContainerError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Volumes(#[from] VolumeManagerError),
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error("failed to create the termination message file: {0}")]
    TerminationMessage(#[source] io::Error),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Runtime(RuntimeError),
}

impl CreateContainerError {
    /// Reason of the waiting state.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer
    pub(super) fn reason(&self) -> &'static str {
        match self {
            CreateContainerError::Runtime(_) => "CreateContainerError",
            _ => "CreateContainerConfigError",
        }
    }
}
