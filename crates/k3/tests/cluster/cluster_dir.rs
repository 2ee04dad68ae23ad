//! A directory for clusters, with commands that run in it. Everything is removed at the end.

use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use k3_test_services::{TEST_ETCD_IMAGE, docker, free_port};
use tempfile::TempDir;

pub(crate) struct ClusterDir(TempDir);

/// The exit code, standard output and standard error of a command.
pub(crate) type CommandOutput = (Option<i32>, String, String);

// --- ClusterDir ---

impl ClusterDir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The default directory of the cluster.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path().join(".k3")
    }

    /// A program with a separate list of clusters and a clean environment. Its nodes ignore disk pressure.
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("K3_NODE_EVICTION_HARD", "memory.available<1Mi")
            .env("K3_NODE_IMAGE_GC_HIGH_THRESHOLD", "100")
            .env("K3_DATABASE_ETCD_IMAGE", TEST_ETCD_IMAGE)
            .env_remove("NODE_NAME")
            .env_remove("CONFIG_PATH")
            .env_remove("KUBECONFIG");
        command
    }

    /// Runs `k3 cluster` with these arguments.
    pub(crate) fn cluster(&self, line: &str) -> CommandOutput {
        self.run_with_input(line, "")
    }

    /// Like `cluster`, with standard input.
    pub(crate) fn run_with_input(&self, line: &str, input: &str) -> CommandOutput {
        let mut command = self.program(env!("CARGO_BIN_EXE_k3"));
        command.arg("cluster").args(line.split_whitespace());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that asks no question does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Creates a cluster on Docker with unused ports.
    pub(crate) fn create(&self, nodes: u16, storage: &str) {
        self.run_ok(&format!(
            "create --nodes {nodes} --storage {storage} --api-port {} --node-port {} --database-port {} \
             --runtime docker --runtime-endpoint {}",
            free_port().unwrap(),
            free_ports(nodes),
            free_ports(2),
            docker().display()
        ));
    }

    /// Runs kubectl and returns its output.
    pub(crate) fn kubectl(&self, line: &str) -> String {
        let mut command = self.program("kubectl");
        command.env(
            "KUBECONFIG",
            self.directory().join("node-1/data/admin.kubeconfig"),
        );
        let output = command.args(line.split_whitespace()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{line}: {}{}",
            text(&output.stderr),
            self.logs()
        );
        text(&output.stdout)
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn run_ok(&self, line: &str) -> String {
        let (code, output, errors) = self.cluster(line);
        assert_eq!(code, Some(0), "{line}: {output}{errors}{}", self.logs());
        output
    }

    /// The logs of the nodes.
    fn logs(&self) -> String {
        let read = |file: &str| fs::read_to_string(self.directory().join(file)).unwrap_or_default();
        let both = |number| read(&format!("node-{number}/output")) + &read(&format!("node-{number}/log"));
        (1..=3).map(both).collect()
    }
}

impl Drop for ClusterDir {
    fn drop(&mut self) {
        if self.directory().exists() {
            self.cluster("clear --force");
        }
    }
}

/// Returns the first of `count` consecutive free ports.
pub(crate) fn free_ports(count: u16) -> u16 {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut ports = std::iter::repeat_with(|| free_port().unwrap());
    ports
        .find(|first| (1..count).all(|more| first.checked_add(more).is_some_and(is_free)))
        .unwrap()
}
