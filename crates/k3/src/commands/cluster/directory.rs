//! The directory of a cluster: a marker file, and a directory per node.
//!
//! ```text
//! .k3/.k3-cluster            marker file: id and nodes of the cluster
//! .k3/keeper.log, keeper.pid the supervisor process
//! .k3/node-1/.config.yaml    configuration of the node
//! .k3/node-1/data            data directory
//! .k3/node-1/log             log, with rotated files
//! .k3/node-1/output, pid     output and id of its process
//! ```
//!
//! A directory without the marker file is never changed. Only files that k3 created are removed.

use std::{
    env, fs, io,
    path::{Component, Path, PathBuf},
};

use k3_node::{
    runtime::detect::{RuntimeSelection, parse_endpoint},
    volumes::{remove_directory, remove_node_directory},
};
use serde::{Deserialize, Serialize};

use crate::{command_error::CommandError, file_format::FileFormat, secret_file};

/// The marker file.
const MARKER: &str = ".k3-cluster";

/// A cluster on this machine.
#[derive(Clone, Debug)]
pub(super) struct ClusterDirectory {
    path: PathBuf,
    pub(super) cluster: ClusterSpec,
}

/// Content of the marker file.
#[derive(Serialize, Deserialize)]
struct ClusterMarker {
    /// The path at creation: files of the cluster contain it.
    #[serde(rename = "folder")]
    directory: PathBuf,
    /// Format version of this file and of all files in the directory, except for the data directories.
    #[serde(default = "first_format")]
    format: u32,
    #[serde(flatten)]
    cluster: ClusterSpec,
}

/// The format version that this version writes.
const FORMAT: u32 = 1;

fn first_format() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterSpec {
    /// Labels the containers and volumes of the cluster.
    pub(super) id: String,
    /// The nodes; the first runs the API server.
    pub(super) nodes: Vec<ClusterNode>,
    /// The storage backend.
    pub(super) storage: String,
    /// Container runtime and its socket, if configured.
    pub(super) runtime: Option<String>,
    pub(super) runtime_endpoint: Option<String>,
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterNode {
    /// The name of the node, unique among the clusters of this machine.
    pub(super) name: String,
    pub(super) role: NodeRole,
    /// The port of the node's API.
    pub(super) port: u16,
}

/// The components that a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeRole {
    /// All components: API server, controllers, scheduler and a node.
    One,
    /// A node only.
    Node,
}

/// Rejects directories that may contain other data, such as the home directory.
pub(super) fn validate_path(path: &Path) -> Result<PathBuf, CommandError> {
    let refused = |why: &str| {
        Err(CommandError::usage(
            format!("invalid --dir {:?}: {why}", path.display().to_string()),
            "name a directory for this cluster only, such as .k3",
        ))
    };
    if path.components().any(|part| part == Component::ParentDir) {
        return refused("it contains ..");
    }
    let absolute = match std::path::absolute(path) {
        // Remove components that change nothing: `.`, and a trailing slash.
        Ok(absolute) => absolute
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect::<PathBuf>(),
        Err(_) => return refused("it is empty"),
    };
    let real = fs::canonicalize(&absolute).unwrap_or_else(|_| absolute.clone());
    if real != absolute && fs::symlink_metadata(&absolute).is_ok_and(|found| found.is_symlink()) {
        return refused("it is a symbolic link; name the directory itself");
    }
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let home = fs::canonicalize(&home).unwrap_or(home);
    let here = env::current_dir().unwrap_or_default();
    if real.parent().is_none() {
        return refused("it is the root directory");
    }
    if home.starts_with(&real) {
        return refused("it is or contains your home directory");
    }
    if here.starts_with(&real) {
        return refused("it is or contains the current directory");
    }
    Ok(real)
}

// --- ClusterDirectory ---

