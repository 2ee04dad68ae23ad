//! ReplicaSets of a Deployment: the observed object and the desired replicas and annotations.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::{Deployment, ReplicaSet, ReplicaStatus};

/// Revision number of a template.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when it last scaled the ReplicaSet: a different value now means a scaling event.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// `spec.replicas` plus `maxSurge` at that time.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The revision to roll back to, from extensions/v1beta1.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const MAX_HISTORY_LENGTH: usize = 2000;

pub(super) type Annotations = BTreeMap<Box<str>, Box<str>>;

/// A ReplicaSet with its desired state.
#[derive(Clone, Debug)]
pub(super) struct DesiredReplicaSet {
    pub(super) name: Box<str>,
    pub(super) replicas: i32,
    pub(super) min_ready_seconds: i32,
    pub(super) annotations: Annotations,
    pub(super) status: ReplicaStatus,
    pub(super) created: Option<Timestamp>,
    /// The observed object; `None` if it has to be created.
    pub(super) observed: Option<Arc<ReplicaSet>>,
}

/// An update of a ReplicaSet.
#[derive(Debug)]
pub(super) struct ReplicaSetUpdate {
    pub(super) set: Arc<ReplicaSet>,
    pub(super) patch: Value,
    /// Replicas before and after, if it is scaled.
    pub(super) scaled: Option<(i32, i32)>,
}

/// Whether an annotation belongs to the Deployment alone and is not copied to ReplicaSets.
// upstream: pkg/controller/deployment/util/deployment_util.go skipCopyAnnotation
pub(super) fn is_not_copied(annotation: &str) -> bool {
    [
        LAST_APPLIED,
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
    ]
    .contains(&annotation)
}

// --- DesiredReplicaSet ---

impl DesiredReplicaSet {
    /// From an existing ReplicaSet.
    pub(super) fn from_existing(set: Arc<ReplicaSet>) -> Self {
        DesiredReplicaSet {
            name: set.metadata.name.clone(),
            replicas: set.spec.replicas,
            min_ready_seconds: set.spec.min_ready_seconds,
            annotations: set.metadata.annotations.to_map(),
            status: set.status.clone(),
            created: set.metadata.creation_timestamp,
            observed: Some(set),
        }
    }

    /// A ReplicaSet to create.
    pub(super) fn new(name: &str, deployment: &Deployment) -> Self {
        DesiredReplicaSet {
            name: name.into(),
            replicas: 0,
            min_ready_seconds: deployment.spec.min_ready_seconds,
            annotations: Annotations::new(),
            status: ReplicaStatus::default(),
            created: None,
            observed: None,
        }
    }

    /// The revision: 0 if there is no annotation, `None` if the annotation is not a number.
    // upstream: pkg/controller/deployment/util/deployment_util.go Revision
    pub(super) fn revision(&self) -> Option<i64> {
        self.annotations
            .get(REVISION)
            .map_or(Some(0), |revision| revision.parse().ok())
    }

    /// `spec.replicas` of the Deployment when it last scaled this ReplicaSet.
    // upstream: pkg/controller/deployment/util/deployment_util.go GetDesiredReplicasAnnotation
    pub(super) fn desired(&self) -> Option<i32> {
        self.number(DESIRED_REPLICAS)
    }

    /// The maximum number of pods at that time.
    pub(super) fn max_replicas(&self) -> Option<i32> {
        self.number(MAX_REPLICAS)
    }

    fn number(&self, annotation: &str) -> Option<i32> {
        let digits = self.annotations.get(annotation)?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        is_plain.then(|| digits.parse().ok()).flatten()
    }

    /// Sets the annotations desired-replicas and max-replicas.
    // upstream: pkg/controller/deployment/util/deployment_util.go SetReplicasAnnotations
    pub(super) fn set_replicas_annotations(&mut self, desired: i32, max: i32) {
        for (name, count) in [(DESIRED_REPLICAS, desired), (MAX_REPLICAS, max)] {
            self.annotations.insert(name.into(), count.to_string().into());
        }
    }

    /// Makes it the new ReplicaSet: it gets the Deployment's annotations and the newest revision. Its previous revision is
    /// appended to the revision history.
    // upstream: pkg/controller/deployment/util/deployment_util.go SetNewReplicaSetAnnotations
    pub(super) fn set_new_replica_set_annotations(&mut self, deployment: &Deployment, revision: i64) {
        let before = self.annotations.get(REVISION).cloned();
        let Some(old) = self.revision() else {
            // A revision annotation that is not a number was written by hand: nothing is changed.
            return;
        };
        let copied = deployment
            .metadata
            .annotations
            .iter()
            .filter(|(name, _)| !is_not_copied(name));
        self.annotations
            .extend(copied.map(|(name, value)| (name.into(), value.into())));
        if old >= revision {
            return;
        }
        self.annotations
            .insert(REVISION.into(), revision.to_string().into());
        if let Some(before) = before {
            let history = self.annotations.get(REVISION_HISTORY);
            let history = append_revision(history.map_or("", |history| history), &before);
            self.annotations.insert(REVISION_HISTORY.into(), history.into());
        }
    }

