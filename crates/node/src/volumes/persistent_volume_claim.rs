//! Volumes with a PersistentVolumeClaim: `persistentVolumeClaim` and generic `ephemeral` volumes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use kubecontroller::selector::node_selector;

use super::{error::MountFailure, plugin::VolumeContext, spec::VolumeSpec};
use crate::{NodeFacts, sources::ObjectSourceError};

/// Finalizer of claims that are kept while a pod uses them.
const PROTECTION_FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Why a claim has no volume that the pod can use.
#[derive(Debug, thiserror::Error)]
enum ClaimError {
    #[error("failed to fetch PVC from API server: persistentvolumeclaims {0:?} not found")]
    ClaimNotFound(String),
    #[error("failed to fetch PVC from API server: {0}")]
    FetchClaim(#[source] ObjectSourceError),
    #[error("PVC is being deleted")]
    Deleting,
    #[error("PVC is not bound")]
    NotBound,
    #[error("PVC has empty pvc.Spec.VolumeName")]
    NoVolumeName,
    #[error("failed to fetch PV {0} from API server: persistentvolumes {0:?} not found")]
    VolumeNotFound(String),
    #[error("failed to fetch PV {volume} from API server: {source}")]
    FetchVolume {
        volume: String,
        source: ObjectSourceError,
    },
    #[error(
        "found PV object {0} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    NoClaimRef(String),
    #[error(
        "found PV object {volume} but its pv.Spec.ClaimRef.UID {actual} does not point to claim.UID {expected}"
    )]
    OtherClaim {
        volume: String,
        actual: String,
        expected: String,
    },
}

/// The spec of a volume with a claim: fetches the claim and the PersistentVolume that it is bound to.
// upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go createVolumeSpec
pub(super) async fn create_volume_spec(
    context: &VolumeContext<'_>,
    volume: &Volume,
) -> Result<VolumeSpec<'static>, MountFailure> {
    let pod_name = context.pod.metadata.name.as_deref().unwrap_or_default();
    let (name, read_only, is_ephemeral) = match &volume.persistent_volume_claim {
        Some(source) => (source.claim_name.clone(), source.read_only == Some(true), false),
        None => (format!("{pod_name}-{}", volume.name), false, true),
    };
    let processing_error = |error: ClaimError| {
        MountFailure::Unprocessed(format!(
            "error processing PVC {}/{name}: {error}",
            context.namespace
        ))
    };

    let claim = context
        .sources
        .persistent_volume_claim(context.namespace, &name)
        .await;
    let claim = match claim {
        Ok(Some(claim)) => claim,
        Ok(None) => return Err(processing_error(ClaimError::ClaimNotFound(name.clone()))),
        Err(error) => return Err(processing_error(ClaimError::FetchClaim(error))),
    };
    let bound = bound_volume_name(&claim).map_err(processing_error)?;
    if is_ephemeral && !is_claim_of_pod(&claim, context.pod) {
        return Err(MountFailure::Unprocessed(format!(
            "PVC {0}/{name} was not created for pod {0}/{pod_name} (pod is not owner)",
            context.namespace
        )));
    }

    let fetched = context.sources.persistent_volume(bound).await;
    let persistent = match fetched {
        Ok(Some(persistent)) => persistent,
        Ok(None) => return Err(processing_error(ClaimError::VolumeNotFound(bound.to_owned()))),
        Err(source) => {
            return Err(processing_error(ClaimError::FetchVolume {
                volume: bound.to_owned(),
                source,
            }));
        }
    };
    check_claim_ref(&persistent, &claim).map_err(processing_error)?;
    check_volume_mode(volume, &persistent)?;
    check_node_affinity(&persistent, context.facts)?;
    Ok(VolumeSpec::from_persistent_volume(persistent).with_read_only(read_only))
}

