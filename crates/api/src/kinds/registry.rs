//! What is known of a kind, and how it is found.

use crate::{strategy::RestStrategy, schema::ObjectType, text::Text};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A kind and the resource that serves it.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: Text,
    /// The version.
    pub version: Text,
    /// The kind, such as `Deployment`.
    pub kind: Text,
    /// The resource in paths, such as `deployments`.
    pub plural: Text,
    /// The resource in words, such as `deployment`.
    pub singular: Text,
    /// What users may type instead.
    pub short_names: Vec<Text>,
    /// The sets of resources it belongs to, such as `all`.
    pub categories: Vec<Text>,
    /// Whether objects live in a namespace.
    pub scope: Scope,
    /// Whether objects are stored.
    pub persistence: Persistence,
    /// What can be done, sorted.
    pub verbs: Vec<&'static str>,
    /// What can be done with a part of an object.
    pub subresources: Vec<Subresource>,
    /// The type of its objects.
    pub ty: ObjectType,
    /// Its rules, if they come with it; those of a built-in kind are found by its name.
    pub strategy: Option<Arc<dyn RestStrategy>>,
}

/// A kind that is built in, or one that comes and goes with its definition.
#[derive(Clone, Debug)]
pub enum KindRef {
    /// Built in.
    Builtin(&'static Kind),
    /// From a definition.
    Custom(Arc<Kind>),
}

/// Whether objects live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They belong to the cluster.
    Cluster,
    /// They live in a namespace.
    Namespaced,
}

/// Whether objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// They are.
    Stored,
    /// They are questions, answered and forgotten, or views of something else.
    Virtual,
}

/// A part of an object with a path of its own.
#[derive(Debug)]
pub struct Subresource {
    /// Its name in paths, such as `scale`.
    pub name: &'static str,
    /// The API group of its kind; empty for the core group.
    pub group: Text,
    /// The version of its kind.
    pub version: Text,
    /// Its kind, such as `Scale`.
    pub kind: Text,
    /// What can be done, sorted.
    pub verbs: Vec<&'static str>,
    /// The type of its objects.
    pub ty: ObjectType,
}

/// Kinds whose objects are the answer to their deletion. All others answer with a `Status`.
const SHOWN_WHEN_DELETED: [&str; 16] = [
    "CSIDriver",
    "CSINode",
    "DeviceClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
    "ResourceSlice",
    "Service",
    "ServiceAccount",
    "StorageClass",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// All built-in kinds.
#[derive(Debug)]
pub struct Registry {
    /// In the order of discovery.
    pub(super) kinds: Vec<Kind>,
    /// Position in `kinds` by group, version and kind.
    pub(super) by_kind: HashMap<(&'static str, &'static str, &'static str), usize>,
    /// Position in `kinds` by group, version and resource.
    pub(super) by_resource: HashMap<(&'static str, &'static str, &'static str), usize>,
}

/// The built-in kinds. The first call reads their table.
pub fn builtin() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::read)
}

// --- Registry ---

impl Registry {
    /// All of them, in the order of discovery.
    pub fn all(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind with this name.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.by_kind
            .get(&(group, version, kind))
            .map(|&position| &self.kinds[position])
    }

    /// The kind that a resource serves.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        self.by_resource
            .get(&(group, version, plural))
            .map(|&position| &self.kinds[position])
    }
}

// --- KindRef ---

impl Deref for KindRef {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            KindRef::Builtin(kind) => kind,
            KindRef::Custom(kind) => kind,
        }
    }
}

impl From<&'static Kind> for KindRef {
    fn from(kind: &'static Kind) -> Self {
        KindRef::Builtin(kind)
    }
}

impl From<Arc<Kind>> for KindRef {
    fn from(kind: Arc<Kind>) -> Self {
        KindRef::Custom(kind)
    }
}

// --- Kind ---

impl Kind {
    /// Group and version as objects carry them: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The kind of a list of its objects.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Whether a verb can be used.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether objects live in a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The kind of what a subresource takes and gives, as far as that is a kind of its own. It has the scope of the kind it
    /// belongs to.
    pub fn of_part(part: &Subresource, whole: &Kind) -> Kind {
        Kind {
            group: part.group.clone(),
            version: part.version.clone(),
            kind: part.kind.clone(),
            plural: whole.plural.clone(),
            singular: whole.singular.clone(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: whole.scope,
            persistence: Persistence::Virtual,
            verbs: Vec::new(),
            subresources: Vec::new(),
            ty: part.ty.clone(),
            strategy: None,
        }
    }

    /// Whether the answer to a deletion is the object, by the documents of the API; else it is a `Status`.
    pub fn is_shown_when_deleted(&self) -> bool {
        SHOWN_WHEN_DELETED.contains(&self.kind.as_str())
    }

    /// A subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}
