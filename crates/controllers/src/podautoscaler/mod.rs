//! Scales what an autoscaler points at, so that what is measured comes near to what is wanted.
//!
//! ```text
//! autoscaler    looks at one: its target, its metrics, what follows, and what it says
//! target        what it points at: any kind that has a scale
//! proposal      how many replicas a metric asks for
//! source        where metrics are read
//! calculate     replicas from figures
//! pace          how fast replicas may come and go, and what was advised lately
//! standing      what the autoscaler says of itself
//! ```

mod autoscaler;
mod calculate;
mod pace;
mod proposal;
mod source;
mod standing;
mod target;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus};
use kubecontroller::{controller::Predicate, informer::Delta};

use self::autoscaler::Autoscaling;
use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::HORIZONTAL_POD_AUTOSCALERS,
};

/// How often each autoscaler is looked at.
const PERIOD: Duration = Duration::from_secs(15);
const WORKERS: usize = 5;

/// An autoscaler. There are few, and all of one is read.
type Autoscaler = Projection<HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus>;

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let autoscalers = context.informer::<Autoscaler>(&HORIZONTAL_POD_AUTOSCALERS);
    // What it says of itself is written here.
    let is_other = |delta: &Delta<Autoscaler>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.spec != new.spec || old.metadata.uid != new.metadata.uid,
        _ => true,
    };
    let runner = context
        .controller("horizontalpodautoscaler")
        .for_where(&autoscalers, Predicate::new(is_other))
        // Pods are looked at, and wake nobody.
        .watches(&context.pods(), |_| Vec::new())
        .workers(WORKERS)
        .reconciler(Autoscaling::new(context, autoscalers.clone()));
    vec![Box::new(runner)]
}
