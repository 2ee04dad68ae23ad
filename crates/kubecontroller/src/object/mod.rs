//! What is kept of an object.

mod pairs;

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor,
        value::{CowStrDeserializer, MapAccessDeserializer},
    },
};

use kube::Resource;

use crate::Key;

pub use self::pairs::Pairs;

/// What informers, indexes and predicates need of an object. Every kind of `kube` has it; so has [`Slim`].
pub trait Object: Send + Sync + 'static {
    /// The name.
    fn name(&self) -> &str;
    /// The namespace; empty for cluster-wide objects.
    fn namespace(&self) -> &str;
    /// What tells it apart from others that had its name.
    fn uid(&self) -> &str;
    /// The version of its last change.
    fn resource_version(&self) -> &str;
    /// Its generation, if its kind counts them.
    fn generation(&self) -> Option<i64>;
    /// Whether it is going.
    fn is_going(&self) -> bool;
    /// A label.
    fn label(&self, name: &str) -> Option<&str>;
    /// Its labels, in order.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)>;
    /// An annotation.
    fn annotation(&self, name: &str) -> Option<&str>;
    /// Its annotations, in order.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)>;
    /// Its owners.
    fn owners(&self) -> impl Iterator<Item = Owner<'_>>;
    /// Its finalizers.
    fn finalizers(&self) -> impl Iterator<Item = &str>;

    /// Namespace and name.
    fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }

    /// The owner that controls it.
    fn controller(&self) -> Option<Owner<'_>> {
        self.owners().find(|owner| owner.controls)
    }

    /// The version of its last change as a number. Versions of a kind can be compared.
    fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }
}

/// An owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'object> {
    /// Group and version of its kind.
    pub api_version: &'object str,
    /// Its kind.
    pub kind: &'object str,
    /// Its name. It is in the namespace of the object, or in none.
    pub name: &'object str,
    /// Its uid.
    pub uid: &'object str,
    /// Whether it is the one that controls the object.
    pub controls: bool,
}

/// The part of the metadata that a framework needs. Everything else of it is skipped when an object is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimMeta {
    /// The name.
    pub name: String,
    /// The namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// What tells it apart from others that had its name.
    pub uid: String,
    /// The version of its last change.
    pub resource_version: String,
    /// Its generation, if its kind counts them.
    pub generation: Option<i64>,
    /// When it began to go.
    pub deletion_timestamp: Option<String>,
    /// Its labels.
    pub labels: Pairs,
    /// Its annotations, but not the copy of the object that `kubectl apply` keeps in one.
    #[serde(deserialize_with = "annotations")]
    pub annotations: Pairs,
    /// Its owners.
    pub owner_references: Vec<SlimOwner>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimOwner {
    /// Group and version of its kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is the one that controls the object.
    pub controller: Option<bool>,
}

/// Of an object: nothing but its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Bare {}

/// An object of which only what the controller reads is kept: the metadata above, and the fields of `P`.
///
/// ```
/// use kubecontroller::object::{Object, Slim};
///
/// #[derive(serde::Deserialize)]
/// struct Placed { spec: Spec }
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: Option<String> }
///
/// let pod = r#"{"kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"nodeName":"n1","containers":[]}}"#;
/// let pod: Slim<Placed> = serde_json::from_str(pod).unwrap();
/// assert_eq!(pod.name(), "web");
/// assert_eq!(pod.fields.spec.node_name.as_deref(), Some("n1"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slim<P> {
    /// The metadata.
    pub metadata: SlimMeta,
    /// The rest, as far as it is wanted.
    pub fields: P,
}

// --- Every kind of kube ---

// The compiler knows that no `Slim` is a `Resource`: only this crate could make it one.
impl<K: Resource + Send + Sync + 'static> Object for K {
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> Option<i64> {
        self.meta().generation
    }

    fn is_going(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(name).map(String::as_str)
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.meta().labels.as_ref())
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(name).map(String::as_str)
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.meta().annotations.as_ref())
    }

    fn owners(&self) -> impl Iterator<Item = Owner<'_>> {
        let owners = self.meta().owner_references.iter().flatten();
        owners.map(|owner| Owner {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: owner.controller == Some(true),
        })
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.meta().finalizers.iter().flatten().map(String::as_str)
    }
}

fn pairs(map: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&str, &str)> {
    map.into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

// --- SlimMeta ---

/// The annotation in which `kubectl apply` keeps a copy of the object: as large as all the rest, and nobody's business.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotations<'de, D: Deserializer<'de>>(from: D) -> Result<Pairs, D::Error> {
    Pairs::read_without(from, LAST_APPLIED)
}

// --- Slim ---

impl<P: Send + Sync + 'static> Object for Slim<P> {
    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn generation(&self) -> Option<i64> {
        self.metadata.generation
    }

    fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.get(name)
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.labels.iter()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name)
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.annotations.iter()
    }

    fn owners(&self) -> impl Iterator<Item = Owner<'_>> {
        let owners = self.metadata.owner_references.iter();
        owners.map(|owner| Owner {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: owner.controller == Some(true),
        })
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata.finalizers.iter().map(String::as_str)
    }
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for Slim<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SlimVisitor(PhantomData))
    }
}

struct SlimVisitor<P>(PhantomData<P>);

impl<'de, P: Deserialize<'de>> Visitor<'de> for SlimVisitor<P> {
    type Value = Slim<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Slim<P>, M::Error> {
        let mut metadata = None;
        let rest = Rest {
            map,
            metadata: &mut metadata,
        };
        let fields = P::deserialize(MapAccessDeserializer::new(rest))?;
        Ok(Slim {
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
