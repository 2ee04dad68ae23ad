//! Labels and names of containers.
//!
//! The current container of a pod has a name that people can type; exited ones are renamed to a longer one.
// upstream: pkg/kubelet/kuberuntime/labels.go newContainerLabels

use std::collections::{BTreeMap, HashMap};

use crate::{
    PodIdentity,
    runtime::{ContainerOwner, labels},
};

/// Whether it is a sandbox or a container, as in dockershim.
const KIND: &str = "io.kubernetes.docker.type";
/// Sandbox of a container.
const SANDBOX: &str = "io.kubernetes.sandbox.id";
/// Image as the pod spec names it.
const IMAGE: &str = "k3.io/image";
/// Prefix of labels that hold annotations: the engine has no annotations.
const ANNOTATION: &str = "annotation.";

/// Container name of the pause container, as in dockershim; invalid as the name of a pod's container.
const POD: &str = "POD";

/// Length of the cluster UID prefix in container names.
const SHORT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerKind {
    Sandbox,
    Container,
}

/// Content of the labels of a sandbox or container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerLabels {
    pub(super) kind: ContainerKind,
    pub(super) pod: PodIdentity,
    /// Container name; `POD` for a sandbox.
    pub(super) name: String,
    pub(super) attempt: u32,
    /// Sandbox ID; empty for a sandbox.
    pub(super) sandbox: String,
    /// Image as the pod spec names it.
    pub(super) image: String,
    pub(super) annotations: BTreeMap<String, String>,
    /// Other labels: those of the pod.
    pub(super) labels: BTreeMap<String, String>,
}

// --- ContainerKind ---

impl ContainerKind {
    fn text(self) -> &'static str {
        match self {
            Self::Sandbox => "podsandbox",
            Self::Container => "container",
        }
    }
}

// --- ContainerLabels ---

