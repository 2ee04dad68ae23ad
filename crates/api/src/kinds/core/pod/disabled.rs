//! Fields of features that are not ready: they are dropped, unless the old object has them.

use serde_json::Value;

use crate::strategy::{Tree, TreeMut};

/// Where the fields of a feature stand. `@` is every container, `[]` every item of a list.
type Feature = &'static [&'static str];

const SPEC: &[Feature] = &[
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

const STATUS: &[Feature] = &[
    &[
        "containerStatuses[].volumeMounts[].volumeStatus",
        "initContainerStatuses[].volumeMounts[].volumeStatus",
        "ephemeralContainerStatuses[].volumeMounts[].volumeStatus",
    ],
    &["nodeAllocatableResourceClaimStatuses"],
    &["volumeHealth"],
];

/// Annotations of a time when init containers were an experiment.
const ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Drops them from a pod; `old` is `null` if it is new.
pub(super) fn drop_from_pod(pod: &mut Value, old: &Value) {
    drop_from_template(pod, old);
    if let Some(status) = pod.at_mut("status") {
        drop_features(status, old.at("status"), STATUS);
    }
}

/// Drops them from a pod template; `old` is `null` if it is new.
pub(crate) fn drop_from_template(template: &mut Value, old: &Value) {
    if let Some(spec) = template.at_mut("spec") {
        drop_features(spec, old.at("spec"), SPEC);
    }
    let Some(metadata) = template.at_mut("metadata") else {
        return;
    };
    let Some(annotations) = metadata.at_mut("annotations") else {
        return;
    };
    for key in ANNOTATIONS {
        annotations.remove(key);
    }
    if annotations.as_object().is_some_and(serde_json::Map::is_empty) {
        metadata.remove("annotations");
    }
}

fn drop_features(new: &mut Value, old: &Value, features: &[Feature]) {
    for feature in features {
        if feature.iter().any(|way| is_there(old, way)) {
            continue;
        }
        for way in *feature {
            if is_there(new, way) {
                take_out(new, way);
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

/// The lists a step of a way goes into; none for a plain field.
fn lists(step: &str) -> Option<&[&str]> {
    match step {
        "@" => Some(&super::defaults::CONTAINERS),
        _ => None,
    }
}

fn split(way: &str) -> (&str, Option<&str>) {
    way.split_once('.')
        .map_or((way, None), |(step, rest)| (step, Some(rest)))
}

fn is_there(value: &Value, way: &str) -> bool {
    let (step, Some(rest)) = split(way) else {
        return value.has(way);
    };
    if let Some(lists) = lists(step) {
        return lists
            .iter()
            .any(|list| value.items(list).iter().any(|item| is_there(item, rest)));
    }
    match step.strip_suffix("[]") {
        Some(list) => value.items(list).iter().any(|item| is_there(item, rest)),
        None => is_there(value.at(step), rest),
    }
}

fn take_out(value: &mut Value, way: &str) {
    let (step, Some(rest)) = split(way) else {
        return drop(value.remove(way));
    };
    if let Some(lists) = lists(step) {
        for list in lists {
            for item in value.items_mut(list) {
                take_out(item, rest);
            }
        }
    } else if let Some(list) = step.strip_suffix("[]") {
        for item in value.items_mut(list) {
            take_out(item, rest);
        }
    } else if let Some(below) = value.at_mut(step) {
        take_out(below, rest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_ready_is_dropped_unless_it_is_used_already() {
        let pod = json!({"spec": {
            "containers": [{"lifecycle": {"stopSignal": "SIGTERM"}}],
            "volumes": [{"emptyDir": {"mode": 7}}],
        }});
        let mut new = pod.clone();
        drop_from_pod(&mut new, &Value::Null);
        assert_eq!(
            new,
            json!({"spec": {"containers": [{}], "volumes": [{"emptyDir": {}}]}})
        );
        let mut changed = pod.clone();
        drop_from_pod(&mut changed, &pod);
        assert_eq!(changed, pod);
    }
}
