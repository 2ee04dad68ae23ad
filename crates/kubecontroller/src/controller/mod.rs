//! Controllers: changes of objects become keys in a work queue, and workers reconcile the keys.
//!
//! A [`Controller`] is built from its sources and a reconciler, in the style of controller-runtime's builder. The resulting
//! [`ControllerRunner`] is run by a [`Manager`](crate::manager), or by [`ControllerRunner::run`].
//!
//! Guarantees:
//! - One worker at a time reconciles a key. Any number of changes during a reconcile causes exactly one more reconcile.
//! - Workers start after all informers of the controller have synced.
//! - Live changes are reconciled before the objects of the initial list, and namespaces take turns, so a busy one does not
//!   starve the others.
//! - A reconcile that fails, panics or times out is retried with exponential backoff. A [permanent](ErrorClass::Permanent) error
//!   is not retried until the object changes. Workers survive all of these.
//! - On shutdown the keys that are ready are reconciled, until the deadline.
//!
//! ```no_run
//! use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
//! use kubecontroller::{
//!     controller::{Controller, Outcome, Request, reconcile_fn},
//!     informer::{InformerScope, SharedInformerFactory},
//!     manager::Stop,
//! };
//!
//! # async fn show(client: kube::Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let informers = SharedInformerFactory::new(client);
//! let sets = informers.typed::<ReplicaSet>(InformerScope::default());
//! let pods = informers.typed::<Pod>(InformerScope::default());
//! let controller = Controller::new("replicaset")
//!     .for_(&sets)
//!     .owns(&pods, "ReplicaSet")
//!     .reconciler(reconcile_fn(|request: Request| async move {
//!         println!("{}", request.key);
//!         Ok(Outcome::Done)
//!     }));
//! informers.start();
//! controller.run(Stop::new()).await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod error;
mod error_report;
mod filter;
mod handle;
mod own_writes;
mod predicate;
mod rate_limit;
mod reconciler;
mod runner;
mod source;
mod worker;

#[cfg(test)]
mod tests;

pub use self::{
    builder::Controller,
    error::{Error, ErrorClass},
    error_report::LastError,
    filter::{KeyFilter, ParseFilterError},
    handle::ControllerHandle,
    predicate::{
        Predicate, annotations_changed, generation_changed, label_selector, labels_changed,
        resource_version_changed,
    },
    reconciler::{
        CacheLookup, ObjectReconciler, Outcome, ReconcileFn, Reconciler, Request, reconcile_fn,
        reconcile_object_fn,
    },
    runner::{CacheSyncTimeout, ControllerRunner},
    source::{
        Enqueuer, InformerSource, RunningSource, Source, SourceId, mapped_source, object_source, owner_source,
    },
};
