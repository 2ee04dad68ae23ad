//! The file `/etc/hosts` of a pod.
// upstream: pkg/kubelet/kubelet_pods.go makeHostsMount, ensureHostsFile

use std::{io, net::IpAddr, path::Path};

use k8s_openapi::api::core::v1::Pod;
use tokio::fs;

use super::spec::{SpecError, hosts_file};
use crate::{
    NodeFacts,
    runtime::{Mount, MountPropagation, MountSource},
};

const TARGET: &str = "/etc/hosts";

/// Why the hosts file could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostsError {
    #[error(transparent)]
    Names(#[from] SpecError),
    #[error("failed to write the hosts file of the pod: {0}")]
    Write(#[from] io::Error),
}

/// The mount of the hosts file. `None` if a container mounts its own, or the pod has no IP.
// upstream: pkg/kubelet/kubelet_pods.go shouldMountHostsFile
pub(super) async fn make_hosts_mount(
    pod: &Pod,
    directory: &Path,
    facts: &NodeFacts,
    addresses: &[IpAddr],
    mounts: &[Mount],
) -> Result<Option<Mount>, HostsError> {
    let uses_host_network = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.host_network == Some(true));
    if (addresses.is_empty() && !uses_host_network) || mounts.iter().any(|mount| mount.target == TARGET) {
        return Ok(None);
    }
    let node_hosts = if uses_host_network {
        fs::read_to_string(TARGET).await?
    } else {
        String::new()
    };
    let text = hosts_file(pod, facts, addresses, &node_hosts)?;
    let path = directory.join("etc-hosts");
    fs::create_dir_all(directory).await?;
    // Not replaced by rename: running containers have this inode mounted.
    fs::write(&path, text).await?;
    Ok(Some(Mount {
        source: MountSource::Host(path),
        target: TARGET.to_owned(),
        read_only: false,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    }))
}
