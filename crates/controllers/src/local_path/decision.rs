//! Decides which claims get a volume, and builds it.

use k3_workloads::{Node, PersistentVolume, PersistentVolumeClaim, VolumeMode, VolumePhase};
use serde_json::{Value, json};

use super::NAME;
use crate::{
    objects::{BindingMode, StorageClass},
    resource::PERSISTENT_VOLUME_CLAIMS,
    volume_binder::annotations::{
        BETA_STORAGE_PROVISIONER, BIND_COMPLETED, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER,
    },
};

/// Label that ties volumes to nodes.
const HOST: &str = "kubernetes.io/hostname";
/// Access modes of a node-local directory.
const ACCESS_MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// What to do about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProvisioningDecision {
    /// Nothing (yet).
    Leave,
    /// Provisioning is impossible.
    Fail(String),
    /// Not possible on the selected node: the scheduler has to choose again.
    Reschedule(String),
    /// Create a volume.
    Provision {
        /// The hostname label of the node.
        host: Box<str>,
        /// reclaimPolicy.
        policy: Box<str>,
    },
}

/// Whether a claim waits for this provisioner.
pub(super) fn waits_for_provisioner(claim: &PersistentVolumeClaim) -> bool {
    let meta = &claim.metadata;
    let mark = meta.annotation(STORAGE_PROVISIONER);
    mark.or(meta.annotation(BETA_STORAGE_PROVISIONER)) == Some(NAME)
        && claim.spec.volume_name.is_empty()
        && meta.annotation(BIND_COMPLETED).is_none()
        && !meta.is_terminating()
}

/// Whether a released volume of this provisioner is to be deleted.
pub(super) fn is_to_be_deleted(volume: &PersistentVolume) -> bool {
    volume.metadata.annotation(PROVISIONED_BY) == Some(NAME)
        && matches!(volume.status.phase, VolumePhase::Released | VolumePhase::Failed)
        && &*volume.spec.reclaim_policy == "Delete"
        && !volume.metadata.is_terminating()
}

/// Decides for a claim with its class and selected node.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperation; the rules are k3's own
pub(super) fn decide(
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    node: Option<&Node>,
) -> ProvisioningDecision {
    let Some(class) = class.filter(|class| &*class.provisioner == NAME) else {
        return ProvisioningDecision::Leave;
    };
    let fail = |why: &str| {
        let class = &class.metadata.name;
        ProvisioningDecision::Fail(format!(
            "failed to provision volume with StorageClass {class:?}: {why}"
        ))
    };
    let chosen = claim.metadata.annotation(SELECTED_NODE);
    if chosen.is_none() && class.volume_binding_mode == BindingMode::WaitForFirstConsumer {
        return ProvisioningDecision::Leave;
    }
    if claim.spec.selector.is_some() {
        return fail("claim.Spec.Selector is not supported");
    }
    if claim.spec.volume_mode == VolumeMode::Block {
        return fail("a directory cannot be a block device");
    }
    if !claim
        .spec
        .access_modes
        .iter()
        .all(|mode| ACCESS_MODES.contains(&&**mode))
    {
        return fail("a directory of a node can be used as ReadWriteOnce and ReadWriteOncePod only");
    }
    let Some(chosen) = chosen else {
        return fail("no node was chosen: the class must have the volumeBindingMode WaitForFirstConsumer");
    };
    let Some(node) = node else {
        return ProvisioningDecision::Reschedule(format!(
            "failed to get target node: node {chosen:?} not found"
        ));
    };
    let policy = &class.reclaim_policy;
    ProvisioningDecision::Provision {
        host: node.metadata.label(HOST).unwrap_or(chosen).into(),
        policy: if policy.is_empty() {
            "Delete".into()
        } else {
            policy.clone()
        },
    }
}

