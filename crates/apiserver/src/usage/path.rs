//! What is asked for.

/// The group and its version.
pub(crate) const GROUP: &str = "metrics.k8s.io";
pub(crate) const VERSION: &str = "v1beta1";

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked<'p> {
    Nodes,
    Node(&'p str),
    /// Of a namespace; empty for all.
    Pods(&'p str),
    /// By namespace and name.
    Pod(&'p str, &'p str),
}

// --- Asked ---

impl<'p> Asked<'p> {
    /// Reads a path; `None` if it leads elsewhere.
    pub(crate) fn read(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/apis/metrics.k8s.io/v1beta1/")?;
        let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
        let found = match *parts.as_slice() {
            ["nodes"] => Asked::Nodes,
            ["nodes", name] => Asked::Node(name),
            ["pods"] => Asked::Pods(""),
            ["namespaces", namespace, "pods"] => Asked::Pods(namespace),
            ["namespaces", namespace, "pods", name] => Asked::Pod(namespace, name),
            _ => return None,
        };
        parts.iter().all(|part| !part.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_nodes_and_pods() {
        for (path, asked) in [
            ("/apis/metrics.k8s.io/v1beta1/nodes", Some(Asked::Nodes)),
            ("/apis/metrics.k8s.io/v1beta1/nodes/a", Some(Asked::Node("a"))),
            ("/apis/metrics.k8s.io/v1beta1/pods", Some(Asked::Pods(""))),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods",
                Some(Asked::Pods("n")),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods/p",
                Some(Asked::Pod("n", "p")),
            ),
            ("/apis/metrics.k8s.io/v1beta1/pods/p", None),
            ("/apis/metrics.k8s.io/v1beta1/nodes/a/b", None),
            ("/apis/metrics.k8s.io/v1beta1/namespaces//pods", None),
            ("/apis/metrics.k8s.io/v1beta1", None),
            ("/apis/metrics.k8s.io/v1/nodes", None),
        ] {
            assert_eq!(Asked::read(path), asked, "{path}");
        }
    }
}
