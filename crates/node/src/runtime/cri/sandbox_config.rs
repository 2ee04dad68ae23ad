//! `PodSandboxConfig` messages.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_sandbox.go generatePodSandboxConfig

use crate::runtime::{
    ContainerOwner, ContainerSecurity, DnsSpec, NamespaceMode, PortMapping, Protocol, SandboxSpec,
    SecurityProfile, labels,
};

use super::messages;

/// Sandbox annotation with the log directory, which CRI statuses lack.
pub(super) const LOG_DIRECTORY: &str = "k3.io/log-directory";

/// Builds the configuration of a sandbox.
pub(super) fn config(spec: &SandboxSpec, owner: &ContainerOwner) -> messages::PodSandboxConfig {
    let log_directory = spec.log_directory.to_string_lossy().into_owned();
    let mut annotations = spec.annotations.clone();
    annotations.insert(LOG_DIRECTORY.to_owned(), log_directory.clone());
    messages::PodSandboxConfig {
        metadata: Some(messages::PodSandboxMetadata {
            name: spec.pod.name.clone(),
            uid: spec.pod.uid.clone(),
            namespace: spec.pod.namespace.clone(),
            attempt: spec.attempt,
        }),
        hostname: spec.hostname.clone(),
        log_directory,
        dns_config: spec.dns.as_ref().map(dns),
        port_mappings: spec
            .ports
            .iter()
            .filter(|port| port.is_mapped())
            .map(port)
            .collect(),
        labels: spec
            .labels
            .clone()
            .into_iter()
            .chain([
                (labels::POD_NAME.to_owned(), spec.pod.name.clone()),
                (labels::POD_NAMESPACE.to_owned(), spec.pod.namespace.clone()),
                (labels::POD_UID.to_owned(), spec.pod.uid.clone()),
                (labels::NODE.to_owned(), owner.node.clone()),
                (labels::CLUSTER.to_owned(), owner.cluster.clone()),
            ])
            .collect(),
        annotations,
        linux: Some(messages::LinuxPodSandboxConfig {
            cgroup_parent: spec.cgroup_parent.clone().unwrap_or_default(),
            security_context: Some(security(spec)),
            sysctls: spec.sysctls.clone(),
        }),
    }
}

/// Builds the namespace options.
pub(super) fn namespaces(spec: &SandboxSpec) -> messages::NamespaceOption {
    messages::NamespaceOption {
        network: mode(spec.network),
        pid: mode(spec.process),
        ipc: mode(spec.ipc),
        target_id: String::new(),
    }
}

/// Builds a seccomp profile.
pub(super) fn seccomp(profile: &SecurityProfile) -> messages::SecurityProfile {
    match profile {
        SecurityProfile::RuntimeDefault => named(messages::ProfileType::RuntimeDefault, ""),
        SecurityProfile::Unconfined => named(messages::ProfileType::Unconfined, ""),
        SecurityProfile::Localhost(file) => named(messages::ProfileType::Localhost, file),
    }
}

/// Formats a seccomp profile for the deprecated field `seccomp_profile_path`.
pub(super) fn seccomp_profile_path(profile: &SecurityProfile) -> String {
    match profile {
        SecurityProfile::RuntimeDefault => "runtime/default".to_owned(),
        SecurityProfile::Unconfined => "unconfined".to_owned(),
        SecurityProfile::Localhost(file) => format!("localhost/{file}"),
    }
}

/// Builds an `AppArmor` profile. The default profile is omitted: hosts without `AppArmor` would reject it.
pub(super) fn apparmor(profile: &SecurityProfile) -> Option<messages::SecurityProfile> {
    match profile {
        SecurityProfile::RuntimeDefault => None,
        SecurityProfile::Unconfined => Some(named(messages::ProfileType::Unconfined, "")),
        SecurityProfile::Localhost(name) => Some(named(messages::ProfileType::Localhost, name)),
    }
}

