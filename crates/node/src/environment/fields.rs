//! Fields of a pod that its containers may know.

use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr};

use k8s_openapi::api::core::v1::{ObjectFieldSelector, Pod};

use crate::Facts;

/// What a variable says that refers to a field of its pod.
pub(super) fn of_variable(
    selector: &ObjectFieldSelector,
    pod: &Pod,
    facts: &Facts,
    pod_ips: &[IpAddr],
) -> Result<String, String> {
    let version = selector.api_version.as_deref().unwrap_or("v1");
    if !matches!(version, "" | "v1") {
        return Err(format!("unsupported pod version: {version}"));
    }
    let spec = pod.spec.as_ref();
    let spec_text = |field: Option<&Option<String>>| field.cloned().flatten().unwrap_or_default();
    let uses_host = spec.is_some_and(|spec| spec.host_network == Some(true));
    // A pod on the network of its node has the node's addresses, and is never told any by its sandbox.
    let pod_ips = if pod_ips.is_empty() && uses_host {
        &facts.addresses
    } else {
        pod_ips
    };
    match selector.field_path.as_str() {
        "spec.nodeName" | "spec.host" => Ok(spec_text(spec.map(|spec| &spec.node_name))),
        "spec.serviceAccountName" => Ok(spec_text(spec.map(|spec| &spec.service_account_name))),
        "status.hostIP" => Ok(first(&facts.addresses)),
        "status.hostIPs" => Ok(joined(&facts.addresses)),
        "status.podIP" => Ok(first(pod_ips)),
        "status.podIPs" => Ok(joined(pod_ips)),
        path => of_metadata(path, pod),
    }
}

/// What a file says that refers to a field of its pod: labels, annotations, its name.
pub(crate) fn of_metadata(path: &str, pod: &Pod) -> Result<String, String> {
    let meta = &pod.metadata;
    let text = |field: &Option<String>| Ok(field.clone().unwrap_or_default());
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.annotations" => &meta.annotations,
            "metadata.labels" => &meta.labels,
            _ => return Err(format!("fieldPath {path:?} does not support subscript")),
        };
        let value = map.as_ref().and_then(|map| map.get(key));
        return Ok(value.cloned().unwrap_or_default());
    }
    match path {
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.name" => text(&meta.name),
        "metadata.namespace" => text(&meta.namespace),
        "metadata.uid" => text(&meta.uid),
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

/// The two halves of `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let halves = path.strip_suffix("']")?.split_once("['")?;
    (!halves.0.is_empty()).then_some(halves)
}

/// `key="value"` lines, by key, values quoted as Go quotes them.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten();
    let lines: Vec<_> = lines
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    lines.join("\n")
}

/// A text as Go's `strconv.Quote` has it, which readers of these files undo.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
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
                // Writing to a text never fails.
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

/// Whether Go prints a character as it is: not controls, and no space but the plain one.
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

    fn pod(host_network: bool) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u",
                "labels": {"app": "web", "tier": "a"},
                "annotations": {"note": "one\ntwo \"x\"", "k8s.io/a[b]": "odd", "odd": "\u{1}\u{a0}\u{e9}"}},
            "spec": {"nodeName": "n", "serviceAccountName": "robot", "hostNetwork": host_network, "containers": []}
        }))
        .unwrap()
    }

    fn facts() -> Facts {
        Facts {
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            ..Facts::default()
        }
    }

    #[test]
    fn each_field_has_its_value() {
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
                of_variable(&selector, &pod(false), &facts(), &ips).as_deref(),
                Ok(expected),
                "{path}"
            );
        }
    }

    #[test]
    fn a_pod_on_the_network_of_its_node_has_its_addresses() {
        let selector = ObjectFieldSelector {
            field_path: "status.podIP".to_owned(),
            ..Default::default()
        };
        assert_eq!(
            of_variable(&selector, &pod(true), &facts(), &[]).as_deref(),
            Ok("10.0.0.1")
        );
        assert_eq!(
            of_variable(&selector, &pod(false), &facts(), &[]).as_deref(),
            Ok("")
        );
    }

    #[test]
    fn what_is_no_such_field_is_told() {
        let ask = |version: Option<&str>, path: &str| {
            let selector = ObjectFieldSelector {
                api_version: version.map(str::to_owned),
                field_path: path.to_owned(),
            };
            of_variable(&selector, &pod(false), &facts(), &[]).unwrap_err()
        };
        assert_eq!(ask(None, "status.phase"), "unsupported fieldPath: status.phase");
        assert_eq!(ask(Some("v2"), "metadata.name"), "unsupported pod version: v2");
        assert_eq!(
            ask(None, "spec.nodeName['a']"),
            "fieldPath \"spec.nodeName['a']\" does not support subscript"
        );
    }
}
