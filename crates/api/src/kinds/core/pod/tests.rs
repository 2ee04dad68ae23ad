//! Whole pods: a valid pod is changed in one field, and its errors are compared.

use serde_json::{Value, json};

use super::*;
use crate::{
    kinds::builtin,
    patch,
    strategy::{self, User, WrittenPart},
};

fn at<R>(use_it: impl FnOnce(&StrategyContext<'_>) -> R) -> R {
    let kind = builtin().resource("", "v1", "pods").expect("pods are built in");
    let now = Time::parse("2026-01-02T03:04:05Z").expect("a time");
    let user = User::default();
    use_it(&StrategyContext {
        kind,
        now,
        user: &user,
    })
}

/// A pod with a container `c`, with a merge patch of its spec.
fn pod_with(change: Value) -> Value {
    let metadata = json!({"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"});
    let spec = json!({"containers": [{"name": "c", "image": "i", "resources": {}}]});
    let spec = patch::merge::apply(spec, change).expect("a merge patch applies");
    let mut pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec});
    Pod.set_defaults(&mut pod);
    pod
}

/// A pod with only this container.
fn pod_with_container(change: Value) -> Value {
    let whole = json!({"name": "c", "image": "i", "resources": {}});
    let container = patch::merge::apply(whole, change).expect("a merge patch applies");
    pod_with(json!({"containers": [container]}))
}

fn create_pod(pod: &Value) -> Result<Value, Vec<String>> {
    let mut pod = pod.clone();
    at(|at| match strategy::create(&mut pod, at) {
        Ok(_) => Ok(pod),
        Err(status) => Err(messages(&status)),
    })
}

fn update_pod(new: &Value, old: &Value, part: WrittenPart<'_>) -> Result<Value, Vec<String>> {
    let mut new = new.clone();
    at(|at| match strategy::update(&mut new, old, part, at) {
        Ok(_) => Ok(new),
        Err(status) => Err(messages(&status)),
    })
}

fn messages(status: &crate::status::Status) -> Vec<String> {
    let status: Value = serde_json::from_str(&status.to_json()).expect("a status is JSON");
    let causes = status.at("details").items("causes").iter();
    causes
        .map(|cause| format!("{}: {}", cause.text("field"), cause.text("message")))
        .collect()
}

/// Creates each pod and compares its errors; none means it is valid.
fn assert_create_errors(cases: Vec<(Value, &[&str])>) {
    for (pod, expected) in cases {
        let errors = create_pod(&pod).err().unwrap_or_default();
        assert_eq!(errors, expected, "{}", pod.at("spec"));
    }
}

