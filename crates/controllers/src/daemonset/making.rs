//! What the pods of a daemon set are made of.

use serde_json::{Value, json, value::RawValue};

use super::placement::add_tolerations;
use crate::{
    objects::{DaemonSet, Pod},
    pods::making::{NewMeta, NewPod, Unmakeable},
    resource::DAEMON_SETS,
};

/// The label that has the hash of the template.
pub(super) const HASH: &str = "controller-revision-hash";
/// The label that has the number of the template, by which older programs tell pods apart.
const GENERATION: &str = "pod-template-generation";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// By what pods of the template of now are known.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) hash: Box<str>,
    generation: Option<i64>,
}

/// The pods of a set, but for their nodes.
pub(super) struct Mould {
    metadata: NewMeta,
    spec: Value,
}

// --- Mark ---

impl Mark {
    pub(super) fn new(set: &DaemonSet, hash: &str) -> Self {
        let generation = set.metadata.annotation(TEMPLATE_GENERATION);
        Mark {
            hash: hash.into(),
            generation: generation.and_then(|generation| generation.parse().ok()),
        }
    }

    /// Whether a pod is of the template of now.
    pub(super) fn is_on(&self, pod: &Pod) -> bool {
        let label = |name| pod.metadata.label(name);
        let generation = self.generation.map(|generation| generation.to_string());
        self.has_hash(pod) || generation.is_some() && label(GENERATION) == generation.as_deref()
    }

    /// Whether a pod has the hash.
    pub(super) fn has_hash(&self, pod: &Pod) -> bool {
        pod.metadata.label(HASH) == Some(&*self.hash)
    }
}

// --- Mould ---

impl Mould {
    pub(super) fn new(set: &DaemonSet, mark: &Mark) -> Result<Self, Unmakeable> {
        let owner = set.metadata.as_controller(&DAEMON_SETS);
        let NewPod {
            mut metadata, spec, ..
        } = NewPod::new(&set.spec.template, owner)?;
        let mut spec: Value = serde_json::from_str(spec.get())?;
        add_tolerations(&mut spec);
        if let Some(generation) = mark.generation {
            metadata
                .labels
                .insert(GENERATION.into(), generation.to_string().into());
        }
        metadata.labels.insert(HASH.into(), mark.hash.clone());
        Ok(Mould { metadata, spec })
    }

    /// A pod that the scheduler can only bind to one node. That the template may go there is known: what it asks for is
    /// replaced.
    pub(super) fn pod(&self, node: &str) -> Result<Box<RawValue>, Unmakeable> {
        let mut spec = self.spec.clone();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
        });
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata, "spec": spec});
        Ok(serde_json::value::to_raw_value(&pod)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_for_one_node_and_marked_with_its_template() {
        let set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "u", "annotations": {TEMPLATE_GENERATION: "3"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [], "affinity": {"podAffinity": {}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            }},
        }))
        .unwrap();
        let mark = Mark::new(&set, "h");
        let text = Mould::new(&set, &mark).unwrap().pod("n1").unwrap();
        let pod: Value = serde_json::from_str(text.get()).unwrap();
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "a", HASH: "h", GENERATION: "3"})
        );
        assert_eq!(pod["metadata"]["generateName"], "d-");
        let affinity = &pod["spec"]["affinity"];
        assert!(affinity["podAffinity"].is_object());
        assert!(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"].is_array());
        let seen: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(seen.target(), "n1");
        assert!(mark.is_on(&seen) && mark.has_hash(&seen));
        let other = Mark::new(&set, "other");
        assert!(other.is_on(&seen) && !other.has_hash(&seen));
        let next = Mark {
            hash: "other".into(),
            generation: Some(4),
        };
        assert!(!next.is_on(&seen));
    }
}
