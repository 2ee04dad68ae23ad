//! Parses paths below `/apis/metrics.k8s.io`.

/// The group and its version.
pub(crate) const GROUP: &str = "metrics.k8s.io";
pub(crate) const VERSION: &str = "v1beta1";

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageRequest<'p> {
    Nodes,
    Node(&'p str),
    /// Of a namespace; empty for all.
    Pods(&'p str),
    /// By namespace and name.
    Pod(&'p str, &'p str),
}

// --- UsageRequest ---

impl<'p> UsageRequest<'p> {
    /// Reads a path; `None` if it leads elsewhere.
    pub(crate) fn read(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/apis/metrics.k8s.io/v1beta1/")?;
        let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
        let found = match *parts.as_slice() {
            ["nodes"] => UsageRequest::Nodes,
            ["nodes", name] => UsageRequest::Node(name),
            ["pods"] => UsageRequest::Pods(""),
            ["namespaces", namespace, "pods"] => UsageRequest::Pods(namespace),
            ["namespaces", namespace, "pods", name] => UsageRequest::Pod(namespace, name),
            _ => return None,
        };
        parts.iter().all(|part| !part.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_node_and_pod_paths() {
        for (path, asked) in [
            ("/apis/metrics.k8s.io/v1beta1/nodes", Some(UsageRequest::Nodes)),
            (
                "/apis/metrics.k8s.io/v1beta1/nodes/a",
                Some(UsageRequest::Node("a")),
            ),
            ("/apis/metrics.k8s.io/v1beta1/pods", Some(UsageRequest::Pods(""))),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods",
                Some(UsageRequest::Pods("n")),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods/p",
                Some(UsageRequest::Pod("n", "p")),
            ),
            ("/apis/metrics.k8s.io/v1beta1/pods/p", None),
            ("/apis/metrics.k8s.io/v1beta1/nodes/a/b", None),
            ("/apis/metrics.k8s.io/v1beta1/namespaces//pods", None),
            ("/apis/metrics.k8s.io/v1beta1", None),
            ("/apis/metrics.k8s.io/v1/nodes", None),
        ] {
            assert_eq!(UsageRequest::read(path), asked, "{path}");
        }
    }
}