#[test]
fn rejects_duplicate_container_names_and_ports() {
    let named = |name: &str| json!({"name": name, "image": "i", "resources": {}});
    let on_port = |name: &str, port: i64| json!({"name": name, "image": "i", "resources": {}, "ports": [{"containerPort": 80, "hostPort": port}]});
    assert_create_errors(vec![
        (
            pod_with(json!({"containers": [named("c"), named("c")]})),
            &["spec.containers[1].name: Duplicate value: \"c\""],
        ),
        (
            pod_with(json!({"initContainers": [named("c")]})),
            &["spec.initContainers[0].name: Duplicate value: \"c\""],
        ),
        (
            pod_with(json!({"containers": [on_port("a", 8080), on_port("b", 8080)]})),
            &["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//8080\""],
        ),
        (
            pod_with_container(json!({"ports": [{"name": "A", "containerPort": 0, "protocol": "X"}]})),
            &[
                "spec.containers[0].ports[0].name: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "spec.containers[0].ports[0].name: Invalid value: \"A\": must contain at least one letter (a-z)",
                "spec.containers[0].ports[0].containerPort: Required value",
                "spec.containers[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            pod_with_container(json!({"imagePullPolicy": "Often", "image": " i"})),
            &[
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
            ],
        ),
    ]);
}

#[test]
fn rejects_probes_of_init_containers_unless_sidecars() {
    let init = |policy: Value| {
        let probe = json!({"tcpSocket": {"port": 80}});
        let init = json!({"name": "i", "image": "i", "resources": {}, "restartPolicy": policy, "startupProbe": probe});
        pod_with(json!({"initContainers": [init]}))
    };
    assert_create_errors(vec![
        (init(json!("Always")), &[]),
        (
            init(json!("Never")),
            &[
                "spec.initContainers[0].startupProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
    ]);
}

#[test]
fn rejects_ambiguous_and_incomplete_handlers() {
    assert_create_errors(vec![
        (
            pod_with_container(
                json!({"livenessProbe": {"successThreshold": 2, "exec": {}, "grpc": {"port": 0}}}),
            ),
            &[
                "spec.containers[0].livenessProbe.exec.command: Required value",
                "spec.containers[0].livenessProbe.grpc: Forbidden: may not specify more than 1 handler type",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            pod_with_container(
                json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}, "postStart": {}}}),
            ),
            &[
                "spec.containers[0].lifecycle.postStart: Required value: must specify a handler type",
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
    ]);
}

#[test]
fn rejects_references_to_missing_volumes_and_fields() {
    assert_create_errors(vec![
        (
            pod_with_container(json!({"env": [
                {"name": "A=", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}},
                {"name": "C", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a/../b", "key": "k"}}},
            ]})),
            &[
                "spec.containers[0].env[0].name: Invalid value: \"A=\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
                "spec.containers[0].env[1].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
                "spec.containers[0].env[2].valueFrom.fileKeyRef.path: Invalid value: \"a/../b\": must not contain '..'",
                "spec.containers[0].env[2].valueFrom.fileKeyRef.volumeName: Not found: \"v\"",
            ],
        ),
        (
            pod_with_container(json!({
                "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/x", "mountPropagation": "Bidirectional"}],
                "volumeDevices": [{"name": "w", "devicePath": "/a"}],
            })),
            &[
                "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
                "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/a\": must not already exist as a path in volumeDevices",
                "spec.containers[0].volumeMounts.subPath: Invalid value: \"/x\": must be a relative path",
                "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
                "spec.containers[0].volumeDevices[0].name: Not found: \"w\"",
                "spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/a\": must not already exist as a path in volumeMounts",
            ],
        ),
    ]);
}

#[test]
fn invalid_volumes_cannot_be_mounted() {
    let mut pod = pod_with_container(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}));
    pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/", "type": ""}}]);
    assert_create_errors(vec![(
        pod,
        &[
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ],
    )]);
}

#[test]
fn validates_host_namespaces() {
    assert_create_errors(vec![
        (
            pod_with(json!({
                "hostUsers": false, "hostPID": true, "hostNetwork": true,
                "securityContext": {"sysctls": [{"name": "net/ipv4/x", "value": "1"}, {"name": "A", "value": "1"}]},
            })),
            &[
                "spec.securityContext.sysctls[0].name: Invalid value: \"net/ipv4/x\": may not be specified when 'hostNetwork' is true",
                "spec.securityContext.sysctls[1].name: Invalid value: \"A\": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
            ],
        ),
        (
            pod_with(
                json!({"os": {"name": "windows"}, "hostPID": true, "securityContext": {"runAsUser": 1}}),
            ),
            &[
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
            ],
        ),
        (
            pod_with(json!({"dnsPolicy": "None", "hostname": "A_"})),
            &[
                "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
                "spec.hostname: Invalid value: \"A_\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
    ]);
}

#[test]
fn rejects_unknown_tolerations_and_constraints() {
    assert_create_errors(vec![
        (
            pod_with(
                json!({"tolerations": [{"operator": "Equal"}, {"key": "a", "operator": "Lt", "value": "1"}, {"key": "b", "tolerationSeconds": 1}]}),
            ),
            &[
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "spec.tolerations[1].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
                "spec.tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        ),
        (
            pod_with(json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2, "matchLabelKeys": ["a"]},
            ]})),
            &[
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
    ]);
}

#[test]
fn sets_the_status_of_a_new_pod() {
    let pod = create_pod(&pod_with_container(
        json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
    ));
    let pod = pod.expect("the pod is valid");
    assert_eq!(
        pod.at("status"),
        &json!({"phase": "Pending", "qosClass": "Guaranteed"})
    );
    assert_eq!(pod.at("metadata").int("generation"), Some(1));
}

#[test]
fn rejects_restart_of_a_terminated_container() {
    let state = |state: &str| {
        let mut pod = pod_with(json!({"restartPolicy": "OnFailure"}));
        let state = json!({state: {"exitCode": 0}});
        pod["status"] = json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]});
        pod
    };
    assert_eq!(
        update_pod(&state("running"), &state("terminated"), WrittenPart::Status),
        Err(vec![
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
                .to_owned()
        ])
    );
    assert!(update_pod(&state("terminated"), &state("running"), WrittenPart::Status).is_ok());
}

