//! The replica sets of a deployment, as they are and as they are to be.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::{Deployment, ReplicaSet, ReplicaStatus};

/// Counts the templates of a deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The revisions that a replica set had before.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the deployment wanted when it last scaled the replica set: another number now means it was scaled.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// How many pods the deployment could have then, its surge among them.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The revision to go back to, as the first version of the API asked for it.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const LONGEST_HISTORY: usize = 2000;

pub(super) type Annotations = BTreeMap<Box<str>, Box<str>>;

/// A replica set, as it is to be.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) name: Box<str>,
    pub(super) replicas: i32,
    pub(super) min_ready_seconds: i32,
    pub(super) annotations: Annotations,
    pub(super) status: ReplicaStatus,
    pub(super) created: Option<Timestamp>,
    /// As it is; `None` if it is to be made.
    pub(super) seen: Option<Arc<ReplicaSet>>,
}

/// How a replica set is to be changed.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) set: Arc<ReplicaSet>,
    pub(super) patch: Value,
    /// What it is scaled from and to, if it is scaled.
    pub(super) scaled: Option<(i32, i32)>,
}

/// Whether an annotation is about one object alone, and not for those that come of it.
pub(super) fn is_own(annotation: &str) -> bool {
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

// --- Set ---

impl Set {
    /// A replica set that is there.
    pub(super) fn there(set: Arc<ReplicaSet>) -> Self {
        Set {
            name: set.metadata.name.clone(),
            replicas: set.spec.replicas,
            min_ready_seconds: set.spec.min_ready_seconds,
            annotations: (*set.metadata.annotations).clone(),
            status: set.status.clone(),
            created: set.metadata.creation_timestamp,
            seen: Some(set),
        }
    }

    /// A replica set that is to be made.
    pub(super) fn new(name: &str, deployment: &Deployment) -> Self {
        Set {
            name: name.into(),
            replicas: 0,
            min_ready_seconds: deployment.spec.min_ready_seconds,
            annotations: Annotations::new(),
            status: ReplicaStatus::default(),
            created: None,
            seen: None,
        }
    }

    /// Its revision: 0 if it has none, `None` if what it has is not a number.
    pub(super) fn revision(&self) -> Option<i64> {
        self.annotations
            .get(REVISION)
            .map_or(Some(0), |revision| revision.parse().ok())
    }

    /// How many pods the deployment wanted when it last scaled it.
    pub(super) fn desired(&self) -> Option<i32> {
        self.number(DESIRED_REPLICAS)
    }

    /// How many pods the deployment could have then.
    pub(super) fn most(&self) -> Option<i32> {
        self.number(MAX_REPLICAS)
    }

    fn number(&self, annotation: &str) -> Option<i32> {
        let digits = self.annotations.get(annotation)?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        is_plain.then(|| digits.parse().ok()).flatten()
    }

    /// Writes down for how many pods it was scaled.
    pub(super) fn note_scale(&mut self, desired: i32, most: i32) {
        for (name, count) in [(DESIRED_REPLICAS, desired), (MAX_REPLICAS, most)] {
            self.annotations.insert(name.into(), count.to_string().into());
        }
    }

    /// Makes it the one of the deployment's template: it gets the deployment's annotations and the newest revision. What it
    /// was before is added to its history.
    pub(super) fn note_newest(&mut self, deployment: &Deployment, revision: i64) {
        let before = self.annotations.get(REVISION).cloned();
        let Some(old) = self.revision() else {
            // A revision that somebody wrote by hand is not touched, nor is anything else then.
            return;
        };
        let copied = deployment
            .metadata
            .annotations
            .iter()
            .filter(|(name, _)| !is_own(name));
        self.annotations
            .extend(copied.map(|(name, value)| (name.clone(), value.clone())));
        if old >= revision {
            return;
        }
        self.annotations
            .insert(REVISION.into(), revision.to_string().into());
        if let Some(before) = before {
            let history = self.annotations.get(REVISION_HISTORY);
            let history = longer(history.map_or("", |history| history), &before);
            self.annotations.insert(REVISION_HISTORY.into(), history.into());
        }
    }

    /// What has to be written for it to be so; `None` if it is.
    pub(super) fn change(&self) -> Option<Change> {
        let set = self.seen.as_ref()?;
        let annotations: BTreeMap<_, _> = self
            .annotations
            .iter()
            .filter(|(name, value)| set.metadata.annotations.get(*name) != Some(*value))
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
        Some(Change {
            set: Arc::clone(set),
            patch,
            scaled: is_scaled.then_some((set.spec.replicas, self.replicas)),
        })
    }
}

/// A history with one revision more, without the oldest ones if it would be too long.
fn longer(history: &str, revision: &str) -> String {
    if history.is_empty() {
        return revision.to_owned();
    }
    let mut kept = history;
    while kept.len() + 1 + revision.len() > LONGEST_HISTORY {
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

    fn set(annotations: &Value) -> Set {
        let set = json!({"metadata": {"name": "web-1", "uid": "u", "resourceVersion": "5", "annotations": annotations}, "spec": {}});
        Set::there(Arc::new(serde_json::from_value(set).unwrap()))
    }

    fn annotations(set: &Set) -> Value {
        json!(set.annotations)
    }

    #[test]
    fn the_newest_set_has_the_annotations_of_its_deployment_and_the_greatest_revision() {
        let deployment = deployment(&json!({"cause": "edit", REVISION: "9", ROLLBACK_TO: "1"}));
        let mut first = set(&json!({"own": "x"}));
        first.note_newest(&deployment, 3);
        assert_eq!(
            annotations(&first),
            json!({"own": "x", "cause": "edit", REVISION: "3"})
        );
        let mut again = set(&json!({REVISION: "1"}));
        again.note_newest(&deployment, 3);
        assert_eq!(
            annotations(&again),
            json!({"cause": "edit", REVISION: "3", REVISION_HISTORY: "1"})
        );
        let mut third = set(&json!({REVISION: "3", REVISION_HISTORY: "1"}));
        third.note_newest(&deployment, 5);
        assert_eq!(third.annotations[REVISION_HISTORY], "1,3".into());
        let mut newest = set(&json!({REVISION: "7"}));
        newest.note_newest(&deployment, 3);
        assert_eq!(newest.annotations[REVISION], "7".into());
    }

    #[test]
    fn a_revision_that_is_not_a_number_is_left_alone() {
        let mut odd = set(&json!({REVISION: "many"}));
        odd.note_newest(&deployment(&json!({"cause": "edit"})), 3);
        assert_eq!(annotations(&odd), json!({REVISION: "many"}));
        assert!(odd.change().is_none());
    }

    #[test]
    fn a_long_history_loses_its_oldest_revisions() {
        let long = (1000..1400)
            .map(|revision| revision.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let longer = longer(&long, "1400");
        assert_eq!(longer.len(), 1999);
        assert!(longer.starts_with("1001,") && longer.ends_with(",1399,1400"));
    }

    #[test]
    fn only_what_differs_is_written() {
        let mut set = set(&json!({"a": "1"}));
        assert!(set.change().is_none());
        set.replicas = 4;
        set.note_scale(4, 5);
        let change = set.change().unwrap();
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
    fn counts_in_annotations_are_plain_numbers() {
        let read = |text: &str| set(&json!({DESIRED_REPLICAS: text})).desired();
        assert_eq!(
            [read("3"), read("-3"), read("+3"), read("x"), read("4294967296")],
            [Some(3), None, None, None, None]
        );
    }
}
