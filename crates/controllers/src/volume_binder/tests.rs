//! Plans for claims and volumes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    claims::{self, ClaimPlan, Sight},
    matching,
    volumes::{self, Reclaim, VolumePlan},
};
use crate::{
    event_message::EventMessage,
    objects::{PersistentVolume, PersistentVolumeClaim, StorageClass, VolumePhase},
};

/// What is around a claim, as a test says.
#[derive(Default)]
struct Around {
    volumes: Vec<Arc<PersistentVolume>>,
    classes: Vec<Arc<StorageClass>>,
    pods: Vec<Box<str>>,
}

impl Sight for Around {
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        let mut volumes = self.volumes.iter();
        volumes.find(|volume| &*volume.metadata.name == name).cloned()
    }

    fn best(&self, claim: &PersistentVolumeClaim, waits: bool) -> Option<Arc<PersistentVolume>> {
        matching::best(claim, waits, self.volumes.iter().cloned())
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        let mut classes = self.classes.iter();
        classes.find(|class| &*class.metadata.name == name).cloned()
    }

    fn default_class(&self) -> Option<Arc<StorageClass>> {
        self.classes.iter().find(|class| class.is_default()).cloned()
    }

    fn waiting_pods(&self, _: &PersistentVolumeClaim) -> Vec<Box<str>> {
        self.pods.clone()
    }
}

fn made<T: serde::de::DeserializeOwned>(whole: Value, change: Value) -> T {
    let changed = k3_api::patch::merge::apply(whole, change).unwrap();
    serde_json::from_value(changed).unwrap()
}

fn claim(change: Value) -> PersistentVolumeClaim {
    let whole = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "u"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    made(whole, change)
}

