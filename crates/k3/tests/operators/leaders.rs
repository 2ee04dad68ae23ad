//! Two replicas, of which one leads.

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use kubecontroller::testing::eventually;
use rustix::process::Signal;
use serde_json::json;

use crate::{TestCluster, TickerOperator};

/// Whole seconds, as leases have them. A machine that is busy must not make a leader miss its renewal.
const LEASE: i64 = 12;

/// Who worked, in order.
fn workers(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until a file has this many ticks of a process.
async fn ticks(file: &Path, id: u32, count: usize) {
    eventually(|| async {
        let seen = workers(file).iter().filter(|worker| **worker == id).count();
        if seen >= count { Ok(()) } else { Err(seen) }
    })
    .await;
}

async fn lease(cluster: &TestCluster) -> Lease {
    let leases: Api<Lease> = cluster.api();
    leases.list(&ListParams::default()).await.unwrap().items.remove(0)
}

fn replica(cluster: &TestCluster, file: &Path) -> TickerOperator {
    let flags = [
        "--enabled=ticks".to_owned(),
        format!("--ticker.file={}", file.display()),
        "--leader-elect".to_owned(),
        format!("--leader-elect-lease-duration={LEASE}s"),
        "--leader-elect-renew-deadline=10s".to_owned(),
        "--leader-elect-retry-period=500ms".to_owned(),
        "--leader-elect-resource-namespace=default".to_owned(),
        "--log-level=debug".to_owned(),
    ];
    cluster.operator(&flags.each_ref().map(String::as_str))
}

/// A cluster with something to do, and a file for who did it.
async fn start_scenario() -> (TestCluster, tempfile::TempDir, PathBuf) {
    let cluster = TestCluster::start().await;
    let map = json!({"metadata": {"name": "clock", "labels": {"tick": "yes"}}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    cluster
        .api::<ConfigMap>()
        .create(&PostParams::default(), &map)
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ticks");
    (cluster, directory, file)
}

#[tokio::test]
async fn a_killed_leader_is_replaced_when_its_lease_expires() {
    let (cluster, _directory, file) = start_scenario().await;
    let mut first = replica(&cluster, &file);
    ticks(&file, first.id(), 10).await;
    let second = replica(&cluster, &file);
    // Long enough for the second to have begun, had it not waited.
    eventually(|| async { second.log().contains("synced") }).await;
    ticks(&file, first.id(), workers(&file).len() + 50).await;
    assert!(!workers(&file).contains(&second.id()));

    first.end_by(Signal::KILL);
    let before = lease(&cluster).await.spec.unwrap();
    ticks(&file, second.id(), 10).await;
    let after = lease(&cluster).await.spec.unwrap();
    let lost = before.renew_time.unwrap().0;
    let won = after.acquire_time.unwrap().0;
    let gap = won.duration_since(lost).as_secs();
    assert!(gap >= LEASE, "taken over after {gap} s");
    // The lease, a retry, and as much again for a machine that is busy.
    assert!(gap <= 3 * LEASE, "taken over after {gap} s");
    let order = workers(&file);
    let begin = order.iter().position(|worker| *worker == second.id()).unwrap();
    assert!(
        order[begin..].iter().all(|worker| *worker == second.id()),
        "two leaders worked"
    );
}

#[tokio::test]
async fn a_stopped_leader_releases_its_lease() {
    let (cluster, _directory, file) = start_scenario().await;
    let mut first = replica(&cluster, &file);
    ticks(&file, first.id(), 10).await;
    let second = replica(&cluster, &file);
    eventually(|| async { second.log().contains("synced") }).await;
    assert_eq!(first.end_by(Signal::TERM).code(), Some(0));
    ticks(&file, second.id(), 10).await;
    let order = workers(&file);
    let begin = order.iter().position(|worker| *worker == second.id()).unwrap();
    assert!(
        order[begin..].iter().all(|worker| *worker == second.id()),
        "two leaders worked"
    );
}
