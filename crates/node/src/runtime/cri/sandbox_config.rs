//! What a sandbox is in CRI's words.

use crate::runtime::{
    Confinement, DnsSpec, NamespaceMode, Owner, PortMapping, Protocol, SandboxSpec, Security, labels,
};

use super::messages;

/// The annotation of a sandbox by which its folder of logs is found again: the protocol does not tell it.
pub(super) const LOG_DIRECTORY: &str = "k3.io/log-directory";

/// The sandbox as the runtime is asked for it.
pub(super) fn config(spec: &SandboxSpec, owner: &Owner) -> messages::PodSandboxConfig {
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

/// Whose namespaces the sandbox and its containers have.
pub(super) fn namespaces(spec: &SandboxSpec) -> messages::NamespaceOption {
    messages::NamespaceOption {
        network: mode(spec.network),
        pid: mode(spec.process),
        ipc: mode(spec.ipc),
        target_id: String::new(),
    }
}

/// A profile of seccomp.
pub(super) fn seccomp(profile: &Confinement) -> messages::SecurityProfile {
    match profile {
        Confinement::Default => named(messages::ProfileType::RuntimeDefault, ""),
        Confinement::Unconfined => named(messages::ProfileType::Unconfined, ""),
        Confinement::Local(file) => named(messages::ProfileType::Localhost, file),
    }
}

/// The same in one word.
pub(super) fn seccomp_word(profile: &Confinement) -> String {
    match profile {
        Confinement::Default => "runtime/default".to_owned(),
        Confinement::Unconfined => "unconfined".to_owned(),
        Confinement::Local(file) => format!("localhost/{file}"),
    }
}

/// A profile of `AppArmor`. The usual one is not told: a machine without `AppArmor` would refuse it.
pub(super) fn apparmor(profile: &Confinement) -> Option<messages::SecurityProfile> {
    match profile {
        Confinement::Default => None,
        Confinement::Unconfined => Some(named(messages::ProfileType::Unconfined, "")),
        Confinement::Local(name) => Some(named(messages::ProfileType::Localhost, name)),
    }
}

/// Labels of `SELinux`.
pub(super) fn selinux(security: &Security) -> Option<messages::SeLinuxOption> {
    let [user, role, r#type, level] = security.selinux.clone()?;
    Some(messages::SeLinuxOption {
        user,
        role,
        r#type,
        level,
    })
}

/// Whether the groups of the image count as well.
pub(super) fn groups_policy(security: &Security) -> i32 {
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
        // Runtimes refuse a group without a user.
        run_as_group: security.identity.user.and(security.identity.group).map(number),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.identity.groups.clone(),
        supplemental_groups_policy: groups_policy(security),
        privileged: security.privileged,
        seccomp: Some(seccomp(&security.seccomp)),
        apparmor: apparmor(&security.apparmor),
        seccomp_profile_path: seccomp_word(&security.seccomp),
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
    use crate::{PodIdentity, runtime::Identity};

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

    fn owner() -> Owner {
        Owner::new("n1", "cluster")
    }

    #[test]
    fn a_sandbox_carries_whose_it_is_over_what_the_pod_says() {
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
    fn ports_without_a_port_of_the_machine_are_left_out() {
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
    fn namespaces_and_profiles_are_told() {
        let mut spec = spec();
        spec.network = NamespaceMode::Node;
        spec.process = NamespaceMode::Container;
        spec.security.seccomp = Confinement::Local("/profiles/a.json".to_owned());
        spec.security.identity = Identity {
            group: Some(7),
            ..Identity::default()
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
