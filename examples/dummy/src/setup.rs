//! Adds the controller to a manager.

use kube::CustomResourceExt;
use kubecontroller::{
    controller::{CacheLookup, Outcome, reconcile_object_fn},
    informer::InformerScope,
    manager::{BoxError, Manager, ResourceMetadata, Setup},
};

use crate::{Dummy, DummyReconciler};

/// The controller of `Dummy`s. Linking this crate registers it.
pub struct DummySetup;

impl Setup for DummySetup {
    fn name(&self) -> &'static str {
        "dummy"
    }

    fn resource(&self) -> &'static str {
        "dummies"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let informer = manager.informers().typed::<Dummy>(InformerScope::default());
        let dummies = DummyReconciler::new(manager.client().clone(), manager.clock().clone());
        let reconciler = reconcile_object_fn(informer.store(), move |seen| {
            let dummies = dummies.clone();
            async move {
                match seen {
                    CacheLookup::Found(dummy) => dummies.reconcile(&dummy).await,
                    CacheLookup::NotFound(_) => Ok(Outcome::Done),
                }
            }
        });
        let controller = manager.controller("dummy").for_(&informer).reconciler(reconciler);
        manager.add(controller);
        Ok(())
    }
}

kubecontroller::register! {
    name: "dummy",
    metadata: ResourceMetadata::new("dummies", "Dummy", "demo.wukong.com/v1")
        .description("copies data after a delay")
        .catalog("demo")
        .prefix("dum"),
    make: || DummySetup,
    crds: || vec![Dummy::crd()],
}
