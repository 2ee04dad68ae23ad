//! `ContainerConfig` messages.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go generateContainerConfig

use crate::runtime::{
    ContainerOwner, ContainerResources, ContainerSpec, Device, MASKED_PATHS, Mount, MountPropagation,
    MountSource, READ_ONLY_PATHS, SandboxSpec, labels,
};

use super::{messages, sandbox_config, signal};

/// Cgroup version of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    /// One hierarchy per controller.
    V1,
    /// Unified hierarchy.
    V2,
}

/// Builds the configuration of a container.
pub(super) fn config(
    pod: &SandboxSpec,
    spec: &ContainerSpec,
    owner: &ContainerOwner,
    cgroups: CgroupVersion,
) -> messages::ContainerConfig {
    messages::ContainerConfig {
        metadata: Some(messages::ContainerMetadata {
            name: spec.name.clone(),
            attempt: spec.attempt,
        }),
        image: Some(messages::ImageSpec {
            image: spec.image.clone(),
            user_specified_image: spec.user_image.clone(),
            ..messages::ImageSpec::default()
        }),
        command: spec.command.clone(),
        args: spec.args.clone(),
        working_dir: spec.working_dir.clone(),
        envs: spec
            .env
            .iter()
            .map(|(key, value)| messages::KeyValue {
                key: key.clone(),
                value: value.clone().into_bytes(),
            })
            .collect(),
        mounts: spec.mounts.iter().map(mount).collect(),
        devices: spec.devices.iter().map(device).collect(),
        labels: spec
            .labels
            .clone()
            .into_iter()
            .chain([
                (labels::POD_NAME.to_owned(), pod.pod.name.clone()),
                (labels::POD_NAMESPACE.to_owned(), pod.pod.namespace.clone()),
                (labels::POD_UID.to_owned(), pod.pod.uid.clone()),
                (labels::CONTAINER_NAME.to_owned(), spec.name.clone()),
                (labels::NODE.to_owned(), owner.node.clone()),
                (labels::CLUSTER.to_owned(), owner.cluster.clone()),
                (labels::ATTEMPT.to_owned(), spec.attempt.to_string()),
            ])
            .collect(),
        annotations: spec.annotations.clone(),
        log_path: log_path(&spec.name, spec.attempt),
        stdin: spec.stdin,
        stdin_once: spec.stdin_once,
        tty: spec.tty,
        linux: Some(messages::LinuxContainerConfig {
            resources: Some(resources(&spec.resources, cgroups)),
            security_context: Some(security(pod, spec)),
        }),
        stop_signal: signal::number(&spec.stop_signal),
    }
}

/// Path of a container's log below the pod's log directory.
// upstream: pkg/kubelet/kuberuntime/helpers.go buildContainerLogsPath
pub(super) fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}

