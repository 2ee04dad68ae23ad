//! What users and machines tell each other in the metadata of an object.
//!
//! | mark | where | meaning |
//! | --- | --- | --- |
//! | `<group>/phase` | label | the phase, so that objects can be selected by it; the machine writes it |
//! | `<group>/ongoing` | finalizer | the clean-up has not run; the machine sets and removes it |
//! | `no-reconciling-before` | annotation | a time in seconds since 1970: nothing is done before |
//! | `reconciling-barrier` | annotation | `activity:phase`, several with commas: that phase is not begun by that activity |
//!
//! Annotations count with the group before them (`<group>/reconciling-barrier`) and, in its absence, without. An activity is
//! the name of a machine; `*` is any. What cannot be read holds nothing up.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::warn;

use super::{machine::Machine, pass::NextPass, status::Phased};

/// The annotation that says from when on an object may be worked on.
pub const NOT_BEFORE: &str = "no-reconciling-before";
/// The annotation that says before which phase to stop.
pub const BARRIER: &str = "reconciling-barrier";

/// The label that says the phase of objects of a kind.
pub fn phase_label<R: Phased>() -> String {
    of_group::<R>("phase")
}

/// The finalizer of objects of a kind whose machine has a clean-up.
pub fn ongoing_finalizer<R: Phased>() -> String {
    of_group::<R>("ongoing")
}

/// A name with the group of a kind before it; the core group is none.
fn of_group<R: Phased>(name: &str) -> String {
    match &*R::group(&()) {
        "" => name.to_owned(),
        group => format!("{group}/{name}"),
    }
}

/// What an annotation of the framework says.
pub(super) fn annotation<'o, R: Phased>(object: &'o R, name: &str) -> Option<&'o str> {
    let annotations = object.meta().annotations.as_ref()?;
    annotations
        .get(&of_group::<R>(name))
        .or_else(|| annotations.get(name))
        .map(String::as_str)
}

/// Takes an annotation of the framework away, in both its forms.
pub(super) fn clear_annotation<R: Phased>(object: &mut R, name: &str) {
    let annotations = object.annotations_mut();
    annotations.remove(name);
    annotations.remove(&of_group::<R>(name));
}

impl<R: Phased> Machine<R> {
    /// Whether nothing may be done with the object now, and what then: it is paused or held by an annotation. An object that
    /// is being deleted is only cleaned up.
    pub(super) fn held(&self, object: &R, now: Timestamp) -> Option<NextPass> {
        let going = object.meta().deletion_timestamp.is_some();
        if going || object.paused() {
            return Some(NextPass::Stop);
        }
        not_before(object, now).or_else(|| self.barred(object).then_some(NextPass::Stop))
    }

    /// A phase that has begun is not stopped: the barrier is before it.
    fn barred(&self, object: &R) -> bool {
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
            text, "{NOT_BEFORE} wants seconds since 1970"
        );
        return None;
    };
    let wait = Duration::try_from(time.duration_since(now)).ok()?;
    (!wait.is_zero()).then_some(NextPass::After(wait))
}
