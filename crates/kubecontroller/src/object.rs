//! What is kept of an object.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor,
        value::{CowStrDeserializer, MapAccessDeserializer},
    },
};

use crate::Key;

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
    /// The uids of its owners, and whether each is the one that controls it.
    fn owners(&self) -> impl Iterator<Item = (&str, bool)>;

    /// Namespace and name.
    fn key(&self) -> Key {
        Key::new(self.namespace(), self.name())
    }
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
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Its owners.
    pub owner_references: Vec<SlimOwner>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimOwner {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is the one that controls the object.
    pub controller: Option<bool>,
}

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
        self.metadata.labels.get(name).map(|value| &**value)
    }

    fn owners(&self) -> impl Iterator<Item = (&str, bool)> {
        let owners = self.metadata.owner_references.iter();
        owners.map(|owner| (owner.uid.as_str(), owner.controller == Some(true)))
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
