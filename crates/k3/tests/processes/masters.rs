//! Several masters on one store.

use std::{collections::BTreeSet, path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use k3_test_services::{TEST_IMAGE, docker, etcd, mysql};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    coordination::v1::Lease,
    core::v1::{Endpoints, Node},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, api::ListParams};
use kubecontroller::testing::{eventually, eventually_within};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    process::{
        ServerProcess, client, deploy, deploy_as, join_token, node, wait_for_lease_renewal,
        wait_until_running, wait_until_scheduled,
    },
    program::{Server, TestDataDir, k3, outcome},
};

/// A lease of a dead master lives for 15 s, and its mark too.
const TAKEOVER: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_second_master_takes_over_after_a_crash() {
    let prefix = format!("/masters-{}/", std::process::id());
    let endpoint = etcd();
    let flags = [
        "--storage=etcd".to_owned(),
        format!("--etcd-servers={endpoint}"),
        format!("--etcd-prefix={prefix}"),
    ];
    let flags: Vec<&str> = flags
        .iter()
        .map(String::as_str)
        .chain(["--simulated-nodes=2"])
        .collect();
    let [first, second] = [(); 2].map(|()| TestDataDir::new());
    let leader = first.start(&flags);
    let of_leader = client(&leader.kubeconfig).await;
    deploy(&of_leader, "one", 3).await;
    wait_until_scheduled(&of_leader, "one", 3).await;
    let follower = second.start(&flags);
    // A certificate of one is good at the other.
    let crossed = crossed(&leader, &follower, &second).await;
    deploy(&crossed, "two", 3).await;
    wait_until_scheduled(&crossed, "two", 3).await;
    let before = holder(&crossed).await;
    leader.end_by(Signal::KILL);
    deploy(&crossed, "three", 3).await;
    wait_until_scheduled(&crossed, "three", 3).await;
    wait_until_scheduled(&crossed, "one", 3).await;
    assert_ne!(holder(&crossed).await, before);
}

#[tokio::test]
async fn two_masters_and_two_nodes_survive_the_leader() {
    let url = format!("{}/masters_{}", mysql(), std::process::id());
    let [first, second] = [(); 2].map(|()| TestDataDir::new());
    let leader = master(&first, &url, "192.0.2.1");
    let of_leader = client(&leader.kubeconfig).await;
    eventually(async || holder(&of_leader).await.is_some()).await;
    let other = master(&second, &url, "192.0.2.2");
    let of_other = client(&other.kubeconfig).await;
    eventually(async || servers(&of_other).await.len() == 2).await;

    let token = join_token(&leader.kubeconfig);
    let at = [&leader, &other]
        .map(|server| format!("https://127.0.0.1:{}", server.port()))
        .join(",");
    let machines = [(); 2].map(|()| TestDataDir::new());
    let names = ["runs", "rests"].map(|name| format!("{name}-{}", std::process::id()));
    let joined = ["--server", &at, "--token", &token];
    let mut with_docker = k3(&["node", "--runtime=docker", "--node-port=0", "--runtime-endpoint"]);
    with_docker
        .arg(docker())
        .args([
            "--image-gc-high-threshold=100",
            "--eviction-hard=memory.available<1Mi",
        ])
        .args(["--node-name", &names[0], "--data-dir"])
        .arg(machines[0].path())
        .args(joined);
    let _runs = ServerProcess::of(&mut with_docker, machines[0].path().join("log"));
    let _rests = ServerProcess::start(machines[1].path(), &node(&names[1], machines[1].path(), &joined));
    let sleeps =
        json!({"name": "c", "image": TEST_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "600"]});
    deploy_as(&of_other, "one", 2, &sleeps).await;
    wait_until_running(&of_other, "one", 2).await;
    assert_eq!(replica_sets(&of_other).await, 1);
    let nodes = Api::<Node>::all(of_other.clone());
    for name in &names {
        eventually(async || nodes.get_opt(name).await.unwrap().is_some()).await;
    }

    let before = holder(&of_other).await;
    leader.end_by(Signal::KILL);
    deploy_as(&of_other, "two", 2, &sleeps).await;
    // It is made by the other master, and run by a node that was a client of the dead one.
    wait_until_running(&of_other, "two", 2).await;
    wait_until_running(&of_other, "one", 2).await;
    assert_ne!(holder(&of_other).await, before);
    assert_eq!(replica_sets(&of_other).await, 2);
    for name in &names {
        wait_for_lease_renewal(&of_other, name).await;
    }
    let left = BTreeSet::from(["192.0.2.2".to_owned()]);
    eventually_within(TAKEOVER, async || servers(&of_other).await == left).await;

    let again = master(&first, &url, "192.0.2.1");
    eventually(async || servers(&of_other).await.len() == 2).await;
    // Who ends in order is gone at once.
    again.end_by(Signal::TERM);
    assert_eq!(servers(&of_other).await, left);
}

