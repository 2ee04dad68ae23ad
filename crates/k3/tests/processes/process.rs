//! Processes beside a server, and what is asked of a server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use kubecontroller::testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::program::k3;

/// A process that ends with this.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `k3` with these arguments; its log goes into a folder.
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let log = folder.join(format!("{}.log", args[0]));
        Self::of(&mut k3(args), log)
    }

    pub(crate) fn of(command: &mut Command, log: PathBuf) -> Self {
        let file = fs::File::create(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Process { child, log }
    }

    /// Ends it in order: its exit code, and its log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, fs::read_to_string(&self.log).unwrap())
    }
}

impl Drop for Process {
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

/// Makes a Deployment of so many pods.
pub(crate) async fn deploy(client: &Client, name: &str, replicas: u32) {
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    let api = Api::<Deployment>::default_namespaced(client.clone());
    api.create(&PostParams::default(), &deployment).await.unwrap();
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
pub(crate) async fn placed(client: &Client, name: &str, count: usize) {
    eventually(|| async {
        let pods = pods(client, name).await;
        let nodes = pods.iter().map(|pod| pod.spec.as_ref()?.node_name.clone());
        let placed = nodes.flatten().count();
        if placed == count && pods.len() == count {
            Ok(())
        } else {
            Err((pods.len(), placed))
        }
    })
    .await;
}
