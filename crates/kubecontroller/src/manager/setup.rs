//! The interface between a reconciler and its manager.

use std::future::{Future, ready};

use futures_util::future::BoxFuture;

use super::{BoxError, Manager};

/// A reconciler that can be added to a manager; controller-runtime's `SetupWithManager`.
pub trait Setup: Send + Sync + 'static {
    /// The name in the configuration. The runnables that the setup adds may have other names.
    fn name(&self) -> &str;

    /// The plural of the resource that the reconciler handles. The configuration can enable, disable and filter by it.
    fn resource(&self) -> &str;

    /// Creates the controllers and [adds](Manager::add) them. Called once, before anything runs.
    fn setup(&self, manager: &mut Manager) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Called once, after all informers have synced and before any controller starts.
    fn after_sync(&self, manager: &Manager) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = manager;
        ready(Ok(()))
    }
}

/// An object-safe [`Setup`].
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
