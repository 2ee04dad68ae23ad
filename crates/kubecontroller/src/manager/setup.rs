//! How a reconciler becomes part of a manager.

use std::future::{Future, ready};

use futures_util::future::BoxFuture;

use super::{BoxError, Manager};

/// A reconciler that can be installed into a manager.
pub trait Setup: Send + Sync + 'static {
    /// What it is called in the configuration. Its runnables may have other names.
    fn name(&self) -> &str;

    /// The plural of the resource it works on. It is enabled, disabled and filtered by that too.
    fn resource(&self) -> &str;

    /// Makes its controllers and [adds](Manager::add) them. Called once, before anything runs.
    fn setup(&self, manager: &mut Manager) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Called once, when all informers are synced and before any controller runs.
    fn after_sync(&self, manager: &Manager) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = manager;
        ready(Ok(()))
    }
}

/// The same for any of them.
#[doc(hidden)]
pub trait ErasedSetup: Send + Sync {
    fn name(&self) -> &str;
    fn resource(&self) -> &str;
    fn setup<'s>(&'s self, manager: &'s mut Manager) -> BoxFuture<'s, Result<(), BoxError>>;
    fn after_sync<'s>(&'s self, manager: &'s Manager) -> BoxFuture<'s, Result<(), BoxError>>;
}

impl<S: Setup> ErasedSetup for S {
    fn name(&self) -> &str {
        Setup::name(self)
    }

    fn resource(&self) -> &str {
        Setup::resource(self)
    }

    fn setup<'s>(&'s self, manager: &'s mut Manager) -> BoxFuture<'s, Result<(), BoxError>> {
        Box::pin(Setup::setup(self, manager))
    }

    fn after_sync<'s>(&'s self, manager: &'s Manager) -> BoxFuture<'s, Result<(), BoxError>> {
        Box::pin(Setup::after_sync(self, manager))
    }
}
