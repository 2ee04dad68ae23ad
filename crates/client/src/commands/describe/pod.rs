//! Description of pods and pod templates.

use serde_json::Value;

use super::{
    generic::describe_metadata,
    sheet::{DescriptionSheet, shown, text},
};
use crate::age;

pub(super) fn describe(sheet: &mut DescriptionSheet, pod: &Value) {
    let metadata = &pod["metadata"];
    let spec = &pod["spec"];
    let status = &pod["status"];
    describe_metadata(sheet, pod);
    sheet.line_if_set("Priority", &spec["priority"]);
    sheet.line("Service Account", text(&spec["serviceAccountName"]));
    let node = match (spec["nodeName"].as_str(), status["hostIP"].as_str()) {
        (Some(node), Some(address)) => format!("{node}/{address}"),
        (Some(node), None) => node.to_owned(),
        _ => "<none>".to_owned(),
    };
    sheet.line("Node", node);
    sheet.line_if_set("Start Time", &status["startTime"]);
    if let Some(since) = metadata["deletionTimestamp"].as_str() {
        sheet.line(
            "Status",
            format!("Terminating (since {})", age::since(&since.into())),
        );
        sheet.line_if_set(
            "Termination Grace Period",
            &metadata["deletionGracePeriodSeconds"],
        );
    } else {
        sheet.line("Status", text(&status["phase"]));
    }
    sheet.line_if_set("Reason", &status["reason"]);
    sheet.line_if_set("Message", &status["message"]);
    sheet.line("IP", status["podIP"].as_str().unwrap_or_default());
    controlled_by(sheet, pod);
    containers(sheet, spec, status);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> = conditions
        .map(|condition| vec![text(&condition["type"]), text(&condition["status"])])
        .collect();
    if !rows.is_empty() {
        sheet.group("Conditions", |inner| inner.rows(&["Type", "Status"], rows));
    }
    volumes(sheet, spec);
    sheet.line_if_set("QoS Class", &status["qosClass"]);
    scheduling(sheet, spec);
}

/// Adds the controller of an object.
pub(super) fn controlled_by(sheet: &mut DescriptionSheet, object: &Value) {
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    if let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true) {
        sheet.line(
            "Controlled By",
            format!("{}/{}", text(&owner["kind"]), text(&owner["name"])),
        );
    }
}

/// Formats a pod template.
pub(crate) fn format_pod_template(template: &Value) -> String {
    let mut sheet = DescriptionSheet::default();
    describe_template(&mut sheet, template);
    sheet.text()
}

/// Adds a pod template.
pub(super) fn describe_template(sheet: &mut DescriptionSheet, template: &Value) {
    let spec = &template["spec"];
    sheet.group("Pod Template", |inner| {
        inner.pairs("Labels", &template["metadata"]["labels"], "=");
        if template["metadata"]["annotations"].is_object() {
            inner.pairs("Annotations", &template["metadata"]["annotations"], ": ");
        }
        inner.line_if_set("Service Account", &spec["serviceAccountName"]);
        containers(inner, spec, &Value::Null);
        volumes(inner, spec);
        scheduling(inner, spec);
    });
}

fn scheduling(sheet: &mut DescriptionSheet, spec: &Value) {
    sheet.pairs("Node-Selectors", &spec["nodeSelector"], "=");
    let tolerations = spec["tolerations"].as_array().into_iter().flatten();
    let lines: Vec<String> = tolerations
        .map(|toleration| {
            let part = |name: &str| toleration[name].as_str().unwrap_or_default();
            let mut line = part("key").to_owned();
            if !part("value").is_empty() {
                line.extend(["=", part("value")]);
            }
            if !part("effect").is_empty() {
                line.extend([":", part("effect")]);
            }
            if part("operator") == "Exists" {
                line += " op=Exists";
            }
            if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
                line.extend([" for ", &seconds.to_string(), "s"]);
            }
            line
        })
        .collect();
    let none = vec!["<none>".to_owned()];
    sheet.lines("Tolerations", if lines.is_empty() { none } else { lines });
}

fn containers(sheet: &mut DescriptionSheet, spec: &Value, status: &Value) {
    for (label, field, statuses) in [
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        (
            "Ephemeral Containers",
            "ephemeralContainers",
            "ephemeralContainerStatuses",
        ),
    ] {
        let Some(all) = spec[field].as_array().filter(|all| !all.is_empty()) else {
            continue;
        };
        sheet.group(label, |inner| {
            for container in all {
                let container_statuses = status[statuses].as_array().into_iter().flatten();
                let status = container_statuses
                    .into_iter()
                    .find(|status| status["name"] == container["name"]);
                inner.group(&text(&container["name"]), |inner| {
                    describe_container(inner, container, status);
                });
            }
        });
    }
}

