//! A server alone, and the parts beside it.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use crate::{
    process::{Process, client, deploy, placed, pods},
    program::{Data, k3},
};

#[tokio::test]
async fn a_server_alone_makes_no_pods_until_controllers_and_a_scheduler_come() {
    let data = Data::new();
    let mut command = k3(&["apiserver", "--storage=memory", "--secure-port=0", "--data-dir"]);
    let mut server = command
        .arg(data.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let _server = Ended(server);
    let kubeconfig = line.trim().strip_prefix("export KUBECONFIG=").unwrap();
    let client = client(kubeconfig.as_ref()).await;
    deploy(&client, "web", 2).await;
    assert!(pods(&client, "web").await.is_empty());

    let own = Data::new();
    let args = [
        "controller",
        "--kubeconfig",
        kubeconfig,
        "--controllers=*,-scheduler",
    ];
    let controllers = Process::start(own.path(), &args);
    let args = ["scheduler", "--kubeconfig", kubeconfig];
    let scheduler = Process::start(own.path(), &args);
    node(&client).await;
    placed(&client, "web", 2).await;
    for process in [controllers, scheduler] {
        let (code, log) = process.end();
        assert_eq!(code, Some(0), "{log}");
    }
}

/// Makes a node that has room, and says that it is ready.
async fn node(client: &kube::Client) {
    use k8s_openapi::api::core::v1::Node;
    use kube::{
        Api,
        api::{Patch, PatchParams, PostParams},
    };
    use serde_json::json;

    let node: Node = serde_json::from_value(json!({"metadata": {"name": "paper"}})).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let room = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
    }});
    let status = Patch::Strategic(status);
    nodes
        .patch_status("paper", &PatchParams::default(), &status)
        .await
        .unwrap();
}

/// A process that ends with this.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Best effort: it may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
