//! Representations of objects in responses.

use serde_json::{Map, Value, json};

use super::resource::RequestTarget;

/// Whole objects or `PartialObjectMetadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    Whole,
    Metadata,
}

/// Why a bookmark is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BookmarkKind {
    Progress,
    /// The end of the initial events.
    InitialEventsEnd,
}

/// Kinds that cannot be derived from their plurals.
const IRREGULAR_KINDS: &[(&str, &str)] = &[
    ("configmaps", "ConfigMap"),
    ("controllerrevisions", "ControllerRevision"),
    ("cronjobs", "CronJob"),
    ("customresourcedefinitions", "CustomResourceDefinition"),
    ("daemonsets", "DaemonSet"),
    ("endpoints", "Endpoints"),
    ("endpointslices", "EndpointSlice"),
    ("horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("ingresses", "Ingress"),
    ("networkpolicies", "NetworkPolicy"),
    ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ("persistentvolumes", "PersistentVolume"),
    ("poddisruptionbudgets", "PodDisruptionBudget"),
    ("priorityclasses", "PriorityClass"),
    ("replicasets", "ReplicaSet"),
    ("replicationcontrollers", "ReplicationController"),
    ("resourcequotas", "ResourceQuota"),
    ("serviceaccounts", "ServiceAccount"),
    ("statefulsets", "StatefulSet"),
    ("storageclasses", "StorageClass"),
    ("volumeattachments", "VolumeAttachment"),
];

// --- ResponseFormat ---

impl ResponseFormat {
    /// The representation that an `Accept` header requests.
    pub(super) fn parse(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadata") {
            ResponseFormat::Metadata
        } else {
            ResponseFormat::Whole
        }
    }

    /// An object in the response of a get or a write, or in a watch event.
    pub(super) fn object(self, object: &Value, target: &RequestTarget) -> Value {
        match self {
            ResponseFormat::Whole => {
                let mut representation = object.clone();
                representation["apiVersion"] = target.api_version().into();
                representation
            }
            ResponseFormat::Metadata => json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "PartialObjectMetadata",
                "metadata": object["metadata"],
            }),
        }
    }

    /// An item of a list. Items of built-in kinds carry no `apiVersion` and `kind`.
    fn item(self, object: &Value, target: &RequestTarget) -> Value {
        let mut item = self.object(object, target);
        if let Some(fields) = item
            .as_object_mut()
            .filter(|_| self == ResponseFormat::Whole && target.id.is_built_in())
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        item
    }

    /// A list.
    pub(super) fn list<'a>(
        self,
        objects: impl Iterator<Item = &'a Value>,
        target: &RequestTarget,
        kind: &str,
        metadata: &Map<String, Value>,
    ) -> Value {
        let items: Vec<Value> = objects.map(|object| self.item(object, target)).collect();
        let (api_version, kind) = match self {
            ResponseFormat::Whole => (target.api_version(), format!("{kind}List")),
            ResponseFormat::Metadata => (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadataList".to_owned(),
            ),
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items})
    }

    /// A bookmark: an object with only a resource version.
    pub(super) fn bookmark(
        self,
        target: &RequestTarget,
        kind: &str,
        version: u64,
        bookmark: BookmarkKind,
    ) -> Value {
        let mut metadata = json!({"creationTimestamp": null, "resourceVersion": version.to_string()});
        if bookmark == BookmarkKind::InitialEventsEnd {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.object(&json!({"kind": kind, "metadata": metadata}), target)
    }
}

/// Guesses the kind of a resource from its plural.
pub(super) fn kind_of(plural: &str) -> String {
    if let Some((_, kind)) = IRREGULAR_KINDS.iter().find(|(irregular, _)| *irregular == plural) {
        return (*kind).to_owned();
    }
    let singular = match plural.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
    };
    let mut letters = singular.chars();
    letters
        .next()
        .map(|first| first.to_ascii_uppercase())
        .into_iter()
        .chain(letters)
        .collect()
}
