//! Warnings of ports that are defined more than once.

use std::collections::HashMap;

use serde_json::Value;

use super::profile::visit_containers;
use crate::{field::Path, go, strategy::Tree};

// upstream: pkg/api/pod/warnings.go warningsForPodSpecAndMeta
pub(super) fn warn_of_duplicate_ports(spec: &Value, at: &Path<'_>, messages: &mut Vec<String>) {
    let mut all: Vec<(&Value, String)> = Vec::new();
    visit_containers(spec, at, |container, field_path| {
        let list_at = field_path.child("ports");
        for (index, port) in container.items("ports").iter().enumerate() {
            let port_at = list_at.index(index);
            if !port.text("hostIP").is_empty() && host_port(port) == 0 {
                messages.push(format!(
                    "{port_at}: hostIP set without hostPort: {}",
                    port_go_syntax(port)
                ));
            }
            for (other, other_at) in &all {
                if port.at("containerPort") == other.at("containerPort")
                    && port.text("protocol") == other.text("protocol")
                    && let Some(how) = collision(port, other)
                {
                    messages.push(format!("{port_at}: {how} port definition with {other_at}"));
                }
            }
            all.push((port, port_at.to_string()));
        }
    });
    let mut named: HashMap<&str, &str> = HashMap::new();
    for (port, port_at) in &all {
        let name = port.text("name");
        let first_at = *named.entry(name).or_insert(port_at);
        if !name.is_empty() && !std::ptr::eq(first_at, port_at.as_str()) {
            messages.push(format!(
                "{port_at}: duplicate port name {} with {first_at}, services and probes that select ports by name will \
                 use {first_at}",
                go::quote(name)
            ));
        }
    }
}

fn host_port(port: &Value) -> i64 {
    port.int_or_zero("hostPort")
}

fn collision(port: &Value, other: &Value) -> Option<&'static str> {
    let host = host_port(port);
    let other_host = host_port(other);
    let ip = port.text("hostIP");
    let other_ip = other.text("hostIP");
    if ip == other_ip && host == other_host {
        Some("duplicate")
    } else if host == 0 || other_host == 0 {
        Some("overlapping")
    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A port as Go's `%+v` prints it.
fn port_go_syntax(port: &Value) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.text("name"),
        host_port(port),
        port.int_or_zero("containerPort"),
        port.text("protocol"),
        port.text("hostIP"),
    )
}
