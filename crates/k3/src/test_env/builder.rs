//! Options of a test cluster.

use std::path::PathBuf;

use super::{TestEnv, TestEnvError};

/// Options of a [`TestEnv`]. They are validated at start.
#[derive(Clone, Debug)]
pub struct TestEnvBuilder {
    pub(super) controllers: String,
    pub(super) simulated_nodes: u32,
    pub(super) definitions: Vec<PathBuf>,
    pub(super) storage: TestStorage,
}

/// The storage of a [`TestEnv`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum TestStorage {
    /// In memory
    #[default]
    Memory,
    /// In the store of `k3 start`, in the temporary directory
    File,
}

// --- TestEnvBuilder ---

impl TestEnvBuilder {
    /// Controllers to run, in the syntax of `k3 start --controllers`. Default: `*`, the scheduler and all controllers that are on by
    /// default. With an empty list none run: namespaces stay terminating, owned objects are not garbage collected, and pods
    /// need a service account that the test creates.
    #[must_use]
    pub fn controllers(mut self, list: impl Into<String>) -> Self {
        self.controllers = list.into();
        self
    }

    /// Number of simulated nodes: their pods run and terminate without containers. Default: none, and pods wait.
    #[must_use]
    pub fn simulated_nodes(mut self, count: u32) -> Self {
        self.simulated_nodes = count;
        self
    }

    /// `CustomResourceDefinitions` to create at start: a file, or a directory with `*.yaml`, `*.yml` and `*.json`. May be called
    /// repeatedly. Other objects in the files are ignored.
    #[must_use]
    pub fn crds(mut self, path: impl Into<PathBuf>) -> Self {
        self.definitions.push(path.into());
        self
    }

    /// Storage of the objects. Default: [`TestStorage::Memory`].
    #[must_use]
    pub fn storage(mut self, storage: TestStorage) -> Self {
        self.storage = storage;
        self
    }

    /// Starts the cluster and waits until it is ready: the namespace `default` has its service account, unless no controllers run,
    /// and the kinds of [`crds`](Self::crds) are served.
    pub async fn start(self) -> Result<TestEnv, TestEnvError> {
        TestEnv::with(self).await
    }
}

impl Default for TestEnvBuilder {
    fn default() -> Self {
        TestEnvBuilder {
            controllers: "*".to_owned(),
            simulated_nodes: 0,
            definitions: Vec::new(),
            storage: TestStorage::default(),
        }
    }
}
