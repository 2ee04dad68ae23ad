//! Adds the controller to a manager.

use kube::CustomResourceExt;
use kubecontroller::{
    informer::InformerScope,
    manager::{BoxError, ControllerSetting, ControllerType, Manager, ResourceMetadata, Setup},
    phase::MachineEnvironment,
};

use crate::{RedisMigration, Settings, machine};

/// The controller of migrations. Linking this crate registers it.
pub struct RedisMigrationSetup;

impl Setup for RedisMigrationSetup {
    fn name(&self) -> &'static str {
        "redismigration"
    }

    fn resource(&self) -> &'static str {
        "redismigrations"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let informer = manager
            .informers()
            .typed::<RedisMigration>(InformerScope::default());
        let mut settings = Settings::default();
        if let Some(wait) = manager.config().controller_duration("redismigration.wait")? {
            settings.wait = wait;
        }
        let environment = MachineEnvironment::new(manager.client().clone())
            .clock(manager.clock().clone())
            .with(settings);
        let reconciler = machine()?
            .into_reconciler(environment, informer.store())
            .event_sink(manager.recorder("redismigration"))
            .metrics(manager.metrics());
        let controller = manager
            .controller("redismigration")
            .for_where(&informer, reconciler.predicate())
            .reconciler(reconciler);
        manager.add(controller);
        Ok(())
    }
}

kubecontroller::register! {
    name: "redismigration",
    metadata: ResourceMetadata::new("redismigrations", "RedisMigration", "database.cloud.tencent.com/v1")
        .description("migrates data from one Redis instance to another")
        .catalog("database")
        .prefix("rm")
        .controller_type(ControllerType::PhaseMachine),
    make: || RedisMigrationSetup,
    crds: || vec![RedisMigration::crd()],
    settings: &[ControllerSetting { key: "redismigration.wait", help: "Duration of a migration", default: "30s" }],
}
