//! Where things of pods are on this machine. The same as upstream, so that tools find them.

use std::path::{Path, PathBuf};

/// The folders of pods under the node's folder.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

/// Types of volumes that have a folder of their own in that of their pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    EmptyDir,
    ConfigMap,
    Secret,
    Projected,
    DownwardApi,
    Local,
}

// --- Layout ---

impl Layout {
    /// Under the node's folder.
    pub fn new(root: PathBuf) -> Self {
        Layout { root }
    }

    /// The folder of all pods.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The folder of a pod.
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(part(uid))
    }

    /// The `/etc/hosts` of a pod's containers.
    pub fn hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    /// The folder of a container: what it says in the end is written there.
    pub fn container(&self, uid: &str, container: &str) -> PathBuf {
        self.pod(uid).join("containers").join(part(container))
    }

    /// The volumes of a pod.
    pub(super) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// A volume of a pod.
    pub(super) fn volume(&self, uid: &str, plugin: Plugin, volume: &str) -> PathBuf {
        self.volumes(uid).join(plugin.folder()).join(part(volume))
    }

    /// Is there once a volume was made whose content is its containers': it is never made again.
    pub(super) fn ready(&self, uid: &str, plugin: Plugin, volume: &str) -> PathBuf {
        let plugins = self.pod(uid).join("plugins");
        plugins.join(plugin.folder()).join(part(volume)).join("ready")
    }

    /// The parts of volumes that are mounted into containers of a pod.
    pub(super) fn sub_paths(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// A part of a volume, for one mount of a container.
    pub(super) fn sub_path(&self, uid: &str, volume: &str, container: &str, mount: usize) -> PathBuf {
        let volume = self.sub_paths(uid).join(part(volume));
        volume.join(part(container)).join(mount.to_string())
    }
}

// --- Plugin ---

impl Plugin {
    fn folder(self) -> &'static str {
        match self {
            Plugin::EmptyDir => "kubernetes.io~empty-dir",
            Plugin::ConfigMap => "kubernetes.io~configmap",
            Plugin::Secret => "kubernetes.io~secret",
            Plugin::Projected => "kubernetes.io~projected",
            Plugin::DownwardApi => "kubernetes.io~downward-api",
            Plugin::Local => "kubernetes.io~local-volume",
        }
    }
}

/// One part of a path, whatever a name is made of: the API admits only names that are parts already, but nothing here relies on
/// that.
fn part(name: &str) -> String {
    match name {
        "" | "." | ".." => format!("~{name}"),
        _ => name.replace(['/', '\0'], "~"),
    }
}

/// Whether a path has `..` in it.
pub(super) fn steps_back(path: &str) -> bool {
    Path::new(path)
        .components()
        .any(|part| part == std::path::Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_upstream() {
        let layout = Layout::new("/var/lib/k3/node".into());
        assert_eq!(
            layout.volume("u", Plugin::EmptyDir, "cache"),
            Path::new("/var/lib/k3/node/pods/u/volumes/kubernetes.io~empty-dir/cache")
        );
        assert_eq!(
            layout.sub_path("u", "cache", "web", 2),
            Path::new("/var/lib/k3/node/pods/u/volume-subpaths/cache/web/2")
        );
        assert_eq!(layout.hosts("u"), Path::new("/var/lib/k3/node/pods/u/etc-hosts"));
        assert_eq!(
            layout.container("u", "web"),
            Path::new("/var/lib/k3/node/pods/u/containers/web")
        );
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        let layout = Layout::new("/r".into());
        for name in ["..", ".", "", "../../etc", "a/b", "/etc"] {
            let path = layout.pod(name);
            assert_eq!(path.parent(), Some(Path::new("/r/pods")), "{name}");
            assert!(path.file_name().is_some(), "{name}");
        }
    }
}
