//! `k3 storage`: a database for processes that start none.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use k3_test_services::{docker, podman};
use kubecontroller::testing::eventually;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    host::{DatabaseTest, kubectl},
    program::{TestDataDir, k3, outcome},
};

/// A running `k3 storage`; dropping it stops it.
struct StorageProcess {
    child: Child,
    data: TestDataDir,
}

#[test]
fn the_database_lives_with_its_process_and_restarts_after_a_crash() {
    check_lifecycle(&DatabaseTest::new("docker", docker()));
}

#[test]
fn restarts_with_podman() {
    check_lifecycle(&DatabaseTest::new("podman", podman()));
}

fn check_lifecycle(host: &DatabaseTest) {
    let data = TestDataDir::new();
    let name = host.name("etcd");
    let endpoint = format!("http://localhost:{}", host.port);
    let server = || {
        let mut command = k3(&["apiserver", "--secure-port=0", "--storage=etcd", "--etcd-servers"]);
        command.arg(&endpoint).arg("--data-dir").arg(data.path());
        command
    };
    // `k3 apiserver` starts no database, whatever the settings are.
    let (code, _, errors) = outcome(server().env("K3_DATABASE_AUTOSTART", "true"));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("cannot open the store"), "{errors}");
    assert_eq!(host.container(&name), None);

    let process = StorageProcess::start(host);
    host.waits.block_on(eventually(|| async {
        let log = process.data.log();
        log.contains("store is available").then_some(()).ok_or(log)
    }));
    let server = data.serve(server());
    kubectl(&server, "create configmap kept");
    let id = host.container(&name).unwrap().id;

    host.crash(&name);
    host.waits
        .block_on(eventually(|| async { try_write(&server.kubeconfig) }));
    assert_eq!(host.container(&name).unwrap().id, id);

    let log = process.end();
    assert_eq!(host.container(&name), None, "{log}");
}

/// Tries a write, which needs the store; lists are served from the cache.
fn try_write(kubeconfig: &Path) -> Result<(), String> {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig);
    let (code, _, errors) = outcome(command.args(["annotate", "--overwrite", "configmap/kept", "a=b"]));
    (code == Some(0)).then_some(()).ok_or(errors)
}

// --- StorageProcess ---

impl StorageProcess {
    fn start(host: &DatabaseTest) -> Self {
        let data = TestDataDir::new();
        let log = fs::File::create(data.path().join("log")).unwrap();
        let mut command = k3(&["storage", "--data-dir"]);
        command.arg(data.path()).args(host.etcd(&[]));
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        StorageProcess { child, data }
    }

    /// Stops it and returns its log.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.data.log());
        self.data.log()
    }
}

impl Drop for StorageProcess {
    fn drop(&mut self) {
        // Best effort: it may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
