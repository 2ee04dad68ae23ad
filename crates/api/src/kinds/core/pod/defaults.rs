//! Defaulting of pods and pod templates.

use serde_json::{Value, json};

use super::resources;
use crate::{
    kinds::core::{image, volume},
    strategy::{Tree, TreeMut},
};

/// The container lists of a spec in validation order.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Pod
pub(super) fn set_defaults_pod(pod: &mut Value) {
    let spec = pod.ensure_object("spec");
    if spec
        .int("terminationGracePeriodSeconds")
        .is_some_and(|seconds| seconds < 0)
    {
        spec.set("terminationGracePeriodSeconds", 1);
    }
    let on_host = spec.flag("hostNetwork");
    // Requests default to limits only in pods, not in templates.
    for list in ["containers", "initContainers"] {
        for container in spec.items_mut(list) {
            default_requests_from_limits(container);
            for port in container.items_mut("ports") {
                if on_host && port.int_or_zero("hostPort") == 0 {
                    let number = port.at("containerPort").clone();
                    port.set("hostPort", number);
                }
            }
        }
    }
    spec.set_default("enableServiceLinks", true);
    set_defaults_pod_spec(spec);
    set_defaults_pod_ips(pod);
}

pub(crate) fn set_defaults_pod_template(template: &mut Value) {
    set_defaults_pod_spec(template.ensure_object("spec"));
}

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_PodSpec
pub(super) fn set_defaults_pod_spec(spec: &mut Value) {
    // `serviceAccount` is the deprecated alias of `serviceAccountName`, which wins.
    match (spec.text("serviceAccountName"), spec.text("serviceAccount")) {
        ("", "") => {}
        ("", old) => {
            let name = old.to_owned();
            spec.set("serviceAccountName", name);
        }
        (name, _) => {
            let name = name.to_owned();
            spec.set("serviceAccount", name);
        }
    }
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill_text(spec, "restartPolicy", "Always");
    spec.set_default("securityContext", json!({}));
    spec.set_default("terminationGracePeriodSeconds", 30);
    fill_text(spec, "schedulerName", "default-scheduler");
    for volume in spec.items_mut("volumes") {
        volume::set_defaults_volume(volume);
    }
    for list in CONTAINERS {
        for item in spec.items_mut(list) {
            set_defaults_container(item);
        }
    }
    if let Some(overhead) = spec.at_mut("overhead") {
        resources::set_defaults_resource_list(overhead);
    }
    if let Some(requirements) = spec.at_mut("resources") {
        resources::set_defaults_resource_requirements(requirements);
    }
}

fn fill_text(object: &mut Value, name: &str, text: &str) {
    if object.text(name).is_empty() {
        object.set(name, text);
    }
}

fn fill_number(object: &mut Value, name: &str, number: i64) {
    if object.int_or_zero(name) == 0 {
        object.set(name, number);
    }
}

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Pod
fn default_requests_from_limits(container: &mut Value) {
    let Some(requirements) = container.at_mut("resources") else {
        return;
    };
    let limits = requirements.entries("limits").clone();
    if limits.is_empty() {
        return;
    }
    let requests = requirements.ensure_object("requests");
    for (name, amount) in limits {
        requests.set_default(&name, amount);
    }
}

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Container
fn set_defaults_container(container: &mut Value) {
    if container.text("imagePullPolicy").is_empty() {
        let policy = if image::tag(container.text("image")) == Some("latest") {
            "Always"
        } else {
            "IfNotPresent"
        };
        container.set("imagePullPolicy", policy);
    }
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    for port in container.items_mut("ports") {
        fill_text(port, "protocol", "TCP");
    }
    for variable in container.items_mut("env") {
        let Some(source) = variable.at_mut("valueFrom") else {
            continue;
        };
        if let Some(field) = source.at_mut("fieldRef") {
            fill_text(field, "apiVersion", "v1");
        }
        if let Some(file) = source.at_mut("fileKeyRef") {
            file.set_default("optional", false);
        }
    }
    if let Some(requirements) = container.at_mut("resources") {
        resources::set_defaults_resource_requirements(requirements);
    }
    for name in PROBES {
        let Some(probe) = container.at_mut(name).filter(|probe| !probe.is_null()) else {
            continue;
        };
        fill_number(probe, "timeoutSeconds", 1);
        fill_number(probe, "periodSeconds", 10);
        fill_number(probe, "successThreshold", 1);
        fill_number(probe, "failureThreshold", 3);
        set_defaults_http_get_action(probe);
        if let Some(grpc) = probe.at_mut("grpc") {
            grpc.set_default("service", "");
        }
    }
    let Some(lifecycle) = container.at_mut("lifecycle") else {
        return;
    };
    for name in ["postStart", "preStop"] {
        if let Some(handler) = lifecycle.at_mut(name) {
            set_defaults_http_get_action(handler);
        }
    }
}

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_HTTPGetAction
fn set_defaults_http_get_action(handler: &mut Value) {
    if let Some(http) = handler.at_mut("httpGet") {
        fill_text(http, "path", "/");
        fill_text(http, "scheme", "HTTP");
    }
}

fn set_defaults_pod_ips(pod: &mut Value) {
    let Some(status) = pod.at_mut("status") else {
        return;
    };
    let pod_ip = status.text("podIP").to_owned();
    let first = status
        .items("podIPs")
        .first()
        .map(|address| address.text("ip").to_owned());
    match first {
        None if !pod_ip.is_empty() => status.set("podIPs", json!([{"ip": pod_ip}])),
        Some(first) if pod_ip.is_empty() => status.set("podIP", first),
        // Old kubelets set only podIP, so it wins.
        Some(first) if first != pod_ip => status.set("podIPs", json!([{"ip": pod_ip}])),
        _ => {}
    }
    for list in [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ] {
        for container in status.items_mut(list) {
            if let Some(amounts) = container.at_mut("allocatedResources") {
                resources::set_defaults_resource_list(amounts);
            }
            if let Some(requirements) = container.at_mut("resources") {
                resources::set_defaults_resource_requirements(requirements);
            }
        }
    }
    if let Some(amounts) = status.at_mut("allocatedResources") {
        resources::set_defaults_resource_list(amounts);
    }
    if let Some(requirements) = status.at_mut("resources") {
        resources::set_defaults_resource_requirements(requirements);
    }
}
