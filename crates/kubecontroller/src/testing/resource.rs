//! Resources and request paths.

use std::fmt;

use kube::core::{ApiResource, Resource};

/// A resource, identified by group and plural. All its API versions are the same resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResourceId {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) plural: String,
}

/// The target of a request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget {
    pub(super) id: ResourceId,
    pub(super) version: String,
    /// Empty for cluster-scoped objects and for lists across namespaces.
    pub(super) namespace: String,
    /// None for a collection.
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

// --- ResourceId ---

impl ResourceId {
    /// The resource of a kind.
    pub(super) fn of<K: Resource<DynamicType = ()>>() -> Self {
        ResourceId {
            group: K::group(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
        }
    }

    /// The resource of a dynamic kind.
    pub(super) fn dynamic(resource: &ApiResource) -> Self {
        ResourceId {
            group: resource.group.clone(),
            plural: resource.plural.clone(),
        }
    }

    /// Whether the resource is built in: items of its lists carry no kind, and it allows unconditional updates.
    pub(super) fn is_built_in(&self) -> bool {
        !self.group.contains('.') || self.group.ends_with(".k8s.io")
    }
}

impl fmt::Display for ResourceId {
    /// As in error messages: `deployments.apps`, or `pods` for the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

// --- RequestTarget ---

impl RequestTarget {
    /// Parses a path below `/api` or `/apis`. None if it names no resource.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').map(str::to_owned);
        let group = match parts.next()?.as_str() {
            "api" => String::new(),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let rest: Vec<String> = parts.collect();
        let target = |namespace: &str, plural: &str, rest: &[String]| RequestTarget {
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

    /// `v1` or `apps/v1`.
    pub(super) fn api_version(&self) -> String {
        match self.id.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}