/// Builds `SELinux` options.
pub(super) fn selinux(security: &ContainerSecurity) -> Option<messages::SeLinuxOption> {
    let [user, role, r#type, level] = security.selinux.clone()?;
    Some(messages::SeLinuxOption {
        user,
        role,
        r#type,
        level,
    })
}

/// Builds the supplemental groups policy.
pub(super) fn groups_policy(security: &ContainerSecurity) -> i32 {
    if security.identity.strict_groups {
        messages::SupplementalGroupsPolicy::Strict.into()
    } else {
        messages::SupplementalGroupsPolicy::Merge.into()
    }
}

fn named(profile_type: messages::ProfileType, name: &str) -> messages::SecurityProfile {
    messages::SecurityProfile {
        profile_type: profile_type.into(),
        localhost_ref: name.to_owned(),
    }
}

fn security(spec: &SandboxSpec) -> messages::LinuxSandboxSecurityContext {
    let security = &spec.security;
    messages::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(spec)),
        selinux_options: selinux(security),
        run_as_user: security.identity.user.map(number),
        // Runtimes reject a group without a user.
        run_as_group: security.identity.user.and(security.identity.group).map(number),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.identity.groups.clone(),
        supplemental_groups_policy: groups_policy(security),
        privileged: security.privileged,
        seccomp: Some(seccomp(&security.seccomp)),
        apparmor: apparmor(&security.apparmor),
        seccomp_profile_path: seccomp_profile_path(&security.seccomp),
    }
}

fn number(value: i64) -> messages::Int64Value {
    messages::Int64Value { value }
}

fn mode(mode: NamespaceMode) -> i32 {
    match mode {
        NamespaceMode::Pod => messages::NamespaceMode::Pod,
        NamespaceMode::Container => messages::NamespaceMode::Container,
        NamespaceMode::Node => messages::NamespaceMode::Node,
    }
    .into()
}

fn dns(spec: &DnsSpec) -> messages::DnsConfig {
    messages::DnsConfig {
        servers: spec.servers.clone(),
        searches: spec.searches.clone(),
        options: spec.options.clone(),
    }
}

fn port(mapping: &PortMapping) -> messages::PortMapping {
    messages::PortMapping {
        protocol: match mapping.protocol {
            Protocol::Tcp => messages::Protocol::Tcp,
            Protocol::Udp => messages::Protocol::Udp,
            Protocol::Sctp => messages::Protocol::Sctp,
        }
        .into(),
        container_port: mapping.container_port.into(),
        host_port: mapping.host_port.into(),
        host_ip: mapping.host_ip.map(|ip| ip.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PodIdentity, runtime::ProcessUser};

    fn spec() -> SandboxSpec {
        SandboxSpec {
            pod: PodIdentity {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                uid: "u1".to_owned(),
            },
            attempt: 2,
            ..SandboxSpec::default()
        }
    }

    fn owner() -> ContainerOwner {
        ContainerOwner::new("n1", "cluster")
    }

    #[test]
    fn owner_labels_override_pod_labels() {
        let mut spec = spec();
        spec.labels.insert("app".to_owned(), "web".to_owned());
        spec.labels.insert(labels::NODE.to_owned(), "forged".to_owned());
        let config = config(&spec, &owner());
        assert_eq!(config.labels["app"], "web");
        assert_eq!(config.labels[labels::NODE], "n1");
        assert_eq!(config.labels[labels::POD_UID], "u1");
        assert_eq!(config.metadata.unwrap().attempt, 2);
    }

    #[test]
    fn omits_ports_without_host_port() {
        let mut spec = spec();
        let port = |host_port| PortMapping {
            protocol: Protocol::Udp,
            container_port: 53,
            host_port,
            host_ip: None,
        };
        spec.ports = vec![port(0), port(5353)];
        let ports = config(&spec, &owner()).port_mappings;
        assert_eq!(ports.len(), 1);
        assert_eq!((ports[0].protocol, ports[0].host_port), (1, 5353));
        assert_eq!(ports[0].host_ip, "");
    }

    #[test]
    fn sets_namespaces_and_profiles() {
        let mut spec = spec();
        spec.network = NamespaceMode::Node;
        spec.process = NamespaceMode::Container;
        spec.security.seccomp = SecurityProfile::Localhost("/profiles/a.json".to_owned());
        spec.security.identity = ProcessUser {
            group: Some(7),
            ..ProcessUser::default()
        };
        let security = config(&spec, &owner()).linux.unwrap().security_context.unwrap();
        let namespaces = security.namespace_options.unwrap();
        assert_eq!((namespaces.network, namespaces.pid, namespaces.ipc), (2, 1, 0));
        assert_eq!(security.seccomp.unwrap().localhost_ref, "/profiles/a.json");
        assert_eq!(security.seccomp_profile_path, "localhost//profiles/a.json");
        assert_eq!(security.apparmor, None);
        assert_eq!(security.run_as_group, None, "a group needs a user");
    }
}
