//! `k3 envtest-assets`.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::program::{k3, outcome};

#[test]
fn replaces_links_and_keeps_files() {
    let [directory, path] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let make = || {
        let mut command = k3(&["envtest-assets"]);
        outcome(command.arg(directory.path()).env("PATH", path.path()))
    };
    let (code, _, errors) = make();
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("kubectl is not installed"), "{errors}");
    assert!(!directory.path().join("kubectl").exists());
    for name in ["kube-apiserver", "etcd"] {
        let target = fs::read_link(directory.path().join(name)).unwrap();
        assert_eq!(target.file_name().unwrap(), "k3");
    }
    let kubectl = path.path().join("kubectl");
    fs::write(&kubectl, "").unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, _, errors) = make();
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(fs::read_link(directory.path().join("kubectl")).unwrap(), kubectl);
    let etcd = directory.path().join("etcd");
    fs::remove_file(&etcd).unwrap();
    fs::write(&etcd, "foreign").unwrap();
    let (code, _, errors) = make();
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("etcd exists and is not a symbolic link"),
        "{errors}"
    );
    assert_eq!(fs::read_to_string(&etcd).unwrap(), "foreign");
}
