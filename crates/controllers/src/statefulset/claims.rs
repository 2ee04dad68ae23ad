//! PersistentVolumeClaims of a StatefulSet's pods: missing claims and owner references (persistentVolumeClaimRetentionPolicy).
//!
//! A claim to be deleted with the set is owned by the set, one to be deleted with a scaled-down pod is owned by that pod. The
//! garbage collector then deletes it. Claims with another controller are not touched.

use std::{collections::BTreeMap, sync::Arc};

use k3_workloads::{ObjectMeta, OwnerReference, PersistentVolumeClaim};
use kubecontroller::resource::Resource;
use serde::Deserialize;
use serde_json::{Value, json};

use super::pod_identity;
use crate::{
    objects::{ClaimRetention, ClaimRetentionPolicy, ClaimTemplate, StatefulSet},
    resource::{PODS, STATEFUL_SETS},
};

/// What to do about the claims of a pod.
#[derive(Debug, Default)]
pub(super) struct ClaimWork {
    /// Missing claims by name.
    pub(super) missing: Vec<(Box<str>, Value)>,
    /// Terminating claims, which have to be deleted before new ones can be created.
    pub(super) terminating: Vec<Box<str>>,
    /// Claims with another controller although the set should control them.
    pub(super) foreign: Vec<Box<str>>,
    /// Claims whose owner references change.
    pub(super) owned: Vec<ClaimOwnerUpdate>,
}

/// A claim whose owner references change.
#[derive(Debug)]
pub(super) struct ClaimOwnerUpdate {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) owners: Vec<OwnerReference>,
}

/// A claim with its set and pod. The pod has no UID if it does not exist yet.
#[derive(Clone, Copy)]
struct ClaimOwnership<'a> {
    claim: &'a ObjectMeta,
    set: &'a StatefulSet,
    pod: &'a ObjectMeta,
}

/// The name of the claim of a pod.
// upstream: pkg/controller/statefulset/stateful_set_utils.go getPersistentVolumeClaimName
pub(super) fn claim_name_for(set: &StatefulSet, template: &ClaimTemplate, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name, set.metadata.name)
}

// --- ClaimWork ---

impl ClaimWork {
    /// Everything to do about the claims of a pod. `find_claim` finds claims by name.
    // upstream: pkg/controller/statefulset/stateful_pod_control.go createPersistentVolumeClaims, UpdatePodClaimForRetentionPolicy
    pub(super) fn new(
        set: &StatefulSet,
        pod: &ObjectMeta,
        ordinal: i32,
        find_claim: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    ) -> Self {
        let mut work = ClaimWork::default();
        for template in &set.spec.volume_claim_templates {
            let name = claim_name_for(set, template, ordinal);
            let Some(claim) = find_claim(&name) else {
                let body = body(set, template, &name);
                work.missing.push((name.into(), body));
                continue;
            };
            if claim.metadata.is_terminating() {
                work.terminating.push(name.as_str().into());
            }
            let case = ClaimOwnership {
                claim: &claim.metadata,
                set,
                pod,
            };
            if case.has_unexpected_controller() {
                work.foreign.push(name.as_str().into());
            }
            if !case.is_claim_owner_up_to_date() {
                let owners = case.owners();
                work.owned.push(ClaimOwnerUpdate { claim, owners });
            }
        }
        work
    }

    /// Only the changes of owner references.
    pub(super) fn only_owner_updates(self) -> Self {
        ClaimWork {
            missing: Vec::new(),
            terminating: Vec::new(),
            ..self
        }
    }

    /// Whether there is nothing to do or to report.
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty()
            && self.terminating.is_empty()
            && self.foreign.is_empty()
            && self.owned.is_empty()
    }
}

/// Whether pod creation has to wait because a claim of that name will be deleted with a previous pod of the same name.
// upstream: pkg/controller/statefulset/stateful_pod_control.go PodClaimIsStale
pub(super) fn is_stale(
    set: &StatefulSet,
    ordinal: i32,
    find_claim: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
) -> bool {
    if set.spec.persistent_volume_claim_retention_policy.when_scaled == ClaimRetention::Retain {
        return false;
    }
    let pod = ObjectMeta {
        name: pod_identity::pod_name(set, ordinal).into(),
        ..ObjectMeta::default()
    };
    let mut claims = set
        .spec
        .volume_claim_templates
        .iter()
        .filter_map(|template| find_claim(&claim_name_for(set, template, ordinal)));
    claims.any(|claim| has_stale_owner_ref(&claim.metadata, &pod, &PODS))
}

