//! A server, and kubectl for it.

use std::{
    fs,
    io::{BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Server, TestDataDir, k3, outcome};

/// A server in memory whose namespace `default` has a service account. Controllers run only on request.
pub(crate) struct TestCluster {
    server: Server,
    data: TestDataDir,
}

/// A running kubectl, killed on drop.
pub(crate) struct RunningKubectl {
    child: std::process::Child,
    pub(crate) lines: BufReader<std::process::ChildStdout>,
}

// --- TestCluster ---

impl TestCluster {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further flags.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::start_on(TestDataDir::new(), flags)
    }

    /// Starts a server without preparing the namespace, because it rejects kubectl.
    pub(crate) fn refusing(flags: &[&str]) -> Self {
        let data = TestDataDir::new();
        let server = data.start(&[&["--storage=memory"], flags].concat());
        Self { server, data }
    }

    /// Starts a server on a data directory.
    pub(crate) fn start_on(data: TestDataDir, flags: &[&str]) -> Self {
        let server = data.start(&[&["--storage=memory", "--controllers="], flags].concat());
        assert_ne!(server.port(), 0);
        let cluster = Self { server, data };
        // Stands in for the service account controller.
        cluster.kubectl("create serviceaccount default");
        cluster
    }

    /// The same with controllers, a scheduler and so many nodes that are simulated.
    pub(crate) fn with_nodes(count: u32) -> Self {
        let data = TestDataDir::new();
        let server = data.start(&["--storage=memory", &format!("--simulated-nodes={count}")]);
        let cluster = Self { server, data };
        cluster.kubectl("wait --for=create serviceaccount/default --timeout=60s");
        cluster
    }

    /// A server with controllers, a scheduler and a node whose containers a runtime of this machine runs.
    ///
    /// However full the disk of this machine is: nothing is thrown off the node, and no image away.
    pub(crate) fn with_runtime(data: TestDataDir, node: &str, (runtime, socket): (&str, &Path)) -> Self {
        let mut command = k3(&["start", "--secure-port=0", "--node-port=0", "--data-dir"]);
        command.arg(data.path());
        command.args(["--node-name", node, "--runtime", runtime, "--runtime-endpoint"]);
        command.arg(socket).args([
            "--eviction-hard=memory.available<1Mi",
            "--image-gc-high-threshold=100",
        ]);
        let server = data.serve(command);
        Self { server, data }
    }

    /// Ends the server at once, as a crash does, and gives its directory back.
    pub(crate) fn kill(self) -> TestDataDir {
        self.server.end_by(Signal::KILL);
        self.data
    }

    /// Runs kubectl, which must succeed, and returns what it prints. Arguments are separated by spaces.
    pub(crate) fn kubectl(&self, line: &str) -> String {
        self.kubectl_with(&line.split(' ').collect::<Vec<_>>())
    }

    /// As [`TestCluster::kubectl`], with arguments that may hold spaces.
    pub(crate) fn kubectl_with(&self, args: &[&str]) -> String {
        let (code, output, errors) = outcome(self.command().args(args));
        assert_eq!(
            code,
            Some(0),
            "kubectl {args:?}: {output}{errors}\n{}",
            self.data.log()
        );
        output
    }

    /// Runs kubectl, which must fail, and returns its exit code and output.
    pub(crate) fn kubectl_error(&self, line: &str) -> (i32, String) {
        let (code, output, errors) = outcome(self.command().args(line.split(' ')));
        assert_ne!(code, Some(0), "kubectl {line}: {output}{errors}");
        (code.unwrap(), output + &errors)
    }

    /// An object as the server has it.
    pub(crate) fn get(&self, what: &str) -> Value {
        let text = self.kubectl(&format!("get {what} -o json --show-managed-fields"));
        serde_json::from_str(&text).unwrap()
    }

    /// A kubectl command with a bearer token and no other credentials.
    pub(crate) fn bearer(&self, token: &str) -> Command {
        let text = fs::read_to_string(&self.server.kubeconfig).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.contains("client-key-data"));
        for line in &mut lines {
            if line.contains("client-certificate-data") {
                *line = format!("    token: {token}");
            }
        }
        let path = self.file("bearer.kubeconfig", &lines.join("\n"));
        let mut command = self.command();
        command.env("KUBECONFIG", path);
        command
    }

    /// A call of `k3 token` that knows this server and no other.
    pub(crate) fn token(&self, line: &str) -> Command {
        let mut command = self.k3_command_for("token");
        command.args(line.split(' '));
        command
    }

    /// A call of a command of `k3` that knows this server and no other.
    pub(crate) fn k3_command_for(&self, name: &str) -> Command {
        let mut command = k3(&[name]);
        command
            .env("KUBECONFIG", &self.server.kubeconfig)
            .env("HOME", self.data.path());
        command
    }

    /// The path of a file that was made for kubectl.
    pub(crate) fn path(&self, name: &str) -> String {
        self.data.path().join(name).display().to_string()
    }

    /// What the server wrote to its log.
    pub(crate) fn log(&self) -> String {
        self.data.log()
    }

    /// The file of the administrator.
    pub(crate) fn kubeconfig(&self) -> String {
        fs::read_to_string(&self.server.kubeconfig).unwrap()
    }

    /// Stops the server and waits for its exit.
    pub(crate) fn stop(self) -> ExitStatus {
        self.server.end_by(Signal::TERM)
    }

    /// A file for kubectl to read.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.data.path().join(name);
        fs::File::create(&path)
            .unwrap()
            .write_all(content.as_bytes())
            .unwrap();
        path
    }

    /// Starts a kubectl that prints until it is dropped.
    pub(crate) fn follow(&self, line: &str) -> RunningKubectl {
        let mut child = self
            .command()
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        RunningKubectl {
            lines: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// A call of kubectl that knows this server and no other, and keeps what it caches in the test's directory.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("kubectl");
        command
            .env("KUBECONFIG", &self.server.kubeconfig)
            .env("HOME", self.data.path())
            .env_remove("KUBECACHEDIR")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for RunningKubectl {
    fn drop(&mut self) {
        // Best effort: it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pod that needs nothing.
pub(crate) const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - name: web
    image: nginx:1.27
";
