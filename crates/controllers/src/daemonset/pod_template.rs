//! Pods of a DaemonSet and the labels that identify their revision.

use k3_workloads::Pod;
use serde_json::{Value, json, value::RawValue};

use super::placement::add_tolerations;
use crate::{
    objects::DaemonSet,
    pods::pod_from_template::{NewPodMeta, PodFromTemplate, PodTemplateError},
    resource::DAEMON_SETS,
};

/// Label with the hash of the template.
pub(super) const HASH: &str = "controller-revision-hash";
/// Label with the template generation, used by older clients.
const GENERATION: &str = "pod-template-generation";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Identifies pods of the current template.
#[derive(Clone, Debug)]
pub(super) struct TemplateRevision {
    pub(super) hash: Box<str>,
    generation: Option<i64>,
}

/// The pod for every node, without the node affinity.
pub(super) struct DaemonPodTemplate {
    metadata: NewPodMeta,
    spec: Value,
}

// --- TemplateRevision ---

impl TemplateRevision {
    pub(super) fn new(set: &DaemonSet, hash: &str) -> Self {
        let generation = set.metadata.annotation(TEMPLATE_GENERATION);
        TemplateRevision {
            hash: hash.into(),
            generation: generation.and_then(|generation| generation.parse().ok()),
        }
    }

    /// Whether a pod has the current template.
    // upstream: pkg/controller/daemon/util/daemonset_util.go IsPodUpdated
    pub(super) fn is_pod_updated(&self, pod: &Pod) -> bool {
        let label = |name| pod.metadata.label(name);
        let generation = self.generation.map(|generation| generation.to_string());
        self.has_hash(pod) || generation.is_some() && label(GENERATION) == generation.as_deref()
    }

    /// Whether a pod has the current hash label.
    pub(super) fn has_hash(&self, pod: &Pod) -> bool {
        pod.metadata.label(HASH) == Some(&*self.hash)
    }
}

// --- DaemonPodTemplate ---

impl DaemonPodTemplate {
    // upstream: pkg/controller/daemon/util/daemonset_util.go CreatePodTemplate
    pub(super) fn new(set: &DaemonSet, revision: &TemplateRevision) -> Result<Self, PodTemplateError> {
        let owner = DAEMON_SETS.controller_reference(&set.metadata);
        let PodFromTemplate {
            mut metadata, spec, ..
        } = PodFromTemplate::new(&set.spec.template, owner)?;
        let mut spec: Value = serde_json::from_str(spec.get())?;
        add_tolerations(&mut spec);
        if let Some(generation) = revision.generation {
            metadata
                .labels
                .insert(GENERATION.into(), generation.to_string().into());
        }
        metadata.labels.insert(HASH.into(), revision.hash.clone());
        Ok(DaemonPodTemplate { metadata, spec })
    }

    /// A pod that the scheduler can bind to one node only. Required node affinity of the template is replaced: the node was
    /// checked against it before.
    // upstream: pkg/controller/daemon/util/daemonset_util.go ReplaceDaemonSetPodNodeNameNodeAffinity
    pub(super) fn pod(&self, node: &str) -> Result<Box<RawValue>, PodTemplateError> {
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
    fn daemon_pod_targets_one_node_and_has_revision_labels() {
        let set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "u", "annotations": {TEMPLATE_GENERATION: "3"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [], "affinity": {"podAffinity": {}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            }},
        }))
        .unwrap();
        let revision = TemplateRevision::new(&set, "h");
        let text = DaemonPodTemplate::new(&set, &revision)
            .unwrap()
            .pod("n1")
            .unwrap();
        let pod: Value = serde_json::from_str(text.get()).unwrap();
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "a", HASH: "h", GENERATION: "3"})
        );
        assert_eq!(pod["metadata"]["generateName"], "d-");
        let affinity = &pod["spec"]["affinity"];
        assert!(affinity["podAffinity"].is_object());
        assert!(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"].is_array());
        let observed: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(observed.target(), "n1");
        assert!(revision.is_pod_updated(&observed) && revision.has_hash(&observed));
        let other = TemplateRevision::new(&set, "other");
        assert!(other.is_pod_updated(&observed) && !other.has_hash(&observed));
        let next = TemplateRevision {
            hash: "other".into(),
            generation: Some(4),
        };
        assert!(!next.is_pod_updated(&observed));
    }
}
