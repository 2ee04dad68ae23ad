//! The objects that pods and volumes reference.

use k3_api::strategy::Tree;
use serde::Deserialize;
use serde_json::Value;

use crate::cache::CachedObject;

/// Something that a node may need because of a pod: what it is, in which namespace, and its name.
pub(super) type NodeReference = (ReferenceKind, Box<str>, Box<str>);

/// The kind of a referenced object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReferenceKind {
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    ResourceClaim,
}

/// A pod on a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodReferences {
    pub node: Box<str>,
    pub all: Vec<NodeReference>,
}

/// A volume with a claim.
// upstream: plugin/pkg/auth/authorizer/node/graph.go AddPV
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeReferences {
    /// Namespace and name of the claim it is bound to.
    pub claim: (Box<str>, Box<str>),
    /// The secrets a node needs to mount it.
    pub secrets: Vec<(Box<str>, Box<str>)>,
}

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Where volumes of a pod name their secrets: the source, and the way to the name inside. The first source that is there counts.
const POD_SECRETS: [(&str, &str); 11] = [
    ("azureFile", "secretName"),
    ("cephfs", "secretRef.name"),
    ("cinder", "secretRef.name"),
    ("flexVolume", "secretRef.name"),
    ("projected", ""),
    ("rbd", "secretRef.name"),
    ("secret", "secretName"),
    ("scaleIO", "secretRef.name"),
    ("iscsi", "secretRef.name"),
    ("storageos", "secretRef.name"),
    ("csi", "nodePublishSecretRef.name"),
];

/// Where volumes name their secrets, and whether a secret without a namespace is in that of the claim.
const VOLUME_SECRETS: [(&str, &[&str], bool); 8] = [
    ("cephfs", &["secretRef"], true),
    ("cinder", &["secretRef"], false),
    ("flexVolume", &["secretRef"], true),
    ("rbd", &["secretRef"], true),
    ("scaleIO", &["secretRef"], true),
    ("iscsi", &["secretRef"], true),
    ("storageos", &["secretRef"], false),
    (
        "csi",
        &[
            "nodePublishSecretRef",
            "nodeStageSecretRef",
            "nodeExpandSecretRef",
        ],
        false,
    ),
];

/// The fields of a pod that contain references.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pod {
    metadata: PodMeta,
    spec: Value,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodMeta {
    annotations: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    resource_claim_statuses: Value,
    extended_resource_claim_status: Value,
}

// --- PodReferences ---

impl PodReferences {
    /// Reads a pod; `None` if it is on no node.
    pub(super) fn read(object: &CachedObject) -> Option<Self> {
        // A pod that cannot be read refers to nothing: no node may read something because of it.
        let pod: Pod = serde_json::from_slice(object.stored()).unwrap_or_default();
        let node = pod.spec.text("nodeName");
        if node.is_empty() {
            return None;
        }
        let mut references = PodReferences {
            node: node.into(),
            all: Vec::new(),
        };
        // A node makes mirror pods itself: it must not give itself access to anything that way.
        if !pod.metadata.annotations.has(MIRROR) {
            references.read_spec(&pod, object.namespace(), object.name());
        }
        Some(references)
    }

    // upstream: plugin/pkg/auth/authorizer/node/graph.go AddPod
    fn read_spec(&mut self, pod: &Pod, namespace: &str, pod_name: &str) {
        let spec = &pod.spec;
        let mut add = |sort: ReferenceKind, name: &str| {
            let reference = (sort, Box::from(namespace), Box::from(name));
            if !name.is_empty() && !self.all.contains(&reference) {
                self.all.push(reference);
            }
        };
        add(ReferenceKind::ServiceAccount, spec.text("serviceAccountName"));
        for secret in spec.items("imagePullSecrets") {
            add(ReferenceKind::Secret, secret.text("name"));
        }
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for container in spec.items(list) {
                for source in container.items("envFrom") {
                    add(ReferenceKind::Secret, source.at("secretRef").text("name"));
                    add(ReferenceKind::ConfigMap, source.at("configMapRef").text("name"));
                }
                for variable in container.items("env") {
                    let from = variable.at("valueFrom");
                    add(ReferenceKind::Secret, from.at("secretKeyRef").text("name"));
                    add(ReferenceKind::ConfigMap, from.at("configMapKeyRef").text("name"));
                }
            }
        }
        for volume in spec.items("volumes") {
            if let Some((source, way)) = POD_SECRETS.iter().find(|(source, _)| volume.has(source))
                && !way.is_empty()
            {
                add(
                    ReferenceKind::Secret,
                    volume.at(source).at_path(way).as_str().unwrap_or_default(),
                );
            }
            for source in volume.at("projected").items("sources") {
                add(ReferenceKind::Secret, source.at("secret").text("name"));
                add(ReferenceKind::ConfigMap, source.at("configMap").text("name"));
            }
            if !volume.has("projected") {
                add(ReferenceKind::ConfigMap, volume.at("configMap").text("name"));
            }
            if volume.has("persistentVolumeClaim") {
                add(
                    ReferenceKind::Claim,
                    volume.at("persistentVolumeClaim").text("claimName"),
                );
            } else if volume.has("ephemeral") {
                add(
                    ReferenceKind::Claim,
                    &format!("{pod_name}-{}", volume.text("name")),
                );
            }
        }
        for claim in spec.items("resourceClaims") {
            if claim.has("resourceClaimName") {
                add(ReferenceKind::ResourceClaim, claim.text("resourceClaimName"));
            } else if claim.has("resourceClaimTemplateName") {
                let statuses = pod.status.resource_claim_statuses.as_array();
                let made = statuses
                    .into_iter()
                    .flatten()
                    .find(|status| status.text("name") == claim.text("name"));
                add(
                    ReferenceKind::ResourceClaim,
                    made.map_or("", |status| status.text("resourceClaimName")),
                );
            }
        }
        let extended = &pod.status.extended_resource_claim_status;
        add(ReferenceKind::ResourceClaim, extended.text("resourceClaimName"));
    }
}

// --- VolumeReferences ---

impl VolumeReferences {
    /// Reads a volume; `None` if it has no claim.
    pub(super) fn read(object: &CachedObject) -> Option<Self> {
        let tree = object.tree();
        let spec = tree.at("spec");
        let claim = spec.at("claimRef");
        if claim.is_null() {
            return None;
        }
        let namespace = claim.text("namespace");
        let name = claim.text("name");
        let mut secrets = Vec::new();
        let mut add = |namespace: &str, name: &str| {
            if !name.is_empty() {
                secrets.push((namespace.into(), name.into()));
            }
        };
        let azure = spec.at("azureFile");
        let source = VOLUME_SECRETS.iter().find(|(source, ..)| spec.has(source));
        if !azure.is_null() {
            let own = azure.text("secretNamespace");
            let of = if own.is_empty() { namespace } else { own };
            add(of, azure.text("secretName"));
        } else if let Some((source, ways, of_claim)) = source {
            for way in *ways {
                let secret = spec.at(source).at(way);
                let own = secret.text("namespace");
                let of = if own.is_empty() && *of_claim {
                    namespace
                } else {
                    own
                };
                add(of, secret.text("name"));
            }
        }
        Some(VolumeReferences {
            claim: (namespace.into(), name.into()),
            secrets,
        })
    }
}
