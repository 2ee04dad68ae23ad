//! Identity of StatefulSet pods: ordinal, name, labels and volumes.

use k3_workloads::{ObjectMeta, Pod, VolumeSource};
use serde_json::{Value, json, value::RawValue};

use super::claims;
use crate::{
    objects::{StatefulSet, Template},
    pods::pod_from_template::{PodFromTemplate, PodTemplateError},
    resource::STATEFUL_SETS,
};

/// Label with the name of the pod's ControllerRevision.
pub(super) const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Parent name and ordinal from a pod's name. A pod without an ordinal can be released, but is not counted.
// upstream: pkg/controller/statefulset/stateful_set_utils.go getParentNameAndOrdinal
pub(super) fn parent_name_and_ordinal(pod: &str) -> Option<(&str, Option<i32>)> {
    let (set, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| (set, digits.parse().ok()))
}

/// Whether a pod's name derives from a set's name.
// upstream: pkg/controller/statefulset/stateful_set_utils.go isMemberOf
pub(super) fn is_member(set: &ObjectMeta, pod: &Pod) -> bool {
    parent_name_and_ordinal(&pod.metadata.name).is_some_and(|(parent, _)| *parent == *set.name)
}

/// The ordinal of a pod.
pub(super) fn ordinal(pod: &ObjectMeta) -> Option<i32> {
    parent_name_and_ordinal(&pod.name).and_then(|(_, ordinal)| ordinal)
}

/// The name of the pod with an ordinal.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.metadata.name)
}

/// Position of an ordinal in the desired range; `None` if it is outside.
// upstream: pkg/controller/statefulset/stateful_set_utils.go podInOrdinalRange
pub(super) fn ordinal_position(set: &StatefulSet, ordinal: i32) -> Option<i32> {
    let position = ordinal.checked_sub(set.spec.ordinals.start)?;
    (0..set.spec.replicas).contains(&position).then_some(position)
}

/// The revision of a pod.
pub(super) fn revision(pod: &Pod) -> &str {
    pod.metadata.label(REVISION).unwrap_or_default()
}

/// Whether a pod has the identity labels.
// upstream: pkg/controller/statefulset/stateful_set_utils.go identityMatches
pub(super) fn has_identity(set: &StatefulSet, pod: &Pod) -> bool {
    let meta = &pod.metadata;
    let expectations = ordinal(meta).map(|ordinal| pod_name(set, ordinal));
    expectations.as_deref() == Some(&*meta.name) && meta.label(POD_NAME) == Some(&*meta.name)
}

/// Whether a pod mounts its own claims.
// upstream: pkg/controller/statefulset/stateful_set_utils.go storageMatches
pub(super) fn has_storage(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(&pod.metadata) else {
        return false;
    };
    set.spec.volume_claim_templates.iter().all(|template| {
        let claim = claims::claim_name_for(set, template, ordinal);
        let mut volumes = pod.spec.volumes.iter();
        volumes.any(|volume| {
            let is_claim =
                matches!(&volume.source, VolumeSource::PersistentVolumeClaim(named) if **named == *claim);
            volume.name == template.name && is_claim
        })
    })
}

/// A pod created from a template with an ordinal and a revision.
// upstream: pkg/controller/statefulset/stateful_set_utils.go newStatefulSetPod, newVersionedStatefulSetPod
pub(super) fn new_pod(
    set: &StatefulSet,
    template: &Template,
    ordinal: i32,
    revision: &str,
) -> Result<Box<RawValue>, PodTemplateError> {
    let owner = STATEFUL_SETS.controller_reference(&set.metadata);
    let PodFromTemplate {
        mut metadata, spec, ..
    } = PodFromTemplate::new(template, owner)?;
    let mut spec: Value = serde_json::from_str(spec.get())?;
    let name = pod_name(set, ordinal);
    metadata.name = name.as_str().into();
    for (label, value) in identity_labels(&name, ordinal) {
        metadata.labels.insert(label.into(), value.into());
    }
    metadata.labels.insert(REVISION.into(), revision.into());
    spec["hostname"] = name.into();
    if !set.spec.service_name.is_empty() {
        spec["subdomain"] = json!(set.spec.service_name);
    }
    add_volumes(set, ordinal, &mut spec);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Ok(serde_json::value::to_raw_value(&pod)?)
}

