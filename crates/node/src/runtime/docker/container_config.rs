//! Builds the create requests of containers from their specs, without side effects.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go generateContainerConfig

mod resources;
mod security;
mod service;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::resources::limits;
use self::{resources::host_resources, security::security_options};
use super::{
    container_labels::{ContainerKind, ContainerLabels},
    pause,
    requests::{
        BindOptions, CreateContainerRequest, DeviceMapping, HostConfig, ImageOptions, LogConfig, Mount,
        PortBinding,
    },
};
use crate::runtime::{
    ContainerOwner, ContainerSecurity, ContainerSpec, MountPropagation, MountSource, NamespaceMode,
    ProcessUser, Protocol, RuntimeError, SandboxId, SandboxSpec,
};

/// Size and number of log files: the kubelet's defaults of `containerLogMaxSize` and `containerLogMaxFiles`.
const LOG_MAX_SIZE: &str = "10m";
const LOG_MAX_FILES: &str = "5";

/// From this API version read-only mounts are recursively read-only by default.
const RECURSIVE_READ_ONLY_SINCE: ApiVersion = ApiVersion(1, 44);
/// From this API version images can be mounted.
const IMAGE_MOUNTS_SINCE: ApiVersion = ApiVersion(1, 48);

/// Which engine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineFlavor {
    Docker,
    Podman,
}

/// API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApiVersion(pub(super) u32, pub(super) u32);

/// Builds create requests for one engine.
#[derive(Clone, Debug)]
pub(super) struct ContainerConfigGenerator {
    pub(super) flavor: EngineFlavor,
    pub(super) api: ApiVersion,
    pub(super) owner: ContainerOwner,
    /// The lowest `oom_score_adj` that the engine can set.
    pub(super) oom_floor: i64,
}

// --- ContainerConfigGenerator ---

impl ContainerConfigGenerator {
    /// Builds the pause container of a sandbox. `seccomp` is the content of a localhost profile.
    pub(super) fn sandbox_config(
        &self,
        spec: &SandboxSpec,
        seccomp: Option<&str>,
    ) -> Result<CreateContainerRequest, RuntimeError> {
        if spec.users != NamespaceMode::Node {
            return Err(unsupported("user namespaces"));
        }
        let mut labels = ContainerLabels::of_sandbox(&spec.pod, spec.attempt);
        labels.labels.clone_from(&spec.labels);
        labels.annotations.clone_from(&spec.annotations);
        let dns = spec.dns.clone().unwrap_or_default();
        let has_own_network = spec.network != NamespaceMode::Node;
        let mut host = HostConfig {
            network_mode: if has_own_network { "bridge" } else { "host" }.to_owned(),
            uts_mode: if has_own_network { "" } else { "host" }.to_owned(),
            ipc_mode: match spec.ipc {
                NamespaceMode::Node => "host",
                NamespaceMode::Pod | NamespaceMode::Container => "shareable",
            }
            .to_owned(),
            pid_mode: match spec.process {
                NamespaceMode::Node => "host",
                NamespaceMode::Pod | NamespaceMode::Container => "",
            }
            .to_owned(),
            cgroup_parent: spec.cgroup_parent.clone(),
            log_config: LogConfig {
                driver: "none",
                config: BTreeMap::new(),
            },
            // Without search domains the engine uses the host's; "." means none.
            dns_search: match (&spec.dns, dns.searches.is_empty()) {
                (Some(_), true) => vec![".".to_owned()],
                _ => dns.searches,
            },
            dns: dns.servers,
            dns_options: dns.options,
            extra_hosts: spec
                .hosts
                .iter()
                .flat_map(|entry| entry.names.iter().map(move |name| format!("{name}:{}", entry.ip)))
                .collect(),
            sysctls: spec.sysctls.clone(),
            ..HostConfig::default()
        };
        let mut exposed_ports = BTreeSet::new();
        for port in spec
            .ports
            .iter()
            .filter(|port| has_own_network && port.is_mapped())
        {
            let name = format!("{}/{}", port.container_port, protocol(port.protocol));
            exposed_ports.insert(name.clone());
            host.port_bindings.entry(name).or_default().push(PortBinding {
                host_ip: port.host_ip.map(|ip| ip.to_string()).unwrap_or_default(),
                host_port: port.host_port.to_string(),
            });
        }
        self.apply_security(&mut host, &spec.security, seccomp)?;
        Ok(CreateContainerRequest {
            image: pause::IMAGE.to_owned(),
            hostname: if has_own_network {
                spec.hostname.clone()
            } else {
                String::new()
            },
            user: user(&spec.security.identity),
            labels: labels.write(&self.owner),
            exposed_ports,
            host_config: host,
            ..CreateContainerRequest::default()
        })
    }

