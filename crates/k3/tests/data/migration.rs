//! `k3 migrate`.

use rustix::process::Signal;

use crate::{
    cluster::{client, create, read},
    program::{TestDataDir, k3, outcome},
};

fn migrate(from: &str, to: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = k3(&["migrate", "--from", from, "--to", to]);
    outcome(command.args(more))
}

#[tokio::test]
async fn migrates_objects_between_all_stores() {
    let first = TestDataDir::new();
    let last = TestDataDir::new();
    let server = first.start(&["--controllers="]);
    let made = create(&client(&server.kubeconfig).await, "kept").await;
    let from = format!("file:{}", first.path().display());
    let name = format!("migration-{}", std::process::id());
    let etcd = k3_test_services::etcd().replace("http://", "etcd://");
    let etcd = format!("{etcd}?prefix=/{name}/");
    let (code, _, errors) = migrate(&from, &etcd, &[]);
    assert!(code == Some(1) && errors.contains("in use"), "{errors}");
    server.end_by(Signal::TERM);

    let mysql = format!("{}/{}", k3_test_services::mysql(), name.replace('-', "_"));
    let back = format!("file:{}", last.path().display());
    for (from, to) in [(&from, &etcd), (&etcd, &mysql), (&mysql, &back)] {
        let (code, output, errors) = migrate(from, to, &[]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            output.starts_with("copied ") && output.contains("compared"),
            "{output}"
        );
    }
    let (code, _, errors) = migrate(&etcd, &mysql, &[]);
    assert!(code == Some(1) && errors.contains("--force"), "{errors}");
    let (code, _, errors) = migrate(&from, &mysql, &["--force"]);
    assert_eq!(code, Some(0), "{errors}");

    let server = last.start(&["--controllers="]);
    let admin = client(&server.kubeconfig).await;
    let (uid, revision) = read(&admin, "kept").await;
    assert_eq!(uid, made.0);
    assert!(create(&admin, "later").await.1 > revision.max(made.1));
}

#[test]
fn rejects_a_missing_source() {
    let data = TestDataDir::new();
    let to = format!("file:{}", data.path().display());
    let (code, _, errors) = migrate("file:/nowhere/at/all", &to, &[]);
    assert!(code == Some(1) && errors.contains("no store"), "{errors}");
    let (code, _, errors) = migrate("memory:", &to, &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(!data.path().join("objects").exists());
}