/// Restores identity labels and volumes of an existing pod.
// upstream: pkg/controller/statefulset/stateful_set_utils.go updateIdentity, updateStorage
pub(super) fn restore_identity(set: &StatefulSet, ordinal: i32, pod: &mut Value) {
    let name = pod_name(set, ordinal);
    for (label, value) in identity_labels(&name, ordinal) {
        pod["metadata"]["labels"][label] = value.into();
    }
    add_volumes(set, ordinal, &mut pod["spec"]);
}

fn identity_labels(name: &str, ordinal: i32) -> [(&'static str, String); 2] {
    [(POD_NAME, name.to_owned()), (POD_INDEX, ordinal.to_string())]
}

/// Inserts the pod's claims before its other volumes; volumes of the same name are replaced.
// upstream: pkg/controller/statefulset/stateful_set_utils.go updateStorage
fn add_volumes(set: &StatefulSet, ordinal: i32, spec: &mut Value) {
    let templates = &set.spec.volume_claim_templates;
    if templates.is_empty() {
        return;
    }
    let claim = |template| json!({"claimName": claims::claim_name_for(set, template, ordinal)});
    let mut volumes: Vec<_> = templates
        .iter()
        .map(|template| json!({"name": template.name, "persistentVolumeClaim": claim(template)}))
        .collect();
    let others = spec["volumes"].as_array_mut().map(std::mem::take);
    let is_other = |volume: &Value| {
        !templates
            .iter()
            .any(|template| volume["name"].as_str() == Some(&*template.name))
    };
    volumes.extend(others.into_iter().flatten().filter(is_other));
    spec["volumes"] = volumes.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> StatefulSet {
        let set = json!({
            "metadata": {"name": "db", "namespace": "shop", "uid": "s"},
            "spec": {"replicas": 3, "serviceName": "peers", "ordinals": {"start": 5}, "selector": {"matchLabels": {"app": "a"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]},
        });
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn parses_pod_names() {
        let cases = [
            ("db-0", Some(("db", Some(0)))),
            ("my-db-12", Some(("my-db", Some(12)))),
            ("db-99999999999", Some(("db", None))),
            ("db-", None),
            ("db-x1", None),
            ("db", None),
        ];
        for (pod, expectations) in cases {
            assert_eq!(parent_name_and_ordinal(pod), expectations, "{pod}");
        }
        let set = set();
        assert_eq!(
            [4, 5, 7, 8].map(|ordinal| ordinal_position(&set, ordinal)),
            [None, Some(0), Some(2), None]
        );
    }

    #[test]
    fn new_pod_has_identity_and_claims() {
        let template = Template::new(&json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]},
        }));
        let text = new_pod(&set(), &template.unwrap(), 5, "db-x").unwrap();
        let pod: Value = serde_json::from_str(text.get()).unwrap();
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "a", POD_NAME: "db-5", POD_INDEX: "5", REVISION: "db-x"})
        );
        assert_eq!(
            pod["spec"],
            json!({
                "containers": [{"name": "c"}], "hostname": "db-5", "subdomain": "peers",
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-5"}},
                    {"name": "tmp", "emptyDir": {}},
                ],
            })
        );
        let observed: Pod = serde_json::from_value(pod.clone()).unwrap();
        assert!(has_identity(&set(), &observed) && has_storage(&set(), &observed));
        let mut plain = pod.clone();
        plain["metadata"]["labels"] = json!({"app": "a"});
        plain["spec"]["volumes"] = json!([{"name": "tmp", "emptyDir": {}}]);
        let bare: Pod = serde_json::from_value(plain.clone()).unwrap();
        assert!(!has_identity(&set(), &bare) && !has_storage(&set(), &bare));
        restore_identity(&set(), 5, &mut plain);
        assert_eq!(plain["spec"]["volumes"], pod["spec"]["volumes"]);
    }
}
