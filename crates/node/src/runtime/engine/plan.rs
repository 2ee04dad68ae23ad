//! What the engine is asked for, from what the agent asks for. Nothing is done here.

mod confinement;
mod resources;
mod service;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::resources::limits;
use self::{confinement::security_options, resources::host_resources};
use super::{
    names::{Kind, Marks},
    pause,
    wire::{BindOptions, Device, HostConfig, ImageOptions, LogConfig, Mount, NewContainer, PortBinding},
};
use crate::runtime::{
    ContainerSpec, Identity, MountSource, NamespaceMode, Owner, Propagation, Protocol, RuntimeError,
    SandboxId, SandboxSpec, Security,
};

/// The most that a log may have before a new file is begun, and how many files are kept: what nodes do by default.
const LOG_MOST: &str = "10m";
const LOG_FILES: &str = "5";

/// From this version a mount that is read-only is so with all below it, unless one says otherwise.
const READ_ONLY_IS_RECURSIVE: Api = Api(1, 44);
/// From this version an image can be mounted.
const IMAGES_CAN_BE_MOUNTED: Api = Api(1, 48);

/// Which program answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    Docker,
    Podman,
}

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Api(pub(super) u32, pub(super) u32);

/// What all plans are made with.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    pub(super) flavor: Flavor,
    pub(super) api: Api,
    pub(super) owner: Owner,
    /// The lowest `oom_score_adj` that the engine may give.
    pub(super) oom_floor: i64,
}

// --- Planner ---

impl Planner {
    /// The pause container of a sandbox. `seccomp` is the content of the profile's file, if it has one.
    pub(super) fn sandbox(
        &self,
        spec: &SandboxSpec,
        seccomp: Option<&str>,
    ) -> Result<NewContainer, RuntimeError> {
        if spec.users != NamespaceMode::Node {
            return Err(unsupported("user namespaces of pods"));
        }
        let mut marks = Marks::of_sandbox(&spec.pod, spec.attempt);
        marks.labels.clone_from(&spec.labels);
        marks.annotations.clone_from(&spec.annotations);
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
            runtime: spec.handler.clone(),
            log_config: LogConfig {
                driver: "none",
                config: BTreeMap::new(),
            },
            // An engine that is told of no suffix takes those of the machine; a dot is none.
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
        self.secure(&mut host, &spec.security, seccomp)?;
        Ok(NewContainer {
            image: pause::IMAGE.to_owned(),
            hostname: if has_own_network {
                spec.hostname.clone()
            } else {
                String::new()
            },
            user: user(&spec.security.identity),
            labels: marks.write(&self.owner),
            exposed_ports,
            host_config: host,
            ..NewContainer::default()
        })
    }

    /// A container in a sandbox.
    pub(super) fn container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
        seccomp: Option<&str>,
    ) -> Result<NewContainer, RuntimeError> {
        let marks = Self::container_marks(sandbox, pod, spec);
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
                // Docker gives whoever joins a network the host name that belongs to it; Podman wants to be told.
                (Flavor::Podman, _) => joined,
                (Flavor::Docker, _) => String::new(),
            },
            cgroup_parent: pod.cgroup_parent.clone(),
            runtime: pod.handler.clone(),
            log_config: self.log_config(),
            mounts: self.mounts(spec)?,
            devices: spec
                .devices
                .iter()
                .map(|device| Device {
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
        self.secure(&mut host, &spec.security, seccomp)?;
        Ok(NewContainer {
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
            labels: marks.write(&self.owner),
            tty: spec.tty,
            open_stdin: spec.stdin,
            stdin_once: spec.stdin_once,
            host_config: host,
            ..NewContainer::default()
        })
    }

    /// By what a container is known.
    pub(super) fn container_marks(sandbox: &SandboxId, pod: &SandboxSpec, spec: &ContainerSpec) -> Marks {
        Marks {
            kind: Kind::Container,
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
            Flavor::Docker => LogConfig {
                driver: "json-file",
                config: [("max-size", LOG_MOST), ("max-file", LOG_FILES)].into(),
            },
            // It keeps one file.
            Flavor::Podman => LogConfig {
                driver: "k8s-file",
                config: [("max-size", LOG_MOST)].into(),
            },
        }
    }

    fn secure(
        &self,
        host: &mut HostConfig,
        security: &Security,
        seccomp: Option<&str>,
    ) -> Result<(), RuntimeError> {
        if security.identity.strict_groups {
            return Err(unsupported("a user without the groups that its image gives it"));
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
        let knows_recursion = self.flavor == Flavor::Docker && self.api >= READ_ONLY_IS_RECURSIVE;
        match &mount.source {
            MountSource::Host(path) => {
                if mount.recursive_read_only && !knows_recursion {
                    return Err(unsupported("mounts that are read-only with all below them"));
                }
                Ok(Mount {
                    kind: "bind",
                    source: path.display().to_string(),
                    target: mount.target.clone(),
                    read_only: mount.read_only,
                    bind_options: Some(BindOptions {
                        propagation: match mount.propagation {
                            Propagation::Private => "rprivate",
                            Propagation::HostToContainer => "rslave",
                            Propagation::Bidirectional => "rshared",
                        },
                        read_only_non_recursive: knows_recursion
                            && mount.read_only
                            && !mount.recursive_read_only,
                        read_only_force_recursive: mount.recursive_read_only,
                    }),
                    image_options: None,
                })
            }
            MountSource::Image { image, sub_path } => {
                let can = match self.flavor {
                    Flavor::Docker => self.api >= IMAGES_CAN_BE_MOUNTED,
                    Flavor::Podman => sub_path.is_empty(),
                };
                if !can {
                    return Err(unsupported("volumes of images"));
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

// --- Api ---

impl Api {
    /// Reads `1.41`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl std::fmt::Display for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// `user[:group]`; with a group alone the user is root, as if none were given.
fn user(identity: &Identity) -> String {
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
        "this version of the container engine does not know {what}"
    ))
}
