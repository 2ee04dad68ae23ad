//! Paths of pods on the host. They are the same as upstream's, so that existing tools find them.

use std::path::{Component, Path, PathBuf};

/// Directories of pods below the data directory of the node.
// upstream: pkg/kubelet/kubelet_getters.go getPodDir
#[derive(Clone, Debug)]
pub struct PodDirectories {
    root: PathBuf,
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
    pub(super) fn volume(&self, uid: &str, plugin_name: &str, volume: &str) -> PathBuf {
        self.volumes(uid)
            .join(path_component(plugin_name))
            .join(path_component(volume))
    }

    /// Directory for what a plugin has to remember of a volume.
    // upstream: pkg/kubelet/kubelet_getters.go getPodPluginDir
    pub(super) fn plugin_metadata(&self, uid: &str, plugin_name: &str, volume: &str) -> PathBuf {
        self.pod(uid)
            .join("plugins")
            .join(path_component(plugin_name))
            .join(path_component(volume))
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
            directories.volume("u", "kubernetes.io/empty-dir", "cache"),
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
