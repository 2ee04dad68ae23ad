//! Fields of the pod for `fieldRef`, in environment variables and downward API volumes.

use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr};

use k8s_openapi::api::core::v1::{ObjectFieldSelector, Pod};

use crate::NodeFacts;

/// Why a `fieldRef` has no value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldPathError {
    /// The version of the pod is not `v1`.
    #[error("unsupported pod version: {0}")]
    ApiVersion(String),
    /// The field is not a map.
    #[error("fieldPath {0:?} does not support subscript")]
    Subscript(String),
    /// The field is unknown, or cannot be referred to.
    #[error("unsupported fieldPath: {0}")]
    Unsupported(String),
}

/// Value of a `fieldRef` in an environment variable.
// upstream: pkg/kubelet/kubelet_pods.go podFieldSelectorRuntimeValue
pub(super) fn pod_field_selector_runtime_value(
    selector: &ObjectFieldSelector,
    pod: &Pod,
    facts: &NodeFacts,
    pod_ips: &[IpAddr],
) -> Result<String, FieldPathError> {
    let version = selector.api_version.as_deref().unwrap_or("v1");
    if !matches!(version, "" | "v1") {
        return Err(FieldPathError::ApiVersion(version.to_owned()));
    }
    let spec = pod.spec.as_ref();
    let spec_string = |field: Option<&Option<String>>| field.cloned().flatten().unwrap_or_default();
    let is_host_network = spec.is_some_and(|spec| spec.host_network == Some(true));
    // The sandbox of a hostNetwork pod reports no addresses; the pod has those of the node.
    let pod_ips = if pod_ips.is_empty() && is_host_network {
        &facts.addresses
    } else {
        pod_ips
    };
    match selector.field_path.as_str() {
        "spec.nodeName" | "spec.host" => Ok(spec_string(spec.map(|spec| &spec.node_name))),
        "spec.serviceAccountName" => Ok(spec_string(spec.map(|spec| &spec.service_account_name))),
        "status.hostIP" => Ok(first(&facts.addresses)),
        "status.hostIPs" => Ok(joined(&facts.addresses)),
        "status.podIP" => Ok(first(pod_ips)),
        "status.podIPs" => Ok(joined(pod_ips)),
        path => extract_field_path_as_string(path, pod),
    }
}

/// Value of a `metadata` field, for environment variables and files.
// upstream: pkg/fieldpath/fieldpath.go ExtractFieldPathAsString
pub(crate) fn extract_field_path_as_string(path: &str, pod: &Pod) -> Result<String, FieldPathError> {
    let meta = &pod.metadata;
    let string = |field: &Option<String>| Ok(field.clone().unwrap_or_default());
    if let Some((map, key)) = split_subscript(path) {
        let map = match map {
            "metadata.annotations" => &meta.annotations,
            "metadata.labels" => &meta.labels,
            _ => return Err(FieldPathError::Subscript(path.to_owned())),
        };
        let value = map.as_ref().and_then(|map| map.get(key));
        return Ok(value.cloned().unwrap_or_default());
    }
    match path {
        "metadata.annotations" => Ok(format_map(meta.annotations.as_ref())),
        "metadata.labels" => Ok(format_map(meta.labels.as_ref())),
        "metadata.name" => string(&meta.name),
        "metadata.namespace" => string(&meta.namespace),
        "metadata.uid" => string(&meta.uid),
        _ => Err(FieldPathError::Unsupported(path.to_owned())),
    }
}

/// Splits `metadata.labels['key']` into the path of the map and the key.
// upstream: pkg/fieldpath/fieldpath.go SplitMaybeSubscriptedPath
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let halves = path.strip_suffix("']")?.split_once("['")?;
    (!halves.0.is_empty()).then_some(halves)
}

/// Formats a map as lines `key="value"`, sorted by key.
// upstream: pkg/fieldpath/fieldpath.go FormatMap
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten();
    let lines: Vec<_> = lines
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    lines.join("\n")
}

/// Quotes a string like Go's `strconv.Quote`: programs that read the files unquote it.
fn quote(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a String never fails.
                let _ = match code {
                    0..=0x7f => write!(out, "\\x{code:02x}"),
                    0x80..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// Whether `strconv.Quote` leaves a character as it is: no control characters, and no white space except the ASCII space.
fn is_printable(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}'))
}

fn first(addresses: &[IpAddr]) -> String {
    addresses.first().map(IpAddr::to_string).unwrap_or_default()
}

fn joined(addresses: &[IpAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    addresses.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u",
                "labels": {"app": "web", "tier": "a"},
                "annotations": {"note": "one\ntwo \"x\"", "k8s.io/a[b]": "odd", "odd": "\u{1}\u{a0}\u{e9}"}},
            "spec": {"nodeName": "n", "serviceAccountName": "robot", "containers": []}
        }))
        .unwrap()
    }

    fn host_network_pod() -> Pod {
        let mut pod = pod();
        pod.spec.get_or_insert_default().host_network = Some(true);
        pod
    }

    fn facts() -> NodeFacts {
        NodeFacts {
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            ..NodeFacts::default()
        }
    }

    #[test]
    fn resolves_each_field() {
        let ips = ["10.1.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        for (path, expected) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "u"),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.labels", "app=\"web\"\ntier=\"a\""),
            ("metadata.annotations['k8s.io/a[b]']", "odd"),
            (
                "metadata.annotations",
                "k8s.io/a[b]=\"odd\"\nnote=\"one\\ntwo \\\"x\\\"\"\nodd=\"\\x01\\u00a0\u{e9}\"",
            ),
            ("spec.nodeName", "n"),
            ("spec.serviceAccountName", "robot"),
            ("status.hostIP", "10.0.0.1"),
            ("status.hostIPs", "10.0.0.1,fd00::1"),
            ("status.podIP", "10.1.0.5"),
            ("status.podIPs", "10.1.0.5,fd00::5"),
        ] {
            let selector = ObjectFieldSelector {
                field_path: path.to_owned(),
                ..Default::default()
            };
            assert_eq!(
                pod_field_selector_runtime_value(&selector, &pod(), &facts(), &ips).as_deref(),
                Ok(expected),
                "{path}"
            );
        }
    }

    #[test]
    fn host_network_pod_has_addresses_of_the_node() {
        let selector = ObjectFieldSelector {
            field_path: "status.podIP".to_owned(),
            ..Default::default()
        };
        assert_eq!(
            pod_field_selector_runtime_value(&selector, &host_network_pod(), &facts(), &[]).as_deref(),
            Ok("10.0.0.1")
        );
        assert_eq!(
            pod_field_selector_runtime_value(&selector, &pod(), &facts(), &[]).as_deref(),
            Ok("")
        );
    }

    #[test]
    fn rejects_unsupported_fields() {
        let error = |version: Option<&str>, path: &str| {
            let selector = ObjectFieldSelector {
                api_version: version.map(str::to_owned),
                field_path: path.to_owned(),
            };
            let value = pod_field_selector_runtime_value(&selector, &pod(), &facts(), &[]);
            value.unwrap_err().to_string()
        };
        assert_eq!(error(None, "status.phase"), "unsupported fieldPath: status.phase");
        assert_eq!(error(Some("v2"), "metadata.name"), "unsupported pod version: v2");
        assert_eq!(
            error(None, "spec.nodeName['a']"),
            "fieldPath \"spec.nodeName['a']\" does not support subscript"
        );
    }
}
