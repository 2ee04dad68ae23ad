//! What an agent's data directory records about the owner of its containers. Blocks on file I/O.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::runtime::{AdoptedPods, ContainerOwner};

/// File in the data directory of the agent.
const UID_FILE: &str = "cluster-uid";
/// Parent of the pod directories, in the data directory of the agent.
const PODS_DIRECTORY: &str = "pods";

/// The owner of the containers of an agent that does not run, from its data directory and node name. Blocks on file I/O.
///
/// # Errors
/// If the directory exists but cannot be read: then it is unknown which containers are the agent's.
pub fn owner_of_directory(directory: &Path, node: &str) -> io::Result<ContainerOwner> {
    // An agent that never ran has no UID, and no containers.
    let cluster = read_uid(directory)?.unwrap_or_default();
    Ok(ContainerOwner {
        node: node.to_owned(),
        cluster,
        adopted: adopted_pods(directory)?,
    })
}

/// The pods with a directory in the data directory. Their containers belong to the agent even without a cluster label.
pub(super) fn adopted_pods(directory: &Path) -> io::Result<AdoptedPods> {
    let adopted = AdoptedPods::default();
    let pods = match fs::read_dir(directory.join(PODS_DIRECTORY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(adopted),
        pods => pods?,
    };
    for pod in pods {
        if let Some(uid) = pod?.file_name().to_str() {
            adopted.add(uid);
        }
    }
    Ok(adopted)
}

/// The stored UID; `None` if none was stored yet.
pub(super) fn read_uid(directory: &Path) -> io::Result<Option<String>> {
    let uid = match fs::read_to_string(uid_path(directory)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        uid => uid?,
    };
    // A power loss may leave an empty file: then the UID is read from the API again.
    let uid = uid.trim();
    Ok((!uid.is_empty()).then(|| uid.to_owned()))
}

/// Writes atomically: a crash leaves no partial UID.
pub(super) fn write_uid(directory: &Path, uid: &str) -> io::Result<()> {
    let partial = directory.join(format!("{UID_FILE}.partial"));
    fs::write(&partial, format!("{uid}\n"))?;
    fs::rename(partial, uid_path(directory))
}

/// File with the UID of the cluster.
pub(super) fn uid_path(directory: &Path) -> PathBuf {
    directory.join(UID_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::labels;

    #[test]
    fn reports_unreadable_records() {
        let directory = tempfile::tempdir().unwrap();
        let owner = owner_of_directory(directory.path(), "n").unwrap();
        assert_eq!(owner.cluster, "");
        // Neither can be read as what it should be; permissions do not stop root, who may run this test.
        fs::write(directory.path().join("pods"), "").unwrap();
        assert!(owner_of_directory(directory.path(), "n").is_err());
        fs::remove_file(directory.path().join("pods")).unwrap();
        fs::create_dir(uid_path(directory.path())).unwrap();
        assert!(owner_of_directory(directory.path(), "n").is_err());
    }

    #[test]
    fn adopts_pods_with_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("pods/uid-1")).unwrap();
        write_uid(directory.path(), "the-cluster").unwrap();
        let owner = owner_of_directory(directory.path(), "n").unwrap();
        assert_eq!(
            (owner.node.as_str(), owner.cluster.as_str()),
            ("n", "the-cluster")
        );
        let owns = |uid: &str| {
            let uid = uid.to_owned();
            let node = "n".to_owned();
            owner.owns(|name| match name {
                labels::NODE => Some(&node),
                labels::POD_UID => Some(&uid),
                _ => None,
            })
        };
        assert!(owns("uid-1") && !owns("uid-2"));
    }
}
