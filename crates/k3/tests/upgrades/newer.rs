//! Data of a version that is not written yet is refused, and left as it is.

use std::fs;

use crate::{
    fixture::unpack,
    program::{TestDataDir, k3, outcome},
};

const NEWER_DIRECTORY: &str = "format=7 needs=3.1.0\n";

#[test]
fn every_command_rejects_a_newer_data_directory() {
    let data = TestDataDir::new();
    unpack("file.tar.gz", data.path());
    let format = data.path().join("format");
    fs::write(&format, NEWER_DIRECTORY).unwrap();
    let before = fs::read(data.path().join("objects/store.redb")).unwrap();
    let mut certs = k3(&["certs", "show", "--data-dir"]);
    certs.arg(data.path());
    let mut node = k3(&["node", "--node-name", "n", "--data-dir"]);
    node.arg(data.path());
    for mut command in [data.command(&[]), certs, node] {
        let (code, _, errors) = outcome(&mut command);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("has format 7"), "{errors}");
        assert!(errors.contains("it needs k3 3.1.0 or newer"), "{errors}");
    }
    assert_eq!(fs::read_to_string(&format).unwrap(), NEWER_DIRECTORY);
    assert_eq!(fs::read(data.path().join("objects/store.redb")).unwrap(), before);
}

#[test]
fn rejects_a_newer_node_identity() {
    let data = TestDataDir::new();
    let file = data.path().join("node/pki/identity.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, r#"{"format": 2, "needs": "3.1.0", "names": ["n"]}"#).unwrap();
    let mut node = k3(&["node", "--node-name", "n", "--data-dir"]);
    node.arg(data.path());
    let (code, _, errors) = outcome(&mut node);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("it needs k3 3.1.0 or newer"), "{errors}");
}

#[test]
fn rejects_a_newer_cluster_directory() {
    let data = TestDataDir::new();
    let marker = data.path().join(".k3-cluster");
    let text = r#"{"format": 2, "needs": "3.1.0", "members": []}"#;
    fs::write(&marker, text).unwrap();
    let mut start = k3(&["cluster", "start", "--dir"]);
    start.arg(data.path());
    let (code, _, errors) = outcome(&mut start);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("it needs k3 3.1.0 or newer"), "{errors}");
    assert_eq!(fs::read_to_string(&marker).unwrap(), text);
}
