//! What a cluster for a test is to have.

use std::path::PathBuf;

use super::{TestEnv, TestEnvError};

/// What a [`TestEnv`] is to have. Nothing is looked at before it is started.
#[derive(Clone, Debug)]
pub struct TestEnvBuilder {
    pub(super) controllers: String,
    pub(super) simulated_nodes: u32,
    pub(super) definitions: Vec<PathBuf>,
    pub(super) storage: TestStorage,
}

/// Where the objects of a [`TestEnv`] are.
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
    /// Which controllers run: a list as `k3 start --controllers` takes it. Default: `*`, which is those that are on by themselves,
    /// and the scheduler. With an empty one none run: namespaces stay in deletion, nothing owned is collected, and pods can only
    /// be made where the test made the service account.
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

    /// `CustomResourceDefinitions` that the cluster has from the start: a file, or a directory with `*.yaml`, `*.yml` and `*.json`.
    /// May be called again. Other objects in the files are left out.
    #[must_use]
    pub fn crds(mut self, path: impl Into<PathBuf>) -> Self {
        self.definitions.push(path.into());
        self
    }

    /// Where objects are. Default: [`TestStorage::Memory`].
    #[must_use]
    pub fn storage(mut self, storage: TestStorage) -> Self {
        self.storage = storage;
        self
    }

    /// Starts the cluster. When this returns it is ready: the namespace `default` has its service account, unless no controllers
    /// run, and the kinds of [`crds`](Self::crds) can be used.
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
