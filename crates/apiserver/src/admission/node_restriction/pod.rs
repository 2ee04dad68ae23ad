//! `NodeRestriction` for Pods: mirror pods, status, eviction and deletion.

use k3_api::{go, status::Status, strategy::Tree};
use serde_json::Value;

use super::{MIRROR, NodeRequest, not_found};
use crate::{
    admission::{Operation, object},
    cache::WatchCaches,
};

/// Volumes that need nothing of the API.
const FREE: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// Volumes that need something, and what.
const BOUND: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
/// Parts of projected volumes that need something, and what.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];
/// Where volumes name secrets.
const SECRETS: [(&str, &str); 8] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
];

pub(super) fn admit(asked: &NodeRequest<'_>, caches: &WatchCaches) -> Result<(), Status> {
    let operation = asked.operation();
    let node = asked.quoted();
    let word = go::quote(operation);
    match (asked.part(), asked.attributes.operation) {
        ("", Operation::Create) => create(asked, caches),
        ("", Operation::Delete) => {
            if asked.object().at("spec").text("nodeName") == asked.node {
                return Ok(());
            }
            asked.refuse(format!(
                "node {node} can only delete pods with spec.nodeName set to itself"
            ))
        }
        ("", Operation::Update) => asked.refuse(format!(
            "unexpected operation {word}, node {node} can only create and delete mirror pods"
        )),
        ("status", Operation::Update) => status(asked),
        ("status", _) => asked.refuse(format!("unexpected operation {word}")),
        ("eviction", Operation::Create) => evict(asked, caches),
        ("eviction", _) => asked.refuse(format!("unexpected operation {operation}")),
        (part, _) => asked.refuse(format!(
            "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
            go::quote(part)
        )),
    }
}

/// A node makes mirror pods of its own alone, which need nothing of the API.
// upstream: plugin/pkg/admission/noderestriction/admission.go admitPodCreate
fn create(asked: &NodeRequest<'_>, caches: &WatchCaches) -> Result<(), Status> {
    let node = asked.quoted();
    let pod = asked.object();
    if !pod.at("metadata").entries("annotations").contains_key(MIRROR) {
        return asked.refuse(format!(
            "pod does not have {} annotation, node {node} can only create mirror pods",
            go::quote(MIRROR)
        ));
    }
    if pod.at("spec").text("nodeName") != asked.node {
        return asked.refuse(format!(
            "node {node} can only create pods with spec.nodeName set to itself"
        ));
    }
    let can = |what: &str| {
        asked.refuse(format!(
            "node {node} can only create pods with {what} set to itself"
        ))
    };
    let owner = match pod.at("metadata").items("ownerReferences") {
        [owner] => owner,
        [] => return can("an owner reference"),
        _ => return can("a single owner reference"),
    };
    if owner.text("apiVersion") != "v1" || owner.text("kind") != "Node" || owner.text("name") != asked.node {
        return can("an owner reference");
    }
    if !owner.flag("controller") {
        return can("a controller owner reference");
    }
    if owner.flag("blockOwnerDeletion") {
        return asked.refuse(format!(
            "node {node} must not set blockOwnerDeletion on an owner reference"
        ));
    }
    let Some(known) = object("", "nodes", "", asked.node, caches) else {
        return Err(not_found("", "node", asked.node));
    };
    let said = owner.text("uid");
    let uid = known.at("metadata").text("uid");
    if said != uid {
        let name = asked.node;
        return asked.refuse(format!("node {name} UID mismatch: expected {said} got {uid}"));
    }
    match reference(pod.at("spec")) {
        Ok("") => Ok(()),
        Ok(what) => asked.refuse(format!("node {node} can not create pods that reference {what}")),
        Err(why) => asked.refuse(format!("error checking mirror pod for API references: {why}")),
    }
}

/// Why it is not known what of the API a pod needs: a volume of a kind that is not known, by its quoted name.
#[derive(Debug, thiserror::Error)]
enum UnknownVolume {
    #[error("unknown volume type for volume  {0}")]
    Kind(String),
    #[error("unknown source for projected volume {0}")]
    ProjectedSource(String),
}

