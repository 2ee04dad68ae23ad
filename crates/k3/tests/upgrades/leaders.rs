//! Servers of neighbouring versions on one store: names and records by which they agree do not change.
//!
//! The rule is in docs/decisions/006-upgrades.md. A change here needs an overlap rule there first.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use k3_test_services::Etcd;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    fixture::load_etcd,
    program::{Server, TestDataDir, outcome},
};

const PATIENCE: Duration = Duration::from_mins(2);
const CONTROLLERS: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

#[tokio::test]
async fn respects_the_lease_of_an_old_server_until_its_release() {
    let etcd = Etcd::start().unwrap();
    load_etcd(&etcd.endpoint());
    let first = TestDataDir::new();
    let observer = start(&first, &etcd, "--controllers=");
    // As commit 6ea0c3a writes it while it leads.
    let held = json!({
        "acquireTime": "2026-11-18T13:25:22.050916Z",
        "holderIdentity": "old-server_1",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 4,
        "renewTime": "2026-11-18T13:25:25.050916Z",
    });
    patch(&observer.kubeconfig, &json!({"spec": held}));
    let second = TestDataDir::new();
    let neighbour = start(&second, &etcd, "--controllers=*");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(lease(&neighbour.kubeconfig)["spec"], held, "two leaders");

    // As commit 6ea0c3a releases it.
    let released = json!({"holderIdentity": "", "leaseDurationSeconds": 1});
    patch(&observer.kubeconfig, &json!({"spec": released}));
    let end = Instant::now() + PATIENCE;
    let taken = loop {
        let value = lease(&observer.kubeconfig)["spec"].clone();
        if value["holderIdentity"] != "" {
            break value;
        }
        assert!(Instant::now() < end, "no server takes the lease over: {value}");
        sleep(Duration::from_millis(100)).await;
    };
    check_record(&taken);
    assert_eq!(taken["leaseTransitions"], 5);
}

#[tokio::test]
async fn lease_and_key_names_match_old_servers() {
    let etcd = Etcd::start().unwrap();
    let data = TestDataDir::new();
    let all = start(&data, &etcd, "--controllers=*");
    let other = TestDataDir::new();
    let _scheduler = start(&other, &etcd, "--controllers=scheduler");
    let expected = BTreeSet::from(["kube-controller-manager", "kube-scheduler"].map(str::to_owned));
    let end = Instant::now() + PATIENCE;
    loop {
        let listed = get(
            &all.kubeconfig,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        );
        let names: BTreeSet<_> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        if names == expected {
            break;
        }
        assert!(names.is_subset(&expected), "{names:?}");
        assert!(Instant::now() < end, "not all leases are there: {names:?}");
        sleep(Duration::from_millis(100)).await;
    }
    // Beside the objects: the keys that servers share, and a mark for each server.
    let own = keys(&etcd.endpoint());
    assert!(own.contains("/k3/data//k3/keys"), "{own:?}");
    assert!(
        own.iter().any(|key| key.starts_with("/k3/data//k3/servers/")),
        "{own:?}"
    );
    assert!(
        own.contains("/k3/meta/format") && own.contains("/k3/meta/state"),
        "{own:?}"
    );
}

/// The fields of a record and how they are written, which are those of commit 6ea0c3a and of upstream.
fn check_record(record: &Value) {
    let fields: BTreeSet<_> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "acquireTime",
        "holderIdentity",
        "leaseDurationSeconds",
        "leaseTransitions",
        "renewTime",
    ];
    assert_eq!(fields, BTreeSet::from(expected));
    assert_eq!(record["leaseDurationSeconds"], 15);
    for field in ["acquireTime", "renewTime"] {
        let time = record[field].as_str().unwrap();
        assert!(time.len() == 27 && time.ends_with('Z'), "{time}");
    }
}

fn start(data: &TestDataDir, etcd: &Etcd, controllers: &str) -> Server {
    data.start(&["--storage=etcd", "--etcd-servers", &etcd.endpoint(), controllers])
}

fn lease(kubeconfig: &Path) -> Value {
    get(kubeconfig, CONTROLLERS)
}

fn get(kubeconfig: &Path, path: &str) -> Value {
    let mut kubectl = Command::new("kubectl");
    kubectl
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["get", "--raw", path]);
    let (code, output, errors) = outcome(&mut kubectl);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&output).unwrap()
}

fn patch(kubeconfig: &Path, change: &Value) {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(kubeconfig).args([
        "-n",
        "kube-system",
        "patch",
        "lease",
        "kube-controller-manager",
        "--type=merge",
        "-p",
        &change.to_string(),
    ]);
    let (code, _, errors) = outcome(&mut kubectl);
    assert_eq!(code, Some(0), "{errors}");
}

/// The keys of the store that are not objects.
fn keys(endpoint: &str) -> BTreeSet<String> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let from = STANDARD.encode("/k3/");
    let to = STANDARD.encode("/k30");
    let body = json!({"key": from, "range_end": to, "keys_only": true}).to_string();
    let mut curl = Command::new("curl");
    curl.args(["-fsS", "-d", &body, &format!("{endpoint}/v3/kv/range")]);
    let (code, output, errors) = outcome(curl.stdin(Stdio::null()));
    assert_eq!(code, Some(0), "{errors}");
    let value: Value = serde_json::from_str(&output).unwrap();
    let value = value["kvs"].as_array().unwrap().iter();
    value
        .map(|pair| String::from_utf8(STANDARD.decode(pair["key"].as_str().unwrap()).unwrap()).unwrap())
        .filter(|key| !key.starts_with("/k3/data//registry/"))
        .collect()
}