/// A master that is advertised at an address and listens on loopback only.
fn master(data: &TestDataDir, mysql: &str, address: &str) -> Server {
    let mut command = k3(&["run", "--role=master", "--secure-port=0", "--data-dir"]);
    command
        .arg(data.path())
        .args(["--advertise-address", address, "--storage=mysql"])
        .env("K3_MYSQL_URL", mysql);
    data.serve(command)
}

/// The holder of the controllers' lease.
async fn holder(client: &Client) -> Option<String> {
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
    let lease = leases.get_opt("kube-controller-manager").await.unwrap()?;
    lease.spec?.holder_identity
}

/// The servers that the endpoints name, and the slices as well.
async fn servers(client: &Client) -> BTreeSet<String> {
    let endpoints = Api::<Endpoints>::default_namespaced(client.clone());
    let endpoints = endpoints.get("kubernetes").await.unwrap();
    let subsets = endpoints.subsets.into_iter().flatten();
    let named = subsets.flat_map(|subset| subset.addresses.into_iter().flatten());
    let named: BTreeSet<String> = named.map(|address| address.ip).collect();
    let slices = Api::<EndpointSlice>::default_namespaced(client.clone());
    let of_service = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = slices.list(&of_service).await.unwrap();
    let endpoints = slices
        .items
        .into_iter()
        .flat_map(|slice| slice.endpoints.into_iter().flatten());
    let sliced: BTreeSet<String> = endpoints.flat_map(|endpoint| endpoint.addresses).collect();
    named.intersection(&sliced).cloned().collect()
}

async fn replica_sets(client: &Client) -> usize {
    let sets = Api::<ReplicaSet>::default_namespaced(client.clone());
    sets.list(&ListParams::default()).await.unwrap().items.len()
}

#[tokio::test]
async fn a_rotation_reaches_other_masters_and_nodes() {
    let prefix = format!("/rotation-{}/", std::process::id());
    let flags = [
        "--storage=etcd".to_owned(),
        format!("--etcd-servers={}", etcd()),
        format!("--etcd-prefix={prefix}"),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let [first, second, machine] = [(); 3].map(|()| TestDataDir::new());
    let here = first.start(&flags);
    let there = second.start(&flags);
    let token = join_token(&here.kubeconfig);
    let at = format!("https://127.0.0.1:{}", here.port());
    let name = format!("rotated-{}", std::process::id());
    let joined = node(&name, machine.path(), &["--server", &at, "--token", &token]);
    let _node = ServerProcess::start(machine.path(), &joined);
    wait_for_lease_renewal(&client(&here.kubeconfig).await, &name).await;

    certs(&first, &["rotate"]);
    let identity = machine.path().join("node/pki/identity.json");
    for file in [&here.kubeconfig, &there.kubeconfig, &identity] {
        eventually_within(TAKEOVER, async || authorities(file) == 2).await;
    }
    // What the first one signs now, the second one believes, and the other way round.
    for (of, at) in [(&here, &there), (&there, &here)] {
        let crossed = crossed(of, at, &machine).await;
        eventually(async || crossed.apiserver_version().await.is_ok()).await;
    }
    certs(&first, &["rotate", "--finish"]);
    for file in [&here.kubeconfig, &there.kubeconfig, &identity] {
        eventually_within(TAKEOVER, async || authorities(file) == 1).await;
    }
    wait_for_lease_renewal(&client(&there.kubeconfig).await, &name).await;
    // A machine whose directory was changed by the others starts as if nothing had been.
    there.end_by(Signal::TERM);
    let there = second.start(&flags);
    wait_for_lease_renewal(&client(&there.kubeconfig).await, &name).await;
}

fn certs(data: &TestDataDir, args: &[&str]) {
    let mut command = k3(&["certs"]);
    let (code, _, errors) = outcome(command.args(args).arg("--data-dir").arg(data.path()));
    assert_eq!(code, Some(0), "{errors}");
}

/// How many authorities a kubeconfig, or the identity of a node, trusts.
fn authorities(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let encoded = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
    let pem = if let Some(encoded) = encoded {
        String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
    } else {
        let identity: serde_json::Value = serde_json::from_str(&text).unwrap();
        identity["authority"].as_str().unwrap().to_owned()
    };
    pem.matches("BEGIN CERTIFICATE").count()
}

/// The admin of one server at another.
async fn crossed(of: &Server, at: &Server, directory: &TestDataDir) -> Client {
    let text = std::fs::read_to_string(&of.kubeconfig).unwrap();
    let [from, to] = [of, at].map(|server| format!("https://127.0.0.1:{}", server.port()));
    let file = directory.path().join("crossed");
    std::fs::write(&file, text.replace(&from, &to)).unwrap();
    client(&file).await
}