/// The claim created from a template.
// upstream: pkg/controller/statefulset/stateful_set_utils.go getPersistentVolumeClaims
fn body(set: &StatefulSet, template: &ClaimTemplate, name: &str) -> Value {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct MatchLabels {
        match_labels: BTreeMap<Box<str>, Box<str>>,
    }
    // A template that is nested too deeply for a tree leads to a claim without a spec, which the server rejects with an event.
    let mut claim: Value = serde_json::from_str(template.text.get()).unwrap_or_default();
    let selector: MatchLabels =
        kubecontroller::decode::from_str(set.spec.selector.text.get()).unwrap_or_default();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = name.into();
    claim["metadata"]["namespace"] = json!(set.metadata.namespace);
    for (label, value) in selector.match_labels {
        claim["metadata"]["labels"][&*label] = json!(value);
    }
    claim
}

// --- owners ---

/// Whether an owner reference names an object, or a previous one of the same name.
fn owner_ref_matches(owner: &OwnerReference, meta: &ObjectMeta, resource: &Resource) -> bool {
    *owner.api_version == *resource.api_version() && *owner.kind == *resource.kind && owner.name == meta.name
}

fn is_owned_by(claim: &ObjectMeta, owner: &ObjectMeta) -> bool {
    claim.owner_references.iter().any(|known| known.uid == owner.uid)
}

/// Whether a claim is owned by a previous object of the same name.
// upstream: pkg/controller/statefulset/stateful_set_utils.go hasStaleOwnerRef
fn has_stale_owner_ref(claim: &ObjectMeta, meta: &ObjectMeta, resource: &Resource) -> bool {
    let mut owners = claim.owner_references.iter();
    let named = owners.find(|owner| owner_ref_matches(owner, meta, resource));
    named.is_some_and(|owner| owner.uid != meta.uid)
}