/// What of the API a pod needs; empty if nothing.
fn reference(spec: &Value) -> Result<&'static str, UnknownVolume> {
    if !spec.text("serviceAccountName").is_empty() {
        return Ok("serviceaccounts");
    }
    if names_any(spec, "secret") || names_secret(spec) {
        return Ok("secrets");
    }
    if names_any(spec, "configMap") {
        return Ok("configmaps");
    }
    if !spec.items("resourceClaims").is_empty() {
        return Ok("resourceclaims");
    }
    for volume in spec.items("volumes") {
        let quoted = || go::quote(volume.text("name"));
        if FREE.iter().any(|kind| volume.has(kind)) {
            continue;
        }
        if let Some((_, what)) = BOUND.iter().find(|(kind, _)| volume.has(kind)) {
            return Ok(what);
        }
        if !volume.has("projected") {
            return Err(UnknownVolume::Kind(quoted()));
        }
        for source in volume.at("projected").items("sources") {
            if let Some((_, what)) = PROJECTED.iter().find(|(kind, _)| source.has(kind)) {
                return Ok(what);
            }
            if !source.has("downwardAPI") {
                return Err(UnknownVolume::ProjectedSource(quoted()));
            }
        }
    }
    Ok("")
}

/// Whether containers or volumes name a secret or config map (`what`).
fn names_any(spec: &Value, what: &str) -> bool {
    let whole = format!("{what}Ref");
    let key = format!("{what}KeyRef");
    let names = |reference: &Value| !reference.text("name").is_empty();
    let of_container = |container: &Value| {
        let from = container.items("envFrom").iter();
        let variables = container.items("env").iter();
        from.map(|from| from.at(&whole)).any(names)
            || variables
                .map(|variable| variable.at("valueFrom").at(&key))
                .any(names)
    };
    let of_volume = |volume: &Value| {
        let sources = volume.at("projected").items("sources").iter();
        let own = volume.at(what);
        names(own) || !own.text("secretName").is_empty() || sources.map(|source| source.at(what)).any(names)
    };
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| spec.items(list))
        .any(of_container)
        || spec.items("volumes").iter().any(of_volume)
}

/// Whether a pod names a secret where config maps cannot be named.
fn names_secret(spec: &Value) -> bool {
    let names = |reference: &Value| !reference.text("name").is_empty();
    spec.items("imagePullSecrets").iter().any(names)
        || spec.items("volumes").iter().any(|volume| {
            !volume.at("azureFile").text("secretName").is_empty()
                || SECRETS
                    .iter()
                    .any(|(kind, field)| names(volume.at(kind).at(field)))
        })
}

/// A node updates the status of its own pods only.
// upstream: plugin/pkg/admission/noderestriction/admission.go admitPodStatus
fn status(asked: &NodeRequest<'_>) -> Result<(), Status> {
    let Some(old) = asked.attributes.old else {
        return Ok(());
    };
    let node = asked.quoted();
    let new = asked.object();
    if old.at("spec").text("nodeName") != asked.node {
        return asked.refuse(format!(
            "node {node} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if new.at("metadata").entries("labels") != old.at("metadata").entries("labels") {
        return asked.refuse(format!("node {node} cannot update labels through pod status"));
    }
    let before = old.at("status");
    let after = new.at("status");
    for (field, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
        (
            "nodeAllocatableResourceClaimStatuses",
            "node allocatable resource claim statuses",
        ),
    ] {
        if before.at(field) != after.at(field) {
            return asked.refuse(format!("node {node} cannot update {what}"));
        }
    }
    Ok(())
}

// upstream: plugin/pkg/admission/noderestriction/admission.go admitPodEviction
fn evict(asked: &NodeRequest<'_>, caches: &WatchCaches) -> Result<(), Status> {
    if asked.name().is_empty() {
        return asked.refuse("could not determine pod from request data");
    }
    let pod = asked.pod(asked.name(), caches)?;
    if pod.at("spec").text("nodeName") == asked.node {
        return Ok(());
    }
    let node = asked.node;
    asked.refuse(format!(
        "node {node} can only evict pods with spec.nodeName set to itself"
    ))
}