impl ContainerLabels {
    /// The labels of a sandbox.
    pub(super) fn of_sandbox(pod: &PodIdentity, attempt: u32) -> Self {
        Self {
            kind: ContainerKind::Sandbox,
            pod: pod.clone(),
            name: POD.to_owned(),
            attempt,
            sandbox: String::new(),
            image: String::new(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// Parses labels; `None` if one is missing, as on containers of other owners.
    pub(super) fn read(all: &HashMap<String, String>) -> Option<Self> {
        let text = |name: &str| all.get(name).cloned();
        let kind = match all.get(KIND)?.as_str() {
            "podsandbox" => ContainerKind::Sandbox,
            "container" => ContainerKind::Container,
            _ => return None,
        };
        let agent_labels = [
            KIND,
            SANDBOX,
            IMAGE,
            labels::POD_NAME,
            labels::POD_NAMESPACE,
            labels::POD_UID,
            labels::CONTAINER_NAME,
            labels::NODE,
            labels::CLUSTER,
            labels::ATTEMPT,
        ];
        let mut annotations = BTreeMap::new();
        let mut other_labels = BTreeMap::new();
        for (name, value) in all
            .iter()
            .filter(|(name, _)| !agent_labels.contains(&name.as_str()))
        {
            match name.strip_prefix(ANNOTATION) {
                Some(annotation) => annotations.insert(annotation.to_owned(), value.clone()),
                None => other_labels.insert(name.clone(), value.clone()),
            };
        }
        Some(Self {
            kind,
            pod: PodIdentity {
                namespace: text(labels::POD_NAMESPACE)?,
                name: text(labels::POD_NAME)?,
                uid: text(labels::POD_UID)?,
            },
            name: text(labels::CONTAINER_NAME)?,
            attempt: all.get(labels::ATTEMPT)?.parse().ok()?,
            sandbox: text(SANDBOX).unwrap_or_default(),
            image: text(IMAGE).unwrap_or_default(),
            annotations,
            labels: other_labels,
        })
    }

    /// Returns all labels. The agent's labels override the pod's, because they define the owner.
    pub(super) fn write(&self, owner: &ContainerOwner) -> BTreeMap<String, String> {
        let mut all = self.labels.clone();
        for (name, value) in &self.annotations {
            all.insert(format!("{ANNOTATION}{name}"), value.clone());
        }
        let agent_labels = [
            (KIND, self.kind.text()),
            (labels::POD_NAME, &self.pod.name),
            (labels::POD_NAMESPACE, &self.pod.namespace),
            (labels::POD_UID, &self.pod.uid),
            (labels::CONTAINER_NAME, &self.name),
            (labels::NODE, &owner.node),
            (labels::CLUSTER, &owner.cluster),
            (labels::ATTEMPT, &self.attempt.to_string()),
        ];
        all.extend(agent_labels.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if self.kind == ContainerKind::Container {
            all.insert(SANDBOX.to_owned(), self.sandbox.clone());
            all.insert(IMAGE.to_owned(), self.image.clone());
        }
        all
    }

    /// Name of the current container.
    pub(super) fn live_name(&self) -> String {
        format!("k8s_{}_{}_{}", self.pod.namespace, self.pod.name, self.name)
    }

    /// Name if a container of another cluster has the usual one.
    pub(super) fn name_of_cluster(&self, owner: &ContainerOwner) -> String {
        let short = owner.cluster.get(..SHORT).unwrap_or(&owner.cluster);
        format!("{}_{short}", self.live_name())
    }

    /// Name of a replaced container.
    pub(super) fn former_name(&self) -> String {
        format!("{}_{}_{}", self.live_name(), self.pod.uid, self.attempt)
    }
}

/// Returns whether labels belong to this owner.
pub(super) fn is_owned(all: &HashMap<String, String>, owner: &ContainerOwner) -> bool {
    owner.owns(|name| all.get(name)) && ContainerLabels::read(all).is_some()
}

/// Filter for containers of nodes with this name, and for one kind or sandbox. Filters cannot express the cluster and adoption, so
/// callers check them.
pub(super) fn filter(owner: &ContainerOwner, kind: Option<ContainerKind>, sandbox: Option<&str>) -> String {
    let mut selectors = vec![format!("{}={}", labels::NODE, owner.node)];
    selectors.extend(kind.map(|kind| format!("{KIND}={}", kind.text())));
    selectors.extend(sandbox.map(|sandbox| format!("{SANDBOX}={sandbox}")));
    serde_json::json!({ "label": selectors }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(node: &str) -> ContainerOwner {
        ContainerOwner::new(node, "c")
    }

    fn labels() -> ContainerLabels {
        ContainerLabels {
            kind: ContainerKind::Container,
            pod: PodIdentity {
                namespace: "default".into(),
                name: "web".into(),
                uid: "1-2".into(),
            },
            name: "nginx".into(),
            attempt: 3,
            sandbox: "abc".into(),
            image: "nginx:1".into(),
            annotations: [("hash".into(), "ff".into())].into(),
            labels: [("app".into(), "web".into())].into(),
        }
    }

    #[test]
    fn names_follow_dockershim() {
        assert_eq!(labels().live_name(), "k8s_default_web_nginx");
        assert_eq!(labels().former_name(), "k8s_default_web_nginx_1-2_3");
        assert_eq!(
            ContainerLabels::of_sandbox(&labels().pod, 0).live_name(),
            "k8s_default_web_POD"
        );
        let owner = ContainerOwner::new("n", "12345678-abcd");
        assert_eq!(labels().name_of_cluster(&owner), "k8s_default_web_nginx_12345678");
    }

    #[test]
    fn labels_round_trip() {
        for labels in [labels(), ContainerLabels::of_sandbox(&labels().pod, 7)] {
            let all: HashMap<_, _> = labels.write(&owner("n")).into_iter().collect();
            assert_eq!(ContainerLabels::read(&all), Some(labels));
            assert!(is_owned(&all, &owner("n")));
            assert!(!is_owned(&all, &owner("other")));
            assert!(!is_owned(&all, &ContainerOwner::new("n", "another cluster")));
        }
    }

    #[test]
    fn pod_labels_cannot_change_the_owner() {
        let mut labels = labels();
        labels.labels.insert(labels::NODE.into(), "forged".into());
        labels.labels.insert(labels::CLUSTER.into(), "another".into());
        let all = labels.write(&owner("n"));
        assert_eq!(
            (all[labels::NODE].as_str(), all[labels::CLUSTER].as_str()),
            ("n", "c")
        );
    }

    #[test]
    fn requires_all_labels() {
        let mut all: HashMap<_, _> = labels().write(&owner("n")).into_iter().collect();
        all.remove(labels::POD_UID);
        assert_eq!(ContainerLabels::read(&all), None);
        assert!(!is_owned(&all, &owner("n")));
    }
}
