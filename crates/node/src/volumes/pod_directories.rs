//! Paths of pods on the host. They are the same as upstream's, so that existing tools find them.

use std::path::{Component, Path, PathBuf};

/// Directories of pods below the data directory of the node.
// upstream: pkg/kubelet/kubelet_getters.go getPodDir
#[derive(Clone, Debug)]
pub struct PodDirectories {
    root: PathBuf,
}

/// Volume plugins that have a directory in the directory of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumePlugin {
    EmptyDir,
    ConfigMap,
    Secret,
    Projected,
    DownwardApi,
    Local,
}

// --- PodDirectories ---

impl PodDirectories {
    /// Directories below the data directory of the node.
    pub fn new(root: PathBuf) -> Self {
        PodDirectories { root }
    }

    /// Directory of all pods.
    // upstream: pkg/kubelet/kubelet_getters.go getPodsDir
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Directory of a pod.
    // upstream: pkg/kubelet/kubelet_getters.go getPodDir
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(path_component(uid))
    }

    /// The `/etc/hosts` file of the containers of a pod.
    // upstream: pkg/kubelet/kubelet_pods.go getEtcHostsPath
    pub fn etc_hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    /// Directory of a container, which contains its termination messages.
    // upstream: pkg/kubelet/kubelet_getters.go getPodContainerDir
    pub fn container(&self, uid: &str, container: &str) -> PathBuf {
        self.pod(uid).join("containers").join(path_component(container))
    }

    /// Directory of all volumes of a pod.
    // upstream: pkg/kubelet/kubelet_getters.go getPodVolumesDir
    pub(super) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// Directory of a volume of a pod.
    // upstream: pkg/kubelet/kubelet_getters.go getPodVolumeDir
    pub(super) fn volume(&self, uid: &str, plugin: VolumePlugin, volume: &str) -> PathBuf {
        self.volumes(uid)
            .join(plugin.directory_name())
            .join(path_component(volume))
    }

    /// File that exists once an emptyDir was set up: its content then belongs to the containers, and it is not set up again.
    // upstream: pkg/volume/emptydir/empty_dir.go getMetaDir
    pub(super) fn ready_file(&self, uid: &str, plugin: VolumePlugin, volume: &str) -> PathBuf {
        let plugins = self.pod(uid).join("plugins");
        plugins
            .join(plugin.directory_name())
            .join(path_component(volume))
            .join("ready")
    }

    /// Directory of all sub path mounts of a pod.
    // upstream: pkg/kubelet/kubelet_getters.go getPodVolumeSubpathsDir
    pub(super) fn volume_subpaths(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// Mount point of the sub path of one volume mount of a container, by the index of the mount in the container spec.
    // upstream: pkg/volume/util/subpath/subpath_linux.go getSubpathBindTarget
    pub(super) fn volume_subpath(
        &self,
        uid: &str,
        volume: &str,
        container: &str,
        mount_index: usize,
    ) -> PathBuf {
        self.volume_subpaths(uid)
            .join(path_component(volume))
            .join(path_component(container))
            .join(mount_index.to_string())
    }
}

// --- VolumePlugin ---

impl VolumePlugin {
    /// The plugin name `kubernetes.io/...`, escaped as a path component.
    fn directory_name(self) -> &'static str {
        match self {
            VolumePlugin::EmptyDir => "kubernetes.io~empty-dir",
            VolumePlugin::ConfigMap => "kubernetes.io~configmap",
            VolumePlugin::Secret => "kubernetes.io~secret",
            VolumePlugin::Projected => "kubernetes.io~projected",
            VolumePlugin::DownwardApi => "kubernetes.io~downward-api",
            VolumePlugin::Local => "kubernetes.io~local-volume",
        }
    }
}

/// Escapes a name to a single path component. The API server accepts only names that need no escaping; this is defence in depth.
fn path_component(name: &str) -> String {
    match name {
        "" | "." | ".." => format!("~{name}"),
        _ => name.replace(['/', '\0'], "~"),
    }
}

/// Whether a path contains a `..` component.
// upstream: pkg/volume/validation/pv_validation.go ValidatePathNoBacksteps
pub(super) fn has_parent_component(path: &str) -> bool {
    Path::new(path)
        .components()
        .any(|component| component == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_paths_of_upstream() {
        let directories = PodDirectories::new("/var/lib/k3/node".into());
        assert_eq!(
            directories.volume("u", VolumePlugin::EmptyDir, "cache"),
            Path::new("/var/lib/k3/node/pods/u/volumes/kubernetes.io~empty-dir/cache")
        );
        assert_eq!(
            directories.volume_subpath("u", "cache", "web", 2),
            Path::new("/var/lib/k3/node/pods/u/volume-subpaths/cache/web/2")
        );
        assert_eq!(
            directories.etc_hosts("u"),
            Path::new("/var/lib/k3/node/pods/u/etc-hosts")
        );
        assert_eq!(
            directories.container("u", "web"),
            Path::new("/var/lib/k3/node/pods/u/containers/web")
        );
    }

    #[test]
    fn escapes_names_that_would_leave_the_directory() {
        let directories = PodDirectories::new("/r".into());
        for name in ["..", ".", "", "../../etc", "a/b", "/etc"] {
            let path = directories.pod(name);
            assert_eq!(path.parent(), Some(Path::new("/r/pods")), "{name}");
            assert!(path.file_name().is_some(), "{name}");
        }
    }
}