/// Name of the PersistentVolume that a claim is bound to.
// upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go getPVCExtractPV
fn bound_volume_name(claim: &PersistentVolumeClaim) -> Result<&str, ClaimError> {
    let meta = &claim.metadata;
    // Without the finalizer, the claim may be deleted and its volume reused while the pod runs.
    let is_protected = meta
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == PROTECTION_FINALIZER);
    if meta.deletion_timestamp.is_some() && !is_protected {
        return Err(ClaimError::Deleting);
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        return Err(ClaimError::NotBound);
    }
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    volume
        .filter(|volume| !volume.is_empty())
        .ok_or(ClaimError::NoVolumeName)
}

/// Whether the claim of a generic ephemeral volume was created for this pod, and not by a user with the same name.
// upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go VolumeIsForPod
fn is_claim_of_pod(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Checks that a PersistentVolume refers back to the claim that is bound to it.
// upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go getPVSpec
fn check_claim_ref(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), ClaimError> {
    let name = || volume.metadata.name.clone().unwrap_or_default();
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some(reference) = reference else {
        return Err(ClaimError::NoClaimRef(name()));
    };
    if reference.uid == claim.metadata.uid {
        return Ok(());
    }
    let [actual, expected] = [&reference.uid, &claim.metadata.uid].map(|uid| uid.clone().unwrap_or_default());
    Err(ClaimError::OtherClaim {
        volume: name(),
        actual,
        expected,
    })
}

fn check_volume_mode(volume: &Volume, persistent: &PersistentVolume) -> Result<(), MountFailure> {
    let spec = persistent.spec.as_ref();
    let mode = spec.and_then(|spec| spec.volume_mode.as_deref());
    let mode = mode.unwrap_or("Filesystem");
    if mode == "Filesystem" {
        return Ok(());
    }
    Err(MountFailure::Unprocessed(format!(
        "volume {} has volumeMode {mode}, but is specified in volumeMounts",
        volume.name
    )))
}

// --- Node affinity ---

// upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go CheckNodeAffinity; it knows the labels alone
fn check_node_affinity(persistent: &PersistentVolume, facts: &NodeFacts) -> Result<(), MountFailure> {
    let affinity = persistent
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) else {
        return Ok(());
    };
    if node_selector(required).matches(None, &facts.node_labels) {
        return Ok(());
    }
    let name = persistent.metadata.name.as_deref().unwrap_or_default();
    let reason = "no matching NodeSelectorTerms";
    Err(MountFailure::step_failed("NodeAffinity check", name, reason))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evaluates_each_operator_of_volume_node_affinity() {
        let facts = NodeFacts {
            node_name: "n1".to_owned(),
            node_labels: [("cores", "8")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..NodeFacts::default()
        };
        let fits = |part: &str, key: &str, operator: &str, values: &[&str]| {
            let term = json!({part: [{"key": key, "operator": operator, "values": values}]});
            let required = json!({"nodeSelectorTerms": [term]});
            let volume = json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": required}}});
            check_node_affinity(&serde_json::from_value(volume).unwrap(), &facts).is_ok()
        };
        for (key, operator, values, expected) in [
            ("cores", "In", &["4", "8"][..], true),
            ("cores", "In", &["4"], false),
            ("disk", "In", &["8"], false),
            ("cores", "NotIn", &["4"], true),
            ("cores", "NotIn", &["8"], false),
            ("disk", "NotIn", &["8"], true),
            // Upstream refuses the term, which then matches no node.
            ("disk", "NotIn", &[], false),
            ("cores", "Exists", &[], true),
            ("disk", "Exists", &[], false),
            ("cores", "DoesNotExist", &[], false),
            ("disk", "DoesNotExist", &[], true),
            ("cores", "Gt", &["4"], true),
            ("cores", "Gt", &["8"], false),
            ("cores", "Gt", &["4", "5"], false),
            ("cores", "Lt", &["9"], true),
            ("cores", "Lt", &["many"], false),
        ] {
            let found = fits("matchExpressions", key, operator, values);
            assert_eq!(found, expected, "{key} {operator} {values:?}");
        }
        // Upstream compares fields only where it knows the name of the node.
        assert!(fits("matchFields", "metadata.name", "In", &["n2"]));
        assert!(!fits("matchFields", "metadata.name", "Exists", &[]));
    }
}
