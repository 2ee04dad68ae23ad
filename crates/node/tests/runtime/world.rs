//! A node of its own for each claim, and the pods on it.

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
        Container, ContainerId, ContainerSpec, ContainerState, Exit, LogOptions, NamespaceMode, Owner,
        Runtime, SandboxId, SandboxSpec,
    },
};
use k3_test_services::TEST_IMAGE;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::places::Place;

/// How long something may take that must come. Generous: a loaded machine is no failed test.
const PATIENCE: Duration = Duration::from_mins(2);

/// A node, connected to a runtime.
pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) owner: Owner,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The image of tests as containers are made of it.
    pub(crate) image: String,
    folder: TempDir,
    pods: AtomicU32,
}

/// A pod with its sandbox.
pub(crate) struct Pod {
    pub(crate) spec: SandboxSpec,
    pub(crate) sandbox: SandboxId,
}

// --- World ---

impl World {
    pub(crate) async fn new(place: &Place) -> Self {
        let node = format!("node-{:016x}", RandomState::new().hash_one(std::process::id()));
        let owner = Owner::new(&node, format!("cluster-of-{node}"));
        let runtime = (place.connect)(place.socket, owner.clone()).await;
        let image = runtime
            .image(TEST_IMAGE)
            .await
            .unwrap()
            .expect("the images are loaded");
        Self {
            place: *place,
            owner,
            runtime,
            image: image.id,
            folder: tempfile::tempdir().unwrap(),
            pods: AtomicU32::new(0),
        }
    }

    /// Removes everything of this node. What a failed claim leaves goes with the runtime.
    pub(crate) async fn end(self) {
        for sandbox in self.runtime.sandboxes().await.unwrap() {
            self.runtime.stop_sandbox(&sandbox.id).await.unwrap();
            self.runtime.remove_sandbox(&sandbox.id).await.unwrap();
        }
        assert_eq!(self.runtime.sandboxes().await.unwrap(), []);
        assert_eq!(self.runtime.containers().await.unwrap(), []);
    }

    /// A connection of its own to the same runtime, as `node`.
    pub(crate) async fn connect_as(&self, node: &str) -> Arc<dyn Runtime> {
        self.connect_owner(Owner::new(node, &self.owner.cluster)).await
    }

    /// A connection of its own to the same runtime.
    pub(crate) async fn connect_owner(&self, owner: Owner) -> Arc<dyn Runtime> {
        (self.place.connect)(self.place.socket, owner).await
    }

    /// What is asked for a pod that is like all others.
    pub(crate) fn pod_spec(&self) -> SandboxSpec {
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        let logs = self.folder.path().join(format!("pod-{number}"));
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

    /// A pod that is like all others, with its sandbox running.
    pub(crate) async fn pod(&self) -> Pod {
        self.run(self.pod_spec()).await
    }

    pub(crate) async fn run(&self, spec: SandboxSpec) -> Pod {
        let sandbox = self.runtime.run_sandbox(&spec).await.unwrap();
        Pod { spec, sandbox }
    }

    /// What is asked for a container that runs a script.
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

    /// Makes and starts a container.
    pub(crate) async fn start(&self, pod: &Pod, spec: &ContainerSpec) -> ContainerId {
        // As the agent does: where runtimes write logs to files, the folder is there.
        std::fs::create_dir_all(pod.spec.log_directory.join(&spec.name)).unwrap();
        let id = self
            .runtime
            .create_container(&pod.sandbox, &pod.spec, spec)
            .await
            .unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    /// A container that runs a script in a pod of its own.
    pub(crate) async fn start_script(&self, script: &str) -> ContainerId {
        let pod = self.pod().await;
        self.start(&pod, &self.script(script)).await
    }

    /// Runs a script to its end in a pod of its own; what it wrote, and its code.
    pub(crate) async fn output_of(&self, pod: &Pod, spec: &ContainerSpec) -> (String, i32) {
        let id = self.start(pod, spec).await;
        let exit = self.exit(&id).await;
        (self.log(&id, &LogOptions::default()).await, exit.code)
    }

    /// A container as it is.
    pub(crate) async fn container(&self, id: &ContainerId) -> Option<Container> {
        let all = self.runtime.containers().await.unwrap();
        all.into_iter().find(|container| container.id == *id)
    }

    /// The end of a container, waited for.
    pub(crate) async fn exit(&self, id: &ContainerId) -> Exit {
        eventually("the container ends", async || {
            match self.container(id).await.unwrap().state {
                ContainerState::Exited(exit) => Some(exit),
                _ => None,
            }
        })
        .await
    }

    /// All of a log as text.
    pub(crate) async fn log(&self, id: &ContainerId, options: &LogOptions) -> String {
        let lines = self.runtime.logs(id, options).await.unwrap();
        let bytes: Vec<u8> = lines
            .map(|line| line.unwrap().bytes.to_vec())
            .collect::<Vec<_>>()
            .await
            .concat();
        String::from_utf8(bytes).unwrap()
    }

    /// Runs a command in a container, which must succeed.
    pub(crate) async fn exec(&self, id: &ContainerId, script: &str) -> String {
        let command = ["/bin/sh", "-c", script].map(String::from);
        let output = self.runtime.exec_sync(id, &command, PATIENCE).await.unwrap();
        assert_eq!(
            output.code,
            0,
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// A folder of this world.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

/// Waits for what must come.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| panic!("{what}: it did not come"))
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    soon(what, async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}
