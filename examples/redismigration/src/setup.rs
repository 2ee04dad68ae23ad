//! How migrations become part of a manager.

use kube::CustomResourceExt;
use kubecontroller::{
    informer::Scope,
    manager::{BoxError, ControllerType, Manager, OwnSetting, ResourceMetadata, Setup, duration},
    phase::World,
};

use crate::{RedisMigration, Settings, machine};

/// The controller of migrations. Linking this crate registers it.
pub struct RedisMigrationSetup;

impl Setup for RedisMigrationSetup {
    fn name(&self) -> &str {
        "redismigration"
    }

    fn resource(&self) -> &str {
        "redismigrations"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let informer = manager.informers().typed::<RedisMigration>(Scope::default());
        let settings = Settings {
            wait: duration(manager.config().own("redismigration.wait"))?,
        };
        let world = World::new(manager.client().clone()).clock(manager.clock().clone()).with(settings);
        let reconciler = machine()?
            .into_reconciler(world, informer.store())
            .teller(manager.recorder("redismigration"));
        let controller = manager
            .controller("redismigration")
            .for_where(&informer, reconciler.interest())
            .reconciler(reconciler);
        manager.add(controller);
        Ok(())
    }
}

kubecontroller::register! {
    name: "redismigration",
    metadata: ResourceMetadata::new("redismigrations", "RedisMigration", "database.cloud.tencent.com/v1")
        .description("moves the data of one Redis to another")
        .catalog("database")
        .prefix("rm")
        .controller_type(ControllerType::PhaseMachine),
    make: || RedisMigrationSetup,
    crds: || vec![RedisMigration::crd()],
    settings: &[OwnSetting { key: "redismigration.wait", help: "How long a migration takes", default: "30s" }],
}
