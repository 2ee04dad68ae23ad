//! The cluster, as a test holds it.

use std::{
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::Duration,
};

use kube::{Client, Config};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::{TestEnvBuilder, TestEnvError, control_plane};
use crate::failure::Failure;

/// How long what is cut off may take to notice it.
const END: Duration = Duration::from_secs(5);

/// A Kubernetes cluster in this process: an API server over HTTPS on a free port, controllers and a scheduler. Each is alone;
/// any number may run at once. Dropping it stops everything and removes its directory.
///
/// It runs in threads of its own, so a test may block its thread, as with [`std::process::Command::output`].
///
/// ```
/// use k3::TestEnv;
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube::Api;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let env = TestEnv::builder().simulated_nodes(3).start().await?;
///
/// let namespaces: Api<Namespace> = Api::all(env.client());
/// assert!(namespaces.get_opt("default").await?.is_some());
///
/// // For programs: the file that KUBECONFIG is to name.
/// assert!(env.kubeconfig().exists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestEnv {
    /// How it is connection.
    config: Config,
    kubeconfig: PathBuf,
    _running: ClusterThread,
    /// Declared last: removed when nothing uses it.
    _directory: TempDir,
}

/// The thread of a cluster. Dropping it ends the cluster, and waits for that.
#[derive(Debug)]
struct ClusterThread {
    /// Dropping it stops the cluster.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

// --- TestEnv ---

impl TestEnv {
    /// A cluster as most tests want it: with all controllers, without nodes, in memory.
    pub async fn start() -> Result<Self, TestEnvError> {
        Self::builder().start().await
    }

    /// A cluster with more, or with less.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::default()
    }

    /// Path of the admin's kubeconfig. Removed with the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client that may do everything, over HTTPS as any other. Must be called inside a Tokio runtime, and the client be used in
    /// that one: tests that share a cluster ask for a client each.
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the configuration has made a client before")
    }

    pub(super) async fn with(settings: TestEnvBuilder) -> Result<Self, TestEnvError> {
        let directory = tempfile::Builder::new()
            .prefix("k3-test-env-")
            .tempdir()
            .map_err(|error| {
                let advice = "see that the directory for temporary files, `$TMPDIR`, can be written to";
                TestEnvError(Failure::new("cannot make a temporary directory", advice).caused_by(error))
            })?;
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = oneshot::channel();
        let data_dir = directory.path().to_owned();
        let body = move || {
            let runtime = match crate::runtime::multi_thread(2) {
                Ok(runtime) => runtime,
                Err(failure) => {
                    // A dropped receiver means that the caller is not waiting.
                    let _ = ready.send(Err(failure));
                    return;
                }
            };
            runtime.block_on(control_plane::run(&settings, &data_dir, ready, stopped));
            runtime.shutdown_timeout(END);
        };
        let thread = thread::Builder::new().name("k3-test-env".to_owned()).spawn(body);
        let thread = thread.map_err(|error| {
            let advice = "check `ulimit -u` and the memory of the machine";
            TestEnvError(Failure::new("cannot start threads", advice).caused_by(error))
        })?;
        // From here on a caller who loses interest takes the thread along, and then the directory.
        let running = ClusterThread {
            stop: Some(stop),
            thread: Some(thread),
        };
        let started = started.await.unwrap_or_else(|_| {
            let advice = "this should not happen: see what was written to standard error";
            Err(Failure::new("the cluster ended while it started", advice))
        });
        let control_plane::Connection { config, kubeconfig } = started.map_err(TestEnvError)?;
        Ok(TestEnv {
            config,
            kubeconfig,
            _running: running,
            _directory: directory,
        })
    }
}

// --- ClusterThread ---

impl Drop for ClusterThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}
