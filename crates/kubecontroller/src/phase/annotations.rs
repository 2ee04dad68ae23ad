//! Labels, annotations and finalizers that a state machine reads and writes.
//!
//! | name | type | meaning |
//! | --- | --- | --- |
//! | `<group>/phase` | label | the phase, for label selectors; written by the machine |
//! | `<group>/ongoing` | finalizer | the clean-up has not run yet; added and removed by the machine |
//! | `no-reconciling-before` | annotation | Unix time in seconds: the machine does nothing before |
//! | `reconciling-barrier` | annotation | comma-separated list of `activity:phase`: that activity does not start that phase |
//!
//! Annotations are read with the API group as prefix (`<group>/reconciling-barrier`) and, if that is absent, without it. An
//! activity is the name of a machine; `*` matches all. Values that cannot be parsed are ignored.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::warn;

use super::{pass::NextPass, state_machine::StateMachine, status::Phased};

/// The annotation with the time before which the machine does nothing.
pub const NOT_BEFORE: &str = "no-reconciling-before";
/// The annotation with the phases that must not be started.
pub const BARRIER: &str = "reconciling-barrier";

/// The label that carries the phase of objects of a kind.
pub fn phase_label<R: Phased>() -> String {
    of_group::<R>("phase")
}

/// The finalizer of objects of a kind whose machine has a clean-up.
pub fn ongoing_finalizer<R: Phased>() -> String {
    of_group::<R>("ongoing")
}

/// Prefixes a name with the API group of a kind, unless it is the core group.
fn of_group<R: Phased>(name: &str) -> String {
    match &*R::group(&()) {
        "" => name.to_owned(),
        group => format!("{group}/{name}"),
    }
}

/// The value of one of the annotations above.
pub(super) fn annotation<'o, R: Phased>(object: &'o R, name: &str) -> Option<&'o str> {
    let annotations = object.meta().annotations.as_ref()?;
    annotations
        .get(&of_group::<R>(name))
        .or_else(|| annotations.get(name))
        .map(String::as_str)
}

/// Removes one of the annotations above, with and without prefix.
pub(super) fn clear_annotation<R: Phased>(object: &mut R, name: &str) {
    let annotations = object.annotations_mut();
    annotations.remove(name);
    annotations.remove(&of_group::<R>(name));
}

impl<R: Phased> StateMachine<R> {
    /// Whether the object is paused or blocked by an annotation, and when to look at it again. Terminating objects count as
    /// blocked, because only the clean-up runs for them.
    pub(super) fn blocked(&self, object: &R, now: Timestamp) -> Option<NextPass> {
        let terminating = object.meta().deletion_timestamp.is_some();
        if terminating || object.paused() {
            return Some(NextPass::Stop);
        }
        not_before(object, now).or_else(|| self.has_barrier(object).then_some(NextPass::Stop))
    }

    /// Whether a barrier annotation blocks the object's phase. A barrier does not stop a phase that has started.
    fn has_barrier(&self, object: &R) -> bool {
        let phase = self.phase_of(object);
        let state = object.phases().and_then(|status| status.state.get(phase));
        let begun = state.is_some_and(|state| state.start_time.is_some());
        let barriers = annotation(object, BARRIER).unwrap_or_default().split(',');
        let mut barriers = barriers.filter_map(|barrier| barrier.trim().split_once(':'));
        !begun
            && barriers
                .any(|(activity, before)| before == phase && (activity == "*" || activity == self.name))
    }
}

fn not_before<R: Phased>(object: &R, now: Timestamp) -> Option<NextPass> {
    let text = annotation(object, NOT_BEFORE)?;
    let Some(time) = text
        .trim()
        .parse()
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
    else {
        warn!(
            object = object.name_any(),
            annotation = NOT_BEFORE,
            value = text,
            "ignored annotation: not a Unix time in seconds"
        );
        return None;
    };
    let wait = Duration::try_from(time.duration_since(now)).ok()?;
    (!wait.is_zero()).then_some(NextPass::After(wait))
}
