//! Which claims get a volume, and what it is.

use serde_json::{Value, json};

use super::NAME;
use crate::{
    objects::{
        BindingMode, Node, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeMode, VolumePhase,
    },
    resource::PERSISTENT_VOLUME_CLAIMS,
    volume_binder::annotations::{
        BETA_STORAGE_PROVISIONER, BIND_COMPLETED, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER,
    },
};

/// The label by which volumes and nodes find each other.
const HOST: &str = "kubernetes.io/hostname";
/// How a folder of one node can be used.
const MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// What is to be done about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing, or nothing yet.
    Leave,
    /// It cannot have a volume.
    Refuse(String),
    /// It cannot have one on the node that was chosen for it.
    ChooseAgain(String),
    /// It gets one.
    Make {
        /// The name of the host.
        host: Box<str>,
        /// What becomes of the volume in the end.
        policy: Box<str>,
    },
}

/// Whether a claim waits for a volume from here.
pub(super) fn is_for_us(claim: &PersistentVolumeClaim) -> bool {
    let meta = &claim.metadata;
    let mark = meta.annotation(STORAGE_PROVISIONER);
    mark.or(meta.annotation(BETA_STORAGE_PROVISIONER)) == Some(NAME)
        && claim.spec.volume_name.is_empty()
        && meta.annotation(BIND_COMPLETED).is_none()
        && !meta.is_going()
}

/// Whether a volume was made here and is to go.
pub(super) fn is_done_with(volume: &PersistentVolume) -> bool {
    volume.metadata.annotation(PROVISIONED_BY) == Some(NAME)
        && matches!(volume.status.phase, VolumePhase::Released | VolumePhase::Failed)
        && &*volume.spec.reclaim_policy == "Delete"
        && !volume.metadata.is_going()
}

/// What is to be done about a claim that waits for a volume from here, with its class and the node that was chosen for it.
pub(super) fn plan(claim: &PersistentVolumeClaim, class: Option<&StorageClass>, node: Option<&Node>) -> Plan {
    let Some(class) = class.filter(|class| &*class.provisioner == NAME) else {
        return Plan::Leave;
    };
    let refuse = |why: &str| {
        let class = &class.metadata.name;
        Plan::Refuse(format!(
            "failed to provision volume with StorageClass {class:?}: {why}"
        ))
    };
    let chosen = claim.metadata.annotation(SELECTED_NODE);
    if chosen.is_none() && class.volume_binding_mode == BindingMode::WaitForFirstConsumer {
        return Plan::Leave;
    }
    if claim.spec.selector.is_some() {
        return refuse("claim.Spec.Selector is not supported");
    }
    if claim.spec.volume_mode == VolumeMode::Block {
        return refuse("a folder cannot be a block device");
    }
    if !claim
        .spec
        .access_modes
        .iter()
        .all(|mode| MODES.contains(&&**mode))
    {
        return refuse("a folder of a node can be used as ReadWriteOnce and ReadWriteOncePod only");
    }
    let Some(chosen) = chosen else {
        return refuse("no node was chosen: the class must have the volumeBindingMode WaitForFirstConsumer");
    };
    let Some(node) = node else {
        return Plan::ChooseAgain(format!("failed to get target node: node {chosen:?} not found"));
    };
    let policy = &class.reclaim_policy;
    Plan::Make {
        host: node.metadata.label(HOST).unwrap_or(chosen).into(),
        policy: if policy.is_empty() {
            "Delete".into()
        } else {
            policy.clone()
        },
    }
}

/// A volume for a claim.
pub(super) fn volume(
    claim: &PersistentVolumeClaim,
    name: &str,
    folder: &str,
    host: &str,
    policy: &str,
) -> Value {
    let meta = &claim.metadata;
    let path = format!("{folder}/{name}_{}_{}", meta.namespace, meta.name);
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

    fn made<T: serde::de::DeserializeOwned>(whole: Value, change: Value) -> T {
        let changed = k3_api::patch::merge::apply(whole, change).unwrap();
        serde_json::from_value(changed).unwrap()
    }

    fn claim(change: Value) -> PersistentVolumeClaim {
        let marks = json!({STORAGE_PROVISIONER: NAME, SELECTED_NODE: "n"});
        let whole = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "u", "annotations": marks},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "usual"}});
        made(whole, change)
    }

    #[test]
    fn a_claim_gets_a_volume_if_a_folder_of_its_node_can_be_one() {
        let late = json!({"metadata": {"name": "usual"}, "provisioner": NAME, "volumeBindingMode": "WaitForFirstConsumer"});
        let class = |change: Value| made::<StorageClass>(late.clone(), change);
        let node = |labels: Value| {
            made::<Node>(
                json!({"metadata": {"name": "n"}}),
                json!({"metadata": {"labels": labels}}),
            )
        };
        let host = node(json!({HOST: "host"}));
        let make = |host: &str| Plan::Make {
            host: host.into(),
            policy: "Delete".into(),
        };
        let unchosen = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
        let is_refused = |plan: &Plan| matches!(plan, Plan::Refuse(_));
        let (plain, usual) = (claim(json!({})), class(json!({})));
        assert_eq!(plan(&plain, Some(&usual), Some(&host)), make("host"));
        assert_eq!(plan(&plain, Some(&usual), Some(&node(json!({})))), make("n"));
        assert_eq!(plan(&plain, None, Some(&host)), Plan::Leave);
        assert_eq!(plan(&claim(unchosen.clone()), Some(&usual), None), Plan::Leave);
        let other = class(json!({"provisioner": "example.com/disks"}));
        assert_eq!(plan(&plain, Some(&other), Some(&host)), Plan::Leave);
        assert!(matches!(plan(&plain, Some(&usual), None), Plan::ChooseAgain(_)));
        let immediate = class(json!({"volumeBindingMode": "Immediate"}));
        assert!(is_refused(&plan(&claim(unchosen), Some(&immediate), None)));
        for spec in [
            json!({"selector": {}}),
            json!({"volumeMode": "Block"}),
            json!({"accessModes": ["ReadWriteMany"]}),
        ] {
            let claim = claim(json!({"spec": spec}));
            assert!(is_refused(&plan(&claim, Some(&usual), Some(&host))), "{claim:?}");
        }
    }

    #[test]
    fn only_claims_that_ask_and_volumes_that_are_over_matter() {
        assert!(is_for_us(&claim(json!({}))));
        assert!(!is_for_us(&claim(json!({"spec": {"volumeName": "v"}}))));
        assert!(!is_for_us(&claim(
            json!({"metadata": {"annotations": {STORAGE_PROVISIONER: "other"}}})
        )));
        let over = json!({"metadata": {"annotations": {PROVISIONED_BY: NAME}}, "status": {"phase": "Released"},
            "spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        let volume = |change: Value| made::<PersistentVolume>(over.clone(), change);
        assert!(is_done_with(&volume(json!({}))));
        assert!(!is_done_with(&volume(json!({"status": {"phase": "Bound"}}))));
        assert!(!is_done_with(&volume(
            json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        )));
        assert!(!is_done_with(&volume(json!({"metadata": {"annotations": null}}))));
    }
}
