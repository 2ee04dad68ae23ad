//! The claims of the pods of a stateful set: which are missing, and who is to own them.
//!
//! A claim that is to go with its set is owned by the set, one that is to go with its pod by a pod that is too many. Whoever
//! owns it, the garbage collector deletes it when that is gone. Claims that others control are not touched.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};

use super::member;
use crate::{
    objects::{ClaimTemplate, Fate, Meta, Owner, PersistentVolumeClaim, Retention, StatefulSet},
    resource::{PODS, Resource, STATEFUL_SETS},
};

/// What is to be done about the claims of a pod.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Claims that are missing, by name.
    pub(super) missing: Vec<(Box<str>, Value)>,
    /// Claims that go, and must be gone before new ones can be made.
    pub(super) going: Vec<Box<str>>,
    /// Claims that others control although the set would.
    pub(super) foreign: Vec<Box<str>>,
    /// Claims that get other owners.
    pub(super) owned: Vec<Owned>,
}

/// A claim that gets other owners.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) owners: Vec<Owner>,
}

/// A claim, and the set and the pod that it is for. The pod has no uid if it is not there yet.
#[derive(Clone, Copy)]
struct Case<'a> {
    claim: &'a Meta,
    set: &'a StatefulSet,
    pod: &'a Meta,
}

/// The name of the claim of a pod.
pub(super) fn name(set: &StatefulSet, template: &ClaimTemplate, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name, set.metadata.name)
}

// --- Work ---

impl Work {
    /// Everything that is to be done about the claims of a pod. `look` finds claims by name.
    pub(super) fn new(
        set: &StatefulSet,
        pod: &Meta,
        ordinal: i32,
        look: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    ) -> Self {
        let mut work = Work::default();
        for template in &set.spec.volume_claim_templates {
            let name = name(set, template, ordinal);
            let Some(claim) = look(&name) else {
                let body = body(set, template, &name);
                work.missing.push((name.into(), body));
                continue;
            };
            if claim.metadata.is_going() {
                work.going.push(name.as_str().into());
            }
            let case = Case {
                claim: &claim.metadata,
                set,
                pod,
            };
            if case.is_foreign() {
                work.foreign.push(name.as_str().into());
            }
            if !case.is_settled() {
                let owners = case.owners();
                work.owned.push(Owned { claim, owners });
            }
        }
        work
    }

    /// The part of it that is about owners.
    pub(super) fn of_owners(self) -> Self {
        Work {
            missing: Vec::new(),
            going: Vec::new(),
            ..self
        }
    }

    /// Whether there is nothing to do or to tell.
    pub(super) fn is_nothing(&self) -> bool {
        self.missing.is_empty() && self.going.is_empty() && self.foreign.is_empty() && self.owned.is_empty()
    }
}

/// Whether a pod cannot be made yet, since a claim of its name is about to go with the pod that had the name before.
pub(super) fn is_stale(
    set: &StatefulSet,
    ordinal: i32,
    look: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
) -> bool {
    if set.spec.persistent_volume_claim_retention_policy.when_scaled == Fate::Retain {
        return false;
    }
    let pod = Meta {
        name: member::name(set, ordinal).into(),
        ..Meta::default()
    };
    let mut claims = set
        .spec
        .volume_claim_templates
        .iter()
        .filter_map(|template| look(&name(set, template, ordinal)));
    claims.any(|claim| is_left_by(&claim.metadata, &pod, &PODS))
}

