//! Small objects with a bit of everything, and the tokens that mean something in them.

use k3_api::{
    decode,
    schema::{StructRef, schema},
};
use serde_json::{Value, json};

/// Texts that change the meaning of JSON and YAML.
pub(crate) const SYNTAX: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "\\ud83d",
    "\\udead",
    "null",
    "true",
    "1e999",
    "-0",
    "1E400",
    "0x1f",
    "\n",
    "\n  ",
    "- ",
    "? ",
    ": ",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "!!str ",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "'",
    "# ",
    "%",
    "\u{feff}",
    "{\"a\":",
    "[[[[[[[[[[[[",
    "{\"spec\":{\"spec\":",
    "1Gi",
    "1e-9",
    "\"10m\"",
    "2024-02-30T00:00:00Z",
    "\"metadata\":{",
    "\"items\":[",
];

/// Words of patches and configurations, and names of fields.
pub(crate) const TOKENS: &[&str] = &[
    "$patch",
    "delete",
    "replace",
    "merge",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "name",
    "containers",
    "ports",
    "containerPort",
    "env",
    "metadata",
    "spec",
    "labels",
    "managedFields",
    "fieldsV1",
    "f:spec",
    "k:{\"name\":\"a\"}",
    "v:\"x\"",
    "i:0",
    ".",
    "op",
    "add",
    "remove",
    "copy",
    "move",
    "test",
    "path",
    "from",
    "value",
    "/spec",
    "/spec/containers/-",
    "/spec/containers/0",
    "~1",
    "",
    "a",
    "tcp",
    "conditions",
    "type",
];

/// The type of a kind that the samples are of.
pub(crate) fn of(value: &Value) -> Option<StructRef> {
    let version = value["apiVersion"].as_str()?;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    schema().kind(group, version, value["kind"].as_str()?)
}

/// Objects of different kinds, in normal form.
pub(crate) fn objects() -> Vec<Value> {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["a/b", "c/d"]},
            "spec": {"containers": [
                {"name": "a", "image": "i", "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                 "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
                 "env": [{"name": "E", "value": "1"}, {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                 "livenessProbe": {"httpGet": {"port": "http", "path": "/"}}},
                {"name": "b", "image": "j"}],
             "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1.5Gi"}}, {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}}],
             "tolerations": [{"key": "k", "operator": "Exists"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "annotations": {"a": "b"}}, "data": {"k": "v"}, "binaryData": {"b": "AAEC"}, "immutable": true}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 80, "protocol": "UDP", "targetPort": "x"}], "selector": {"a": "b"}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "creationTimestamp": "2024-01-01T00:00:00Z",
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}}}]},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"renewTime": "2024-01-01T00:00:00.000001Z", "leaseDurationSeconds": 15}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}, "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "K", "plural": "ks"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"a": [1, 1.5, null]}}}}}}]}}),
    ];
    objects.iter().map(normal).collect()
}

fn normal(object: &Value) -> Value {
    let ty = of(object).expect("samples are of known kinds");
    decode::normalize(object, ty)
        .expect("samples are of their types")
        .value
}
