//! The objects that informers store: complete kinds of `kube`, or slim projections of them.

mod intern;
mod metadata;
mod object_meta;
mod string_map;

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor,
        value::{CowStrDeserializer, MapAccessDeserializer},
    },
};

use kube::{Resource, api};

use crate::Key;

pub use self::{
    intern::{Internable, Interner, Shared, SharedList},
    metadata::{Metadata, OwnerRef},
    object_meta::{ObjectMeta, OwnerReference},
    string_map::StringMap,
};

/// What informers, indexes and predicates need of an object: its metadata. Implemented by every typed and dynamic kind of `kube`
/// and by [`SlimObject`].
pub trait Object: Send + Sync + 'static {
    /// The type of the metadata.
    type Metadata: Metadata;

    /// The metadata.
    fn metadata(&self) -> &Self::Metadata;

    /// `metadata.name`
    fn name(&self) -> &str {
        self.metadata().name()
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    fn namespace(&self) -> &str {
        self.metadata().namespace()
    }

    /// `metadata.uid`
    fn uid(&self) -> &str {
        self.metadata().uid()
    }

    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str {
        self.metadata().resource_version()
    }

    /// `metadata.generation`; `None` for kinds without one.
    fn generation(&self) -> Option<i64> {
        self.metadata().generation()
    }

    /// Whether deletion was requested: `metadata.deletionTimestamp` is set.
    fn is_terminating(&self) -> bool {
        self.metadata().is_terminating()
    }

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str> {
        self.metadata().label(name)
    }

    /// The labels, ordered by name.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata().labels()
    }

    /// The value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata().annotation(name)
    }

    /// The annotations, ordered by name.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata().annotations()
    }

    /// The owner references.
    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.metadata().owners()
    }

    /// The finalizers.
    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata().finalizers()
    }

    /// Namespace and name.
    #[doc(alias = "MetaNamespaceKeyFunc")]
    fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }

    /// The owner that controls the object (`metav1.GetControllerOf`).
    #[doc(alias = "GetControllerOf")]
    fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owners().find(|owner| owner.controls)
    }

    /// The resource version as a number. Resource versions of one kind can be compared since Kubernetes 1.35 (KEP-5504).
    fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }
}

/// The fields of a [`SlimObject`] that has nothing but metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MetadataOnly {}

/// An object reduced to a part of its metadata and the fields of `P`. Everything else is skipped while decoding and takes no memory.
///
/// ```
/// use kubecontroller::object::{Object, SlimObject};
///
/// #[derive(serde::Deserialize)]
/// struct PodFields { spec: SpecFields }
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct SpecFields { node_name: Option<String> }
///
/// let pod = r#"{"kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"nodeName":"n1","containers":[]}}"#;
/// let pod: SlimObject<PodFields> = serde_json::from_str(pod).unwrap();
/// assert_eq!(pod.name(), "web");
/// assert_eq!(pod.fields.spec.node_name.as_deref(), Some("n1"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlimObject<P> {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The other fields.
    pub fields: P,
}

// Coherence allows both this and the implementation for `SlimObject`, because `SlimObject` is local and not a `Resource`.
impl<K: Resource + Send + Sync + 'static> Object for K {
    type Metadata = api::ObjectMeta;

    fn metadata(&self) -> &api::ObjectMeta {
        self.meta()
    }
}

// --- SlimObject ---

impl<P: Send + Sync + 'static> Object for SlimObject<P> {
    type Metadata = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for SlimObject<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SlimVisitor(PhantomData))
    }
}

struct SlimVisitor<P>(PhantomData<P>);

impl<'de, P: Deserialize<'de>> Visitor<'de> for SlimVisitor<P> {
    type Value = SlimObject<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<SlimObject<P>, M::Error> {
        let mut metadata = None;
        let other_fields = OtherFields {
            map,
            metadata: &mut metadata,
        };
        let fields = P::deserialize(MapAccessDeserializer::new(other_fields))?;
        Ok(SlimObject {
            metadata: metadata.ok_or_else(|| M::Error::missing_field("metadata"))?,
            fields,
        })
    }
}

/// The fields of an object except `metadata`, which is decoded into a variable on the way. `#[serde(flatten)]` would do the same,
/// but buffers the whole object.
struct OtherFields<'m, M> {
    map: M,
    metadata: &'m mut Option<ObjectMeta>,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for OtherFields<'_, M> {
    type Error = M::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, M::Error> {
        while let Some(key) = self.map.next_key::<Cow<'de, str>>()? {
            if key == "metadata" {
                *self.metadata = Some(self.map.next_value()?);
                continue;
            }
            let key: CowStrDeserializer<'_, M::Error> = key.into_deserializer();
            return seed.deserialize(key).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}
