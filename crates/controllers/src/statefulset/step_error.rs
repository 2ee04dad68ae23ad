//! Why a step of a plan failed, in the words of upstream's events.

use kubecontroller::writer::error_message;

use crate::pods::pod_from_template::PodTemplateError;

// upstream: pkg/controller/statefulset/stateful_pod_control.go UpdatePodClaimForRetentionPolicy, createPersistentVolumeClaims
/// A step of a plan failed. The text is that of the event.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// A pod was not written.
    #[error("{}", error_message(.0))]
    Pod(#[source] kube::Error),
    /// The template of the revision does not lead to a pod.
    #[error(transparent)]
    Template(#[from] PodTemplateError),
    #[error(transparent)]
    CreateClaims(#[from] CreateClaimsError),
    #[error(
        "could not update claim {claim} for delete policy ownerRefs: {}",
        error_message(source)
    )]
    UpdateClaimOwners { claim: Box<str>, source: kube::Error },
}

/// Claims of a pod were not created.
#[derive(Debug, thiserror::Error)]
#[error("{}", join_errors(.0))]
pub(super) struct CreateClaimsError(pub(super) Vec<CreateClaimError>);

/// A claim of a pod was not created.
#[derive(Debug, thiserror::Error)]
pub(super) enum CreateClaimError {
    #[error("pvc {0} is being deleted")]
    Terminating(Box<str>),
    #[error("failed to create PVC {claim}: {}", error_message(source))]
    Create { claim: Box<str>, source: kube::Error },
}

fn join_errors(errors: &[CreateClaimError]) -> String {
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    match &*messages {
        [message] => message.clone(),
        messages => format!("[{}]", messages.join(", ")),
    }
}
