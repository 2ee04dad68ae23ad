//! A node of its own for each test, with its pods.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use k3_node::{
    PodIdentity,
    runtime::{
        Container, ContainerExit, ContainerId, ContainerOwner, ContainerSpec, ContainerState, LogOptions,
        NamespaceMode, Runtime, SandboxId, SandboxSpec,
    },
};
use k3_test_services::TEST_IMAGE;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::runtimes::RuntimeUnderTest;

/// Limit of every wait. Generous: a loaded machine must not fail tests.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// A node that is connected to a runtime.
pub(crate) struct TestNode {
    pub(crate) runtime_under_test: RuntimeUnderTest,
    pub(crate) owner: ContainerOwner,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// ID of the test image.
    pub(crate) image: String,
    directory: TempDir,
    pods: AtomicU32,
}

/// A pod with its sandbox.
pub(crate) struct Pod {
    pub(crate) spec: SandboxSpec,
    pub(crate) sandbox: SandboxId,
}

// --- TestNode ---

impl TestNode {
    pub(crate) async fn new(runtime_under_test: &RuntimeUnderTest) -> Self {
        let node = format!("node-{:016x}", RandomState::new().hash_one(std::process::id()));
        let owner = ContainerOwner::new(&node, format!("cluster-of-{node}"));
        let runtime = (runtime_under_test.connect)(runtime_under_test.socket, owner.clone()).await;
        let image = runtime
            .image_status(TEST_IMAGE)
            .await
            .unwrap()
            .expect("test images are loaded");
        Self {
            runtime_under_test: *runtime_under_test,
            owner,
            runtime,
            image: image.id,
            directory: tempfile::tempdir().unwrap(),
            pods: AtomicU32::new(0),
        }
    }

    /// Removes everything of this node. A failed test leaves its containers to the end of the runtime.
    pub(crate) async fn remove_all(self) {
        for sandbox in self.runtime.list_pod_sandboxes().await.unwrap() {
            self.runtime.stop_pod_sandbox(&sandbox.id).await.unwrap();
            self.runtime.remove_pod_sandbox(&sandbox.id).await.unwrap();
        }
        assert_eq!(self.runtime.list_pod_sandboxes().await.unwrap(), []);
        assert_eq!(self.runtime.list_containers().await.unwrap(), []);
    }

    /// Opens another connection to the runtime, as `node`.
    pub(crate) async fn connect_as(&self, node: &str) -> Arc<dyn Runtime> {
        self.connect_owner(ContainerOwner::new(node, &self.owner.cluster))
            .await
    }

    /// Opens another connection to the runtime.
    pub(crate) async fn connect_owner(&self, owner: ContainerOwner) -> Arc<dyn Runtime> {
        (self.runtime_under_test.connect)(self.runtime_under_test.socket, owner).await
    }

    /// Spec of a default pod.
    pub(crate) fn pod_spec(&self) -> SandboxSpec {
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        let logs = self.directory.path().join(format!("pod-{number}"));
        std::fs::create_dir_all(&logs).unwrap();
        SandboxSpec {
            pod: PodIdentity {
                namespace: self.owner.node.clone(),
                name: format!("pod-{number}"),
                uid: format!("{}-{number}", self.owner.node),
            },
            hostname: format!("pod-{number}"),
            process: NamespaceMode::Container,
            users: NamespaceMode::Node,
            log_directory: logs,
            ..SandboxSpec::default()
        }
    }

    /// Runs a default pod.
    pub(crate) async fn pod(&self) -> Pod {
        self.run(self.pod_spec()).await
    }

    pub(crate) async fn run(&self, spec: SandboxSpec) -> Pod {
        let sandbox = self.runtime.run_pod_sandbox(&spec).await.unwrap();
        Pod { spec, sandbox }
    }

    /// Spec of a container that runs a script.
    pub(crate) fn script(&self, script: &str) -> ContainerSpec {
        ContainerSpec {
            name: "main".into(),
            image: self.image.clone(),
            user_image: TEST_IMAGE.into(),
            command: ["/bin/sh", "-c"].map(Into::into).into(),
            args: vec![script.into()],
            ..ContainerSpec::default()
        }
    }

    /// Creates and starts a container.
    pub(crate) async fn start(&self, pod: &Pod, spec: &ContainerSpec) -> ContainerId {
        // The agent does the same for runtimes that write log files.
        std::fs::create_dir_all(pod.spec.log_directory.join(&spec.name)).unwrap();
        let id = self
            .runtime
            .create_container(&pod.sandbox, &pod.spec, spec)
            .await
            .unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    /// Starts a container with a script in its own pod.
    pub(crate) async fn start_script(&self, script: &str) -> ContainerId {
        let pod = self.pod().await;
        self.start(&pod, &self.script(script)).await
    }

    /// Runs a container to its exit, and returns its log and exit code.
    pub(crate) async fn output_of(&self, pod: &Pod, spec: &ContainerSpec) -> (String, i32) {
        let id = self.start(pod, spec).await;
        let exit = self.exit(&id).await;
        (self.log(&id, &LogOptions::default()).await, exit.code)
    }

    pub(crate) async fn container(&self, id: &ContainerId) -> Option<Container> {
        let all = self.runtime.list_containers().await.unwrap();
        all.into_iter().find(|container| container.id == *id)
    }

    /// Waits for the exit of a container.
    pub(crate) async fn exit(&self, id: &ContainerId) -> ContainerExit {
        eventually("the container ends", async || {
            match self.container(id).await.unwrap().state {
                ContainerState::Exited(exit) => Some(exit),
                _ => None,
            }
        })
        .await
    }

    /// Returns a log as text.
    pub(crate) async fn log(&self, id: &ContainerId, options: &LogOptions) -> String {
        let lines = self.runtime.container_logs(id, options).await.unwrap();
        let bytes: Vec<u8> = lines
            .map(|line| line.unwrap().bytes.to_vec())
            .collect::<Vec<_>>()
            .await
            .concat();
        String::from_utf8(bytes).unwrap()
    }

    /// Runs a script in a container, which must succeed.
    pub(crate) async fn exec(&self, id: &ContainerId, script: &str) -> String {
        let command = ["/bin/sh", "-c", script].map(String::from);
        let output = self.runtime.exec_sync(id, &command, TEST_TIMEOUT).await.unwrap();
        assert_eq!(
            output.code,
            0,
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Temporary directory of this node.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }
}

/// Waits with a limit.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, work)
        .await
        .unwrap_or_else(|_| panic!("{what}: timed out"))
}

/// Polls until there is a result.
pub(crate) async fn eventually<T>(what: &str, poll: impl AsyncFn() -> Option<T>) -> T {
    soon(what, async {
        loop {
            if let Some(result) = poll().await {
                return result;
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}
