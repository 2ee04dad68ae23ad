//! The handle of a test cluster.

use std::{
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::Duration,
};

use kube::{Client, Config};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::{TestEnvBuilder, TestEnvError, control_plane};
use crate::command_error::CommandError;

/// Grace period of aborted tasks.
const END: Duration = Duration::from_secs(5);

/// A Kubernetes cluster in this process: an API server over HTTPS on a free port, controllers and a scheduler. Clusters are
/// independent; any number can run at once. Dropping it stops everything and removes its directory.
///
/// It runs in separate threads, so a test may block its thread, as with [`std::process::Command::output`].
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
/// // For other programs: the file for KUBECONFIG.
/// assert!(env.kubeconfig().exists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestEnv {
    /// How clients connect to the cluster.
    config: Config,
    kubeconfig: PathBuf,
    _running: ClusterThread,
    /// Declared last, so that it is removed when nothing uses it.
    _directory: TempDir,
}

/// The thread of a cluster. Dropping it stops the cluster and waits for its end.
#[derive(Debug)]
struct ClusterThread {
    /// Stops the cluster when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

// --- TestEnv ---

impl TestEnv {
    /// Starts a cluster with all controllers, without nodes, in memory.
    pub async fn start() -> Result<Self, TestEnvError> {
        Self::builder().start().await
    }

    /// Returns the options of a cluster.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::default()
    }

    /// Path of the admin's kubeconfig. Removed with the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Creates a client with all permissions, over HTTPS. It must be created and used inside one Tokio runtime, so tests that share
    /// a cluster need a client each.
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the configuration was used for a client before")
    }

    pub(super) async fn with(settings: TestEnvBuilder) -> Result<Self, TestEnvError> {
        let directory = tempfile::Builder::new()
            .prefix("k3-test-env-")
            .tempdir()
            .map_err(|error| {
                let advice = "check that the directory for temporary files, `$TMPDIR`, is writable";
                TestEnvError(
                    CommandError::new("cannot create a temporary directory", advice).caused_by(error),
                )
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
            TestEnvError(CommandError::new("cannot start threads", advice).caused_by(error))
        })?;
        // If the caller drops this future, the thread stops first and then the directory is removed.
        let running = ClusterThread {
            stop: Some(stop),
            thread: Some(thread),
        };
        let started = started.await.unwrap_or_else(|_| {
            let advice = "this should not happen: check standard error";
            Err(CommandError::new("the cluster stopped during its start", advice))
        });
        let control_plane::EnvironmentConnection { config, kubeconfig } = started.map_err(TestEnvError)?;
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
            // A panic of the thread was already printed.
            let _ = thread.join();
        }
    }
}
