//! Adds the controller to a manager.

use kube::CustomResourceExt;
use kubecontroller::{
    informer::InformerScope,
    manager::{BoxError, ControllerSetting, ControllerType, Manager, ResourceMetadata, Setup},
    phase::MachineEnvironment,
};

use crate::{Executor, Workflow, machine};

/// The controller of workflows. Linking this crate registers it.
pub struct WorkflowSetup;

impl Setup for WorkflowSetup {
    fn name(&self) -> &'static str {
        "workflow"
    }

    fn resource(&self) -> &'static str {
        "workflows"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        let informer = manager.informers().typed::<Workflow>(InformerScope::default());
        let executor =
            Executor::new().allow_shell(manager.config().controller_switch("workflow.allow-shell")?);
        let environment = MachineEnvironment::new(manager.client().clone())
            .clock(manager.clock().clone())
            .with(executor);
        let reconciler = machine()?
            .into_reconciler(environment, informer.store())
            .event_sink(manager.recorder("workflow"))
            .metrics(manager.metrics());
        let controller = manager
            .controller("workflow")
            .for_where(&informer, reconciler.predicate())
            .reconciler(reconciler);
        manager.add(controller);
        Ok(())
    }
}

kubecontroller::register! {
    name: "workflow",
    metadata: ResourceMetadata::new("workflows", "Workflow", "tool.wukong.com/v1")
        .description("runs a graph of activities")
        .catalog("tool")
        .prefix("wf")
        .controller_type(ControllerType::PhaseMachine),
    make: || WorkflowSetup,
    crds: || vec![Workflow::crd()],
    settings: &[ControllerSetting {
        key: "workflow.allow-shell",
        help: "Allow shell activities, which run programs on the machine of the controller: true or false",
        default: "false",
    }],
}
