//! Warnings about pods and pod templates.

use serde_json::{Map, Value};

use super::{
    overlap_warnings, port_warnings,
    profile::{
        APPARMOR, SECCOMP_CONTAINER, SECCOMP_POD, apparmor_field_for_annotation,
        valid_apparmor_field_for_annotation, visit_containers,
    },
    resources::quantity_or_zero,
};
use crate::{
    field::Path,
    go,
    kinds::{
        core::{node_selector, persistent_volume_claim},
        field_checks,
    },
    name::{ip_warning, validate_dns1123_label, validate_label_value},
    strategy::Tree,
};

const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Removed volume types: the field, the field in the warning, and the warning.
const REMOVED_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

// upstream: pkg/api/pod/warnings.go GetWarningsForPod
pub(super) fn get_warnings_for_pod(pod: &Value) -> Vec<String> {
    let mut messages = Vec::new();
    warn_of_copied_apparmor_annotations(pod, &mut messages);
    let msgs = validate_dns1123_label(pod.at("metadata").text("name"));
    if !msgs.is_empty() {
        messages.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            msgs.join(" ")
        ));
    }
    warn_about_spec_and_meta(pod, &Path::NIL, WarnedObject::Pod, &mut messages);
    messages
}

/// Warnings about a pod status: addresses in a non-canonical form.
// upstream: pkg/registry/core/pod/strategy.go WarningsOnUpdate
pub(super) fn get_warnings_for_pod_ips(status: &Value) -> Vec<String> {
    let status_at = Path::new("status");
    let mut messages = Vec::new();
    for list in ["podIPs", "hostIPs"] {
        let list_at = status_at.child(list);
        for (index, address) in status.items(list).iter().enumerate() {
            let field_path = list_at.index(index);
            messages.extend(ip_warning(&field_path.child("ip"), address.text("ip")));
        }
    }
    messages
}

