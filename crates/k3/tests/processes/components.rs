//! A separate API server, controllers and scheduler.

use k8s_openapi::api::core::v1::{Endpoints, Node};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    process::{ServerProcess, client, deploy, pods, wait_for_lease_renewal, wait_until_scheduled},
    program::{TestDataDir, k3},
};

#[tokio::test]
async fn separate_controllers_and_scheduler_create_pods() {
    let data = TestDataDir::new();
    let mut command = k3(&["apiserver", "--storage=memory", "--secure-port=0", "--data-dir"]);
    command.arg(data.path());
    let server = data.serve(command);
    let kubeconfig = server.kubeconfig.to_str().unwrap();
    let client = client(&server.kubeconfig).await;
    deploy(&client, "web", 2).await;
    assert!(pods(&client, "web").await.is_empty());

    let own = TestDataDir::new();
    let args = [
        "controller",
        "--kubeconfig",
        kubeconfig,
        "--controllers=*,-scheduler",
    ];
    let controllers = ServerProcess::start(own.path(), &args);
    let args = ["scheduler", "--kubeconfig", kubeconfig];
    let scheduler = ServerProcess::start(own.path(), &args);
    node(&client).await;
    wait_until_scheduled(&client, "web", 2).await;
    for process in [controllers, scheduler] {
        let (code, log) = process.end();
        assert_eq!(code, Some(0), "{log}");
    }
}

#[tokio::test]
async fn components_with_a_shared_store_use_a_private_server() {
    let url = format!("{}/parts_{}", k3_test_services::mysql(), std::process::id());
    let of_store = |args: &[&str], data: &TestDataDir| {
        let mut command = k3(args);
        command
            .args(["--storage=mysql", "--data-dir"])
            .arg(data.path())
            .env("K3_MYSQL_URL", &url);
        command
    };
    let machines = [(); 3].map(|()| TestDataDir::new());
    // The parts come first, and have the whole store to themselves.
    let start = |args: &[&str], data: &TestDataDir| {
        ServerProcess::of(&mut of_store(args, data), data.path().join("log"))
    };
    let controllers = start(&["controller", "--controllers=*,-scheduler"], &machines[0]);
    let scheduler = start(&["scheduler"], &machines[1]);
    let name = format!("own-{}", std::process::id());
    let own = [
        "node",
        "--node-name",
        &name,
        "--runtime=docker",
        "--runtime-endpoint=/nowhere",
        "--node-port=0",
    ];
    let own = start(&own, &machines[2]);

    let data = TestDataDir::new();
    let args = ["apiserver", "--secure-port=0", "--advertise-address=192.0.2.1"];
    let server = data.serve(of_store(&args, &data));
    let client = client(&server.kubeconfig).await;
    node(&client).await;
    deploy(&client, "web", 2).await;
    wait_until_scheduled(&client, "web", 2).await;
    wait_for_lease_renewal(&client, &name).await;
    // Private servers of components are not published.
    let endpoints = Api::<Endpoints>::default_namespaced(client.clone());
    let named = endpoints.get("kubernetes").await.unwrap().subsets.unwrap();
    assert_eq!(named.len(), 1);
    assert_eq!(named[0].addresses.as_ref().unwrap()[0].ip, "192.0.2.1");
    for process in [controllers, scheduler, own] {
        let (code, log) = process.end();
        assert_eq!(code, Some(0), "{log}");
    }
}

/// Creates a ready node with capacity.
async fn node(client: &kube::Client) {
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "paper"}})).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let capacity = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    let status = json!({"status": {
        "capacity": capacity, "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
    }});
    let status = Patch::Strategic(status);
    nodes
        .patch_status("paper", &PatchParams::default(), &status)
        .await
        .unwrap();
}
