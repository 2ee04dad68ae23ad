//! Which resource a path speaks of.

use std::fmt;

use kube::core::{ApiResource, Resource};

/// A resource: its group and its plural. All versions of it are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResourceId {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) plural: String,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) id: ResourceId,
    pub(super) version: String,
    /// Empty for cluster-wide objects, and for a list over all namespaces.
    pub(super) namespace: String,
    /// `None` for a collection.
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

// --- ResourceId ---

impl ResourceId {
    /// The resource of a kind of `kube`.
    pub(super) fn of<K: Resource<DynamicType = ()>>() -> Self {
        ResourceId {
            group: K::group(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
        }
    }

    /// The resource that a description names.
    pub(super) fn described(resource: &ApiResource) -> Self {
        ResourceId {
            group: resource.group.clone(),
            plural: resource.plural.clone(),
        }
    }

    /// Whether the server itself defines it: its objects carry no kind within a list, and may be updated unconditionally.
    pub(super) fn is_built_in(&self) -> bool {
        !self.group.contains('.') || self.group.ends_with(".k8s.io")
    }
}

impl fmt::Display for ResourceId {
    /// `deployments.apps`; `pods` for the core group, as messages write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

// --- Target ---

impl Target {
    /// Reads a path below `/api` or `/apis`. `None` if it names no resource.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').map(str::to_owned);
        let group = match parts.next()?.as_str() {
            "api" => String::new(),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let rest: Vec<String> = parts.collect();
        let target = |namespace: &str, plural: &str, rest: &[String]| Target {
            id: ResourceId {
                group: group.clone(),
                plural: plural.to_owned(),
            },
            version: version.clone(),
            namespace: namespace.to_owned(),
            name: rest.first().cloned(),
            subresource: (rest.len() > 1).then(|| rest[1..].join("/")),
        };
        match rest.as_slice() {
            [] => None,
            [namespaces, namespace, plural, rest @ ..]
                if namespaces == "namespaces" && !matches!(plural.as_str(), "status" | "finalize") =>
            {
                Some(target(namespace, plural, rest))
            }
            [plural, rest @ ..] => Some(target("", plural, rest)),
        }
    }

    /// `v1`, or `apps/v1`.
    pub(super) fn api_version(&self) -> String {
        match self.id.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}
