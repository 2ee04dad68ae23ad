//! Resources of the API, and the paths of their objects.

use std::{borrow::Cow, fmt::Write as _};

use kube::core::ApiResource;

/// A resource of the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The group; empty for the first one.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The name in paths.
    pub plural: Cow<'static, str>,
    /// The name in objects.
    pub kind: Cow<'static, str>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// Where the objects of a resource are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceScope {
    /// In namespaces.
    Namespaced,
    /// Outside of namespaces.
    Cluster,
}

// --- Resource ---

impl Resource {
    /// A resource that is known when this is written.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        scope: ResourceScope,
    ) -> Self {
        Resource {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced: matches!(scope, ResourceScope::Namespaced),
        }
    }

    /// Group and version, as objects name them.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Group, version and name, as messages give them.
    // upstream: staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go String
    pub fn group_version_resource_text(&self) -> String {
        let Resource {
            group,
            version,
            plural,
            ..
        } = self;
        format!("{group}/{version}, Resource={plural}")
    }

    /// The path of the objects of a namespace; of all of them if it is empty.
    pub fn path(&self, namespace: &str) -> String {
        let mut path = String::from(if self.group.is_empty() { "/api" } else { "/apis" });
        if !self.group.is_empty() {
            push_segment(&mut path, &self.group);
        }
        push_segment(&mut path, &self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces");
            push_segment(&mut path, namespace);
        }
        push_segment(&mut path, &self.plural);
        path
    }

    /// The path of an object.
    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        let mut path = self.path(namespace);
        push_segment(&mut path, name);
        path
    }

    /// As a kube `ApiResource`.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_string(),
            version: self.version.to_string(),
            api_version: self.api_version(),
            kind: self.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }
}

/// Appends one segment to a path. Names may be taken from references in objects, which any user may write: whatever such a name
/// is, it never becomes another path, another segment, or a query.
pub fn push_segment(path: &mut String, text: &str) {
    path.push('/');
    let is_relative = matches!(text, "." | "..");
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'~' | b':' | b'*' | b'@')
            || (byte == b'.' && !is_relative);
        if is_plain {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: Resource = Resource::new("", "v1", "nodes", "Node", ResourceScope::Cluster);
    const PODS: Resource = Resource::new("", "v1", "pods", "Pod", ResourceScope::Namespaced);
    const REPLICA_SETS: Resource = Resource::new(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        ResourceScope::Namespaced,
    );

    #[test]
    fn escapes_names_in_paths() {
        for (name, path) in [
            ("web-0", "/api/v1/namespaces/shop/pods/web-0"),
            ("system:node", "/api/v1/namespaces/shop/pods/system:node"),
            ("x/proxy/admin", "/api/v1/namespaces/shop/pods/x%2Fproxy%2Fadmin"),
            ("x?watch=true", "/api/v1/namespaces/shop/pods/x%3Fwatch%3Dtrue"),
            ("..", "/api/v1/namespaces/shop/pods/%2E%2E"),
            (".", "/api/v1/namespaces/shop/pods/%2E"),
            (
                "x#y z\u{e9}%2f",
                "/api/v1/namespaces/shop/pods/x%23y%20z%C3%A9%252f",
            ),
        ] {
            assert_eq!(PODS.object_path("shop", name), path);
        }
        assert_eq!(PODS.path("../a"), "/api/v1/namespaces/..%2Fa/pods");
        let external = Resource {
            plural: "a/b?c".into(),
            ..Resource::new(
                "external.metrics.k8s.io",
                "v1beta1",
                "",
                "ExternalMetricValue",
                ResourceScope::Namespaced,
            )
        };
        assert_eq!(
            external.path("shop"),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/a%2Fb%3Fc"
        );
    }

    #[test]
    fn builds_resource_paths() {
        assert_eq!(PODS.path("shop"), "/api/v1/namespaces/shop/pods");
        assert_eq!(PODS.path(""), "/api/v1/pods");
        assert_eq!(NODES.path("ignored"), "/api/v1/nodes");
        assert_eq!(
            REPLICA_SETS.path("shop"),
            "/apis/apps/v1/namespaces/shop/replicasets"
        );
    }
}
