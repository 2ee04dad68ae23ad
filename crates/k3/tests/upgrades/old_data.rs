//! Data of commit 6ea0c3a opens with this version, on every store, with everything in it.

use std::{fs, process::Command};

use kube::config::Kubeconfig;
use rustix::process::Signal;

use crate::{
    expectations::check,
    fixture::{FixtureStore, OldClients, load_etcd, load_mysql, path, unpack},
    program::{TestDataDir, k3, outcome},
};

/// Starts this version twice: what the first start changes, the second one must read.
async fn check_starts(data: &TestDataDir, store_kind: FixtureStore, args: &[&str]) {
    let old_clients = OldClients::of(store_kind);
    // No controllers: what is stored is looked at as it was.
    let args = [&["--controllers="], args].concat();
    for signal in [Signal::KILL, Signal::TERM] {
        let server = data.start(&args);
        check(&old_clients, Kubeconfig::read_from(&server.kubeconfig).unwrap()).await;
        reset(&server.kubeconfig);
        server.end_by(signal);
    }
}

/// Undoes what the check wrote, for the next one.
fn reset(kubeconfig: &std::path::Path) {
    let (code, _, errors) = outcome(Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args([
        "-n",
        "app",
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"color":"green"}}"#,
    ]));
    assert_eq!(code, Some(0), "{errors}");
}

#[tokio::test]
async fn a_data_directory_opens() {
    let data = TestDataDir::new();
    unpack("file.tar.gz", data.path());
    check_starts(&data, FixtureStore::File, &[]).await;
    // Everything that is kept carries a format from now on.
    let format = fs::read_to_string(data.path().join("format")).unwrap();
    assert!(format.starts_with("format=1 "), "{format}");
}

/// By a server that has nothing but the store: the keys come from there.
#[tokio::test]
async fn the_content_of_an_etcd_opens() {
    let etcd = k3_test_services::Etcd::start().unwrap();
    load_etcd(&etcd.endpoint());
    let data = TestDataDir::new();
    let endpoint = etcd.endpoint();
    check_starts(
        &data,
        FixtureStore::Etcd,
        &["--storage=etcd", "--etcd-servers", &endpoint],
    )
    .await;
}

#[tokio::test]
async fn the_content_of_a_mysql_opens() {
    let database = k3_test_services::MariaDb::start().unwrap();
    let data = TestDataDir::new();
    load_mysql(&database.url(), "k3", data.path());
    let url = format!("{}/k3", database.url());
    check_starts(
        &data,
        FixtureStore::Mysql,
        &["--storage=mysql", "--mysql-url", &url],
    )
    .await;
}

/// With the controllers that run by default: they continue what those of the old version did.
#[tokio::test]
async fn controllers_keep_what_they_find() {
    let data = TestDataDir::new();
    unpack("file.tar.gz", data.path());
    let old_clients = OldClients::of(FixtureStore::File);
    let server = data.start(&["--simulated-nodes=1"]);
    check(&old_clients, Kubeconfig::read_from(&server.kubeconfig).unwrap()).await;
}

#[test]
fn a_snapshot_restores() {
    let data = TestDataDir::new();
    let file = data.path().join("snapshot.k3");
    let unpacked = Command::new("gzip")
        .arg("-dc")
        .arg(path("snapshot.k3.gz"))
        .output()
        .unwrap();
    fs::write(&file, unpacked.stdout).unwrap();
    let mut restore = k3(&["snapshot", "restore"]);
    restore.arg(&file).arg("--data-dir").arg(data.path());
    let (code, _, errors) = outcome(&mut restore);
    assert_eq!(code, Some(0), "{errors}");
    let server = data.start(&["--controllers="]);
    let (code, output, errors) = outcome(
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&server.kubeconfig)
            .args(["-n", "app", "get", "pod", "web", "-o", "name"]),
    );
    assert_eq!((code, output.trim()), (Some(0), "pod/web"), "{errors}");
}
