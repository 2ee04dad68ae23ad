//! What containers are called, and how their owner is told from their labels.
//!
//! The live container of a pod has a name that people can type; those that have ended make room for it by a longer one.

use std::collections::{BTreeMap, HashMap};

use crate::{
    PodIdentity,
    runtime::{Owner, labels},
};

/// Whether it is a sandbox or a container, as tools of old know it.
const KIND: &str = "io.kubernetes.docker.type";
/// The sandbox that a container is in.
const SANDBOX: &str = "io.kubernetes.sandbox.id";
/// The image as the pod names it.
const IMAGE: &str = "k3.io/image";
/// Stands before what the agent wants to find again: these engines keep labels, not annotations.
const ANNOTATION: &str = "annotation.";

/// What the pause container is called in the place of a container's name; no container can be called that.
const POD: &str = "POD";

/// How much of a cluster's uid tells it from others in the name of a container.
const SHORT: usize = 8;

/// What a container is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sandbox,
    Container,
}

/// What the labels of one of ours say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) kind: Kind,
    pub(super) pod: PodIdentity,
    /// The name of the container; `POD` for a sandbox.
    pub(super) name: String,
    pub(super) attempt: u32,
    /// The sandbox that it is in; empty for a sandbox.
    pub(super) sandbox: String,
    /// The image as the pod names it.
    pub(super) image: String,
    pub(super) annotations: BTreeMap<String, String>,
    /// The others.
    pub(super) labels: BTreeMap<String, String>,
}

// --- Kind ---

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::Sandbox => "podsandbox",
            Self::Container => "container",
        }
    }
}

// --- Marks ---

impl Marks {
    /// The marks of a sandbox.
    pub(super) fn of_sandbox(pod: &PodIdentity, attempt: u32) -> Self {
        Self {
            kind: Kind::Sandbox,
            pod: pod.clone(),
            name: POD.to_owned(),
            attempt,
            sandbox: String::new(),
            image: String::new(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// What labels say; `None` if they are not all there, as on a container that is not of ours.
    pub(super) fn read(all: &HashMap<String, String>) -> Option<Self> {
        let text = |name: &str| all.get(name).cloned();
        let kind = match all.get(KIND)?.as_str() {
            "podsandbox" => Kind::Sandbox,
            "container" => Kind::Container,
            _ => return None,
        };
        let own = [
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
        let mut others = BTreeMap::new();
        for (name, value) in all.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            match name.strip_prefix(ANNOTATION) {
                Some(annotation) => annotations.insert(annotation.to_owned(), value.clone()),
                None => others.insert(name.clone(), value.clone()),
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
            labels: others,
        })
    }

    /// All labels. Ours win over those of the pod: by them we know what is ours.
    pub(super) fn write(&self, owner: &Owner) -> BTreeMap<String, String> {
        let mut all = self.labels.clone();
        for (name, value) in &self.annotations {
            all.insert(format!("{ANNOTATION}{name}"), value.clone());
        }
        let own = [
            (KIND, self.kind.text()),
            (labels::POD_NAME, &self.pod.name),
            (labels::POD_NAMESPACE, &self.pod.namespace),
            (labels::POD_UID, &self.pod.uid),
            (labels::CONTAINER_NAME, &self.name),
            (labels::NODE, &owner.node),
            (labels::CLUSTER, &owner.cluster),
            (labels::ATTEMPT, &self.attempt.to_string()),
        ];
        all.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if self.kind == Kind::Container {
            all.insert(SANDBOX.to_owned(), self.sandbox.clone());
            all.insert(IMAGE.to_owned(), self.image.clone());
        }
        all
    }

    /// Its name while it is the live one.
    pub(super) fn live_name(&self) -> String {
        format!("k8s_{}_{}_{}", self.pod.namespace, self.pod.name, self.name)
    }

    /// Its name where another cluster has the usual one.
    pub(super) fn name_of_cluster(&self, owner: &Owner) -> String {
        let short = owner.cluster.get(..SHORT).unwrap_or(&owner.cluster);
        format!("{}_{short}", self.live_name())
    }

    /// Its name when it has made room for another.
    pub(super) fn former_name(&self) -> String {
        format!("{}_{}_{}", self.live_name(), self.pod.uid, self.attempt)
    }
}

/// Whether labels say that something is of this owner.
pub(super) fn is_owned(all: &HashMap<String, String>, owner: &Owner) -> bool {
    owner.owns(|name| all.get(name)) && Marks::read(all).is_some()
}

/// A filter for what is of nodes of this name, and of one kind or one sandbox if asked for. Of which cluster it is, and whether
/// it is adopted, a filter cannot say.
pub(super) fn filter(owner: &Owner, kind: Option<Kind>, sandbox: Option<&str>) -> String {
    let mut wanted = vec![format!("{}={}", labels::NODE, owner.node)];
    wanted.extend(kind.map(|kind| format!("{KIND}={}", kind.text())));
    wanted.extend(sandbox.map(|sandbox| format!("{SANDBOX}={sandbox}")));
    serde_json::json!({ "label": wanted }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(node: &str) -> Owner {
        Owner::new(node, "c")
    }

    fn marks() -> Marks {
        Marks {
            kind: Kind::Container,
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
    fn names_are_those_that_people_know() {
        assert_eq!(marks().live_name(), "k8s_default_web_nginx");
        assert_eq!(marks().former_name(), "k8s_default_web_nginx_1-2_3");
        assert_eq!(
            Marks::of_sandbox(&marks().pod, 0).live_name(),
            "k8s_default_web_POD"
        );
        let owner = Owner::new("n", "12345678-abcd");
        assert_eq!(marks().name_of_cluster(&owner), "k8s_default_web_nginx_12345678");
    }

    #[test]
    fn what_is_written_is_read() {
        for marks in [marks(), Marks::of_sandbox(&marks().pod, 7)] {
            let all: HashMap<_, _> = marks.write(&owner("n")).into_iter().collect();
            assert_eq!(Marks::read(&all), Some(marks));
            assert!(is_owned(&all, &owner("n")));
            assert!(!is_owned(&all, &owner("other")));
            assert!(!is_owned(&all, &Owner::new("n", "another cluster")));
        }
    }

    #[test]
    fn labels_of_a_pod_do_not_change_whose_it_is() {
        let mut marks = marks();
        marks.labels.insert(labels::NODE.into(), "somebody".into());
        marks.labels.insert(labels::CLUSTER.into(), "another".into());
        let all = marks.write(&owner("n"));
        assert_eq!(
            (all[labels::NODE].as_str(), all[labels::CLUSTER].as_str()),
            ("n", "c")
        );
    }

    #[test]
    fn a_container_with_some_of_the_labels_is_not_ours() {
        let mut all: HashMap<_, _> = marks().write(&owner("n")).into_iter().collect();
        all.remove(labels::POD_UID);
        assert_eq!(Marks::read(&all), None);
        assert!(!is_owned(&all, &owner("n")));
    }
}
