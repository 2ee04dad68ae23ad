//! Which pod is meant.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// A pod, told apart from those that had its name before.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdentity {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid. For mirrored pods that of the file they come from.
    pub uid: String,
}

// --- PodIdentity ---

impl PodIdentity {
    /// That of an object of the API.
    pub fn of(pod: &Pod) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        PodIdentity {
            namespace: text(&pod.metadata.namespace),
            name: text(&pod.metadata.name),
            uid: text(&pod.metadata.uid),
        }
    }
}

impl fmt::Display for PodIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}({})", self.namespace, self.name, self.uid)
    }
}