// upstream: pkg/api/pod/warnings.go GetWarningsForPodTemplate
pub(crate) fn get_warnings_for_pod_template(
    template: &Value,
    at: &Path<'_>,
    old: Option<&Value>,
) -> Vec<String> {
    // A warning about the template itself is not repeated on update.
    let _ = old;
    let mut messages = Vec::new();
    warn_about_spec_and_meta(template, at, WarnedObject::Template, &mut messages);
    messages
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WarnedObject {
    Pod,
    Template,
}

/// `AppArmor` annotations were copied to fields by now, so warn where both agree.
fn warn_of_copied_apparmor_annotations(pod: &Value, messages: &mut Vec<String>) {
    let spec = pod.at("spec");
    let annotations = pod.at("metadata").at("annotations");
    if annotations.is_null() || spec.at("os").text("name") == "windows" {
        return;
    }
    for container in super::options::containers(spec) {
        let key = format!("{APPARMOR}{}", container.text("name"));
        let Some(annotation) = annotations.at(&key).as_str() else {
            continue;
        };
        let own = container.at_path("securityContext.appArmorProfile");
        let moved = match valid_apparmor_field_for_annotation(annotation) {
            None => own.is_null(),
            Some(meant) => meant == *own,
        };
        if moved {
            messages.push(deprecated_apparmor_warning(
                &Path::new("metadata").child("annotations").key(&key),
            ));
        }
    }
}

fn deprecated_apparmor_warning(at: &Path<'_>) -> String {
    format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

// upstream: pkg/api/pod/warnings.go warningsForPodSpecAndMeta
fn warn_about_spec_and_meta(
    template: &Value,
    at: &Path<'_>,
    subject: WarnedObject,
    messages: &mut Vec<String>,
) {
    let spec = template.at("spec");
    let metadata = template.at("metadata");
    let annotations = metadata.entries("annotations");
    let spec_at = at.child("spec");
    let metadata_at = at.child("metadata");
    let annotations_at = metadata_at.child("annotations");
    warn_of_node_labels(spec, &spec_at, messages);
    for (key, message) in DEPRECATED_ANNOTATIONS {
        if annotations.contains_key(key) {
            messages.push(format!("{}: {message}", annotations_at.key(key)));
        }
    }
    warn_of_volumes(spec.items("volumes"), &spec_at.child("volumes"), messages);
    warn_of_duplicates(spec, &spec_at, messages);
    warn_of_fractional_bytes(
        spec.at("overhead"),
        &spec_at.child("overhead"),
        &["memory", "ephemeral-storage"],
        messages,
    );
    let validate_seccomp_profile = spec.at("securityContext").has("seccompProfile");
    if !validate_seccomp_profile && annotations.contains_key(SECCOMP_POD) {
        messages.push(deprecated_seccomp_warning(&annotations_at.key(SECCOMP_POD)));
    }
    visit_containers(spec, &spec_at, |container, field_path| {
        warn_of_container_annotations(container, spec, annotations, &annotations_at, subject, messages);
        let resources_at = field_path.child("resources");
        let requirements = container.at("resources");
        for name in ["memory", "ephemeral-storage"] {
            for of in ["limits", "requests"] {
                warn_of_fractional_bytes(requirements.at(of), &resources_at.child(of), &[name], messages);
            }
        }
        warn_of_hidden_variables(container.items("env"), &field_path.child("env"), messages);
    });
    port_warnings::warn_of_duplicate_ports(spec, &spec_at, messages);
    if spec
        .int("terminationGracePeriodSeconds")
        .is_some_and(|seconds| seconds < 0)
    {
        messages.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            spec_at.child("terminationGracePeriodSeconds")
        ));
    }
    warn_of_empty_selectors(spec.at("affinity"), &spec_at.child("affinity"), messages);
    let dns_at = spec_at.child("dnsConfig");
    let servers_at = dns_at.child("nameservers");
    for (index, server) in spec.at("dnsConfig").texts("nameservers").enumerate() {
        messages.extend(ip_warning(&servers_at.index(index), server));
    }
    let aliases_at = spec_at.child("hostAliases");
    for (index, alias) in spec.items("hostAliases").iter().enumerate() {
        messages.extend(ip_warning(&aliases_at.index(index).child("ip"), alias.text("ip")));
    }
}

fn deprecated_seccomp_warning(at: &Path<'_>) -> String {
    format!("{at}: non-functional in v1.27+; use the \"seccompProfile\" field instead")
}

/// Deprecated node labels, and selectors that match nothing.
fn warn_of_node_labels(spec: &Value, at: &Path<'_>, messages: &mut Vec<String>) {
    let selector_at = at.child("nodeSelector");
    for key in spec.entries("nodeSelector").keys() {
        if let Some(message) = node_selector::deprecated(key) {
            messages.push(format!("{}: {message}", selector_at.key(key)));
        }
    }
    let affinity_at = at.child("affinity");
    let node_at = affinity_at.child("nodeAffinity");
    let nodes = spec.at_path("affinity.nodeAffinity");
    let required_at = node_at.child(REQUIRED);
    let terms_at = required_at.child("nodeSelectorTerms");
    for (index, term) in nodes.at(REQUIRED).items("nodeSelectorTerms").iter().enumerate() {
        node_selector::warnings(term, &terms_at.index(index), messages);
    }
    let preferred_at = node_at.child(PREFERRED);
    for (index, term) in nodes.items(PREFERRED).iter().enumerate() {
        let field_path = preferred_at.index(index);
        warn_of_preferred_term(term.at("preference"), &field_path.child("preference"), messages);
    }
    let spread_at = at.child("topologySpreadConstraints");
    for (index, constraint) in spec.items("topologySpreadConstraints").iter().enumerate() {
        let field_path = spread_at.index(index);
        let key = constraint.text("topologyKey");
        if let Some(message) = node_selector::deprecated(key) {
            messages.push(format!("{}: {key} is {message}", field_path.child("topologyKey")));
        }
        if !constraint.has("labelSelector") {
            messages.push(empty_selector_warning(&field_path.child("labelSelector")));
        }
    }
}

