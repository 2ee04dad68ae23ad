//! Adds the controller to a manager.

use kube::CustomResourceExt;
use kubecontroller::{
    controller::{CacheLookup, Outcome, reconcile_object_fn},
    informer::InformerScope,
    manager::{BoxError, Manager, ResourceMetadata, Setup},
};
use tracing::info;

use crate::{At, AtReconciler};

/// The controller of `At`s. Linking this crate registers it.
pub struct AtSetup;

impl Setup for AtSetup {
    fn name(&self) -> &'static str {
        "at"
    }

    fn resource(&self) -> &'static str {
        "ats"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let informer = manager.informers().typed::<At>(InformerScope::default());
        let ats = AtReconciler::new(manager.client().clone(), manager.clock().clone());
        let reconciler = reconcile_object_fn(informer.store(), move |seen| {
            let ats = ats.clone();
            async move {
                match seen {
                    CacheLookup::Found(at) => ats.reconcile(&at).await,
                    // The garbage collector deletes the pod.
                    CacheLookup::NotFound(_) => Ok(Outcome::Done),
                }
            }
        });
        let controller = manager.controller("at").for_(&informer).reconciler(reconciler);
        manager.add(controller);
        Ok(())
    }

    async fn after_sync(&self, manager: &Manager) -> Result<(), BoxError> {
        let informer = manager.informers().typed::<At>(InformerScope::default());
        info!(ats = informer.store().len(), "cache synced");
        Ok(())
    }
}

kubecontroller::register! {
    name: "at",
    metadata: ResourceMetadata::new("ats", "At", "demo.wukong.com/v1")
        .description("runs a command at a given time")
        .catalog("demo")
        .prefix("at"),
    make: || AtSetup,
    crds: || vec![At::crd()],
}