#[test]
fn rejects_two_addresses_of_one_family() {
    let old = pod_with(json!({}));
    let mut new = old.clone();
    new["status"] = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]});
    assert_eq!(
        update_pod(&new, &old, WrittenPart::Status),
        Err(vec!["status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family".to_owned()])
    );
}

#[test]
fn resize_changes_only_cpu_and_memory() {
    let asks = |requests: Value| {
        let mut pod = pod_with_container(json!({"resources": {"requests": requests}}));
        pod["status"] = json!({"qosClass": "Burstable"});
        pod
    };
    let old = asks(json!({"cpu": "1"}));
    let mut new = asks(json!({"cpu": "2"}));
    new["spec"]["hostname"] = json!("other");
    let resized = update_pod(&new, &old, WrittenPart::Other("resize")).expect("the resize is valid");
    assert_eq!(resized.at("spec"), asks(json!({"cpu": "2"})).at("spec"));
    assert_eq!(
        update_pod(
            &asks(json!({"memory": "1Gi"})),
            &old,
            WrittenPart::Other("resize")
        ),
        Err(vec![
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
                .to_owned()
        ])
    );
    assert_eq!(
        update_pod(
            &asks(json!({"cpu": "1", "ephemeral-storage": "1Gi"})),
            &old,
            WrittenPart::Other("resize")
        ),
        Err(vec![
            "spec: Forbidden: only cpu and memory resources are mutable".to_owned()
        ])
    );
}

#[test]
fn ephemeral_containers_are_added_but_not_removed() {
    let looking = |image: &str| {
        pod_with(
            json!({"ephemeralContainers": [{"name": "e", "image": image, "imagePullPolicy": "Always", "resources": {}}]}),
        )
    };
    let part = WrittenPart::Other("ephemeralcontainers");
    assert!(update_pod(&looking("a"), &pod_with(json!({})), part).is_ok());
    let changed = update_pod(&looking("b"), &looking("a"), part).expect_err("it changed");
    assert!(changed[0].starts_with("spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\n@@ -1,6 +1,6 @@\n"), "{changed:?}");
    assert_eq!(
        create_pod(&looking("a")),
        Err(vec![
            "spec.ephemeralContainers: Forbidden: cannot be set on create".to_owned()
        ])
    );
}

#[test]
fn only_running_pods_get_a_grace_period() {
    let pod = |node: &str, phase: &str| {
        json!({
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
            "status": {"phase": phase},
        })
    };
    assert_eq!(
        Pod.check_graceful_delete(&pod("n", "Running"), None),
        GracefulDeletion::Seconds(30)
    );
    assert_eq!(
        Pod.check_graceful_delete(&pod("n", "Running"), Some(5)),
        GracefulDeletion::Seconds(5)
    );
    assert_eq!(
        Pod.check_graceful_delete(&pod("n", "Running"), Some(-1)),
        GracefulDeletion::Seconds(1)
    );
    assert_eq!(
        Pod.check_graceful_delete(&pod("", "Pending"), Some(5)),
        GracefulDeletion::Seconds(0)
    );
    assert_eq!(
        Pod.check_graceful_delete(&pod("n", "Succeeded"), None),
        GracefulDeletion::Seconds(0)
    );
}
