//! What serves a resource or a subresource.

use k3_api::kinds::Persistence;

use crate::request::Target;

/// What serves a resource or a subresource.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/rest.go Storage
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestStorage {
    /// Requests with a body and a response.
    Resource(ResourceStorage),
    /// Connections: they are no answer, but a conversation.
    Connect(Connecter),
}

/// What serves the verbs of a resource or a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceStorage {
    /// Stored objects, and their parts that are written like them (`status`, `approval`, `resize` ...).
    Objects,
    Scale,
    Binding,
    Eviction,
    TokenRequest,
    ComponentStatus,
    /// Access reviews, token reviews and other kinds that are evaluated and never stored.
    Review,
}

/// What serves connections.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/rest.go Connecter
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connecter {
    /// The log of a container.
    Log,
    /// Requests that are passed on to a node, a pod or a service.
    Proxy,
    /// A command in a container, its terminal, or the ports of its pod.
    Stream,
}

// --- RestStorage ---

impl RestStorage {
    /// What serves the resource or subresource that a path leads to.
    // upstream: pkg/registry/core/rest/storage_core.go NewRESTStorage
    pub(crate) fn of(target: &Target) -> Self {
        let kind = &target.kind;
        // Whatever a custom resource is called, it is none of the built-in ones.
        if kind.strategy.is_some() && target.part() != "scale" {
            return RestStorage::Resource(ResourceStorage::Objects);
        }
        RestStorage::Resource(match (&*kind.plural, target.part()) {
            (_, "log") => return RestStorage::Connect(Connecter::Log),
            (_, "proxy") => return RestStorage::Connect(Connecter::Proxy),
            (_, "attach" | "exec" | "portforward") => return RestStorage::Connect(Connecter::Stream),
            (_, "scale") => ResourceStorage::Scale,
            ("pods", "binding") | ("bindings", "") => ResourceStorage::Binding,
            ("pods", "eviction") => ResourceStorage::Eviction,
            ("serviceaccounts", "token") => ResourceStorage::TokenRequest,
            ("componentstatuses", "") => ResourceStorage::ComponentStatus,
            _ if kind.persistence == Persistence::Virtual => ResourceStorage::Review,
            _ => ResourceStorage::Objects,
        })
    }

    /// Whether it serves connections.
    pub(crate) fn is_connecter(self) -> bool {
        matches!(self, RestStorage::Connect(_))
    }
}

#[cfg(test)]
mod tests {
    use k3_api::kinds::builtin;

    use super::*;

    /// What serves an object of a built-in kind, or a part of it.
    fn storage(group: &str, plural: &str, part: &str) -> RestStorage {
        let kind = builtin()
            .resource(group, "v1", plural)
            .expect("the kind is built in");
        let subresource = kind.subresources.iter().position(|known| known.name == part);
        assert_eq!(subresource.is_some(), !part.is_empty(), "{plural}/{part}");
        RestStorage::of(&Target {
            kind: kind.into(),
            namespace: String::new(),
            name: String::new(),
            subresource,
            watch: false,
        })
    }

    #[test]
    fn subresources_have_storage_of_their_own() {
        let resource = RestStorage::Resource;
        let connect = RestStorage::Connect;
        for (group, plural, part, expected) in [
            ("", "pods", "", resource(ResourceStorage::Objects)),
            ("", "pods", "status", resource(ResourceStorage::Objects)),
            ("", "pods", "resize", resource(ResourceStorage::Objects)),
            ("", "pods", "binding", resource(ResourceStorage::Binding)),
            ("", "bindings", "", resource(ResourceStorage::Binding)),
            ("", "pods", "eviction", resource(ResourceStorage::Eviction)),
            (
                "",
                "serviceaccounts",
                "token",
                resource(ResourceStorage::TokenRequest),
            ),
            (
                "",
                "componentstatuses",
                "",
                resource(ResourceStorage::ComponentStatus),
            ),
            ("apps", "deployments", "scale", resource(ResourceStorage::Scale)),
            (
                "authentication.k8s.io",
                "tokenreviews",
                "",
                resource(ResourceStorage::Review),
            ),
            ("", "pods", "log", connect(Connecter::Log)),
            ("", "nodes", "proxy", connect(Connecter::Proxy)),
            ("", "pods", "portforward", connect(Connecter::Stream)),
        ] {
            assert_eq!(storage(group, plural, part), expected, "{plural}/{part}");
        }
    }
}
