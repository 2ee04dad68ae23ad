use serde_json::{Value, json};

use super::*;
use crate::{
    object::{CsiDriver, CsiStorageCapacity, StorageClass, read},
    test_cluster::TestCluster,
};

struct VolumeBindingTest(TestCluster);

impl VolumeBindingTest {
    fn new() -> Self {
        let mut world = VolumeBindingTest(TestCluster::default());
        for (name, waits, provisioner) in [
            ("later", true, "kubernetes.io/no-provisioner"),
            ("made", true, "driver"),
            ("now", false, "driver"),
        ] {
            let mode = if waits {
                "WaitForFirstConsumer"
            } else {
                "Immediate"
            };
            let raw =
                json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
            let class = read::<StorageClass>(raw, &mut world.0.interner);
            world.0.cluster.storage.classes.insert(name.into(), class.into());
        }
        for name in ["a", "b"] {
            world.0.node(name, |_| {});
        }
        world
    }

    fn claim(&mut self, name: &str, class: &str, change: impl FnOnce(&mut Value)) {
        let mut raw = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {}},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "5Gi"}}},
        });
        change(&mut raw);
        let claim = read::<PersistentVolumeClaim>(raw, &mut self.0.interner);
        self.0.cluster.storage.set_claim(claim);
    }

    fn volume(&mut self, name: &str, size: &str, node: &str, change: impl FnOnce(&mut Value)) {
        let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let mut raw = json!({
            "metadata": {"name": name},
            "spec": {"storageClassName": "later", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}},
            "status": {"phase": "Available"},
        });
        change(&mut raw);
        let volume = read::<PersistentVolume>(raw, &mut self.0.interner);
        self.0.cluster.storage.set_volume(volume);
    }

    fn early(&mut self, claims: &[&str]) -> Result<PodVolumeClaims, String> {
        let volumes: Vec<_> = claims
            .iter()
            .map(|name| json!({"persistentVolumeClaim": {"claimName": name}}))
            .collect();
        let pod = self.0.pod("p", |pod| pod["spec"]["volumes"] = json!(volumes));
        let mut claims = PodVolumeClaims::default();
        let result = VolumeBinding.pre_filter(&self.0.cycle(&pod), &mut claims);
        result.map_err(|rejection| rejection.message())?;
        Ok(claims)
    }

    fn on(&mut self, claims: &[&str], node: &str) -> Result<Vec<String>, String> {
        let claims = self.early(claims)?;
        let cluster = &self.0.cluster;
        let node = cluster.node(cluster.slot(node).unwrap()).unwrap();
        let decided =
            find_pod_volumes(&claims, &cluster.storage, node).map_err(|rejection| rejection.message())?;
        let bound = decided
            .bind
            .iter()
            .map(|(volume, claim)| format!("{}={}", claim.name, volume.name));
        Ok(bound
            .chain(
                decided
                    .provision
                    .iter()
                    .map(|claim| format!("{}=new", claim.name)),
            )
            .collect())
    }
}

const NOTHING: &str = "node(s) didn't find available persistent volumes to bind";

#[test]
fn pre_filter_rejects_unusable_claims() {
    let mut world = VolumeBindingTest::new();
    world.claim("waiting", "now", |_| {});
    world.claim("lost", "now", |claim| {
        claim["spec"]["volumeName"] = "v".into();
        claim["status"] = json!({"phase": "Lost"});
    });
    world.claim("terminating", "now", |claim| {
        claim["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    });
    for (claim, message) in [
        ("none", "persistentvolumeclaim \"none\" not found"),
        ("waiting", "pod has unbound immediate PersistentVolumeClaims"),
        (
            "lost",
            "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"v\"",
        ),
        (
            "terminating",
            "persistentvolumeclaim \"terminating\" is being deleted",
        ),
    ] {
        assert_eq!(world.early(&[claim]).unwrap_err(), message);
    }
}

#[test]
fn a_bound_volume_is_used_where_it_can_be_reached() {
    let mut world = VolumeBindingTest::new();
    for (name, volume) in [("c", "v"), ("d", "missing")] {
        world.claim(name, "now", |claim| {
            claim["spec"]["volumeName"] = volume.into();
            claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        });
    }
    world.volume("v", "5Gi", "a", |_| {});
    assert_eq!(world.on(&["c"], "a"), Ok(vec![]));
    assert_eq!(
        world.on(&["c"], "b").unwrap_err(),
        "node(s) didn't match PersistentVolume's node affinity"
    );
    let missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert_eq!(world.on(&["d"], "a").unwrap_err(), missing);
}

#[test]
fn the_smallest_volume_that_does_is_taken() {
    let mut world = VolumeBindingTest::new();
    world.claim("c", "later", |_| {});
    world.claim("d", "later", |_| {});
    world.volume("large", "50Gi", "a", |_| {});
    world.volume("fits", "10Gi", "a", |_| {});
    world.volume("small", "1Gi", "a", |_| {});
    world.volume("other", "6Gi", "b", |_| {});
    world.volume("held", "6Gi", "a", |volume| {
        volume["spec"]["claimRef"] = json!({"namespace": "x", "name": "y", "uid": "z"});
    });
    assert_eq!(world.on(&["c"], "a").unwrap(), ["c=fits"]);
    assert_eq!(world.on(&["c", "d"], "a").unwrap(), ["c=fits", "d=large"]);
    assert_eq!(world.on(&["c", "d"], "b").unwrap_err(), NOTHING);
    let claim = world
        .0
        .cluster
        .storage
        .claim(&"default".into(), &"d".into())
        .unwrap()
        .clone();
    world.0.cluster.storage.assume_volume("fits".into(), &claim);
    assert_eq!(
        world.on(&["c"], "a").unwrap(),
        ["c=large"],
        "what was decided for another is not free"
    );
}

#[test]
fn a_volume_is_made_where_its_class_reaches() {
    let mut world = VolumeBindingTest::new();
    world.claim("c", "made", |_| {});
    assert_eq!(world.on(&["c"], "a").unwrap(), ["c=new"]);
    world.claim("c", "made", |claim| {
        claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "b"});
    });
    assert_eq!(world.on(&["c"], "a").unwrap_err(), NOTHING);
    assert_eq!(world.on(&["c"], "b").unwrap(), ["c=new"]);
}

#[test]
fn storage_capacity_limits_provisioning() {
    let mut world = VolumeBindingTest::new();
    world.claim("c", "made", |_| {});
    let raw = json!({"metadata": {"name": "driver"}, "spec": {"storageCapacity": true}});
    let driver = read::<CsiDriver>(raw, &mut world.0.interner);
    world
        .0
        .cluster
        .storage
        .drivers
        .insert("driver".into(), driver.into());
    assert_eq!(
        world.on(&["c"], "a").unwrap_err(),
        "node(s) did not have enough free storage"
    );
    let raw = json!({
        "metadata": {"name": "x", "namespace": "y"}, "storageClassName": "made", "capacity": "10Gi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "a"}},
    });
    let capacity = read::<CsiStorageCapacity>(raw, &mut world.0.interner);
    world
        .0
        .cluster
        .storage
        .capacities
        .insert(capacity.key.clone(), capacity.into());
    assert_eq!(world.on(&["c"], "a").unwrap(), ["c=new"]);
    assert!(world.on(&["c"], "b").is_err());
}
