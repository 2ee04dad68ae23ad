//! Maps the path of a URL to a resource.

use k3_api::kinds::{KindRef, Subresource, builtin};

use super::query::{self, PlusSign};
use crate::custom::DefinitionRegistry;

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Route {
    /// A resource of the API.
    Resource(Target),
    /// Something else, by its decoded path: discovery, health, documents.
    Other,
    /// A part of a custom object that objects of its kind do not have.
    Missing(KindRef, String),
    /// Nothing.
    Nowhere,
}

/// The resource a path leads to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its kind, in the version of the path.
    pub kind: KindRef,
    /// The namespace; empty for a cluster-wide resource and for all namespaces.
    pub namespace: String,
    /// The name of one object; empty for all.
    pub name: String,
    /// The place of the subresource among those of the kind, if one is asked for.
    pub subresource: Option<usize>,
    /// Whether the path is one of the old ones under `/watch/`.
    pub watch: bool,
}

/// Finds the resource or other endpoint of a path.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers
pub(crate) fn route(path: &str, definitions: &DefinitionRegistry) -> Route {
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match (parts.next(), parts.next()) {
        (Some("api"), Some(version)) => (String::new(), version),
        (Some("apis"), Some(group)) => match (query::decode(group, PlusSign::Literal), parts.next()) {
            (Some(group), Some(version)) => (group, version),
            _ => return Route::Other,
        },
        _ => return Route::Other,
    };
    let parts: Option<Vec<String>> = parts.map(|part| query::decode(part, PlusSign::Literal)).collect();
    match parts {
        Some(parts) if parts.is_empty() => Route::Other,
        Some(parts) => resource(&group, version, &parts, definitions).unwrap_or(Route::Nowhere),
        None => Route::Nowhere,
    }
}

fn resource(group: &str, version: &str, parts: &[String], definitions: &DefinitionRegistry) -> Option<Route> {
    let (watch, parts) = match parts {
        [first, rest @ ..] if first == "watch" => (true, rest),
        parts => (false, parts),
    };
    let (namespace, parts) = match parts {
        [first, namespace, rest @ ..] if first == "namespaces" && !is_of_namespace(rest) => {
            (namespace.as_str(), rest)
        }
        parts => ("", parts),
    };
    let (plural, rest) = parts.split_first()?;
    let kind = match builtin().resource(group, version, plural) {
        Some(kind) => KindRef::from(kind),
        None => definitions.kind(group, version, plural)?,
    };
    // A path with a namespace leads to nothing cluster-wide, and the other way round only to lists of all.
    let is_namespaced = kind.is_namespaced();
    if (!namespace.is_empty() && !is_namespaced)
        || (namespace.is_empty() && is_namespaced && !rest.is_empty())
    {
        return None;
    }
    let (name, rest) = match rest.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("", rest),
    };
    let subresource = match rest.first() {
        Some(part) => match kind.subresources.iter().position(|known| known.name == part) {
            None if kind.strategy.is_some() => return Some(Route::Missing(kind, name.to_owned())),
            found => Some(found?),
        },
        None => None,
    };
    let rest = rest.get(1..).unwrap_or_default();
    if !rest.is_empty() && subresource.is_none_or(|at| kind.subresources[at].name != "proxy") {
        return None;
    }
    Some(Route::Resource(Target {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource,
        watch,
    }))
}

/// Whether what follows a namespace is about the namespace itself: nothing, or one of its subresources.
fn is_of_namespace(rest: &[String]) -> bool {
    match rest {
        [] => true,
        [only] => only == "status" || only == "finalize",
        _ => false,
    }
}

// --- Target ---

impl Target {
    /// The name of the subresource; empty if none is asked for.
    pub(crate) fn part(&self) -> &'static str {
        self.subresource().map_or("", |subresource| subresource.name)
    }

    /// The subresource, if one is asked for.
    pub(crate) fn subresource(&self) -> Option<&Subresource> {
        self.kind.subresources.get(self.subresource?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> (String, String, String, &'static str) {
        match route(path, &DefinitionRegistry::default()) {
            Route::Resource(target) => (
                target.kind.plural.to_string(),
                target.namespace.clone(),
                target.name.clone(),
                target.part(),
            ),
            other => (format!("{other:?}"), String::new(), String::new(), ""),
        }
    }

    fn is(
        plural: &str,
        namespace: &str,
        name: &str,
        part: &'static str,
    ) -> (String, String, String, &'static str) {
        (plural.into(), namespace.into(), name.into(), part)
    }

    #[test]
    fn routes_resource_paths() {
        assert_eq!(found("/api/v1/pods"), is("pods", "", "", ""));
        assert_eq!(found("/api/v1/namespaces/a/pods/b"), is("pods", "a", "b", ""));
        assert_eq!(
            found("/api/v1/namespaces/a/pods/b/status"),
            is("pods", "a", "b", "status")
        );
        assert_eq!(found("/api/v1/namespaces/a"), is("namespaces", "", "a", ""));
        assert_eq!(
            found("/api/v1/namespaces/a/finalize"),
            is("namespaces", "", "a", "finalize")
        );
        assert_eq!(
            found("/apis/apps/v1/namespaces/a/deployments"),
            is("deployments", "a", "", "")
        );
        assert_eq!(
            found("/api/v1/namespaces/a/services/b/proxy/x/y"),
            is("services", "a", "b", "proxy")
        );
        assert_eq!(found("/api/v1/watch/namespaces/a/pods"), is("pods", "a", "", ""));
    }

    #[test]
    fn routes_other_paths() {
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/version",
        ] {
            assert!(
                matches!(route(path, &DefinitionRegistry::default()), Route::Other),
                "{path}"
            );
        }
        for path in [
            "/api/v1/bogus",
            "/api/v9/pods",
            "/apis/apps/v1/namespaces/a/nodes",
            "/api/v1/namespaces/a/nodes/b",
            "/api/v1/nodes/a/bogus",
            "/api/v1/namespaces/a/pods/b/status/x",
            "/api/v1/pods/b",
        ] {
            assert!(
                matches!(route(path, &DefinitionRegistry::default()), Route::Nowhere),
                "{path}: {:?}",
                route(path, &DefinitionRegistry::default())
            );
        }
    }
}