/// The volume for a claim.
pub(super) fn volume(
    claim: &PersistentVolumeClaim,
    name: &str,
    directory: &str,
    host: &str,
    policy: &str,
) -> Value {
    let meta = &claim.metadata;
    let path = format!("{directory}/{name}_{}_{}", meta.namespace, meta.name);
    let expression = json!({"key": HOST, "operator": "In", "values": [host]});
    let terms = json!([{"matchExpressions": [expression]}]);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: NAME}},
        "spec": {
            "capacity": {"storage": claim.spec.resources.requests.storage},
            "accessModes": claim.spec.access_modes,
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": claim.class(),
            "claimRef": meta.reference(&PERSISTENT_VOLUME_CLAIMS),
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged<T: serde::de::DeserializeOwned>(whole: Value, change: Value) -> T {
        let changed = k3_api::patch::merge::apply(whole, change).unwrap();
        serde_json::from_value(changed).unwrap()
    }

    fn claim(change: Value) -> PersistentVolumeClaim {
        let marks = json!({STORAGE_PROVISIONER: NAME, SELECTED_NODE: "n"});
        let whole = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "u", "annotations": marks},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "usual"}});
        merged(whole, change)
    }

    #[test]
    fn decides_which_claims_are_provisioned() {
        let late = json!({"metadata": {"name": "usual"}, "provisioner": NAME, "volumeBindingMode": "WaitForFirstConsumer"});
        let class = |change: Value| merged::<StorageClass>(late.clone(), change);
        let node = |labels: Value| {
            merged::<Node>(
                json!({"metadata": {"name": "n"}}),
                json!({"metadata": {"labels": labels}}),
            )
        };
        let host = node(json!({HOST: "host"}));
        let make = |host: &str| ProvisioningDecision::Provision {
            host: host.into(),
            policy: "Delete".into(),
        };
        let unchosen = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
        let is_refused = |plan: &ProvisioningDecision| matches!(plan, ProvisioningDecision::Fail(_));
        let plain = claim(json!({}));
        let usual = class(json!({}));
        assert_eq!(decide(&plain, Some(&usual), Some(&host)), make("host"));
        assert_eq!(decide(&plain, Some(&usual), Some(&node(json!({})))), make("n"));
        assert_eq!(decide(&plain, None, Some(&host)), ProvisioningDecision::Leave);
        assert_eq!(
            decide(&claim(unchosen.clone()), Some(&usual), None),
            ProvisioningDecision::Leave
        );
        let other = class(json!({"provisioner": "example.com/disks"}));
        assert_eq!(
            decide(&plain, Some(&other), Some(&host)),
            ProvisioningDecision::Leave
        );
        assert!(matches!(
            decide(&plain, Some(&usual), None),
            ProvisioningDecision::Reschedule(_)
        ));
        let immediate = class(json!({"volumeBindingMode": "Immediate"}));
        assert!(is_refused(&decide(&claim(unchosen), Some(&immediate), None)));
        for spec in [
            json!({"selector": {}}),
            json!({"volumeMode": "Block"}),
            json!({"accessModes": ["ReadWriteMany"]}),
        ] {
            let claim = claim(json!({"spec": spec}));
            assert!(
                is_refused(&decide(&claim, Some(&usual), Some(&host))),
                "{claim:?}"
            );
        }
    }

    #[test]
    fn selects_relevant_claims_and_volumes() {
        assert!(waits_for_provisioner(&claim(json!({}))));
        assert!(!waits_for_provisioner(&claim(
            json!({"spec": {"volumeName": "v"}})
        )));
        assert!(!waits_for_provisioner(&claim(
            json!({"metadata": {"annotations": {STORAGE_PROVISIONER: "other"}}})
        )));
        let over = json!({"metadata": {"annotations": {PROVISIONED_BY: NAME}}, "status": {"phase": "Released"},
            "spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        let volume = |change: Value| merged::<PersistentVolume>(over.clone(), change);
        assert!(is_to_be_deleted(&volume(json!({}))));
        assert!(!is_to_be_deleted(&volume(json!({"status": {"phase": "Bound"}}))));
        assert!(!is_to_be_deleted(&volume(
            json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        )));
        assert!(!is_to_be_deleted(&volume(
            json!({"metadata": {"annotations": null}})
        )));
    }
}