fn empty_selector_warning(at: &Path<'_>) -> String {
    format!("{at}: a null labelSelector results in matching no pod")
}

/// Preferred terms may have invalid label values, which give a warning instead of an error.
fn warn_of_preferred_term(term: &Value, at: &Path<'_>, messages: &mut Vec<String>) {
    let list_at = at.child("matchExpressions");
    for (index, expression) in term.items("matchExpressions").iter().enumerate() {
        let field_path = list_at.index(index);
        messages.extend(node_selector::warning(expression, &field_path));
        let values_at = field_path.child("values");
        for (number, value) in expression.texts("values").enumerate() {
            for msg in validate_label_value(value) {
                messages.push(format!("{}: {value} is invalid, {msg}", values_at.index(number)));
            }
        }
    }
}

fn warn_of_volumes(volumes: &[Value], at: &Path<'_>, messages: &mut Vec<String>) {
    for (index, volume) in volumes.iter().enumerate() {
        let field_path = at.index(index);
        for (field, reported_field, message) in REMOVED_VOLUMES {
            // Claim warnings have the position of their field in the type.
            if field == "cephfs" {
                let claim = volume.at_path("ephemeral.volumeClaimTemplate.spec");
                let volume_at = field_path.child("ephemeral");
                let template_at = volume_at.child("volumeClaimTemplate");
                persistent_volume_claim::spec_warnings(claim, &template_at.child("spec"), messages);
            }
            if volume.has(field) {
                messages.push(format!("{}: {message}", field_path.child(reported_field)));
            }
        }
    }
    overlap_warnings::warn_of_overlapping_paths(volumes, messages);
}

fn warn_of_duplicates(spec: &Value, at: &Path<'_>, messages: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let list_at = at.child(list);
        let items = spec.items(list);
        let repeated = field_checks::duplicate_flags(items.iter().map(|item| item.text(field)));
        for (index, item) in items.iter().enumerate() {
            let value = item.text(field);
            if repeated[index] {
                let quoted = go::quote(value);
                messages.push(format!(
                    "{}: duplicate {field} {quoted}",
                    list_at.index(index).child(field)
                ));
            }
        }
    }
    let list_at = at.child("imagePullSecrets");
    for (index, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            messages.push(format!(
                "{}: invalid empty name \"\"",
                list_at.index(index).child("name")
            ));
        }
    }
}

/// Fractional quantities of bytes.
fn warn_of_fractional_bytes(list: &Value, at: &Path<'_>, names: &[&str], messages: &mut Vec<String>) {
    for name in names {
        let value = quantity_or_zero(list.at(name));
        if value.milli_value() % 1000 != 0 {
            let quoted = go::quote(&value.to_string());
            messages.push(format!(
                "{}: fractional byte value {quoted} is invalid, must be an integer",
                at.key(name)
            ));
        }
    }
}

fn warn_of_container_annotations(
    container: &Value,
    spec: &Value,
    annotations: &Map<String, Value>,
    at: &Path<'_>,
    subject: WarnedObject,
    messages: &mut Vec<String>,
) {
    if annotations.is_empty() {
        return;
    }
    let context = container.at("securityContext");
    let key = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
    if !context.has("seccompProfile") && annotations.contains_key(&key) {
        messages.push(deprecated_seccomp_warning(&at.key(&key)));
    }
    let key = format!("{APPARMOR}{}", container.text("name"));
    let annotation = annotations.get(&key).and_then(Value::as_str);
    if subject == WarnedObject::Template
        && !context.has("appArmorProfile")
        && let Some(annotation) = annotation
    {
        let of_pod = spec.at_path("securityContext.appArmorProfile");
        if of_pod.is_null() || apparmor_field_for_annotation(annotation).as_ref() != Some(of_pod) {
            messages.push(deprecated_apparmor_warning(&at.key(&key)));
        }
    }
}