fn describe_container(sheet: &mut DescriptionSheet, container: &Value, status: Option<&Value>) {
    if let Some(status) = status {
        sheet.line_if_set("Container ID", &status["containerID"]);
    }
    sheet.line("Image", text(&container["image"]));
    if let Some(status) = status {
        sheet.line_if_set("Image ID", &status["imageID"]);
    }
    let ports = container["ports"].as_array().into_iter().flatten();
    let ports: Vec<String> = ports
        .map(|port| {
            format!(
                "{}/{}",
                port["containerPort"],
                port["protocol"].as_str().unwrap_or("TCP")
            )
        })
        .collect();
    sheet.line(
        "Ports",
        if ports.is_empty() {
            "<none>".to_owned()
        } else {
            ports.join(", ")
        },
    );
    for (label, field) in [("Command", "command"), ("Args", "args")] {
        if let Some(arguments) = container[field].as_array() {
            sheet.lines(label, arguments.iter().map(shown).collect());
        }
    }
    if let Some(status) = status {
        state(sheet, "State", &status["state"]);
        if status["lastState"]
            .as_object()
            .is_some_and(|last| !last.is_empty())
        {
            state(sheet, "Last State", &status["lastState"]);
        }
        sheet.line("Ready", if status["ready"] == true { "True" } else { "False" });
        sheet.line_if_set("Restart Count", &status["restartCount"]);
    }
    for (label, field) in [("Limits", "limits"), ("Requests", "requests")] {
        if container["resources"][field].is_object() {
            sheet.group(label, |inner| {
                for (name, amount) in container["resources"][field].as_object().into_iter().flatten() {
                    inner.line_if_set(name, amount);
                }
            });
        }
    }
    for (label, field) in [
        ("Liveness", "livenessProbe"),
        ("Readiness", "readinessProbe"),
        ("Startup", "startupProbe"),
    ] {
        if container[field].is_object() {
            sheet.line(label, probe(&container[field]));
        }
    }
    environment(sheet, container);
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mounts: Vec<String> = mounts
        .map(|mount| {
            let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
            format!(
                "{} from {} ({mode})",
                text(&mount["mountPath"]),
                text(&mount["name"])
            )
        })
        .collect();
    let none = vec!["<none>".to_owned()];
    sheet.lines("Mounts", if mounts.is_empty() { none } else { mounts });
}

fn state(sheet: &mut DescriptionSheet, label: &str, state: &Value) {
    let Some((name, details)) = state.as_object().and_then(|state| state.iter().next()) else {
        sheet.line(label, "Waiting");
        return;
    };
    let title = match name.as_str() {
        "running" => "Running",
        "terminated" => "Terminated",
        _ => "Waiting",
    };
    sheet.line(label, title);
    for (label, field) in [
        ("  Reason", "reason"),
        ("  Message", "message"),
        ("  Exit Code", "exitCode"),
        ("  Signal", "signal"),
        ("  Started", "startedAt"),
        ("  Finished", "finishedAt"),
    ] {
        sheet.line_if_set(label, &details[field]);
    }
}

fn probe(probe: &Value) -> String {
    let number = |field: &str, default: i64| probe[field].as_i64().unwrap_or(default);
    let action = if probe["httpGet"].is_object() {
        let get = &probe["httpGet"];
        let scheme = get["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        let host = get["host"].as_str().unwrap_or_default();
        format!(
            "http-get {scheme}://{host}:{}{}",
            shown(&get["port"]),
            get["path"].as_str().unwrap_or("/")
        )
    } else if probe["tcpSocket"].is_object() {
        format!("tcp-socket :{}", shown(&probe["tcpSocket"]["port"]))
    } else if probe["grpc"].is_object() {
        format!("grpc <pod>:{}", shown(&probe["grpc"]["port"]))
    } else {
        format!("exec [{}]", shown(&probe["exec"]["command"]))
    };
    format!(
        "{action} delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds", 0),
        number("timeoutSeconds", 1),
        number("periodSeconds", 10),
        number("successThreshold", 1),
        number("failureThreshold", 3)
    )
}

fn environment(sheet: &mut DescriptionSheet, container: &Value) {
    for source in container["envFrom"].as_array().into_iter().flatten() {
        for (kind, field) in [("ConfigMap", "configMapRef"), ("Secret", "secretRef")] {
            if source[field].is_object() {
                sheet.line(
                    "Environment Variables from",
                    format!("{} {kind}", text(&source[field]["name"])),
                );
            }
        }
    }
    sheet.group("Environment", |inner| {
        for variable in container["env"].as_array().into_iter().flatten() {
            let from = &variable["valueFrom"];
            let value = if from["secretKeyRef"].is_object() {
                let key = &from["secretKeyRef"];
                format!(
                    "<set to the key '{}' in secret '{}'>",
                    text(&key["key"]),
                    text(&key["name"])
                )
            } else if from["configMapKeyRef"].is_object() {
                let key = &from["configMapKeyRef"];
                format!(
                    "<set to the key '{}' of config map '{}'>",
                    text(&key["key"]),
                    text(&key["name"])
                )
            } else if from["fieldRef"].is_object() {
                format!("({})", text(&from["fieldRef"]["fieldPath"]))
            } else if from["resourceFieldRef"].is_object() {
                format!("({})", text(&from["resourceFieldRef"]["resource"]))
            } else {
                variable["value"].as_str().unwrap_or_default().to_owned()
            };
            inner.line(&text(&variable["name"]), value);
        }
    });
}

fn volumes(sheet: &mut DescriptionSheet, spec: &Value) {
    sheet.group("Volumes", |inner| {
        for volume in spec["volumes"].as_array().into_iter().flatten() {
            let fields = volume.as_object().into_iter().flatten();
            let Some((kind, source)) = fields.into_iter().find(|(name, _)| *name != "name") else {
                continue;
            };
            inner.group(&text(&volume["name"]), |inner| {
                inner.line("Type", super::generic::label(kind));
                let fields = source.as_object().into_iter().flatten();
                for (name, value) in fields.filter(|(_, value)| !value.is_object() && !value.is_array()) {
                    inner.line_if_set(&super::generic::label(name), value);
                }
            });
        }
    });
}