impl ClusterDirectory {
    /// Creates the directory of a new cluster, which must be empty.
    pub(super) fn create(path: &Path, cluster: ClusterSpec) -> Result<Self, CommandError> {
        let path = validate_path(path)?;
        if path.join(MARKER).exists() {
            return Err(CommandError::new(
                format!("a cluster already exists in {}", path.display()),
                "start it with `k3 cluster start`, remove it with `k3 cluster clear`, or name another directory with --dir",
            ));
        }
        if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(CommandError::new(
                format!("{} is not empty", path.display()),
                "name a directory with --dir that is empty or that does not exist",
            ));
        }
        let directory = Self { path, cluster };
        let create_error = |error: secret_file::FileError| {
            let advice = "name a directory that this user may create with --dir";
            CommandError::new("cannot create the directory of the cluster", advice).caused_by(error)
        };
        for number in directory.numbers() {
            secret_file::create_directory(&directory.node(number)).map_err(create_error)?;
        }
        let marker = ClusterMarker {
            directory: directory.path.clone(),
            format: FORMAT,
            cluster: directory.cluster.clone(),
        };
        let text = serde_json::to_string_pretty(&marker).expect("a cluster spec serializes");
        secret_file::write(&directory.path.join(MARKER), &text).map_err(create_error)?;
        Ok(directory)
    }

    /// Opens the directory of an existing cluster.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let path = validate_path(path)?;
        let none = |why: &str| {
            CommandError::new(
                format!("{} is not the directory of a cluster: {why}", path.display()),
                "create one with `k3 cluster create`, or name another directory with --dir; `k3 cluster list` lists clusters",
            )
        };
        let text = fs::read_to_string(path.join(MARKER)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => none(&format!("it has no file {MARKER}")),
            _ => none(&format!("its file {MARKER} cannot be read")).caused_by(error),
        })?;
        let location = format!("the cluster in {}", path.display());
        FileFormat::of_json(text.as_bytes()).check(&location, FORMAT)?;
        let ClusterMarker {
            directory, cluster, ..
        } = serde_json::from_str(&text)
            .map_err(|error| none(&format!("its file {MARKER} is invalid")).caused_by(error))?;
        if directory != path {
            return Err(CommandError::new(
                format!(
                    "the cluster was created in {}, and is now in {}",
                    directory.display(),
                    path.display()
                ),
                "move it back: its files contain that path",
            ));
        }
        Ok(Self { path, cluster })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the nodes, from 1.
    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        1..=self.cluster.nodes.len()
    }

    /// The nodes with their numbers.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (usize, &ClusterNode)> {
        self.numbers().zip(&self.cluster.nodes)
    }

    /// The directory of a node.
    pub(super) fn node(&self, number: usize) -> PathBuf {
        self.path.join(format!("node-{number}"))
    }

    pub(super) fn config(&self, number: usize) -> PathBuf {
        self.node(number).join(".config.yaml")
    }

    pub(super) fn data(&self, number: usize) -> PathBuf {
        self.node(number).join("data")
    }

    /// The log of a node.
    pub(super) fn log(&self, number: usize) -> PathBuf {
        self.node(number).join("log")
    }

    /// The output of a node's process.
    pub(super) fn output(&self, number: usize) -> PathBuf {
        self.node(number).join("output")
    }

    pub(super) fn pid(&self, number: usize) -> PathBuf {
        self.node(number).join("pid")
    }

    /// The log of the supervisor.
    pub(super) fn supervisor_log(&self) -> PathBuf {
        self.path.join("keeper.log")
    }

    pub(super) fn supervisor_pid(&self) -> PathBuf {
        self.path.join("keeper.pid")
    }

    /// The admin's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.data(1).join("admin.kubeconfig")
    }

    /// The container runtime.
    pub(super) fn runtime(&self) -> RuntimeSelection {
        let name = &self.cluster.runtime;
        let endpoint = &self.cluster.runtime_endpoint;
        // Both were validated when the cluster was created.
        RuntimeSelection {
            choice: name
                .as_ref()
                .and_then(|name| name.parse().ok())
                .unwrap_or_default(),
            socket: endpoint
                .as_ref()
                .and_then(|endpoint| parse_endpoint(endpoint).ok()),
        }
    }

    /// Removes the files of the cluster. Other files are kept.
    pub(super) fn remove(&self) -> Result<RemovalResult, CommandError> {
        let failed = |path: &Path| {
            let what = format!("cannot remove {}", path.display());
            move |error: io::Error| {
                CommandError::new(what, "check its owner, and whether a process uses it").caused_by(error)
            }
        };
        for number in self.numbers() {
            let volumes = remove_node_directory(&self.data(number).join("node"));
            volumes
                .and_then(|()| remove_directory(&self.node(number)))
                .map_err(|error| {
                    let advice = "check mounts and processes that use it, and run this again";
                    CommandError::new(format!("cannot remove the directory of node {number}"), advice)
                        .caused_by(error)
                })?;
        }
        // Remove the marker last, so that a failed removal can be repeated.
        for file in [
            self.supervisor_log(),
            self.supervisor_pid(),
            self.path.join(MARKER),
        ] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&file)(error)),
                _ => {}
            }
        }
        match fs::remove_dir(&self.path) {
            Ok(()) => Ok(RemovalResult::Complete),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(RemovalResult::ForeignFilesKept)
            }
            Err(error) => Err(failed(&self.path)(error)),
        }
    }
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalResult {
    Complete,
    /// Other files are left.
    ForeignFilesKept,
}

