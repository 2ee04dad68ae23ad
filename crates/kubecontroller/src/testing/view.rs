//! How objects are shown.

use serde_json::{Map, Value, json};

use super::resource::Target;

/// Whole objects, or their metadata only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Whole,
    Metadata,
}

/// Kinds whose names are not their plurals' in the simple way.
const ODD: &[(&str, &str)] = &[
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

// --- View ---

impl View {
    /// What an `Accept` header asks for.
    pub(super) fn parse(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadata") {
            View::Metadata
        } else {
            View::Whole
        }
    }

    /// An object as a get, a write or a watch answers it.
    pub(super) fn object(self, object: &Value, target: &Target) -> Value {
        match self {
            View::Whole => {
                let mut shown = object.clone();
                shown["apiVersion"] = target.api_version().into();
                shown
            }
            View::Metadata => json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "PartialObjectMetadata",
                "metadata": object["metadata"],
            }),
        }
    }

    /// An object within a list: one that the server defines does not say its kind there.
    fn item(self, object: &Value, target: &Target) -> Value {
        let mut shown = self.object(object, target);
        if let Some(fields) = shown
            .as_object_mut()
            .filter(|_| self == View::Whole && target.id.is_built_in())
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        shown
    }

    /// A list.
    pub(super) fn list<'a>(
        self,
        objects: impl Iterator<Item = &'a Value>,
        target: &Target,
        kind: &str,
        metadata: &Map<String, Value>,
    ) -> Value {
        let items: Vec<Value> = objects.map(|object| self.item(object, target)).collect();
        let (api_version, kind) = match self {
            View::Whole => (target.api_version(), format!("{kind}List")),
            View::Metadata => (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadataList".to_owned(),
            ),
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items})
    }

    /// A bookmark: an object that says nothing but a version.
    pub(super) fn bookmark(self, target: &Target, kind: &str, version: u64, ends_initial: bool) -> Value {
        let mut metadata = json!({"creationTimestamp": null, "resourceVersion": version.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.object(&json!({"kind": kind, "metadata": metadata}), target)
    }
}

/// The kind of a resource of which no object was seen: a guess from its plural.
pub(super) fn kind_of(plural: &str) -> String {
    if let Some((_, kind)) = ODD.iter().find(|(odd, _)| *odd == plural) {
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
