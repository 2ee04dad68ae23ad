//! Processes beside a server, and what is asked of a server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use kubecontroller::testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{k3, outcome};

/// A process that ends with this.
pub(crate) struct ServerProcess {
    child: Child,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts `k3` with these arguments and writes its log to a directory.
    pub(crate) fn start(directory: &Path, args: &[&str]) -> Self {
        let log = directory.join(format!("{}.log", args[0]));
        Self::of(&mut k3(args), log)
    }

    pub(crate) fn of(command: &mut Command, log: PathBuf) -> Self {
        let file = fs::File::create(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        ServerProcess { child, log }
    }

    /// Ends it in order: its exit code, and its log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, fs::read_to_string(&self.log).unwrap())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Best effort: it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Makes a Deployment of so many pods that never run.
pub(crate) async fn deploy(client: &Client, name: &str, replicas: u32) {
    deploy_as(client, name, replicas, &json!({"name": "c", "image": "i"})).await;
}

/// Makes a Deployment of so many pods with this container.
pub(crate) async fn deploy_as(client: &Client, name: &str, replicas: u32, container: &Value) {
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    let api = Api::<Deployment>::default_namespaced(client.clone());
    api.create(&PostParams::default(), &deployment).await.unwrap();
}

/// A token with which machines join the cluster of an admin.
pub(crate) fn join_token(kubeconfig: &Path) -> String {
    let mut command = k3(&["token", "create", "--join", "--kubeconfig"]);
    let (code, line, errors) = outcome(command.arg(kubeconfig));
    assert_eq!(code, Some(0), "{errors}");
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let ["k3", "node", "--server", _, "--token", token] = arguments[..] else {
        panic!("{line}");
    };
    token.to_owned()
}

/// The arguments of a node without a runtime, so that it registers and is not ready, whatever this machine has.
pub(crate) fn node<'a>(name: &'a str, data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["node", "--node-name", name, "--data-dir", data.to_str().unwrap()];
    args.extend(["--runtime=docker", "--runtime-endpoint=/nowhere", "--node-port=0"]);
    args.extend(more);
    args
}

/// Waits until a node has renewed its lease after now.
pub(crate) async fn wait_for_lease_renewal(client: &Client, node: &str) {
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
    let renewed = async || Some(leases.get_opt(node).await.unwrap()?.spec?.renew_time?.0);
    let before = renewed().await;
    eventually(async || renewed().await > before).await;
}

/// The pods of a Deployment.
pub(crate) async fn pods(client: &Client, name: &str) -> Vec<Pod> {
    let list = ListParams::default().labels(&format!("app={name}"));
    Api::<Pod>::default_namespaced(client.clone())
        .list(&list)
        .await
        .unwrap()
        .items
}

/// Waits until there are so many pods, each on a node.
pub(crate) async fn wait_until_scheduled(client: &Client, name: &str, count: usize) {
    all(client, name, count, |pod| {
        pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
    })
    .await;
}

/// Waits until there are so many pods, each of which runs.
pub(crate) async fn wait_until_running(client: &Client, name: &str, count: usize) {
    all(client, name, count, |pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running")
    })
    .await;
}

async fn all(client: &Client, name: &str, count: usize, condition: impl Fn(&Pod) -> bool) {
    eventually(|| async {
        let pods = pods(client, name).await;
        let right = pods.iter().filter(|pod| condition(pod)).count();
        if right == count && pods.len() == count {
            Ok(())
        } else {
            Err((pods.len(), right))
        }
    })
    .await;
}
