//! A container runtime for one test. The databases of the test are removed at the end.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
};

use k3_node::runtime::docker::{DockerRuntime, ServiceContainer, ServiceContainerSpec};
use k3_test_services::{TEST_ETCD_IMAGE, TEST_MYSQL_IMAGE, find_program, free_port, load_database_images};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;

use crate::program::{Server, TestDataDir, outcome};

/// The label by which databases of one instance are found.
const INSTANCE: &str = "k3.io/database-instance";

pub(crate) struct DatabaseTest {
    socket: PathBuf,
    runtime: &'static str,
    pub(crate) engine: DockerRuntime,
    /// Suffix of container names, because other tests use the same runtime.
    pub(crate) instance: String,
    /// A free port; the next one is free too.
    pub(crate) port: u16,
    pub(crate) waits: Runtime,
}

// --- DatabaseTest ---

impl DatabaseTest {
    pub(crate) fn new(runtime: &'static str, socket: &Path) -> Self {
        load_database_images(socket).unwrap();
        let waits = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let engine = waits
            .block_on(DockerRuntime::connect_without_owner(socket))
            .unwrap();
        let port = free_pair();
        DatabaseTest {
            socket: socket.to_path_buf(),
            runtime,
            engine,
            instance: format!("test-{}-{port}", std::process::id()),
            port,
            waits,
        }
    }

    /// The flags of a start with an etcd of this machine.
    pub(crate) fn etcd(&self, more: &[&str]) -> Vec<String> {
        let endpoint = format!("http://localhost:{}", self.port);
        let store = [
            "--storage",
            "etcd",
            "--etcd-servers",
            &endpoint,
            "--etcd-image",
            TEST_ETCD_IMAGE,
        ];
        self.flags(&store, more)
    }

    /// The flags of a start with a MySQL on this machine.
    pub(crate) fn mysql(&self, login: &str) -> Vec<String> {
        let url = format!("mysql://{login}@127.0.0.1:{}/k3", self.port);
        let store = [
            "--storage",
            "mysql",
            "--mysql-url",
            &url,
            "--mysql-image",
            TEST_MYSQL_IMAGE,
        ];
        self.flags(&store, &[])
    }

    /// The flags that all have, with others, and then with `more`, which takes the place of those before.
    fn flags(&self, store: &[&str], more: &[&str]) -> Vec<String> {
        let socket = self.socket.to_str().unwrap();
        let own = [
            "--database-instance",
            &self.instance,
            "--runtime",
            self.runtime,
            "--runtime-endpoint",
            socket,
        ];
        let pairs = [&own, store].concat();
        let remaining = pairs.chunks(2).filter(|pair| !more.contains(&pair[0])).flatten();
        let sets_autostart = more.iter().any(|word| word.starts_with("--database-autostart"));
        let on = (!sets_autostart).then_some(&"--database-autostart");
        let all = on.into_iter().chain(remaining).chain(more);
        all.map(|word| (*word).to_owned()).collect()
    }

    /// The container name of a database.
    pub(crate) fn name(&self, database: &str) -> String {
        format!("k8s_storage_{database}_{database}_{}", self.instance)
    }

    pub(crate) fn container(&self, name: &str) -> Option<ServiceContainer> {
        self.waits.block_on(self.engine.service_container(name)).unwrap()
    }

    /// Kills the program of a container, as a crash would.
    pub(crate) fn crash(&self, name: &str) {
        let mut docker = Command::new(find_program("docker").unwrap());
        docker.args(["--host", &format!("unix://{}", self.socket.display())]);
        let (code, pid, errors) = outcome(docker.args(["inspect", "--format", "{{.State.Pid}}", name]));
        assert_eq!(code, Some(0), "{errors}");
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// Runs a container of the test's own.
    pub(crate) fn run(&self, service: &ServiceContainerSpec) -> String {
        self.waits
            .block_on(self.engine.run_service_container(service))
            .unwrap()
    }

    pub(crate) fn remove(&self, id: &str) {
        self.waits
            .block_on(self.engine.remove_service_container(id))
            .unwrap();
    }
}

impl Drop for DatabaseTest {
    fn drop(&mut self) {
        // Best effort: a test that failed may have left anything.
        self.waits.block_on(async {
            let left = self
                .engine
                .list_containers_with_label(INSTANCE, &self.instance)
                .await;
            for id in left.unwrap_or_default() {
                let _ = self.engine.remove_service_container(&id).await;
            }
            let _ = self
                .engine
                .remove_volumes_with_label(INSTANCE, &self.instance)
                .await;
        });
    }
}

/// Starts a server, and waits until it serves.
pub(crate) fn start(data: &TestDataDir, flags: &[String]) -> Server {
    data.start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Starts a server that must fail, and returns the error.
pub(crate) fn start_error(data: &TestDataDir, flags: &[String]) -> String {
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let (code, _, errors) = outcome(&mut data.command(&flags));
    assert_eq!(code, Some(1), "{errors}");
    errors
}

/// Runs kubectl and returns its output.
pub(crate) fn kubectl(server: &Server, line: &str) -> String {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(&server.kubeconfig);
    let (code, output, errors) = outcome(command.args(line.split_whitespace()));
    assert_eq!(code, Some(0), "{line}: {errors}");
    output
}

fn free_pair() -> u16 {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut ports = std::iter::repeat_with(|| free_port().unwrap());
    ports.find(|port| is_free(port + 1)).unwrap()
}