// --- NodeRole ---

impl NodeRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Node => "node",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(nodes: &[&str]) -> ClusterSpec {
        let node = |name: &&str| ClusterNode {
            name: (*name).to_owned(),
            role: NodeRole::One,
            port: 10_250,
        };
        ClusterSpec {
            id: "1".to_owned(),
            nodes: nodes.iter().map(node).collect(),
            storage: "file".to_owned(),
            runtime: None,
            runtime_endpoint: None,
        }
    }

    #[test]
    fn rejects_root_home_and_current_directory() {
        for path in ["", ".", "/", "..", "a/../b", "./", "../k3", "//"] {
            assert!(validate_path(Path::new(path)).is_err(), "{path:?}");
        }
        let home = env::var("HOME").unwrap();
        assert!(validate_path(Path::new(&home)).is_err());
        assert!(validate_path(Path::new(&home).parent().unwrap()).is_err());
        assert!(validate_path(Path::new(".k3")).unwrap().ends_with(".k3"));
        assert!(validate_path(Path::new("./.k3/")).unwrap().ends_with(".k3"));
    }

    #[test]
    fn rejects_symbolic_links() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(validate_path(&link).is_err());
    }

    #[test]
    fn removes_only_files_of_the_cluster() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("c");
        assert!(ClusterDirectory::open(&path).is_err());
        let made = ClusterDirectory::create(&path, cluster(&["a", "b"])).unwrap();
        assert!(ClusterDirectory::create(&path, cluster(&["a"])).is_err());
        let found = ClusterDirectory::open(&path).unwrap();
        assert_eq!(found.cluster, made.cluster);
        fs::write(path.join("mine"), "").unwrap();
        assert_eq!(found.remove().unwrap(), RemovalResult::ForeignFilesKept);
        assert!(path.join("mine").exists() && !path.join("node-1").exists());
        assert!(ClusterDirectory::open(&path).is_err());
        let refused = ClusterDirectory::create(&path, cluster(&["a"])).unwrap_err();
        assert!(refused.to_string().contains("not empty"), "{refused}");
    }

    #[test]
    fn rejects_a_moved_directory() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("c");
        let moved = parent.path().join("d");
        ClusterDirectory::create(&path, cluster(&["a"])).unwrap();
        fs::rename(&path, &moved).unwrap();
        let refused = ClusterDirectory::open(&moved).unwrap_err().to_string();
        assert!(refused.contains("was created in"), "{refused}");
    }
}
