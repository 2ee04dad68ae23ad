//! The file `/etc/hosts` of a pod's containers.

use std::{io, net::IpAddr, path::Path};

use k8s_openapi::api::core::v1::Pod;

use super::spec::{SpecError, hosts_file};
use crate::{
    Facts,
    runtime::{Mount, MountSource, Propagation},
};

const TARGET: &str = "/etc/hosts";

/// Why the file is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostsError {
    /// It cannot be said what is in it.
    #[error(transparent)]
    Names(#[from] SpecError),
    /// It cannot be written.
    #[error("cannot write the hosts file of the pod: {0}")]
    Write(#[from] io::Error),
}

/// The file as it is mounted; nothing where a container brings its own, or while the pod has no address.
pub(super) fn mount(
    pod: &Pod,
    folder: &Path,
    facts: &Facts,
    addresses: &[IpAddr],
    mounts: &[Mount],
) -> Result<Option<Mount>, HostsError> {
    let hosts = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.host_network == Some(true));
    if (addresses.is_empty() && !hosts) || mounts.iter().any(|mount| mount.target == TARGET) {
        return Ok(None);
    }
    let machine = if hosts {
        std::fs::read_to_string(TARGET)?
    } else {
        String::new()
    };
    let text = hosts_file(pod, facts, addresses, &machine)?;
    let path = folder.join("etc-hosts");
    std::fs::create_dir_all(folder)?;
    // In place: the file that running containers have mounted is this very file.
    std::fs::write(&path, text)?;
    Ok(Some(Mount {
        source: MountSource::Host(path),
        target: TARGET.to_owned(),
        read_only: false,
        propagation: Propagation::Private,
        recursive_read_only: false,
    }))
}
