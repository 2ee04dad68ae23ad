//! Fields of disabled feature gates: they are dropped, unless the old object has them.

use serde_json::Value;

use crate::strategy::{Tree, TreeMut};

/// The field paths of a feature gate. `@` is every container, `[]` every item of a list.
type Feature = &'static [&'static str];

const SPEC_FEATURES: &[Feature] = &[
    &["schedulingGroup"],
    &["evictionResponders"],
    &[
        "@.livenessProbe.grpc.mode",
        "@.readinessProbe.grpc.mode",
        "@.startupProbe.grpc.mode",
    ],
    &["volumes[].emptyDir.mode"],
    &["@.volumeMounts[].bindMountOptions"],
    STOP_SIGNAL,
    &[
        "@.livenessProbe.httpGet.protocol",
        "@.readinessProbe.httpGet.protocol",
        "@.startupProbe.httpGet.protocol",
        "@.lifecycle.postStart.httpGet.protocol",
        "@.lifecycle.preStop.httpGet.protocol",
    ],
    &[
        "volumes[].secret.defaultUser",
        "volumes[].secret.items[].user",
        "volumes[].configMap.defaultUser",
        "volumes[].configMap.items[].user",
        "volumes[].downwardAPI.defaultUser",
        "volumes[].downwardAPI.items[].user",
        "volumes[].projected.defaultUser",
        "volumes[].projected.sources[].secret.items[].user",
        "volumes[].projected.sources[].configMap.items[].user",
        "volumes[].projected.sources[].downwardAPI.items[].user",
        "volumes[].projected.sources[].serviceAccountToken.user",
        "volumes[].projected.sources[].clusterTrustBundle.user",
        "volumes[].projected.sources[].podCertificate.user",
    ],
];

const STOP_SIGNAL: Feature = &["@.lifecycle.stopSignal"];

const STATUS_FEATURES: &[Feature] = &[
    &[
        "containerStatuses[].volumeMounts[].volumeStatus",
        "initContainerStatuses[].volumeMounts[].volumeStatus",
        "ephemeralContainerStatuses[].volumeMounts[].volumeStatus",
    ],
    &["nodeAllocatableResourceClaimStatuses"],
    &["volumeHealth"],
];

/// Annotations of init containers when they were alpha.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Drops them from a pod; `old` is `null` on create.
// upstream: pkg/api/pod/util.go DropDisabledPodFields
pub(super) fn drop_disabled_pod_fields(pod: &mut Value, old: &Value) {
    drop_disabled_template_fields(pod, old);
    if let Some(status) = pod.at_mut("status") {
        drop_features(status, old.at("status"), STATUS_FEATURES);
    }
}

/// Drops them from a pod template; `old` is `null` on create.
// upstream: pkg/api/pod/util.go DropDisabledTemplateFields, DropInitContainerAnnotations
pub(crate) fn drop_disabled_template_fields(template: &mut Value, old: &Value) {
    if let Some(spec) = template.at_mut("spec") {
        drop_features(spec, old.at("spec"), SPEC_FEATURES);
    }
    let Some(metadata) = template.at_mut("metadata") else {
        return;
    };
    let Some(annotations) = metadata.at_mut("annotations") else {
        return;
    };
    for key in INIT_CONTAINER_ANNOTATIONS {
        annotations.remove(key);
    }
    if annotations.as_object().is_some_and(serde_json::Map::is_empty) {
        metadata.remove("annotations");
    }
}

// upstream: pkg/api/pod/util.go dropDisabledFields, dropDisabledPodStatusFields
fn drop_features(new: &mut Value, old: &Value, features: &[Feature]) {
    for feature in features {
        if feature.iter().any(|path| is_set(old, path)) {
            continue;
        }
        for path in *feature {
            if is_set(new, path) {
                remove_path(new, path);
            }
        }
        if *feature == STOP_SIGNAL {
            drop_empty_lifecycles(new);
        }
    }
}

fn drop_empty_lifecycles(spec: &mut Value) {
    for list in super::defaults::CONTAINERS {
        for container in spec.items_mut(list) {
            let lifecycle = container.at("lifecycle").as_object();
            if lifecycle.is_some_and(serde_json::Map::is_empty) && container.has("lifecycle") {
                container.remove("lifecycle");
            }
        }
    }
}

/// The lists that a path step enters; none for a plain field.
fn lists(step: &str) -> Option<&[&str]> {
    match step {
        "@" => Some(&super::defaults::CONTAINERS),
        _ => None,
    }
}

fn split_step(path: &str) -> (&str, Option<&str>) {
    path.split_once('.')
        .map_or((path, None), |(step, rest)| (step, Some(rest)))
}

fn is_set(value: &Value, path: &str) -> bool {
    let (step, Some(rest)) = split_step(path) else {
        return value.has(path);
    };
    if let Some(lists) = lists(step) {
        return lists
            .iter()
            .any(|list| value.items(list).iter().any(|item| is_set(item, rest)));
    }
    match step.strip_suffix("[]") {
        Some(list) => value.items(list).iter().any(|item| is_set(item, rest)),
        None => is_set(value.at(step), rest),
    }
}

fn remove_path(value: &mut Value, path: &str) {
    let (step, Some(rest)) = split_step(path) else {
        return drop(value.remove(path));
    };
    if let Some(lists) = lists(step) {
        for list in lists {
            for item in value.items_mut(list) {
                remove_path(item, rest);
            }
        }
    } else if let Some(list) = step.strip_suffix("[]") {
        for item in value.items_mut(list) {
            remove_path(item, rest);
        }
    } else if let Some(below) = value.at_mut(step) {
        remove_path(below, rest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drops_disabled_fields_unless_in_use() {
        let pod = json!({"spec": {
            "containers": [{"lifecycle": {"stopSignal": "SIGTERM"}}],
            "volumes": [{"emptyDir": {"mode": 7}}],
        }});
        let mut new = pod.clone();
        drop_disabled_pod_fields(&mut new, &Value::Null);
        assert_eq!(
            new,
            json!({"spec": {"containers": [{}], "volumes": [{"emptyDir": {}}]}})
        );
        let mut changed = pod.clone();
        drop_disabled_pod_fields(&mut changed, &pod);
        assert_eq!(changed, pod);
    }
}
