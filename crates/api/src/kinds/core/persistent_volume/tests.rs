use serde_json::{Value, json};

use super::*;

fn volume() -> Value {
    let mut volume = json!({
        "metadata": {"name": "v", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}},
    });
    PersistentVolume.set_defaults(&mut volume);
    volume
}

fn errors(volume: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate(volume, Values::Checked, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn volumes_are_kept_and_are_file_systems_unless_they_say_otherwise() {
    let volume = volume();
    let spec = volume.at("spec");
    assert_eq!(spec.text("persistentVolumeReclaimPolicy"), "Retain");
    assert_eq!(spec.text("volumeMode"), "Filesystem");
    assert_eq!(spec.at("hostPath"), &json!({"path": "/data", "type": ""}));
    assert!(errors(&volume).is_empty());
}

#[test]
fn a_volume_says_how_much_there_is_and_where() {
    assert_eq!(
        errors(&json!({"metadata": {"name": "v"}, "spec": {}})),
        [
            "spec.accessModes: Required value",
            "spec.capacity: Required value",
            "spec.capacity: Unsupported value: null: supported values: \"storage\"",
            "spec: Required value: must specify a volume type",
        ]
    );
}

#[test]
fn a_local_volume_is_on_known_nodes() {
    let mut local = volume();
    let spec = local.ensure_object("spec");
    spec.remove("hostPath");
    spec.set("local", json!({"path": "/x"}));
    assert_eq!(
        errors(&local),
        ["spec.nodeAffinity: Required value: Local volume requires node affinity"]
    );
}

#[test]
fn the_root_of_a_node_is_not_recycled() {
    let mut root = volume();
    let spec = root.ensure_object("spec");
    spec.set("persistentVolumeReclaimPolicy", "Recycle");
    spec.set("hostPath", json!({"path": "//./"}));
    assert_eq!(
        errors(&root),
        ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]
    );
}

#[test]
fn labels_in_the_affinity_may_get_their_final_names() {
    let of = |key: &str| {
        json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]},
        ]}})
    };
    let beta = of("failure-domain.beta.kubernetes.io/zone");
    assert!(is_same_affinity(&of("topology.kubernetes.io/zone"), &beta));
    assert!(!is_same_affinity(&of("topology.kubernetes.io/region"), &beta));
    assert!(!is_same_affinity(&beta, &of("topology.kubernetes.io/zone")));
}

#[test]
fn a_row_shows_claim_and_class() {
    let mut volume = volume();
    volume
        .ensure_object("spec")
        .set("claimRef", json!({"namespace": "n", "name": "c"}));
    volume.ensure_object("spec").set("storageClassName", "fast");
    let now = Time::parse("2026-01-01T00:05:00Z").unwrap();
    assert_eq!(
        PersistentVolume.row(&volume, now).cells,
        json!([
            "v",
            "1Gi",
            "RWO",
            "Retain",
            "Pending",
            "n/c",
            "fast",
            "<unset>",
            "",
            "5m",
            "Filesystem"
        ])
        .as_array()
        .unwrap()
        .clone()
    );
    assert_eq!(PersistentVolume.columns().len(), 11);
}