/// The claim of a template.
fn body(set: &StatefulSet, template: &ClaimTemplate, name: &str) -> Value {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Equal {
        match_labels: BTreeMap<Box<str>, Box<str>>,
    }
    let mut claim: Value = serde_json::from_str(template.text.get()).unwrap_or_default();
    let selector: Equal = kubecontroller::decode::from_str(set.spec.selector.text.get()).unwrap_or_default();
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

/// Whether an owner is an object, or one of the same name before it.
fn names(owner: &Owner, meta: &Meta, resource: &Resource) -> bool {
    *owner.api_version == *resource.api_version() && *owner.kind == *resource.kind && owner.name == meta.name
}

fn is_owned_by(claim: &Meta, owner: &Meta) -> bool {
    claim.owner_references.iter().any(|known| known.uid == owner.uid)
}

/// Whether a claim is owned by one that had the name of an object before it.
fn is_left_by(claim: &Meta, meta: &Meta, resource: &Resource) -> bool {
    let mut owners = claim.owner_references.iter();
    let named = owners.find(|owner| names(owner, meta, resource));
    named.is_some_and(|owner| owner.uid != meta.uid)
}

impl Case<'_> {
    /// Whether somebody else controls the claim, and the set would.
    fn is_foreign(&self) -> bool {
        if self.set.spec.persistent_volume_claim_retention_policy == Retention::default() {
            return false;
        }
        let (set, pod) = (&self.set.metadata, self.pod);
        self.claim.owner_references.iter().any(|owner| {
            if names(owner, set, &STATEFUL_SETS) {
                owner.uid != set.uid
            } else if names(owner, pod, &PODS) {
                owner.uid != pod.uid
            } else {
                owner.controller
            }
        })
    }

    /// Whether the claim has the owners it should have, or is to be left alone.
    fn is_settled(&self) -> bool {
        let (claim, set, pod) = (self.claim, &self.set.metadata, self.pod);
        if is_left_by(claim, set, &STATEFUL_SETS) || is_left_by(claim, pod, &PODS) {
            return true;
        }
        let owned = (is_owned_by(claim, set), is_owned_by(claim, pod));
        if self.is_foreign() {
            return owned == (false, false);
        }
        let is_weak = |owner: &Owner| (owner.uid == set.uid || owner.uid == pod.uid) && !owner.controller;
        !claim.owner_references.iter().any(is_weak) && owned == self.wanted()
    }

    /// Whether the set, and whether the pod, is to own the claim.
    fn wanted(&self) -> (bool, bool) {
        let retention = self.set.spec.persistent_volume_claim_retention_policy;
        let is_wanted =
            member::ordinal(self.pod).is_some_and(|ordinal| member::place(self.set, ordinal).is_some());
        match (retention.when_scaled, retention.when_deleted) {
            (Fate::Retain, deleted) => (deleted == Fate::Delete, false),
            (Fate::Delete, deleted) => (deleted == Fate::Delete && is_wanted, !is_wanted),
        }
    }

    /// The owners that the claim should have.
    fn owners(&self) -> Vec<Owner> {
        let (set, pod) = (&self.set.metadata, self.pod);
        let is_other = |owner: &&Owner| !names(owner, set, &STATEFUL_SETS) && !names(owner, pod, &PODS);
        let mut owners: Vec<_> = self
            .claim
            .owner_references
            .iter()
            .filter(is_other)
            .cloned()
            .collect();
        if !self.is_foreign() {
            let (by_set, by_pod) = self.wanted();
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

    fn pod(ordinal: i32) -> Meta {
        Meta {
            name: format!("db-{ordinal}").into(),
            uid: format!("p{ordinal}").into(),
            ..Meta::default()
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
        let work = Work::new(set, &pod(ordinal), ordinal, |_| Some(claim(owners)));
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
    fn claims_belong_to_whom_they_go_with() {
        let (retain, delete) = ("Retain", "Delete");
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
        for (scaled, deleted, ordinal, owner, expected) in cases {
            let owners: Vec<_> = owner.map(of).into_iter().collect();
            let found = after(&set(scaled, deleted), ordinal, &owners);
            let found = found.map(|owners| owners.join(","));
            assert_eq!(
                found.as_deref(),
                expected,
                "{scaled} {deleted} {ordinal} {owner:?}"
            );
        }
    }

    #[test]
    fn what_others_control_is_left_to_them() {
        let set = set("Retain", "Delete");
        let other = owner("Backup", "b", "b");
        assert_eq!(after(&set, 0, std::slice::from_ref(&other)), None);
        let both = [other.clone(), owner("StatefulSet", "db", "s")];
        assert_eq!(after(&set, 0, &both), Some(vec!["Backup b".to_owned()]));
        let work = Work::new(&set, &pod(0), 0, |_| Some(claim(std::slice::from_ref(&other))));
        assert_eq!(work.foreign, ["data-db-0".into()]);
        let mut weak = owner("StatefulSet", "db", "s");
        weak["controller"] = false.into();
        assert_eq!(after(&set, 0, &[weak]), Some(vec!["StatefulSet s".to_owned()]));
    }

    #[test]
    fn a_missing_claim_is_made_of_its_template() {
        let work = Work::new(&set("Retain", "Retain"), &pod(1), 1, |_| None);
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
    fn a_pod_waits_for_claims_that_go_with_the_one_before_it() {
        let left = claim(&[owner("Pod", "db-0", "old")]);
        let look = |_: &str| Some(Arc::clone(&left));
        assert!(is_stale(&set("Delete", "Retain"), 0, look));
        assert!(!is_stale(&set("Retain", "Delete"), 0, look));
        assert!(!is_stale(&set("Delete", "Retain"), 0, |_| Some(claim(&[]))));
        assert!(!is_stale(&set("Delete", "Retain"), 0, |_| None));
    }
}
