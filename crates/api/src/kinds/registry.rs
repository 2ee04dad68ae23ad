//! Resource metadata of a kind, and lookup of the built-in kinds.

use crate::{schema::ObjectType, strategy::RestStrategy, text::SharedText};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A kind and the resource that serves it.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: SharedText,
    /// The API version, such as `v1`.
    pub version: SharedText,
    /// The kind, such as `Deployment`.
    pub kind: SharedText,
    /// The resource in paths, such as `deployments`.
    pub plural: SharedText,
    /// The singular name, such as `deployment`.
    pub singular: SharedText,
    /// Short names, such as `deploy`.
    pub short_names: Vec<SharedText>,
    /// Categories, such as `all`.
    pub categories: Vec<SharedText>,
    /// Cluster-scoped or namespaced.
    pub scope: Scope,
    /// Whether objects are stored.
    pub persistence: Persistence,
    /// Verbs of the resource, sorted.
    pub verbs: Vec<&'static str>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// The schema of its objects.
    pub ty: ObjectType,
    /// The strategy of a custom kind; that of a built-in kind is found by its name.
    pub strategy: Option<Arc<dyn RestStrategy>>,
}

/// A built-in kind, or one that is added and removed with its CustomResourceDefinition.
#[derive(Clone, Debug)]
pub enum KindRef {
    /// A kind of the table of built-in kinds.
    Builtin(&'static Kind),
    /// A kind of a CustomResourceDefinition.
    Custom(Arc<Kind>),
}

/// Cluster-scoped or namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects have no namespace.
    Cluster,
    /// Objects have a namespace.
    Namespaced,
}

/// Whether objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Objects are written to storage.
    Stored,
    /// Objects are reviews or views of other objects, and are never written.
    Virtual,
}

/// A subresource of a resource.
#[derive(Debug)]
pub struct Subresource {
    /// The path segment, such as `scale`.
    pub name: &'static str,
    /// The API group of the kind it takes; empty for the core group.
    pub group: SharedText,
    /// The version of the kind it takes.
    pub version: SharedText,
    /// The kind it takes, such as `Scale`.
    pub kind: SharedText,
    /// Verbs of the subresource, sorted.
    pub verbs: Vec<&'static str>,
    /// The schema of its objects.
    pub ty: ObjectType,
}

/// Kinds whose DELETE returns the object. All others return a `Status`.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Store; the field ReturnDeletedObject
const RETURN_DELETED_OBJECT: [&str; 16] = [
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

/// The built-in kinds with their indexes.
#[derive(Debug)]
pub struct Registry {
    /// In discovery order.
    pub(super) kinds: Vec<Kind>,
    /// Position in `kinds` by group, version and kind.
    pub(super) by_kind: HashMap<(&'static str, &'static str, &'static str), usize>,
    /// Position in `kinds` by group, version and resource.
    pub(super) by_resource: HashMap<(&'static str, &'static str, &'static str), usize>,
}

/// The built-in kinds. The first call parses their table.
pub fn builtin() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::read)
}

// --- Registry ---

impl Registry {
    /// All kinds in discovery order.
    pub fn all(&self) -> &[Kind] {
        &self.kinds
    }

    /// Finds a kind by group, version and kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.by_kind
            .get(&(group, version, kind))
            .map(|&position| &self.kinds[position])
    }

    /// Finds a kind by group, version and resource.
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

    /// The list kind, such as `DeploymentList`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Whether the resource has a verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether objects have a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The kind that a subresource takes and returns, where it is a kind of its own. Its scope is that of the parent.
    pub fn for_subresource(part: &Subresource, whole: &Kind) -> Kind {
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

    /// Whether DELETE returns the object instead of a `Status`.
    pub fn returns_deleted_object(&self) -> bool {
        RETURN_DELETED_OBJECT.contains(&self.kind.as_str())
    }

    /// Finds a subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}
