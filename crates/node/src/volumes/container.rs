//! What of a pod's volumes a container has mounted, and where.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use rustix::fs::{FileType, fstat};

use super::{
    beneath::{self, Missing},
    host_path,
    layout::{Layout, steps_back},
    mount_table,
    set_up::{Place, Ready, private_folder},
};
use crate::{
    environment,
    runtime::{Mount, MountSource, Propagation},
};

/// A mount, before the disk was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    volume: String,
    /// Its place among the container's mounts.
    index: usize,
    ready: Ready,
    /// A part of the volume; all of it if empty.
    sub_path: String,
    target: String,
    read_only: bool,
    propagation: Propagation,
    recursive_read_only: bool,
}

/// What a container wants, or why it makes no sense.
pub(super) fn wanted(
    container: &Container,
    environment: &[(String, String)],
    ready: &BTreeMap<String, Ready>,
) -> Result<Vec<Wanted>, String> {
    if let Some(device) = container.volume_devices.iter().flatten().next() {
        // No volume of this node is one.
        let name = &device.name;
        let container = &container.name;
        return Err(format!(
            "cannot find volume {name:?} to pass into container {container:?}"
        ));
    }
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    let wanted = mounts.map(|(index, mount)| {
        let Some(ready) = ready.get(&mount.name) else {
            return Err(format!(
                "cannot find volume {:?} to mount into container {:?}",
                mount.name, container.name
            ));
        };
        let target = if mount.mount_path.starts_with('/') {
            mount.mount_path.clone()
        } else {
            format!("/{}", mount.mount_path)
        };
        Ok(Wanted {
            volume: mount.name.clone(),
            index,
            sub_path: sub_path(mount, environment)?,
            target,
            read_only: mount.read_only == Some(true) || ready.read_only,
            propagation: propagation(mount.mount_propagation.as_deref())?,
            recursive_read_only: recursive_read_only(mount)?,
            ready: ready.clone(),
        })
    });
    wanted.collect()
}

fn sub_path(mount: &VolumeMount, environment: &[(String, String)]) -> Result<String, String> {
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    let path = if expression.is_empty() {
        mount.sub_path.clone().unwrap_or_default()
    } else {
        let mut missing = std::collections::BTreeSet::new();
        let expanded = environment::expand_with(expression, |name| {
            let variable = environment.iter().rfind(|(known, _)| known == name);
            let value = variable.map(|(_, value)| value.clone()).unwrap_or_default();
            if value.is_empty() {
                missing.insert(name.to_owned());
            }
            Some(value)
        });
        if !missing.is_empty() {
            let missing: Vec<_> = missing.into_iter().collect();
            return Err(format!("missing value for {}", missing.join(", ")));
        }
        expanded
    };
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if steps_back(&path) {
        return Err(format!(
            "unable to provision SubPath `{path}`: must not contain '..'"
        ));
    }
    Ok(path)
}

fn propagation(mode: Option<&str>) -> Result<Propagation, String> {
    match mode {
        None | Some("None") => Ok(Propagation::Private),
        Some("HostToContainer") => Ok(Propagation::HostToContainer),
        Some("Bidirectional") => Ok(Propagation::Bidirectional),
        Some(other) => Err(format!("invalid MountPropagation mode: {other:?}")),
    }
}

/// Whether a mount is to be read-only with all that is mounted below it. A runtime that cannot do so refuses; which ones can is not
/// known here, so that a wish that may be left undone is.
fn recursive_read_only(mount: &VolumeMount) -> Result<bool, String> {
    let name = &mount.name;
    let wish = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(wish) => wish,
    };
    if mount.read_only != Some(true) {
        let why = format!("volume {name:?} requested recursive read-only mode, but it is not read-only");
        return Err(format!("failed to resolve recursive read-only mode: {why}"));
    }
    if let Some(mode) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        let why = format!(
            "volume {name:?} requested recursive read-only mode, but it is not compatible with propagation {mode:?}"
        );
        return Err(format!("failed to resolve recursive read-only mode: {why}"));
    }
    match wish {
        "Enabled" => Ok(true),
        "IfPossible" => Ok(false),
        other => Err(format!(
            "failed to resolve recursive read-only mode: unknown recursive read-only mode {other:?}"
        )),
    }
}

// --- Hands ---

/// Makes what is mounted. All of it may wait for the disk.
pub(super) fn mount(layout: &Layout, uid: &str, container: &str, wanted: Wanted) -> Result<Mount, String> {
    let source = match &wanted.ready.place {
        Place::Image(reference) => MountSource::Image {
            image: reference.clone(),
            sub_path: wanted.sub_path.clone(),
        },
        Place::Host(path) => MountSource::Host(host(layout, uid, container, &wanted, path)?),
    };
    Ok(Mount {
        source,
        target: wanted.target,
        read_only: wanted.read_only,
        propagation: wanted.propagation,
        recursive_read_only: wanted.recursive_read_only,
    })
}

fn host(
    layout: &Layout,
    uid: &str,
    container: &str,
    wanted: &Wanted,
    path: &Path,
) -> Result<PathBuf, String> {
    if wanted.ready.is_made_late && !path.exists() {
        // Runtimes differ in whether they make it; upstream's do.
        let made = host_path::make_folder(path, 0o755);
        made.map_err(|error| format!("mkdir {}: {error}", path.display()))?;
    }
    if wanted.sub_path.is_empty() {
        return Ok(path.to_owned());
    }
    let target = layout.sub_path(uid, &wanted.volume, container, wanted.index);
    let part = Path::new(&wanted.sub_path);
    let at = |what: &str| {
        format!(
            "failed to {what} for volumeMount {:?} of container {container:?}",
            wanted.volume
        )
    };
    // What is wrong on the machine is not the pod's business: it could learn of files that are not its own.
    let hidden = |what: &str, error: &io::Error| {
        tracing::warn!(%error, pod = uid, container, volume = wanted.volume, part = wanted.sub_path, "cannot {what}");
        at(what)
    };
    let mode = fs::metadata(path).map_err(|error| hidden("prepare subPath", &error))?;
    let mode = Missing::Make(std::os::unix::fs::MetadataExt::mode(&mode));
    let found =
        beneath::open(path, part, mode).map_err(|error| hidden("create subPath directory", &error))?;
    bind(&found, &target).map_err(|error| hidden("prepare subPath", &error))?;
    Ok(target)
}

/// Mounts what was found at a path of our own, so that what the runtime mounts is what was found, whatever happens to the volume.
fn bind(found: &impl AsFd, target: &Path) -> io::Result<()> {
    let stat = fstat(found)?;
    if mount_table::at(target)?.is_some() {
        if beneath::is_same(&beneath::look(target)?, &stat) {
            return Ok(());
        }
        mount_table::detach(target)?;
    }
    if let Some(above) = target.parent() {
        private_folder(above)?;
    }
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    // What was there for another kind of file is in the way.
    match fs::symlink_metadata(target) {
        Ok(old) if old.is_dir() && !is_folder => fs::remove_dir(target)?,
        Ok(old) if !old.is_dir() && is_folder => fs::remove_file(target)?,
        _ => {}
    }
    let made = if is_folder {
        fs::create_dir(target)
    } else {
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(target)
            .map(drop)
    };
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    mount_table::bind(found.as_fd(), target)
}