    /// The update that leads to the desired state; `None` if nothing differs.
    pub(super) fn update_replica_set(&self) -> Option<ReplicaSetUpdate> {
        let set = self.observed.as_ref()?;
        let annotations: BTreeMap<_, _> = self
            .annotations
            .iter()
            .filter(|(name, value)| set.metadata.annotations.get(name) != Some(&***value))
            .collect();
        let is_scaled = self.replicas != set.spec.replicas;
        let is_same =
            annotations.is_empty() && !is_scaled && self.min_ready_seconds == set.spec.min_ready_seconds;
        if is_same {
            return None;
        }
        let mut patch = json!({"metadata": {
            "uid": set.metadata.uid,
            "resourceVersion": set.metadata.resource_version,
        }});
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = json!(annotations);
        }
        if is_scaled {
            patch["spec"]["replicas"] = json!(self.replicas);
        }
        if self.min_ready_seconds != set.spec.min_ready_seconds {
            patch["spec"]["minReadySeconds"] = json!(self.min_ready_seconds);
        }
        Some(ReplicaSetUpdate {
            set: Arc::clone(set),
            patch,
            scaled: is_scaled.then_some((set.spec.replicas, self.replicas)),
        })
    }
}

/// Appends a revision to the history, dropping the oldest ones if it grows too long.
fn append_revision(history: &str, revision: &str) -> String {
    if history.is_empty() {
        return revision.to_owned();
    }
    let mut kept = history;
    while kept.len() + 1 + revision.len() > MAX_HISTORY_LENGTH {
        kept = match kept.split_once(',') {
            Some((_, rest)) => rest,
            None => return revision.to_owned(),
        };
    }
    format!("{kept},{revision}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(annotations: &Value) -> Deployment {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap()
    }

    fn set(annotations: &Value) -> DesiredReplicaSet {
        let set = json!({"metadata": {"name": "web-1", "uid": "u", "resourceVersion": "5", "annotations": annotations}, "spec": {}});
        DesiredReplicaSet::from_existing(Arc::new(serde_json::from_value(set).unwrap()))
    }

    fn annotations(set: &DesiredReplicaSet) -> Value {
        json!(set.annotations)
    }

    #[test]
    fn new_replica_set_gets_annotations_and_highest_revision() {
        let deployment = deployment(&json!({"cause": "edit", REVISION: "9", ROLLBACK_TO: "1"}));
        let mut first = set(&json!({"own": "x"}));
        first.set_new_replica_set_annotations(&deployment, 3);
        assert_eq!(
            annotations(&first),
            json!({"own": "x", "cause": "edit", REVISION: "3"})
        );
        let mut requeue_after = set(&json!({REVISION: "1"}));
        requeue_after.set_new_replica_set_annotations(&deployment, 3);
        assert_eq!(
            annotations(&requeue_after),
            json!({"cause": "edit", REVISION: "3", REVISION_HISTORY: "1"})
        );
        let mut third = set(&json!({REVISION: "3", REVISION_HISTORY: "1"}));
        third.set_new_replica_set_annotations(&deployment, 5);
        assert_eq!(third.annotations[REVISION_HISTORY], "1,3".into());
        let mut newest = set(&json!({REVISION: "7"}));
        newest.set_new_replica_set_annotations(&deployment, 3);
        assert_eq!(newest.annotations[REVISION], "7".into());
    }

    #[test]
    fn keeps_a_revision_that_is_not_a_number() {
        let mut odd = set(&json!({REVISION: "many"}));
        odd.set_new_replica_set_annotations(&deployment(&json!({"cause": "edit"})), 3);
        assert_eq!(annotations(&odd), json!({REVISION: "many"}));
        assert!(odd.update_replica_set().is_none());
    }

    #[test]
    fn truncates_a_long_revision_history() {
        let long = (1000..1400)
            .map(|revision| revision.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let longer = append_revision(&long, "1400");
        assert_eq!(longer.len(), 1999);
        assert!(longer.starts_with("1001,") && longer.ends_with(",1399,1400"));
    }

    #[test]
    fn writes_only_differences() {
        let mut set = set(&json!({"a": "1"}));
        assert!(set.update_replica_set().is_none());
        set.replicas = 4;
        set.set_replicas_annotations(4, 5);
        let change = set.update_replica_set().unwrap();
        assert_eq!(change.scaled, Some((1, 4)));
        assert_eq!(
            change.patch,
            json!({
                "metadata": {"uid": "u", "resourceVersion": "5", "annotations": {DESIRED_REPLICAS: "4", MAX_REPLICAS: "5"}},
                "spec": {"replicas": 4},
            })
        );
    }

    #[test]
    fn parses_replica_annotations_strictly() {
        let read = |text: &str| set(&json!({DESIRED_REPLICAS: text})).desired();
        assert_eq!(
            [read("3"), read("-3"), read("+3"), read("x"), read("4294967296")],
            [Some(3), None, None, None, None]
        );
    }
}
