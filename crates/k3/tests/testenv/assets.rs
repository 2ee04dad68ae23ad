//! `k3 envtest-assets`.

use std::fs;

use crate::program::{k3, outcome};

#[test]
fn links_are_made_again_and_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let make = |path: &str| outcome(k3(&["envtest-assets"]).arg(folder.path()).env("PATH", path));
    let empty = tempfile::tempdir().unwrap();
    let (code, _, errors) = make(empty.path().to_str().unwrap());
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("no kubectl"), "{errors}");
    assert!(!folder.path().join("kubectl").exists());
    for name in ["kube-apiserver", "etcd"] {
        let target = fs::read_link(folder.path().join(name)).unwrap();
        assert_eq!(target.file_name().unwrap(), "k3");
    }
    let (code, _, errors) = make("/usr/bin:/bin");
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(
        fs::read_link(folder.path().join("kubectl")).unwrap().to_str(),
        Some("/usr/bin/kubectl")
    );
    let etcd = folder.path().join("etcd");
    fs::remove_file(&etcd).unwrap();
    fs::write(&etcd, "somebody's").unwrap();
    let (code, _, errors) = make("/usr/bin:/bin");
    assert_eq!(code, Some(1));
    assert!(errors.contains("etcd is there and is no link"), "{errors}");
    assert_eq!(fs::read_to_string(&etcd).unwrap(), "somebody's");
}
