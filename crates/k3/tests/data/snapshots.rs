//! `k3 snapshot`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    cluster::{client, create, read},
    program::{TestDataDir, k3, outcome},
};

fn snapshot(verb: &str, data: &TestDataDir, file: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = k3(&["snapshot", verb]);
    command.arg("--data-dir").arg(data.path()).arg(file).args(more);
    outcome(&mut command)
}

#[tokio::test]
async fn restores_uids_and_continues_revisions() {
    let data = TestDataDir::new();
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("monday.k3");
    let server = data.start(&["--controllers="]);
    let made = create(&client(&server.kubeconfig).await, "kept").await;

    // The running server writes the snapshot.
    let running = files.path().join("running.k3");
    let (code, output, errors) = snapshot("save", &data, &running, &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("verified"), "{output}");
    assert_eq!(
        fs::metadata(&running).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let left = fs::read_dir(data.path()).unwrap().flatten();
    let left: Vec<_> = left
        .filter(|entry| entry.file_name().to_string_lossy().contains("snapshot"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    fs::remove_file(&running).unwrap();
    server.end_by(Signal::TERM);

    let (code, output, errors) = snapshot("save", &data, &file, &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("verified"), "{output}");
    assert!(errors.contains("tls"), "{errors}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 1);
    let (code, _, errors) = snapshot("save", &data, &file, &[]);
    assert!(code == Some(1) && errors.contains("already exists"), "{errors}");

    let report = outcome(k3(&["snapshot", "inspect", "-o", "json"]).arg(&file)).1;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["objects"].as_u64().unwrap() > 10, "{report}");
    assert!(report["revision"].as_u64().unwrap() >= made.1, "{report}");

    fs::remove_dir_all(data.path().join("objects")).unwrap();
    let (code, output, errors) = snapshot("restore", &data, &file, &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("verified"), "{output}");

    let server = data.start(&["--controllers="]);
    let admin = client(&server.kubeconfig).await;
    assert_eq!(read(&admin, "kept").await, made);
    let later = create(&admin, "later").await;
    assert!(later.1 > report["revision"].as_u64().unwrap());
    server.end_by(Signal::TERM);

    // Existing data is replaced only with --force, and its revisions are not reused.
    let (code, _, errors) = snapshot("restore", &data, &file, &[]);
    assert!(code == Some(1) && errors.contains("--force"), "{errors}");
    let (code, _, errors) = snapshot("restore", &data, &file, &["--force"]);
    assert_eq!(code, Some(0), "{errors}");
    let server = data.start(&["--controllers="]);
    let admin = client(&server.kubeconfig).await;
    assert_eq!(read(&admin, "kept").await.0, made.0);
    assert!(create(&admin, "later").await.1 > later.1);
}

/// The bytes of all private keys in a directory: the lines of the PEM files, and what they encode.
fn private_keys(directory: &Path) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "key") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("---")).collect();
        keys.push(STANDARD.decode(lines.concat()).unwrap());
        keys.extend(lines.iter().map(|line| line.as_bytes().to_vec()));
    }
    assert!(keys.len() >= 4);
    keys
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn snapshots_exclude_private_keys_by_default() {
    let data = TestDataDir::new();
    let name = format!("keys-{}", std::process::id());
    let etcd = k3_test_services::etcd();
    let in_etcd = |prefix: &str| {
        [
            "--storage=etcd".to_owned(),
            format!("--etcd-servers={etcd}"),
            format!("--etcd-prefix=/{prefix}/"),
        ]
    };
    let store = in_etcd(&name);
    let store = store.each_ref().map(String::as_str);
    let [first, second, third] = store;
    let server = data.start(&[first, second, third, "--controllers="]);
    let made = create(&client(&server.kubeconfig).await, "kept").await;
    server.end_by(Signal::TERM);

    // A snapshot is not compressed: what is in one of its values is in its bytes.
    let file = data.path().join("without.k3");
    let (code, _, errors) = snapshot("save", &data, &file, &store);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("private keys are not in the snapshot"),
        "{errors}"
    );
    let bytes = fs::read(&file).unwrap();
    assert!(contains(&bytes, made.0.as_bytes()), "objects are in it");
    assert!(!contains(&bytes, b"PRIVATE KEY"));
    for key in private_keys(&data.path().join("tls")) {
        assert!(!contains(&bytes, &key));
    }
    let with = data.path().join("with.k3");
    let (code, _, errors) = snapshot("save", &data, &with, &[first, second, third, "--include-keys"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("every reader can control the cluster"),
        "{errors}"
    );
    assert!(contains(&fs::read(&with).unwrap(), b"PRIVATE KEY"));

    // A server that has the keys gives them to the store again, and its kubeconfig stays good.
    let other = in_etcd(&format!("{name}-restored"));
    let other = other.each_ref().map(String::as_str);
    let [first, second, third] = other;
    let (code, output, errors) = snapshot("restore", &data, &file, &other);
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("no private keys"), "{output}");
    let before = fs::read(data.path().join("tls/ca.key")).unwrap();
    let server = data.start(&[first, second, third, "--controllers="]);
    assert_eq!(read(&client(&server.kubeconfig).await, "kept").await.0, made.0);
    server.end_by(Signal::TERM);
    assert_eq!(fs::read(data.path().join("tls/ca.key")).unwrap(), before);

    // With the keys of the snapshot, a server with an empty data directory is of the same cluster.
    let (code, output, errors) = snapshot("restore", &data, &with, &[first, second, third, "--force"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(!output.contains("no private keys"), "{output}");
    let empty = TestDataDir::new();
    let server = empty.start(&[first, second, third, "--controllers="]);
    assert_eq!(read(&client(&server.kubeconfig).await, "kept").await.0, made.0);
    server.end_by(Signal::TERM);
    assert_eq!(fs::read(empty.path().join("tls/ca.key")).unwrap(), before);
}

#[test]
fn a_damaged_snapshot_changes_nothing() {
    let data = TestDataDir::new();
    data.start(&["--controllers="]).end_by(Signal::TERM);
    let file = data.path().join("a.k3");
    assert_eq!(snapshot("save", &data, &file, &[]).0, Some(0));
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (code, _, errors) = snapshot("restore", &data, &file, &["--force"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("is not a valid snapshot"), "{errors}");
    let again = data.path().join("b.k3");
    assert_eq!(
        snapshot("save", &data, &again, &[]).0,
        Some(0),
        "the store must be as it was"
    );
}

#[test]
fn rejects_missing_and_in_memory_stores() {
    let data = TestDataDir::new();
    let file = data.path().join("a.k3");
    let (code, _, errors) = snapshot("save", &data, &file, &[]);
    assert!(code == Some(1) && errors.contains("no store"), "{errors}");
    let (code, _, errors) = snapshot("save", &data, &file, &["--storage", "memory"]);
    assert!(code == Some(2) && errors.contains("memory"), "{errors}");
}
