//! What is kept of an object.

mod metadata;
mod string_map;

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor,
        value::{CowStrDeserializer, MapAccessDeserializer},
    },
};

use kube::{Resource, api::ObjectMeta};

use crate::Key;

pub use self::{
    metadata::{Metadata, OwnerRef, SlimMeta, SlimOwnerReference},
    string_map::StringMap,
};

/// What informers, indexes and predicates need of an object: its metadata. Every kind of `kube` has it; so has [`SlimObject`].
pub trait Object: Send + Sync + 'static {
    /// What is kept of its metadata.
    type Metadata: Metadata;

    /// Its metadata.
    fn metadata(&self) -> &Self::Metadata;

    /// The name.
    fn name(&self) -> &str {
        self.metadata().name()
    }

    /// The namespace; empty for cluster-wide objects.
    fn namespace(&self) -> &str {
        self.metadata().namespace()
    }

    /// What tells it apart from others that had its name.
    fn uid(&self) -> &str {
        self.metadata().uid()
    }

    /// The version of its last change.
    fn resource_version(&self) -> &str {
        self.metadata().resource_version()
    }

    /// Its generation, if its kind counts them.
    fn generation(&self) -> Option<i64> {
        self.metadata().generation()
    }

    /// Whether it is going.
    fn is_terminating(&self) -> bool {
        self.metadata().is_terminating()
    }

    /// A label.
    fn label(&self, name: &str) -> Option<&str> {
        self.metadata().label(name)
    }

    /// Its labels, in order.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata().labels()
    }

    /// An annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata().annotation(name)
    }

    /// Its annotations, in order.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata().annotations()
    }

    /// Its owners.
    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.metadata().owners()
    }

    /// Its finalizers.
    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata().finalizers()
    }

    /// Namespace and name.
    fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }

    /// The owner that controls it.
    fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owners().find(|owner| owner.controls)
    }

    /// The version of its last change as a number. Versions of a kind can be compared.
    fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }
}

/// Of an object: nothing but its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MetadataOnly {}

/// An object of which only what the controller reads is kept: the metadata above, and the fields of `P`.
///
/// ```
/// use kubecontroller::object::{Object, SlimObject};
///
/// #[derive(serde::Deserialize)]
/// struct Placed { spec: Spec }
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: Option<String> }
///
/// let pod = r#"{"kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"nodeName":"n1","containers":[]}}"#;
/// let pod: SlimObject<Placed> = serde_json::from_str(pod).unwrap();
/// assert_eq!(pod.name(), "web");
/// assert_eq!(pod.fields.spec.node_name.as_deref(), Some("n1"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlimObject<P> {
    /// The metadata.
    pub metadata: SlimMeta,
    /// The rest, as far as it is wanted.
    pub fields: P,
}

// The compiler knows that no `SlimObject` is a `Resource`: only this crate could make it one.
impl<K: Resource + Send + Sync + 'static> Object for K {
    type Metadata = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

// --- SlimObject ---

impl<P: Send + Sync + 'static> Object for SlimObject<P> {
    type Metadata = SlimMeta;

    fn metadata(&self) -> &SlimMeta {
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
        let rest = Rest {
            map,
            metadata: &mut metadata,
        };
        let fields = P::deserialize(MapAccessDeserializer::new(rest))?;
        Ok(SlimObject {
            metadata: metadata.ok_or_else(|| M::Error::missing_field("metadata"))?,
            fields,
        })
    }
}

/// The fields of an object but its metadata, which is put aside when it comes by. Nothing is read twice.
struct Rest<'m, M> {
    map: M,
    metadata: &'m mut Option<SlimMeta>,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for Rest<'_, M> {
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
