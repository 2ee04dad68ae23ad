//! Table row of a service.

use serde_json::{Value, json};

use super::{CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, kind};
use crate::{
    strategy::{Column, Row, Tree, age},
    time::Time,
};

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Type", "spec.type"),
    Column::field("Cluster-IP", "spec.clusterIP"),
    Column::field("External-IP", "spec.externalIPs"),
    Column::field("Port(s)", "spec.ports"),
    Column::age(),
    Column::field("Selector", "spec.selector").wide(),
];

// upstream: pkg/printers/internalversion/printers.go printService
pub(super) fn print_service(service: &Value, now: Time) -> Row {
    let metadata = service.at("metadata");
    let spec = service.at("spec");
    let selector: Vec<_> = spec
        .entries("selector")
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    Row::new(vec![
        json!(metadata.text("name")),
        json!(kind(service)),
        json!(spec.texts("clusterIPs").next().unwrap_or("<none>")),
        json!(format_external_ips(service)),
        json!(or_none(&format_ports(spec))),
        age(metadata.text("creationTimestamp"), now),
        json!(or_none(&selector)),
    ])
}

fn or_none(items: &[String]) -> String {
    if items.is_empty() {
        "<none>".to_owned()
    } else {
        items.join(",")
    }
}

// upstream: pkg/printers/internalversion/printers.go makePortString
fn format_ports(spec: &Value) -> Vec<String> {
    spec.items("ports")
        .iter()
        .map(|port| {
            let number = port.int_or_zero("port");
            let protocol = port.text("protocol");
            match port.int("nodePort") {
                Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect()
}

/// The external addresses.
// upstream: pkg/printers/internalversion/printers.go getServiceExternalIP
fn format_external_ips(service: &Value) -> String {
    let spec = service.at("spec");
    let external_ips = spec.texts("externalIPs").map(str::to_owned);
    match kind(service) {
        CLUSTER_IP | NODE_PORT => or_none(&external_ips.collect::<Vec<_>>()),
        LOAD_BALANCER => {
            let mut all: Vec<_> = service
                .at_path("status.loadBalancer")
                .items("ingress")
                .iter()
                .map(|ingress| match ingress.text("ip") {
                    "" => ingress.text("hostname").to_owned(),
                    ip => ip.to_owned(),
                })
                .filter(|field_path| !field_path.is_empty())
                .collect();
            all.sort_unstable();
            all.dedup();
            all.extend(external_ips);
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        EXTERNAL_NAME => spec.text("externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}
