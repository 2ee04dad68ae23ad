//! The container runtimes, and a cluster with a node on one of them.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use k3_test_services::{TEST_IMAGE, find_program};
use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};

use crate::{
    cluster::TestCluster,
    program::{TestDataDir, outcome},
};

/// Timeout of any operation.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A runtime that runs on this machine.
pub(crate) struct RuntimeEnvironment {
    pub(crate) name: &'static str,
    pub(crate) socket: &'static Path,
}

/// A cluster with one node, and a namespace that no other test has: others use the same runtime.
pub(crate) struct PodTestEnvironment {
    pub(crate) cluster: TestCluster,
    /// The namespace, and the name of the node.
    pub(crate) name: String,
}

pub(crate) fn docker() -> RuntimeEnvironment {
    RuntimeEnvironment {
        name: "docker",
        socket: k3_test_services::docker(),
    }
}

pub(crate) fn podman() -> RuntimeEnvironment {
    RuntimeEnvironment {
        name: "podman",
        socket: k3_test_services::podman(),
    }
}

pub(crate) fn containerd() -> RuntimeEnvironment {
    RuntimeEnvironment {
        name: "containerd",
        socket: k3_test_services::containerd(),
    }
}

// --- RuntimeEnvironment ---

impl RuntimeEnvironment {
    /// A new cluster on it.
    pub(crate) fn pod_environment(&self) -> PodTestEnvironment {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{count}", self.name, std::process::id());
        let pod_environment = PodTestEnvironment {
            cluster: TestCluster::with_runtime(TestDataDir::new(), &name, (self.name, self.socket)),
            name,
        };
        pod_environment.is_ready();
        pod_environment
            .cluster
            .kubectl(&format!("create namespace {}", pod_environment.name));
        pod_environment.kubectl("wait --for=create serviceaccount/default --timeout=120s");
        pod_environment
    }

    /// The names of what a Docker or a Podman runs of a namespace, sorted; `None` where names are not ours to choose.
    pub(crate) fn containers(&self, namespace: &str) -> Option<Vec<String>> {
        let client = match self.name {
            "docker" => "docker",
            "podman" => "podman",
            _ => return None,
        };
        let mut command = Command::new(find_program(client).unwrap());
        let at = format!("unix://{}", self.socket.display());
        match client {
            "docker" => command.args(["--host", &at]),
            _ => command.args(["--remote", "--url", &at]),
        };
        let (code, names, errors) = outcome(command.args(["ps", "--format", "{{.Names}}"]));
        assert_eq!(code, Some(0), "{errors}");
        let prefix = format!("k8s_{namespace}_");
        let mut names: Vec<_> = names
            .lines()
            .filter(|name| name.starts_with(&prefix))
            .map(str::to_owned)
            .collect();
        names.sort();
        Some(names)
    }

    /// Waits until these are what a Docker or a Podman runs of a namespace: its list has what ended a little longer.
    pub(crate) fn wait_until_containers_are(&self, namespace: &str, expected: &[String]) {
        let same = eventually_within(TIMEOUT, async || match self.containers(namespace) {
            Some(names) if names != expected => Err(names),
            _ => Ok(()),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(same);
    }
}

// --- PodTestEnvironment ---

impl PodTestEnvironment {
    /// Waits until the node is ready.
    pub(crate) fn is_ready(&self) {
        let node = format!("node/{}", self.name);
        self.cluster
            .kubectl(&format!("wait --for=create {node} --timeout=120s"));
        self.cluster
            .kubectl(&format!("wait --for=condition=Ready {node} --timeout=120s"));
    }

    /// Kills the server and starts it again.
    pub(crate) fn crash(self, environment: &RuntimeEnvironment) -> Self {
        let data = self.cluster.kill();
        PodTestEnvironment {
            cluster: TestCluster::with_runtime(data, &self.name, (environment.name, environment.socket)),
            name: self.name,
        }
    }

    /// Runs kubectl in the namespace, which must succeed. Arguments are separated by spaces.
    pub(crate) fn kubectl(&self, line: &str) -> String {
        self.kubectl_with(&line.split(' ').collect::<Vec<_>>())
    }

    /// As [`PodTestEnvironment::kubectl`], with arguments that may hold spaces.
    pub(crate) fn kubectl_with(&self, args: &[&str]) -> String {
        self.cluster
            .kubectl_with(&[&["--namespace", &self.name], args].concat())
    }

    /// A call of kubectl in the namespace.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.cluster.command();
        command.args(["--namespace", &self.name]).args(args);
        command
    }

    /// A call of a command of `k3` in the namespace.
    pub(crate) fn k3_command_for(&self, args: &[&str]) -> Command {
        // Arguments after `--` belong to the command in the container.
        let end = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let mut command = self.cluster.k3_command_for(args[0]);
        command.args(&args[1..end]).args(["--namespace", &self.name]);
        command.args(&args[end..]).stdin(Stdio::null());
        command
    }

    /// What a command of `k3` prints, which must succeed. Arguments are separated by spaces.
    pub(crate) fn k3_output(&self, line: &str) -> String {
        let (code, output, errors) = outcome(&mut self.k3_command_for(&line.split(' ').collect::<Vec<_>>()));
        assert_eq!(code, Some(0), "k3 {line}: {output}{errors}");
        output
    }

    /// Applies an object.
    pub(crate) fn apply(&self, object: &Value) {
        let path = self.cluster.file("object.json", &object.to_string());
        self.kubectl(&format!("apply -f {}", path.display()));
    }

    /// Creates a pod that runs a script.
    pub(crate) fn run(&self, name: &str, script: &str) {
        self.apply(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
                "terminationGracePeriodSeconds": 1, "containers": [container("main", script)],
            }}),
        );
    }
}

/// A container of a pod that runs a script in a shell.
pub(crate) fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": TEST_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]})
}