impl ClaimOwnership<'_> {
    /// Whether the claim has another controller although the set should control it.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go hasUnexpectedController
    fn has_unexpected_controller(&self) -> bool {
        if self.set.spec.persistent_volume_claim_retention_policy == ClaimRetentionPolicy::default() {
            return false;
        }
        let set = &self.set.metadata;
        let pod = self.pod;
        self.claim.owner_references.iter().any(|owner| {
            if owner_ref_matches(owner, set, &STATEFUL_SETS) {
                owner.uid != set.uid
            } else if owner_ref_matches(owner, pod, &PODS) {
                owner.uid != pod.uid
            } else {
                owner.controller
            }
        })
    }

    /// Whether the owner references are as they should be, or the claim must not be touched.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go isClaimOwnerUpToDate
    fn is_claim_owner_up_to_date(&self) -> bool {
        let claim = self.claim;
        let set = &self.set.metadata;
        let pod = self.pod;
        if has_stale_owner_ref(claim, set, &STATEFUL_SETS) || has_stale_owner_ref(claim, pod, &PODS) {
            return true;
        }
        let owned = (is_owned_by(claim, set), is_owned_by(claim, pod));
        if self.has_unexpected_controller() {
            return owned == (false, false);
        }
        let is_weak =
            |owner: &OwnerReference| (owner.uid == set.uid || owner.uid == pod.uid) && !owner.controller;
        !claim.owner_references.iter().any(is_weak) && owned == self.desired_owners()
    }

    /// Whether the set, and whether the pod, should own the claim.
    fn desired_owners(&self) -> (bool, bool) {
        let retention = self.set.spec.persistent_volume_claim_retention_policy;
        let is_wanted = pod_identity::ordinal(self.pod)
            .is_some_and(|ordinal| pod_identity::ordinal_position(self.set, ordinal).is_some());
        match (retention.when_scaled, retention.when_deleted) {
            (ClaimRetention::Retain, deleted) => (deleted == ClaimRetention::Delete, false),
            (ClaimRetention::Delete, deleted) => (deleted == ClaimRetention::Delete && is_wanted, !is_wanted),
        }
    }

    /// The desired owner references of the claim.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go updateClaimOwnerRefForSetAndPod
    fn owners(&self) -> Vec<OwnerReference> {
        let set = &self.set.metadata;
        let pod = self.pod;
        let is_other = |owner: &&OwnerReference| {
            !owner_ref_matches(owner, set, &STATEFUL_SETS) && !owner_ref_matches(owner, pod, &PODS)
        };
        let mut owners: Vec<_> = self
            .claim
            .owner_references
            .iter()
            .filter(is_other)
            .cloned()
            .collect();
        if !self.has_unexpected_controller() {
            let (by_set, by_pod) = self.desired_owners();
            owners.extend(by_pod.then(|| pod.as_controller(&PODS)));
            owners.extend(by_set.then(|| set.as_controller(&STATEFUL_SETS)));
        }
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(scaled: &str, deleted: &str) -> StatefulSet {
        let set = json!({
            "metadata": {"name": "db", "namespace": "shop", "uid": "s"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"own": "x"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
        });
        serde_json::from_value(set).unwrap()
    }

    fn pod(ordinal: i32) -> ObjectMeta {
        ObjectMeta {
            name: format!("db-{ordinal}").into(),
            uid: format!("p{ordinal}").into(),
            ..ObjectMeta::default()
        }
    }

    fn owner(kind: &str, name: &str, uid: &str) -> Value {
        let version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true})
    }

    fn claim(owners: &[Value]) -> Arc<PersistentVolumeClaim> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "data-db-0", "ownerReferences": owners}}))
                .unwrap(),
        )
    }

    /// What the claim of a pod is owned by after the work; `None` if it is left as it is.
    fn after(set: &StatefulSet, ordinal: i32, owners: &[Value]) -> Option<Vec<String>> {
        let work = ClaimWork::new(set, &pod(ordinal), ordinal, |_| Some(claim(owners)));
        let owned = work.owned.into_iter().next()?;
        Some(
            owned
                .owners
                .iter()
                .map(|owner| format!("{} {}", owner.kind, owner.uid))
                .collect(),
        )
    }

    #[test]
    fn sets_claim_owners_by_retention_policy() {
        let retain = "Retain";
        let delete = "Delete";
        let of = |owner: &str| match owner {
            "set" => self::owner("StatefulSet", "db", "s"),
            "pod" => self::owner("Pod", "db-0", "p0"),
            // Those that had the name before.
            "former set" => self::owner("StatefulSet", "db", "former"),
            _ => self::owner("Pod", "db-0", "former"),
        };
        let cases = [
            (retain, retain, 0, None, None),
            (retain, retain, 0, Some("set"), Some("")),
            (retain, delete, 0, None, Some("StatefulSet s")),
            (retain, delete, 0, Some("set"), None),
            (retain, delete, 7, None, Some("StatefulSet s")),
            (delete, retain, 0, None, None),
            (delete, retain, 0, Some("pod"), Some("")),
            (delete, retain, 7, None, Some("Pod p7")),
            (delete, delete, 0, None, Some("StatefulSet s")),
            (delete, delete, 7, Some("set"), Some("Pod p7")),
            (delete, delete, 0, Some("former set"), None),
            (delete, delete, 0, Some("former pod"), None),
        ];
        for (scaled, deleted, ordinal, owner, expectations) in cases {
            let owners: Vec<_> = owner.map(of).into_iter().collect();
            let found = after(&set(scaled, deleted), ordinal, &owners);
            let found = found.map(|owners| owners.join(","));
            assert_eq!(
                found.as_deref(),
                expectations,
                "{scaled} {deleted} {ordinal} {owner:?}"
            );
        }
    }

    #[test]
    fn ignores_claims_with_another_controller() {
        let set = set("Retain", "Delete");
        let other = owner("Backup", "b", "b");
        assert_eq!(after(&set, 0, std::slice::from_ref(&other)), None);
        let both = [other.clone(), owner("StatefulSet", "db", "s")];
        assert_eq!(after(&set, 0, &both), Some(vec!["Backup b".to_owned()]));
        let work = ClaimWork::new(&set, &pod(0), 0, |_| Some(claim(std::slice::from_ref(&other))));
        assert_eq!(work.foreign, ["data-db-0".into()]);
        let mut weak = owner("StatefulSet", "db", "s");
        weak["controller"] = false.into();
        assert_eq!(after(&set, 0, &[weak]), Some(vec!["StatefulSet s".to_owned()]));
    }

    #[test]
    fn creates_missing_claims_from_templates() {
        let work = ClaimWork::new(&set("Retain", "Retain"), &pod(1), 1, |_| None);
        let (name, body) = &work.missing[0];
        assert_eq!(&**name, "data-db-1");
        assert_eq!(
            *body,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data-db-1", "namespace": "shop", "labels": {"app": "a", "own": "x"}},
                "spec": {"accessModes": ["ReadWriteOnce"]},
            })
        );
    }

    #[test]
    fn waits_for_stale_claims() {
        let left = claim(&[owner("Pod", "db-0", "old")]);
        let find_claim = |_: &str| Some(Arc::clone(&left));
        assert!(is_stale(&set("Delete", "Retain"), 0, find_claim));
        assert!(!is_stale(&set("Retain", "Delete"), 0, find_claim));
        assert!(!is_stale(&set("Delete", "Retain"), 0, |_| Some(claim(&[]))));
        assert!(!is_stale(&set("Delete", "Retain"), 0, |_| None));
    }
}