/// Builds resources. On cgroup v1, runtimes reject `unified`; the pod's cgroup limits processes there.
pub(super) fn resources(
    resources: &ContainerResources,
    cgroups: CgroupVersion,
) -> messages::LinuxContainerResources {
    let mut unified = resources.unified.clone();
    if let Some(pids) = resources.pids {
        unified.entry("pids.max".to_owned()).or_insert(pids.to_string());
    }
    messages::LinuxContainerResources {
        cpu_period: resources.cpu_period.map_or(0, signed),
        cpu_quota: resources.cpu_quota.unwrap_or_default(),
        cpu_shares: resources.cpu_shares.map_or(0, signed),
        memory_limit_in_bytes: resources.memory.map_or(0, signed),
        oom_score_adj: resources.oom_score_adj.unwrap_or_default(),
        hugepage_limits: resources
            .huge_pages
            .iter()
            .map(|(size, limit)| messages::HugepageLimit {
                page_size: size.clone(),
                limit: *limit,
            })
            .collect(),
        unified: match cgroups {
            CgroupVersion::V1 => std::collections::BTreeMap::new(),
            CgroupVersion::V2 => unified,
        },
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn mount(mount: &Mount) -> messages::Mount {
    let (host_path, image, image_sub_path) = match &mount.source {
        MountSource::Host(path) => (path.to_string_lossy().into_owned(), None, String::new()),
        MountSource::Image { image, sub_path } => {
            let image = messages::ImageSpec {
                image: image.clone(),
                ..messages::ImageSpec::default()
            };
            (String::new(), Some(image), sub_path.clone())
        }
    };
    messages::Mount {
        container_path: mount.target.clone(),
        host_path,
        readonly: mount.read_only,
        selinux_relabel: false,
        propagation: match mount.propagation {
            MountPropagation::Private => messages::MountPropagation::Private,
            MountPropagation::HostToContainer => messages::MountPropagation::HostToContainer,
            MountPropagation::Bidirectional => messages::MountPropagation::Bidirectional,
        }
        .into(),
        recursive_read_only: mount.recursive_read_only,
        image,
        image_sub_path,
    }
}

fn device(device: &Device) -> messages::Device {
    messages::Device {
        container_path: device.container.to_string_lossy().into_owned(),
        host_path: device.host.to_string_lossy().into_owned(),
        permissions: device.permissions.clone(),
    }
}

/// Namespaces of the pod; an ephemeral container may target the PID namespace of another container.
fn namespaces(pod: &SandboxSpec, spec: &ContainerSpec) -> messages::NamespaceOption {
    let mut namespaces = sandbox_config::namespaces(pod);
    if let Some(target) = &spec.process_target {
        namespaces.pid = messages::NamespaceMode::Target.into();
        namespaces.target_id.clone_from(&target.0);
    }
    namespaces
}

fn security(pod: &SandboxSpec, spec: &ContainerSpec) -> messages::LinuxContainerSecurityContext {
    let security = &spec.security;
    let identity = &security.identity;
    let number = |value| messages::Int64Value { value };
    let paths_or_default = |configured: &Option<Vec<String>>, default_paths: &[&str]| {
        configured
            .clone()
            .unwrap_or_else(|| default_paths.iter().map(|path| (*path).to_owned()).collect())
    };
    let has_user = identity.user.is_some() || identity.user_name.is_some();
    let apparmor = sandbox_config::apparmor(&security.apparmor);
    messages::LinuxContainerSecurityContext {
        capabilities: Some(messages::Capability {
            add_capabilities: security.capabilities.add.clone(),
            drop_capabilities: security.capabilities.drop.clone(),
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces(pod, spec)),
        selinux_options: sandbox_config::selinux(security),
        run_as_user: identity.user.map(number),
        // Runtimes reject a group without a user.
        run_as_group: identity.group.filter(|_| has_user).map(number),
        run_as_username: match identity.user {
            Some(_) => String::new(),
            None => identity.user_name.clone().unwrap_or_default(),
        },
        readonly_rootfs: security.read_only_root,
        supplemental_groups: identity.groups.clone(),
        supplemental_groups_policy: sandbox_config::groups_policy(security),
        no_new_privs: security.no_new_privileges,
        masked_paths: paths_or_default(&security.masked_paths, &MASKED_PATHS),
        readonly_paths: paths_or_default(&security.readonly_paths, &READ_ONLY_PATHS),
        seccomp: Some(sandbox_config::seccomp(&security.seccomp)),
        apparmor_profile: match &apparmor {
            Some(profile) if profile.localhost_ref.is_empty() => "unconfined".to_owned(),
            Some(profile) => format!("localhost/{}", profile.localhost_ref),
            None => String::new(),
        },
        apparmor,
        seccomp_profile_path: sandbox_config::seccomp_profile_path(&security.seccomp),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;
    use crate::runtime::{Capabilities, ContainerId, ContainerSecurity, ProcessUser, SecurityProfile};

    fn container_config(spec: &ContainerSpec) -> messages::ContainerConfig {
        let owner = ContainerOwner::new("n1", "cluster");
        config(&SandboxSpec::default(), spec, &owner, CgroupVersion::V2)
    }

    fn secured(security: ContainerSecurity) -> messages::LinuxContainerSecurityContext {
        let spec = ContainerSpec {
            security,
            ..ContainerSpec::default()
        };
        container_config(&spec).linux.unwrap().security_context.unwrap()
    }

    #[test]
    fn sets_owner_labels_and_log_path() {
        let spec = ContainerSpec {
            name: "app".to_owned(),
            attempt: 3,
            stop_signal: "SIGQUIT".to_owned(),
            ..ContainerSpec::default()
        };
        let config = container_config(&spec);
        assert_eq!(config.log_path, "app/3.log");
        assert_eq!(config.labels[labels::ATTEMPT], "3");
        assert_eq!(config.labels[labels::NODE], "n1");
        assert_eq!(config.stop_signal, 18);
    }

    #[test]
    fn builds_host_and_image_mounts() {
        let host = Mount {
            source: MountSource::Host(PathBuf::from("/data")),
            target: "/d".to_owned(),
            read_only: true,
            propagation: MountPropagation::Bidirectional,
            recursive_read_only: true,
        };
        let image = Mount {
            source: MountSource::Image {
                image: "sha256:1".to_owned(),
                sub_path: "etc".to_owned(),
            },
            propagation: MountPropagation::Private,
            ..host.clone()
        };
        let host = mount(&host);
        let image = mount(&image);
        assert_eq!((host.host_path.as_str(), host.propagation), ("/data", 2));
        assert!(host.readonly && host.recursive_read_only && host.image.is_none());
        assert_eq!(
            (image.host_path.as_str(), image.image_sub_path.as_str()),
            ("", "etc")
        );
        assert_eq!(image.image.unwrap().image, "sha256:1");
    }

    #[test]
    fn resources_depend_on_cgroup_version() {
        let requested = ContainerResources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            oom_score_adj: Some(-997),
            pids: Some(100),
            huge_pages: BTreeMap::from([("2MB".to_owned(), 4 << 20)]),
            unified: BTreeMap::from([("memory.high".to_owned(), "max".to_owned())]),
        };
        let new = resources(&requested, CgroupVersion::V2);
        assert_eq!(
            (new.cpu_shares, new.cpu_quota, new.cpu_period),
            (512, 50_000, 100_000)
        );
        assert_eq!((new.memory_limit_in_bytes, new.oom_score_adj), (64 << 20, -997));
        assert_eq!(new.hugepage_limits[0].limit, 4 << 20);
        assert_eq!(new.unified["pids.max"], "100");
        assert_eq!(new.unified["memory.high"], "max");
        assert!(resources(&requested, CgroupVersion::V1).unified.is_empty());
    }

    #[test]
    fn sets_security_context() {
        let security = secured(ContainerSecurity {
            identity: ProcessUser {
                user: None,
                user_name: Some("www".to_owned()),
                group: Some(5),
                groups: vec![1, 2],
                strict_groups: true,
            },
            capabilities: Capabilities {
                add: vec!["NET_ADMIN".to_owned()],
                drop: vec!["ALL".to_owned()],
            },
            apparmor: SecurityProfile::Localhost("strict".to_owned()),
            seccomp: SecurityProfile::Unconfined,
            no_new_privileges: true,
            read_only_root: true,
            selinux: Some(["u", "r", "t", "l"].map(str::to_owned)),
            masked_paths: Some(Vec::new()),
            ..ContainerSecurity::default()
        });
        assert_eq!(
            (security.run_as_user, security.run_as_username.as_str()),
            (None, "www")
        );
        assert_eq!(security.run_as_group.unwrap().value, 5);
        assert_eq!(security.supplemental_groups, [1, 2]);
        assert_eq!(security.supplemental_groups_policy, 1);
        assert_eq!(security.capabilities.unwrap().drop_capabilities, ["ALL"]);
        assert_eq!(security.apparmor_profile, "localhost/strict");
        assert_eq!(security.seccomp_profile_path, "unconfined");
        assert_eq!(security.selinux_options.unwrap().level, "l");
        assert!(security.no_new_privs && security.readonly_rootfs);
        assert!(
            security.masked_paths.is_empty() && security.readonly_paths.contains(&"/proc/sys".to_owned())
        );
    }

    #[test]
    fn joins_pid_namespace_of_target_container() {
        let spec = ContainerSpec {
            process_target: Some(ContainerId("c1".to_owned())),
            ..ContainerSpec::default()
        };
        let security = container_config(&spec).linux.unwrap().security_context.unwrap();
        let namespaces = security.namespace_options.unwrap();
        assert_eq!((namespaces.pid, namespaces.target_id.as_str()), (3, "c1"));
    }

    #[test]
    fn masks_default_paths() {
        let security = secured(ContainerSecurity::default());
        assert!(security.masked_paths.contains(&"/proc/kcore".to_owned()));
        assert_eq!(security.seccomp.unwrap().profile_type, 0);
        assert_eq!(security.run_as_group, None);
    }
}
