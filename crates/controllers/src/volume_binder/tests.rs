//! Plans for claims and volumes.

use std::sync::Arc;

use k3_workloads::{PersistentVolume, PersistentVolumeClaim, VolumePhase};
use serde_json::{Value, json};

use super::{
    claims::{self, ClaimDecision, ClaimEnvironment},
    matching,
    volumes::{self, ReclaimMethod, VolumeDecision},
};
use crate::{
    event_message::EventMessage,
    objects::{BindingMode, StorageClass},
};

/// The environment of a claim, set by a test.
#[derive(Default)]
struct TestEnvironment {
    volumes: Vec<Arc<PersistentVolume>>,
    classes: Vec<Arc<StorageClass>>,
    pods: Vec<Box<str>>,
}

impl ClaimEnvironment for TestEnvironment {
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        let mut volumes = self.volumes.iter();
        volumes.find(|volume| &*volume.metadata.name == name).cloned()
    }

    fn best_match(&self, claim: &PersistentVolumeClaim, mode: BindingMode) -> Option<Arc<PersistentVolume>> {
        matching::best_match(claim, mode, self.volumes.iter().cloned())
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

fn merged<T: serde::de::DeserializeOwned>(whole: Value, change: Value) -> T {
    let changed = k3_api::patch::merge::apply(whole, change).unwrap();
    serde_json::from_value(changed).unwrap()
}

fn claim(change: Value) -> PersistentVolumeClaim {
    let whole = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "u"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    merged(whole, change)
}

fn volume(change: Value) -> PersistentVolume {
    let whole = json!({"metadata": {"name": "v"}, "status": {"phase": "Available"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
    merged(whole, change)
}

fn class(name: &str, provisioner: &str, mode: &str) -> Arc<StorageClass> {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    Arc::new(serde_json::from_value(class).unwrap())
}

fn of(name: &str, uid: &str) -> Value {
    json!({"claimRef": {"namespace": "shop", "name": name, "uid": uid}})
}

#[test]
fn bound_claim_keeps_its_volume_or_is_lost() {
    let done = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let bound = claim(json!({"metadata": {"annotations": done}, "spec": {"volumeName": "v"}}));
    let lost = |reason: &str, message: &str| ClaimDecision::MarkLost(EventMessage::warning(reason, message));
    let deleted = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(
        claims::decide_claim(&bound, &TestEnvironment::default()),
        lost("ClaimLost", deleted)
    );
    for (owner, is_kept) in [
        (json!({}), true),
        (of("c", "u"), true),
        (of("c", "before"), false),
        (of("c", ""), false),
    ] {
        let volume = Arc::new(volume(json!({"spec": owner})));
        let around = TestEnvironment {
            volumes: vec![volume.clone()],
            ..TestEnvironment::default()
        };
        let two = "Two claims are bound to the same volume, this one is bound incorrectly";
        let claim_spec = if is_kept {
            ClaimDecision::Bind(volume)
        } else {
            lost("ClaimMisbound", two)
        };
        assert_eq!(claims::decide_claim(&bound, &around), claim_spec);
    }
    let nameless = claim(json!({"metadata": {"annotations": done}}));
    let reference = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
    assert_eq!(
        claims::decide_claim(&nameless, &TestEnvironment::default()),
        lost("ClaimLost", reference)
    );
    let known = claim(json!({"metadata": {"annotations": done}, "status": {"phase": "Lost"}}));
    assert_eq!(
        claims::decide_claim(&known, &TestEnvironment::default()),
        ClaimDecision::Leave
    );
}

#[test]
fn binds_the_requested_volume_if_it_matches() {
    let asks = claim(json!({"spec": {"volumeName": "v"}}));
    let taken = EventMessage::warning(
        "FailedBinding",
        "volume \"v\" already bound to a different claim.",
    );
    assert_eq!(
        claims::decide_claim(&asks, &TestEnvironment::default()),
        ClaimDecision::Wait(None)
    );
    let small = "Cannot bind to requested volume \"v\": requested PV is too small";
    for (change, reported) in [
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
        let around = TestEnvironment {
            volumes: vec![volume.clone()],
            ..TestEnvironment::default()
        };
        let claim_spec = reported.map_or(ClaimDecision::Bind(volume), |reported| {
            ClaimDecision::Wait(Some(reported))
        });
        assert_eq!(claims::decide_claim(&asks, &around), claim_spec);
    }
    let chosen = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
    let chosen = claim(json!({"metadata": chosen, "spec": {"volumeName": "v"}}));
    let around = TestEnvironment {
        volumes: vec![Arc::new(volume(json!({"spec": of("other", "x")})))],
        ..TestEnvironment::default()
    };
    let why = "invalid binding of claim \"shop/c\" to volume \"v\": volume already claimed by \"shop/other\"";
    assert_eq!(
        claims::decide_claim(&chosen, &around),
        ClaimDecision::Fail(taken, why.to_owned())
    );
}

#[test]
fn unbound_claim_waits_or_is_provisioned() {
    let late = "WaitForFirstConsumer";
    let classes = || {
        vec![
            class("outside", "example.com/disks", "Immediate"),
            class("late", "example.com/disks", late),
            class("none", "kubernetes.io/no-provisioner", "Immediate"),
            class("old", "kubernetes.io/aws-ebs", "Immediate"),
        ]
    };
    let wait = |reason: &str, message: &str| ClaimDecision::Wait(Some(EventMessage::normal(reason, message)));
    let record =
        |message: &str| ClaimDecision::RecordEvent(EventMessage::warning("ProvisioningFailed", message));
    let node = json!({"annotations": {"volume.kubernetes.io/selected-node": "n"}});
    for (change, pods, claim_spec) in [
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
            ClaimDecision::Provision("example.com/disks".into()),
        ),
        (
            json!({"spec": {"storageClassName": "old"}}),
            &[],
            ClaimDecision::Provision("ebs.csi.aws.com".into()),
        ),
        (
            json!({"spec": {"storageClassName": "none"}}),
            &[],
            record("no volume plugin matched name: kubernetes.io/no-provisioner"),
        ),
        (
            json!({"spec": {"storageClassName": "absent"}}),
            &[],
            record("storageclass.storage.k8s.io \"absent\" not found"),
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
            ClaimDecision::Provision("example.com/disks".into()),
        ),
    ] {
        let around = TestEnvironment {
            classes: classes(),
            pods: pods.iter().map(|pod| (*pod).into()).collect(),
            ..TestEnvironment::default()
        };
        let claim = claim(change);
        assert_eq!(claims::decide_claim(&claim, &around), claim_spec, "{claim:?}");
    }
}

#[test]
fn claim_without_class_gets_the_default_class() {
    let marked = json!({"metadata": {"name": "usual", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let mut around = TestEnvironment {
        classes: vec![Arc::new(serde_json::from_value(marked).unwrap())],
        ..TestEnvironment::default()
    };
    let plain = claim(json!({}));
    let classless = claim(json!({"spec": {"storageClassName": ""}}));
    assert_eq!(
        claims::decide_claim(&plain, &around),
        ClaimDecision::AssignDefaultClass("usual".into())
    );
    assert!(matches!(
        claims::decide_claim(&classless, &around),
        ClaimDecision::Wait(_)
    ));
    around.volumes = vec![Arc::new(volume(json!({})))];
    assert_eq!(
        claims::decide_claim(&plain, &around),
        ClaimDecision::Bind(around.volumes[0].clone())
    );
}

#[test]
fn volume_phase_follows_its_claim() {
    let named = |name: &str| Some(claim(json!({"spec": {"volumeName": name}})));
    let written = json!({"annotations": {"pv.kubernetes.io/provisioned-by": "x"}});
    let block = claim(json!({"spec": {"volumeMode": "Block"}}));
    for (change, owner, claim_spec) in [
        (json!({}), None, VolumeDecision::Phase(VolumePhase::Available)),
        (
            json!({"spec": of("c", "")}),
            None,
            VolumeDecision::Phase(VolumePhase::Available),
        ),
        (json!({"spec": of("c", "u")}), None, VolumeDecision::Release),
        (
            json!({"spec": of("c", "u")}),
            named("v"),
            VolumeDecision::Phase(VolumePhase::Bound),
        ),
        (
            json!({"spec": of("c", "u")}),
            Some(claim(json!({}))),
            VolumeDecision::Leave,
        ),
        (json!({"spec": of("c", "u")}), named("w"), VolumeDecision::Unbind),
        (
            json!({"metadata": written, "spec": of("c", "u")}),
            named("w"),
            VolumeDecision::Unbind,
        ),
    ] {
        assert_eq!(
            volumes::decide_volume(&volume(change), owner.as_ref()),
            claim_spec
        );
    }
    let mut spec = of("c", "u");
    spec["persistentVolumeReclaimPolicy"] = "Delete".into();
    let unneeded = volume(json!({"metadata": written, "spec": spec}));
    assert_eq!(
        volumes::decide_volume(&unneeded, named("w").as_ref()),
        VolumeDecision::Release
    );
    let plan = volumes::decide_volume(&volume(json!({"spec": of("c", "u")})), Some(&block));
    assert!(matches!(plan, VolumeDecision::Mismatch { .. }));
}

#[test]
fn applies_the_reclaim_policy() {
    let fail = |reason: &str, why: &str| ReclaimMethod::Fail(EventMessage::warning(reason, why));
    let directory = |path: &str| json!({"path": path});
    let by = |name: &str| json!({"annotations": {"pv.kubernetes.io/provisioned-by": name}});
    let none = json!({});
    let tmp = directory("/tmp/x");
    for (policy, metadata, source, claim_spec) in [
        (
            "Retain",
            none.clone(),
            json!({"hostPath": tmp}),
            ReclaimMethod::Leave,
        ),
        (
            "Delete",
            none.clone(),
            json!({"hostPath": tmp}),
            ReclaimMethod::Delete,
        ),
        (
            "Delete",
            none.clone(),
            json!({"hostPath": directory("/data/x")}),
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
            ReclaimMethod::Leave,
        ),
        (
            "Delete",
            by("example.com/disks"),
            json!({"hostPath": tmp}),
            ReclaimMethod::Leave,
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
            ReclaimMethod::Recycle,
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
        assert_eq!(volumes::reclaim(&volume), claim_spec, "{policy} {volume:?}");
    }
}
