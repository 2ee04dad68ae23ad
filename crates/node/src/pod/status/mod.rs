//! The status of a pod, computed of what is there. Pure.
//!
//! ```text
//! seen        what the runtime has of the pod, newest first
//! restart     whether a container that ended is begun again
//! containers  one status for each container
//! phase       Pending, Running, Succeeded, Failed
//! conditions  PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled and those of others
//! addresses   of the pod and of its node
//! told        what of it is written while containers may still run, and what is left at the end
//! ```
//!
//! How it is used: [`status`] at each look at a pod; its answer is kept as the next [`Input::previous`], says by its phase
//! whether the pod is over, and is written as [`told`] makes it. When everything of the pod is gone, [`ended`] has the last word.
//!
//! Promises:
//! - A pod that Succeeded or Failed stays so.
//! - Counts of restarts never go down.
//! - The time of a condition changes only with its status.
//! - The same input gives the same status: an answer that equals what is written need not be written.

mod addresses;
mod conditions;
mod containers;
mod phase;
pub mod restart;
mod seen;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

pub use self::{
    addresses::first_address,
    conditions::{ResizeInProgress, ResizePending},
    seen::Seen,
    told::{ended, rejected, told},
};
use crate::{Facts, pod::spec::amounts, probes::ProbeResults, runtime::ContainerId};

/// What a status is computed of.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The pod as the API has it, with the resources that were allocated to it.
    pub pod: &'a Pod,
    /// What [`status`] gave the last time; `None` the first time since the agent began: then the API's counts.
    pub previous: Option<&'a PodStatus>,
    /// What the runtime has of the pod.
    pub seen: &'a Seen,
    /// What its probes found.
    pub probes: &'a ProbeResults,
    /// Why containers are not begun, by their names: `ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerConfigError` ...
    pub waiting: &'a BTreeMap<String, Waiting>,
    /// What containers that ended left as their message (file or log).
    pub messages: &'a BTreeMap<ContainerId, String>,
    /// The resources that running containers have by now, by their names, where these are not the allocated ones.
    pub actuated: &'a BTreeMap<String, ResourceRequirements>,
    /// The resize that waits, and the one under way.
    pub resize: (Option<&'a ResizePending>, Option<&'a ResizeInProgress>),
    /// The name of the runtime: what stands before `://` in ids.
    pub runtime: &'a str,
    /// Whether the runtime can mount read-only what is below a read-only mount.
    pub recursive_read_only: bool,
    /// What is known of the node.
    pub facts: &'a Facts,
    /// Where the pod is on its way.
    pub course: Course,
    /// That its end was decided, and why.
    pub end: Option<&'a End>,
    /// The time.
    pub now: Timestamp,
}

/// Why a container is not begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// In a word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// Where a pod is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Course {
    /// Its containers are begun, and begun again.
    #[default]
    Living,
    /// Its containers are ended; some may still run.
    Stopping,
    /// None of its containers runs, or ever will.
    Stopped,
}

/// That a pod has to end, whatever its containers say: it becomes Failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// In a word: `Evicted`, `DeadlineExceeded`, `Terminated` ...
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// Whether it is the node that ends it: then it gets the condition `DisruptionTarget`.
    pub disruption: bool,
}

// --- Status ---

/// The status of a pod.
pub fn status(input: &Input<'_>) -> PodStatus {
    let nothing = (PodSpec::default(), PodStatus::default());
    let pod = input.pod;
    let spec = pod.spec.as_ref().unwrap_or(&nothing.0);
    let api = pod.status.as_ref().unwrap_or(&nothing.1);
    let old = input.previous.unwrap_or(api);

    let mut status = PodStatus {
        qos_class: Some(amounts::qos(pod).to_owned()),
        ..PodStatus::default()
    };
    containers::fill(&mut status, input, spec, old);
    containers::probe(&mut status, input, spec, api);
    status.phase = Some(phase::phase(input, spec, &status).to_owned());
    settle(&mut status, input, api, old);
    conditions::fill(&mut status, input, spec, api, old);
    addresses::fill(&mut status, input, spec, api, old);
    let resources = amounts::effective(pod);
    status.allocated_resources.clone_from(&resources.requests);
    // What is not begun has what it will get, what runs has what holds.
    let runs = status.phase.as_deref() == Some(phase::RUNNING);
    status.resources = Some(if runs { amounts::enforced(pod) } else { resources });
    told::date(&mut status, old, input.now);
    status.observed_generation = pod.metadata.generation.max(old.observed_generation);
    status.volume_health.clone_from(&old.volume_health);
    told::normalize(&mut status, spec);
    status
}

/// The phase against what was told before, and the reason and message that belong to it.
fn settle(status: &mut PodStatus, input: &Input<'_>, api: &PodStatus, old: &PodStatus) {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if !is_over(status) {
        let before = [old, api].into_iter().find(|before| is_over(before));
        if let Some(before) = before {
            status.phase.clone_from(&before.phase);
        }
    }
    if status.phase == old.phase {
        status.reason = said(&old.reason).or_else(|| said(&api.reason));
        status.message = said(&old.message).or_else(|| said(&api.message));
    }
    if let Some(end) = input.end {
        status.phase = Some(phase::FAILED.to_owned());
        status.reason = Some(end.reason.clone());
        status.message = Some(end.message.clone());
    }
    if is_over(api) {
        status.phase.clone_from(&api.phase);
    }
}

/// Whether a pod with that status has ended for good.
pub fn is_over(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some(phase::SUCCEEDED | phase::FAILED))
}

/// Whether a pod comes from a file of this machine, and not from the API.
fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|annotations| annotations.get("kubernetes.io/config.source"));
    source.is_some_and(|source| source != "api")
}

/// A time as statuses have it, in whole seconds.
fn seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn condition<'a>(conditions: Option<&'a Vec<PodCondition>>, kind: &str) -> Option<&'a PodCondition> {
    conditions?.iter().find(|condition| condition.type_ == kind)
}