fn volume(change: Value) -> PersistentVolume {
    let whole = json!({"metadata": {"name": "v"}, "status": {"phase": "Available"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
    made(whole, change)
}

fn class(name: &str, provisioner: &str, mode: &str) -> Arc<StorageClass> {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    Arc::new(serde_json::from_value(class).unwrap())
}

fn of(name: &str, uid: &str) -> Value {
    json!({"claimRef": {"namespace": "shop", "name": name, "uid": uid}})
}

#[test]
fn a_claim_that_was_bound_keeps_its_volume_or_is_lost() {
    let done = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let bound = claim(json!({"metadata": {"annotations": done}, "spec": {"volumeName": "v"}}));
    let lost = |reason: &str, message: &str| ClaimPlan::Lose(EventMessage::warning(reason, message));
    let gone = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(claims::plan(&bound, &Around::default()), lost("ClaimLost", gone));
    for (owner, is_kept) in [
        (json!({}), true),
        (of("c", "u"), true),
        (of("c", "before"), false),
        (of("c", ""), false),
    ] {
        let volume = Arc::new(volume(json!({"spec": owner})));
        let around = Around {
            volumes: vec![volume.clone()],
            ..Around::default()
        };
        let two = "Two claims are bound to the same volume, this one is bound incorrectly";
        let want = if is_kept {
            ClaimPlan::Bind(volume)
        } else {
            lost("ClaimMisbound", two)
        };
        assert_eq!(claims::plan(&bound, &around), want);
    }
    let nameless = claim(json!({"metadata": {"annotations": done}}));
    let reference = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
    assert_eq!(
        claims::plan(&nameless, &Around::default()),
        lost("ClaimLost", reference)
    );
    let known = claim(json!({"metadata": {"annotations": done}, "status": {"phase": "Lost"}}));
    assert_eq!(claims::plan(&known, &Around::default()), ClaimPlan::Leave);
}

#[test]
fn a_claim_gets_the_volume_it_asks_for_if_that_is_free_and_fits() {
    let asks = claim(json!({"spec": {"volumeName": "v"}}));
    let taken = EventMessage::warning(
        "FailedBinding",
        "volume \"v\" already bound to a different claim.",
    );
    assert_eq!(claims::plan(&asks, &Around::default()), ClaimPlan::Wait(None));
    let small = "Cannot bind to requested volume \"v\": requested PV is too small";
    for (change, told) in [
        (json!({}), None),
        (json!({"spec": of("c", "")}), None),
        (json!({"spec": of("c", "u")}), None),
        (json!({"spec": of("other", "x")}), Some(taken.clone())),
        (
            json!({"spec": {"capacity": {"storage": "1"}}}),
            Some(EventMessage::warning("VolumeMismatch", small)),
        ),
    ] {
        let volume = Arc::new(volume(change));
        let around = Around {
            volumes: vec![volume.clone()],
            ..Around::default()
        };
        let want = told.map_or(ClaimPlan::Bind(volume), |told| ClaimPlan::Wait(Some(told)));
        assert_eq!(claims::plan(&asks, &around), want);
    }
    let chosen = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
    let chosen = claim(json!({"metadata": chosen, "spec": {"volumeName": "v"}}));
    let around = Around {
        volumes: vec![Arc::new(volume(json!({"spec": of("other", "x")})))],
        ..Around::default()
    };
    let why = "invalid binding of claim \"shop/c\" to volume \"v\": volume already claimed by \"shop/other\"";
    assert_eq!(
        claims::plan(&chosen, &around),
        ClaimPlan::Fail(taken, why.to_owned())
    );
}

#[test]
fn a_claim_without_a_volume_waits_or_has_one_made() {
    let late = "WaitForFirstConsumer";
    let classes = || {
        vec![
            class("outside", "example.com/disks", "Immediate"),
            class("late", "example.com/disks", late),
            class("none", "kubernetes.io/no-provisioner", "Immediate"),
            class("old", "kubernetes.io/aws-ebs", "Immediate"),
        ]
    };
    let wait = |reason: &str, message: &str| ClaimPlan::Wait(Some(EventMessage::normal(reason, message)));
    let tell = |message: &str| ClaimPlan::Tell(EventMessage::warning("ProvisioningFailed", message));
    let node = json!({"annotations": {"volume.kubernetes.io/selected-node": "n"}});
    for (change, pods, want) in [
        (
            json!({"spec": {"storageClassName": ""}}),
            &[][..],
            wait(
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            ),
        ),
        (
            json!({"spec": {"storageClassName": "outside"}}),
            &[],
            ClaimPlan::Ask("example.com/disks".into()),
        ),
        (
            json!({"spec": {"storageClassName": "old"}}),
            &[],
            ClaimPlan::Ask("ebs.csi.aws.com".into()),
        ),
        (
            json!({"spec": {"storageClassName": "none"}}),
            &[],
            tell("no volume plugin matched name: kubernetes.io/no-provisioner"),
        ),
        (
            json!({"spec": {"storageClassName": "absent"}}),
            &[],
            tell("storageclass.storage.k8s.io \"absent\" not found"),
        ),
        (
            json!({"spec": {"storageClassName": "late"}}),
            &[],
            wait(late, "waiting for first consumer to be created before binding"),
        ),
        (
            json!({"spec": {"storageClassName": "late"}}),
            &["p"],
            wait("WaitForPodScheduled", "waiting for pod p to be scheduled"),
        ),
        (
            json!({"spec": {"storageClassName": "late"}}),
            &["p", "q"],
            wait("WaitForPodScheduled", "waiting for pods p,q to be scheduled"),
        ),
        (
            json!({"metadata": node, "spec": {"storageClassName": "late"}}),
            &["p"],
            ClaimPlan::Ask("example.com/disks".into()),
        ),
    ] {
        let around = Around {
            classes: classes(),
            pods: pods.iter().map(|pod| (*pod).into()).collect(),
            ..Around::default()
        };
        let claim = claim(change);
        assert_eq!(claims::plan(&claim, &around), want, "{claim:?}");
    }
}

#[test]
fn a_claim_that_names_no_class_gets_a_volume_without_one_or_the_default_class() {
    let marked = json!({"metadata": {"name": "usual", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let mut around = Around {
        classes: vec![Arc::new(serde_json::from_value(marked).unwrap())],
        ..Around::default()
    };
    let (plain, classless) = (claim(json!({})), claim(json!({"spec": {"storageClassName": ""}})));
    assert_eq!(claims::plan(&plain, &around), ClaimPlan::Assign("usual".into()));
    assert!(matches!(claims::plan(&classless, &around), ClaimPlan::Wait(_)));
    around.volumes = vec![Arc::new(volume(json!({})))];
    assert_eq!(
        claims::plan(&plain, &around),
        ClaimPlan::Bind(around.volumes[0].clone())
    );
}

#[test]
fn a_volume_is_free_bound_or_released_as_its_claim_is() {
    let named = |name: &str| Some(claim(json!({"spec": {"volumeName": name}})));
    let made = json!({"annotations": {"pv.kubernetes.io/provisioned-by": "x"}});
    let block = claim(json!({"spec": {"volumeMode": "Block"}}));
    for (change, owner, want) in [
        (json!({}), None, VolumePlan::Phase(VolumePhase::Available)),
        (
            json!({"spec": of("c", "")}),
            None,
            VolumePlan::Phase(VolumePhase::Available),
        ),
        (json!({"spec": of("c", "u")}), None, VolumePlan::Release),
        (
            json!({"spec": of("c", "u")}),
            named("v"),
            VolumePlan::Phase(VolumePhase::Bound),
        ),
        (
            json!({"spec": of("c", "u")}),
            Some(claim(json!({}))),
            VolumePlan::Leave,
        ),
        (json!({"spec": of("c", "u")}), named("w"), VolumePlan::Unbind),
        (
            json!({"metadata": made, "spec": of("c", "u")}),
            named("w"),
            VolumePlan::Unbind,
        ),
    ] {
        assert_eq!(volumes::plan(&volume(change), owner.as_ref()), want);
    }
    let mut spec = of("c", "u");
    spec["persistentVolumeReclaimPolicy"] = "Delete".into();
    let unneeded = volume(json!({"metadata": made, "spec": spec}));
    assert_eq!(volumes::plan(&unneeded, named("w").as_ref()), VolumePlan::Release);
    let plan = volumes::plan(&volume(json!({"spec": of("c", "u")})), Some(&block));
    assert!(matches!(plan, VolumePlan::Mismatch { .. }));
}

#[test]
fn what_becomes_of_a_released_volume_is_its_policy() {
    let fail = |reason: &str, why: &str| Reclaim::Fail(EventMessage::warning(reason, why));
    let folder = |path: &str| json!({"path": path});
    let by = |name: &str| json!({"annotations": {"pv.kubernetes.io/provisioned-by": name}});
    let (none, tmp) = (json!({}), folder("/tmp/x"));
    for (policy, metadata, source, want) in [
        ("Retain", none.clone(), json!({"hostPath": tmp}), Reclaim::Leave),
        ("Delete", none.clone(), json!({"hostPath": tmp}), Reclaim::Delete),
        (
            "Delete",
            none.clone(),
            json!({"hostPath": folder("/data/x")}),
            fail(
                "VolumeFailedDelete",
                "host_path deleter only supports /tmp/.+ but received provided /data/x",
            ),
        ),
        (
            "Delete",
            none.clone(),
            json!({"local": {"path": "/x"}}),
            fail(
                "VolumeFailedDelete",
                "error getting deleter volume plugin for volume \"v\": no volume plugin matched",
            ),
        ),
        (
            "Delete",
            none.clone(),
            json!({"nfs": {"path": "/x"}}),
            fail(
                "VolumeFailedDelete",
                "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
            ),
        ),
        (
            "Delete",
            none.clone(),
            json!({"csi": {"driver": "x"}}),
            Reclaim::Leave,
        ),
        (
            "Delete",
            by("example.com/disks"),
            json!({"hostPath": tmp}),
            Reclaim::Leave,
        ),
        (
            "Delete",
            by("kubernetes.io/rbd"),
            json!({"hostPath": tmp}),
            fail(
                "VolumeFailedDelete",
                "no volume plugin matched name: kubernetes.io/rbd",
            ),
        ),
        (
            "Recycle",
            none.clone(),
            json!({"hostPath": tmp}),
            Reclaim::Recycle,
        ),
        (
            "Recycle",
            none.clone(),
            json!({"csi": {"driver": "x"}}),
            fail("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        ),
    ] {
        let mut spec = source;
        spec["persistentVolumeReclaimPolicy"] = policy.into();
        let volume = volume(json!({"metadata": metadata, "spec": spec}));
        assert_eq!(volumes::reclaim(&volume), want, "{policy} {volume:?}");
    }
}
