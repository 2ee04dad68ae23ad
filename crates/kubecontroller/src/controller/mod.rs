//! Changes become keys, keys become reconciles.
//!
//! A [`Controller`] is told where changes come from and what to run; what it gives is run by a
//! [`Manager`](crate::manager), or by [`ControllerRunner::run`].
//!
//! Promises:
//! - A key is reconciled by one worker at a time. Whatever happens to it meanwhile causes exactly one more reconcile.
//! - No worker begins before everything that was asked to be watched is in the stores.
//! - Live changes come before what the first list found, and busy namespaces do not keep the others waiting.
//! - A reconcile that fails, panics or takes too long is tried again, later each time; one that cannot succeed is not, until
//!   the object changes. A worker survives all of it.
//! - When it is told to stop it works off what is ready, until the deadline.
//!
//! ```no_run
//! use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
//! use kubecontroller::{
//!     controller::{Controller, Outcome, Request, reconcile_fn},
//!     informer::{SharedInformerFactory, InformerScope},
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