    /// Builds a container of a sandbox.
    pub(super) fn container_config(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
        seccomp: Option<&str>,
    ) -> Result<CreateContainerRequest, RuntimeError> {
        let labels = Self::labels_of_container(sandbox, pod, spec);
        let joined = format!("container:{sandbox}");
        let share = |mode: NamespaceMode, alone: &str| match mode {
            NamespaceMode::Pod => joined.clone(),
            NamespaceMode::Container => alone.to_owned(),
            NamespaceMode::Node => "host".to_owned(),
        };
        let mut host = HostConfig {
            network_mode: joined.clone(),
            ipc_mode: share(pod.ipc, "private"),
            pid_mode: match &spec.process_target {
                Some(target) if pod.process == NamespaceMode::Container => format!("container:{target}"),
                _ => share(pod.process, ""),
            },
            uts_mode: match (self.flavor, pod.network) {
                (_, NamespaceMode::Node) => "host".to_owned(),
                // Docker uses the hostname of the joined network namespace; Podman needs the UTS namespace explicitly.
                (EngineFlavor::Podman, _) => joined,
                (EngineFlavor::Docker, _) => String::new(),
            },
            cgroup_parent: pod.cgroup_parent.clone(),
            log_config: self.log_config(),
            mounts: self.mounts(spec)?,
            devices: spec
                .devices
                .iter()
                .map(|device| DeviceMapping {
                    path_on_host: device.host.display().to_string(),
                    path_in_container: device.container.display().to_string(),
                    cgroup_permissions: device.permissions.clone(),
                })
                .collect(),
            oom_score_adj: spec
                .resources
                .oom_score_adj
                .map(|score| score.max(self.oom_floor)),
            limits: host_resources(&spec.resources)?,
            ..HostConfig::default()
        };
        self.apply_security(&mut host, &spec.security, seccomp)?;
        Ok(CreateContainerRequest {
            image: spec.image.clone(),
            entrypoint: spec.command.clone(),
            cmd: spec.args.clone(),
            env: spec
                .env
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            working_dir: spec.working_dir.clone(),
            user: user(&spec.security.identity),
            stop_signal: spec.stop_signal.clone(),
            labels: labels.write(&self.owner),
            tty: spec.tty,
            open_stdin: spec.stdin,
            stdin_once: spec.stdin_once,
            host_config: host,
            ..CreateContainerRequest::default()
        })
    }

    /// Labels of a container.
    pub(super) fn labels_of_container(
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> ContainerLabels {
        ContainerLabels {
            kind: ContainerKind::Container,
            pod: pod.pod.clone(),
            name: spec.name.clone(),
            attempt: spec.attempt,
            sandbox: sandbox.0.clone(),
            image: spec.user_image.clone(),
            annotations: spec.annotations.clone(),
            labels: spec.labels.clone(),
        }
    }

    fn log_config(&self) -> LogConfig {
        match self.flavor {
            EngineFlavor::Docker => LogConfig {
                driver: "json-file",
                config: [("max-size", LOG_MAX_SIZE), ("max-file", LOG_MAX_FILES)].into(),
            },
            // Podman keeps one file.
            EngineFlavor::Podman => LogConfig {
                driver: "k8s-file",
                config: [("max-size", LOG_MAX_SIZE)].into(),
            },
        }
    }

    fn apply_security(
        &self,
        host: &mut HostConfig,
        security: &ContainerSecurity,
        seccomp: Option<&str>,
    ) -> Result<(), RuntimeError> {
        if security.identity.strict_groups {
            return Err(unsupported("supplementalGroupsPolicy Strict"));
        }
        host.privileged = security.privileged;
        host.readonly_rootfs = security.read_only_root;
        host.cap_add.clone_from(&security.capabilities.add);
        host.cap_drop.clone_from(&security.capabilities.drop);
        host.group_add = security.identity.groups.iter().map(ToString::to_string).collect();
        host.security_opt = security_options(self.flavor, security, seccomp)?;
        host.masked_paths.clone_from(&security.masked_paths);
        host.readonly_paths.clone_from(&security.readonly_paths);
        Ok(())
    }

    fn mounts(&self, spec: &ContainerSpec) -> Result<Vec<Mount>, RuntimeError> {
        spec.mounts.iter().map(|mount| self.mount(mount)).collect()
    }

    fn mount(&self, mount: &crate::runtime::Mount) -> Result<Mount, RuntimeError> {
        let supports_recursive_read_only =
            self.flavor == EngineFlavor::Docker && self.api >= RECURSIVE_READ_ONLY_SINCE;
        match &mount.source {
            MountSource::Host(path) => {
                if mount.recursive_read_only && !supports_recursive_read_only {
                    return Err(unsupported("recursive read-only mounts"));
                }
                Ok(Mount {
                    kind: "bind",
                    source: path.display().to_string(),
                    target: mount.target.clone(),
                    read_only: mount.read_only,
                    bind_options: Some(BindOptions {
                        propagation: match mount.propagation {
                            MountPropagation::Private => "rprivate",
                            MountPropagation::HostToContainer => "rslave",
                            MountPropagation::Bidirectional => "rshared",
                        },
                        read_only_non_recursive: supports_recursive_read_only
                            && mount.read_only
                            && !mount.recursive_read_only,
                        read_only_force_recursive: mount.recursive_read_only,
                    }),
                    image_options: None,
                })
            }
            MountSource::Image { image, sub_path } => {
                let is_supported = match self.flavor {
                    EngineFlavor::Docker => self.api >= IMAGE_MOUNTS_SINCE,
                    EngineFlavor::Podman => sub_path.is_empty(),
                };
                if !is_supported {
                    return Err(unsupported("image volumes"));
                }
                Ok(Mount {
                    kind: "image",
                    source: image.clone(),
                    target: mount.target.clone(),
                    read_only: true,
                    bind_options: None,
                    image_options: (!sub_path.is_empty()).then(|| ImageOptions {
                        subpath: sub_path.clone(),
                    }),
                })
            }
        }
    }
}

// --- ApiVersion ---

impl ApiVersion {
    /// Parses a version such as `1.41`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl std::fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Returns `user[:group]`. With a group only, the user is root, the engine's default.
fn user(identity: &ProcessUser) -> String {
    let user = identity
        .user
        .map(|user| user.to_string())
        .or_else(|| identity.user_name.clone())
        .unwrap_or_default();
    match identity.group {
        Some(group) if user.is_empty() => format!("0:{group}"),
        Some(group) => format!("{user}:{group}"),
        None => user,
    }
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

fn unsupported(what: &str) -> RuntimeError {
    RuntimeError::Unsupported(format!(
        "this version of the container engine does not support {what}"
    ))
}
