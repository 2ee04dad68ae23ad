//! Configuration of a pod sandbox: the settings that all containers of a pod share.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_sandbox.go generatePodSandboxConfig, generatePodSandboxLinuxConfig

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};

use super::{PodHostname, SpecError, dns, security};
use crate::{
    NodeFacts, PodIdentity,
    runtime::{
        ContainerSecurity, HostEntry, NamespaceMode, PortMapping, Protocol, SandboxSpec, SecurityProfile,
    },
};

/// Configuration of the sandbox of a pod. `logs` is the directory with one log directory per pod.
pub fn generate_pod_sandbox_config(
    pod: &Pod,
    facts: &NodeFacts,
    attempt: u32,
    logs: &Path,
) -> Result<SandboxSpec, SpecError> {
    let spec = pod.spec.clone().unwrap_or_default();
    let identity = PodIdentity::of(pod);
    let host_network = spec.host_network == Some(true);
    let hostname = if host_network {
        String::new()
    } else {
        PodHostname::new(pod, &facts.cluster_domain)?.kernel
    };
    let log_directory = logs.join([&*identity.namespace, &*identity.name, &*identity.uid].join("_"));
    Ok(SandboxSpec {
        attempt,
        hostname,
        dns: Some(dns::get_pod_dns(pod, facts)),
        ports: if host_network {
            Vec::new()
        } else {
            make_port_mappings(&spec)?
        },
        hosts: aliases(&spec),
        network: node_if_set(spec.host_network, NamespaceMode::Pod),
        process: pid_namespace_mode(&spec),
        ipc: node_if_set(spec.host_ipc, NamespaceMode::Pod),
        // Pods share the user namespace of the node unless they ask for one of their own.
        users: node_if_set(spec.host_users.or(Some(true)), NamespaceMode::Pod),
        sysctls: sysctls(&spec),
        cgroup_parent: None,
        log_directory,
        // Resolved when the sandbox is created: an existing one keeps its handler.
        handler: String::new(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        security: sandbox_security(&spec)?,
        pod: identity,
    })
}

/// The namespace of the node if a field such as `hostNetwork` is true.
fn node_if_set(field: Option<bool>, otherwise: NamespaceMode) -> NamespaceMode {
    match field {
        Some(true) => NamespaceMode::Node,
        _ => otherwise,
    }
}

fn pid_namespace_mode(spec: &PodSpec) -> NamespaceMode {
    let pod_mode = match spec.share_process_namespace {
        Some(true) => NamespaceMode::Pod,
        _ => NamespaceMode::Container,
    };
    node_if_set(spec.host_pid, pod_mode)
}

fn sysctls(spec: &PodSpec) -> BTreeMap<String, String> {
    let context = spec.security_context.as_ref();
    let sysctls = context
        .and_then(|context| context.sysctls.as_ref())
        .into_iter()
        .flatten();
    sysctls
        .map(|sysctl| (sysctl.name.clone(), sysctl.value.clone()))
        .collect()
}

fn aliases(spec: &PodSpec) -> Vec<HostEntry> {
    let aliases = spec.host_aliases.iter().flatten();
    let entry = |alias: &k8s_openapi::api::core::v1::HostAlias| HostEntry {
        ip: alias.ip.clone(),
        names: alias.hostnames.clone().unwrap_or_default(),
    };
    aliases.map(entry).collect()
}

/// Port mappings of the containers. A duplicate within a container counts once.
// upstream: pkg/kubelet/container/helpers.go MakePortMappings
fn make_port_mappings(spec: &PodSpec) -> Result<Vec<PortMapping>, SpecError> {
    let mut mappings = Vec::new();
    for container in &spec.containers {
        let mut names = Vec::new();
        for port in container.ports.iter().flatten() {
            let name = port_name(port);
            if names.contains(&name) {
                continue;
            }
            names.push(name);
            mappings.push(port_mapping(container, port)?);
        }
    }
    Ok(mappings)
}

fn port_name(port: &ContainerPort) -> String {
    if let Some(name) = port.name.clone().filter(|name| !name.is_empty()) {
        return name;
    }
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let host_port = port.host_port.unwrap_or_default();
    let protocol = text(&port.protocol);
    let ip = text(&port.host_ip);
    format!("{protocol}-{ip}:{}:{host_port}", port.container_port)
}

fn port_mapping(container: &Container, port: &ContainerPort) -> Result<PortMapping, SpecError> {
    let number = |port: i32| {
        u16::try_from(port).map_err(|_| SpecError::Port {
            container: container.name.clone(),
            port,
        })
    };
    Ok(PortMapping {
        protocol: match port.protocol.as_deref() {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        },
        container_port: number(port.container_port)?,
        host_port: number(port.host_port.unwrap_or_default())?,
        host_ip: port.host_ip.as_ref().and_then(|ip| ip.parse().ok()),
    })
}

/// Security context of the sandbox. It runs no user code, so the runtime's seccomp profile always fits.
fn sandbox_security(spec: &PodSpec) -> Result<ContainerSecurity, SpecError> {
    let context = spec.security_context.clone().unwrap_or_default();
    let mut identity = security::groups(&context)?;
    identity.user = context.run_as_user;
    identity.group = context.run_as_group;
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let contexts = spec.init_containers.iter().flatten().chain(&spec.containers);
    let contexts = contexts.map(|container| container.security_context.as_ref());
    let mut contexts = contexts.chain(ephemeral.map(|container| container.security_context.as_ref()));
    Ok(ContainerSecurity {
        identity,
        privileged: contexts.any(|context| context.and_then(|context| context.privileged) == Some(true)),
        seccomp: SecurityProfile::RuntimeDefault,
        selinux: context.se_linux_options.as_ref().map(security::selinux),
        ..ContainerSecurity::default()
    })
}
