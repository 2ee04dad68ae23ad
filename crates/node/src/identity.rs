//! Identity of a pod.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// Namespace, name and UID of a pod. The UID distinguishes it from earlier pods of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdentity {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID. For a static pod the UID of its manifest, not that of the mirror pod.
    pub uid: String,
}

// --- PodIdentity ---

impl PodIdentity {
    /// The identity of a Pod object.
    pub fn of(pod: &Pod) -> Self {
        let value = |field: &Option<String>| field.clone().unwrap_or_default();
        PodIdentity {
            namespace: value(&pod.metadata.namespace),
            name: value(&pod.metadata.name),
            uid: value(&pod.metadata.uid),
        }
    }
}

/// Formats a pod for messages: `name_namespace(uid)`.
// upstream: pkg/kubelet/util/format/pod.go Pod
pub(crate) fn format_pod(pod: &Pod) -> String {
    let PodIdentity { namespace, name, uid } = PodIdentity::of(pod);
    format!("{name}_{namespace}({uid})")
}

impl fmt::Display for PodIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}({})", self.namespace, self.name, self.uid)
    }
}
