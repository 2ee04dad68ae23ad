//! The runtime without k3: what the same sandbox and the same container cost when only the benchmark asks for them.
//!
//! Promise: it is asked for the same as by the agent, with as many mounts, in the same calls, and for nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use k3_node::{
    NodeFacts,
    pod::spec,
    runtime::{Image, Mount, MountPropagation, MountSource, Runtime},
};
use k3_test_services::TEST_IMAGE;
use k8s_openapi::api::core::v1::Pod;
use tokio::{task::JoinSet, time::Instant};

use super::pod;
use crate::BenchError;

/// How many pods are removed at a time.
const AT_ONCE: usize = 8;
/// Whose containers they are.
const OWNER: &str = "k3-bench-bare";

/// A runtime, and what its containers are made of.
pub(super) struct BareRuntime {
    runtime: Arc<dyn Runtime>,
    image: Image,
    facts: NodeFacts,
    directory: PathBuf,
    made: AtomicUsize,
}

// --- BareRuntime ---

impl BareRuntime {
    pub(super) async fn new(daemon: &super::RuntimeDaemon, directory: &Path) -> Result<Self, BenchError> {
        let runtime = daemon.connect(OWNER).await?;
        let image = runtime.image_status(TEST_IMAGE).await?;
        Ok(Self {
            image: image.ok_or("the image of tests is not there")?,
            runtime,
            facts: NodeFacts::default(),
            directory: directory.to_owned(),
            made: AtomicUsize::new(0),
        })
    }

    /// Makes and starts a pod; how long that took.
    pub(super) async fn start(&self) -> Result<Duration, BenchError> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut object = pod(&format!("bare-{number}"));
        object["metadata"]["namespace"] = "bare".into();
        object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012}").into();
        let object: Pod = serde_json::from_value(object)?;
        let logs = self.directory.join("logs");
        let sandbox = spec::generate_pod_sandbox_config(&object, &self.facts, 0, &logs)?;
        let container = object.spec.as_ref().and_then(|spec| spec.containers.first());
        let mounts = self.mounts(number)?;
        let container = spec::generate_container_config(&spec::ContainerConfigInput {
            pod: &object,
            container: container.ok_or("the pod has no container")?,
            kind: spec::ContainerType::Regular,
            attempt: 0,
            image: &self.image,
            environment: &[],
            mounts: &mounts,
            target: None,
            facts: &self.facts,
        })?;
        let start = Instant::now();
        let id = self.runtime.run_pod_sandbox(&sandbox).await?;
        let id = self.runtime.create_container(&id, &sandbox, &container).await?;
        self.runtime.start_container(&id).await?;
        Ok(start.elapsed())
    }

    /// What the agent mounts in every container: the hosts file, the file of the last message, and the token.
    fn mounts(&self, number: usize) -> Result<Vec<Mount>, BenchError> {
        let directory = self.directory.join(number.to_string());
        let token = directory.join("token");
        fs::create_dir_all(&token)?;
        let hosts = directory.join("hosts");
        let message = directory.join("message");
        fs::write(&hosts, "127.0.0.1 localhost\n")?;
        fs::write(&message, "")?;
        let mount = |source: PathBuf, target: &str, read_only| Mount {
            source: MountSource::Host(source),
            target: target.to_owned(),
            read_only,
            propagation: MountPropagation::Private,
            recursive_read_only: false,
        };
        Ok(vec![
            mount(hosts, "/etc/hosts", false),
            mount(message, "/dev/termination-log", false),
            mount(token, "/var/run/secrets/kubernetes.io/serviceaccount", true),
        ])
    }

    /// Starts so many pods, so many of them at a time; how long it took until the last one ran.
    pub(super) async fn start_many(
        self: &Arc<Self>,
        pods: usize,
        at_once: usize,
    ) -> Result<Duration, BenchError> {
        let left = Arc::new(AtomicUsize::new(pods));
        let start = Instant::now();
        let mut starters = JoinSet::new();
        for _ in 0..at_once {
            let this = Arc::clone(self);
            let left = Arc::clone(&left);
            starters.spawn(async move {
                let take =
                    || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                while take().is_ok() {
                    this.start().await?;
                }
                Ok::<_, BenchError>(())
            });
        }
        while let Some(starter) = starters.join_next().await {
            starter??;
        }
        Ok(start.elapsed())
    }

    /// Removes all that was made.
    pub(super) async fn clear(&self) -> Result<(), BenchError> {
        let sandboxes = self.runtime.list_pod_sandboxes().await?;
        let removals = sandboxes.iter().map(async |sandbox| {
            self.runtime.stop_pod_sandbox(&sandbox.id).await?;
            self.runtime.remove_pod_sandbox(&sandbox.id).await
        });
        let removals: Vec<_> = removals.collect();
        Ok(stream::iter(removals)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?)
    }
}
