//! The HorizontalPodAutoscaler controller.
//!
//! ```text
//! controller          one autoscaler: target, metrics, decision, status
//! target              the scale subresource of any kind
//! proposal            desired replicas for one metric
//! metrics_client      reads the metrics APIs
//! replica_calculator  replicas from samples
//! scaling_behavior    stabilization and scaling policies
//! status              conditions and status
//! ```

mod controller;
mod error;
mod metrics_client;
mod proposal;
mod replica_calculator;
mod scaling_behavior;
mod status;
mod target;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus};
use kubecontroller::{controller::Predicate, informer::Delta};

use self::controller::HorizontalPodAutoscalerController;

use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::HORIZONTAL_POD_AUTOSCALERS,
};

/// Sync period of each autoscaler.
const PERIOD: Duration = Duration::from_secs(15);
const WORKERS: usize = 5;

/// The complete spec and status are kept: there are few autoscalers.
type AutoscalerProjection = Projection<HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus>;

// upstream: pkg/controller/podautoscaler/horizontal.go NewHorizontalController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let autoscalers = context.informer::<AutoscalerProjection>(&HORIZONTAL_POD_AUTOSCALERS);
    // Status writes of this controller do not trigger a sync.
    let is_other = |delta: &Delta<AutoscalerProjection>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.spec != new.spec || old.metadata.uid != new.metadata.uid,
        _ => true,
    };
    let runner = context
        .controller("horizontal-pod-autoscaler-controller")
        .for_where(&autoscalers, Predicate::new(is_other))
        // Pods are read through their store; their events do not trigger a sync.
        .watches(&context.pods(), |_| Vec::new())
        .workers(WORKERS)
        .reconciler(HorizontalPodAutoscalerController::new(
            context,
            autoscalers.clone(),
        ));
    vec![Box::new(runner)]
}
