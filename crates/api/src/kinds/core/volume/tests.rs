use serde_json::{Value, json};

use super::{default_volume, validate_volumes};
use crate::{field::Path, strategy::ErrorList};

fn errors(volumes: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    let volumes = volumes.as_array().expect("a list of volumes");
    let pod = json!({"name": "pod"});
    let spec = Path::new("spec");
    validate_volumes(volumes, &spec.child("volumes"), &pod, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_volume_without_a_source_is_an_empty_directory() {
    let mut volume = json!({"name": "a"});
    default_volume(&mut volume);
    assert_eq!(volume, json!({"name": "a", "emptyDir": {}}));
    assert!(errors(&json!([volume])).is_empty());
}

#[test]
fn sources_get_their_own_defaults() {
    for (source, defaulted) in [
        (
            json!({"hostPath": {"path": "/"}}),
            json!({"hostPath": {"path": "/", "type": ""}}),
        ),
        (
            json!({"image": {"reference": "a"}}),
            json!({"image": {"reference": "a", "pullPolicy": "Always"}}),
        ),
        (
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
            json!({"projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}}),
        ),
    ] {
        let mut volume = source;
        default_volume(&mut volume);
        assert_eq!(volume, defaulted);
    }
}

#[test]
fn a_volume_has_one_source() {
    assert_eq!(
        errors(&json!([{"name": "a", "emptyDir": {}, "cephfs": {}, "nfs": {}}])),
        [
            "spec.volumes[0].nfs: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type",
        ]
    );
    assert_eq!(
        errors(&json!([{"name": "a"}])),
        ["spec.volumes[0]: Required value: must specify a volume type"]
    );
}

#[test]
fn names_are_labels_and_unique() {
    assert_eq!(
        errors(
            &json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}, {"name": "", "emptyDir": {}}])
        ),
        [
            "spec.volumes[1].name: Duplicate value: \"a\"",
            "spec.volumes[2].name: Required value",
        ]
    );
}

#[test]
fn files_stay_inside_their_volume() {
    assert_eq!(
        errors(&json!([{"name": "a", "configMap": {"name": "c", "items": [
            {"key": "k", "path": "../x"}, {"key": "k", "path": "..x", "mode": 512}, {"key": "k", "path": "/x"},
        ]}}])),
        [
            "spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'",
            "spec.volumes[0].configMap.items[1].path: Invalid value: \"..x\": must not start with '..'",
            "spec.volumes[0].configMap.items[1].mode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            "spec.volumes[0].configMap.items[2].path: Invalid value: \"/x\": must be a relative path",
        ]
    );
}

#[test]
fn projected_paths_do_not_meet() {
    let sources = json!([
        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}, "downwardAPI": {}},
    ]);
    assert_eq!(
        errors(&json!([{"name": "a", "projected": {"sources": sources}}])),
        [
            "spec.volumes[0].projected: Invalid value: \"c\": conflicting duplicate paths",
            "spec.volumes[0].projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
        ]
    );
}

#[test]
fn fields_of_the_pod_are_named_by_known_paths() {
    let file = |path: &str| {
        json!([{"name": "a", "downwardAPI": {"items": [
            {"path": "f", "fieldRef": {"apiVersion": "v1", "fieldPath": path}},
        ]}}])
    };
    assert!(errors(&file("metadata.labels['a/b']")).is_empty());
    assert_eq!(
        errors(&file("spec.nodeName")),
        [
            "spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\": supported values: \
          \"metadata.annotations\", \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \"metadata.uid\""
        ]
    );
    assert_eq!(
        errors(&file("spec.x")),
        [
            "spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x"
        ]
    );
}

#[test]
fn a_claim_made_for_an_ephemeral_volume_is_nobody_elses() {
    let template =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(
        errors(&json!([
            {"name": "a", "ephemeral": {"volumeClaimTemplate": template}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "pod-a"}},
        ])),
        [
            "spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"pod-a\": must not reference a PVC that gets created for an ephemeral volume"
        ]
    );
}
