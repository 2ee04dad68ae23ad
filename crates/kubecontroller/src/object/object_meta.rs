//! The metadata of an object.

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1 as meta, jiff::Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Metadata, OwnerRef, SharedList, StringMap};
use crate::{internable, resource::Resource};

/// kubectl's annotation, as long as the object itself, which no controller reads.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The metadata of an object, without managed fields and the notes of kubectl.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go ObjectMeta
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The name.
    pub name: Box<str>,
    /// The namespace; empty for cluster-wide objects.
    pub namespace: Box<str>,
    /// Distinguishes it from earlier objects with the same name.
    pub uid: Box<str>,
    /// The version of its last change.
    pub resource_version: Box<str>,
    /// Generation of the spec; 0 for kinds without one.
    pub generation: i64,
    /// When it was created.
    pub creation_timestamp: Option<Timestamp>,
    /// When its deletion is due.
    pub deletion_timestamp: Option<Timestamp>,
    /// How long it was given to go.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Its labels.
    pub labels: StringMap,
    /// Its annotations.
    #[serde(deserialize_with = "annotations")]
    pub annotations: StringMap,
    /// Its owners.
    pub owner_references: SharedList<OwnerReference>,
    /// Finalizers.
    pub finalizers: SharedList<Box<str>>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version.
    pub api_version: Box<str>,
    /// The kind.
    pub kind: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The uid.
    pub uid: Box<str>,
    /// Whether it is the one that controls the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
    /// Whether it waits for the object to go when it is deleted in the foreground.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block_owner_deletion: bool,
}

internable!(OwnerReference);

/// Lets informers keep a type that has a field `metadata: ObjectMeta`.
#[macro_export]
macro_rules! projected_object {
    ($type:ty $(, $parameter:ident)*) => {
        impl<$($parameter: Send + Sync + 'static),*> $crate::object::Object for $type {
            type Metadata = $crate::object::ObjectMeta;

            fn metadata(&self) -> &Self::Metadata {
                &self.metadata
            }
        }
    };
}

// --- ObjectMeta ---

impl Metadata for ObjectMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn generation(&self) -> Option<i64> {
        (self.generation != 0).then_some(self.generation)
    }

    fn is_terminating(&self) -> bool {
        self.is_terminating()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter()
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter()
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        let owners = self.owner_references.iter();
        owners.map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: owner.controller,
        })
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(|finalizer| &**finalizer)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.label(name)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotation(name)
    }
}

impl ObjectMeta {
    /// The owner that controls it.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go GetControllerOf
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether it is controlled by the object with that uid.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go IsControlledBy
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| &*owner.uid == uid)
    }

    /// Whether it has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// A label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name)
    }

    /// Whether it has a finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| &**finalizer == name)
    }

    /// This object as events and others name it.
    pub fn reference(&self, resource: &Resource) -> ObjectReference {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ObjectReference {
            api_version: Some(resource.api_version()),
            kind: Some(resource.kind.to_string()),
            name: text(&self.name),
            namespace: text(&self.namespace),
            uid: text(&self.uid),
            resource_version: text(&self.resource_version),
            field_path: None,
        }
    }

    /// This object as the one that controls another.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go NewControllerRef
    pub fn as_controller(&self, resource: &Resource) -> OwnerReference {
        OwnerReference {
            api_version: resource.api_version().into(),
            kind: (&*resource.kind).into(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }
}

impl From<OwnerReference> for meta::OwnerReference {
    fn from(owner: OwnerReference) -> Self {
        meta::OwnerReference {
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
            name: owner.name.into(),
            uid: owner.uid.into(),
            controller: Some(owner.controller),
            block_owner_deletion: Some(owner.block_owner_deletion),
        }
    }
}

fn annotations<'de, D: Deserializer<'de>>(from: D) -> Result<StringMap, D::Error> {
    StringMap::read_without(from, LAST_APPLIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_the_last_applied_annotation() {
        let meta: ObjectMeta = serde_json::from_str(
            r#"{"name":"web","creationTimestamp":"2026-01-02T03:04:05Z","annotations":{"a":"b",
                "kubectl.kubernetes.io/last-applied-configuration":"{}"},"managedFields":[{}]}"#,
        )
        .unwrap();
        assert_eq!(meta.annotations.len(), 1);
        assert_eq!(meta.annotation("a"), Some("b"));
        assert_eq!(
            meta.creation_timestamp.unwrap().to_string(),
            "2026-01-02T03:04:05Z"
        );
    }
}