/// A variable that hides an earlier one without referring to it.
fn warn_of_hidden_variables(variables: &[Value], at: &Path<'_>, messages: &mut Vec<String>) {
    let repeated = field_checks::duplicate_flags(variables.iter().map(|variable| variable.text("name")));
    for (index, variable) in variables.iter().enumerate() {
        let name = variable.text("name");
        let value = variable.text("value");
        if !repeated[index] {
            continue;
        }
        let reference = format!("$({name})");
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            let quoted = go::quote(name);
            messages.push(format!(
                "{}: hides previous definition of {quoted}, which may be dropped when using apply",
                at.index(index)
            ));
        }
    }
}

// upstream: pkg/api/pod/warnings.go warningsForPodAffinityTerms, warningsForWeightedPodAffinityTerms
fn warn_of_empty_selectors(affinity: &Value, at: &Path<'_>, messages: &mut Vec<String>) {
    for name in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.at(name);
        let field_path = at.child(name);
        let list_at = field_path.child(REQUIRED);
        for (index, term) in terms.items(REQUIRED).iter().enumerate() {
            if !term.has("labelSelector") {
                messages.push(empty_selector_warning(
                    &list_at.index(index).child("labelSelector"),
                ));
            }
        }
        let list_at = field_path.child(PREFERRED);
        for (index, weighted) in terms.items(PREFERRED).iter().enumerate() {
            if !weighted.at("podAffinityTerm").has("labelSelector") {
                let item_at = list_at.index(index);
                let term_at = item_at.child("podAffinityTerm");
                messages.push(empty_selector_warning(&term_at.child("labelSelector")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warns_of_duplicate_ports_and_variables() {
        let value = json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}],
            },
        ]}});
        assert_eq!(
            get_warnings_for_pod(&value),
            [
                "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            ]
        );
    }

    #[test]
    fn warns_of_invalid_values_in_preferred_terms() {
        let expression = |value: &str| json!({"key": "beta.kubernetes.io/os", "values": [value]});
        let term = json!({"matchExpressions": [expression("-"), expression("linux")]});
        let mut messages = Vec::new();
        warn_of_preferred_term(&term, &Path::new("preference"), &mut messages);
        let old =
            |index| format!("preference.matchExpressions[{index}].key: beta.kubernetes.io/os is deprecated");
        let open = "preference.matchExpressions[0].values[0]: - is invalid, ";
        assert_eq!(messages.len(), 3, "{messages:?}");
        for (messages, wanted) in messages.iter().zip([&old(0), open, &old(1)]) {
            assert!(messages.starts_with(wanted), "{messages}");
        }
    }

    #[test]
    fn warns_of_non_canonical_addresses() {
        let status =
            json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "FD00::1"}], "hostIPs": [{"ip": "fd00::0:2"}]});
        assert_eq!(
            get_warnings_for_pod_ips(&status),
            [
                "status.podIPs[1].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
                "status.hostIPs[0].ip: IPv6 address \"fd00::0:2\" should be in RFC 5952 canonical format (\"fd00::2\")",
            ]
        );
    }

    #[test]
    fn warnings_of_a_template_have_its_field_path() {
        let template = json!({"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}});
        let spec = Path::new("spec");
        assert_eq!(
            get_warnings_for_pod_template(&template, &spec.child("template"), None),
            [
                "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"
            ]
        );
    }

    #[test]
    fn warns_of_overlapping_files() {
        let template = json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "m", "items": [
            {"key": "a", "path": "x"}, {"key": "b", "path": "x/y"},
        ]}}]}});
        assert_eq!(
            get_warnings_for_pod_template(&template, &Path::NIL, None),
            ["volume \"v\" (ConfigMap \"m\"): overlapping paths: \"x/y\" with \"x\""]
        );
    }
}
