//! What is filled in when a pod or a template leaves it out.

use serde_json::{Value, json};

use super::resources;
use crate::{
    kinds::core::{image, volume},
    strategy::{Tree, TreeMut},
};

/// The lists of containers of a spec, in the order in which they are judged and told of.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Fills in what was left out of a pod.
pub(super) fn pod(pod: &mut Value) {
    let spec = pod.ensure_object("spec");
    if spec
        .int("terminationGracePeriodSeconds")
        .is_some_and(|seconds| seconds < 0)
    {
        spec.set("terminationGracePeriodSeconds", 1);
    }
    let on_host = spec.flag("hostNetwork");
    // Only pods ask for what they limit; a template is not a pod yet.
    for list in ["containers", "initContainers"] {
        for container in spec.items_mut(list) {
            requests_from_limits(container);
            for port in container.items_mut("ports") {
                if on_host && port.int("hostPort").unwrap_or_default() == 0 {
                    let number = port.at("containerPort").clone();
                    port.set("hostPort", number);
                }
            }
        }
    }
    spec.set_default("enableServiceLinks", true);
    default_spec(spec);
    status(pod);
}

/// Fills in what was left out of a pod template.
pub(crate) fn default_template(template: &mut Value) {
    default_spec(template.ensure_object("spec"));
}

/// Fills in what was left out of the spec of a pod or of a template.
pub(super) fn default_spec(spec: &mut Value) {
    // Two names of one thing: the newer wins.
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
        volume::default_volume(volume);
    }
    for list in CONTAINERS {
        for item in spec.items_mut(list) {
            container(item);
        }
    }
    if let Some(overhead) = spec.at_mut("overhead") {
        resources::default_list(overhead);
    }
    if let Some(requirements) = spec.at_mut("resources") {
        resources::default_requirements(requirements);
    }
}

fn fill_text(object: &mut Value, name: &str, text: &str) {
    if object.text(name).is_empty() {
        object.set(name, text);
    }
}

fn fill_number(object: &mut Value, name: &str, number: i64) {
    if object.int(name).unwrap_or_default() == 0 {
        object.set(name, number);
    }
}

fn requests_from_limits(container: &mut Value) {
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

fn container(container: &mut Value) {
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
        resources::default_requirements(requirements);
    }
    for name in PROBES {
        let Some(probe) = container.at_mut(name).filter(|probe| !probe.is_null()) else {
            continue;
        };
        fill_number(probe, "timeoutSeconds", 1);
        fill_number(probe, "periodSeconds", 10);
        fill_number(probe, "successThreshold", 1);
        fill_number(probe, "failureThreshold", 3);
        http(probe);
        if let Some(grpc) = probe.at_mut("grpc") {
            grpc.set_default("service", "");
        }
    }
    let Some(lifecycle) = container.at_mut("lifecycle") else {
        return;
    };
    for name in ["postStart", "preStop"] {
        if let Some(handler) = lifecycle.at_mut(name) {
            http(handler);
        }
    }
}

fn http(handler: &mut Value) {
    if let Some(http) = handler.at_mut("httpGet") {
        fill_text(http, "path", "/");
        fill_text(http, "scheme", "HTTP");
    }
}

fn status(pod: &mut Value) {
    let Some(status) = pod.at_mut("status") else {
        return;
    };
    let one = status.text("podIP").to_owned();
    let first = status
        .items("podIPs")
        .first()
        .map(|address| address.text("ip").to_owned());
    match first {
        None if !one.is_empty() => status.set("podIPs", json!([{"ip": one}])),
        Some(first) if one.is_empty() => status.set("podIP", first),
        // Old nodes know the one field only, so it counts.
        Some(first) if first != one => status.set("podIPs", json!([{"ip": one}])),
        _ => {}
    }
    for list in [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ] {
        for container in status.items_mut(list) {
            if let Some(amounts) = container.at_mut("allocatedResources") {
                resources::default_list(amounts);
            }
            if let Some(requirements) = container.at_mut("resources") {
                resources::default_requirements(requirements);
            }
        }
    }
    if let Some(amounts) = status.at_mut("allocatedResources") {
        resources::default_list(amounts);
    }
    if let Some(requirements) = status.at_mut("resources") {
        resources::default_requirements(requirements);
    }
}
