//! What a container is in CRI's words.

use crate::runtime::{
    ContainerSpec, Device, MASKED_PATHS, Mount, MountSource, Owner, Propagation, READ_ONLY_PATHS, Resources,
    SandboxSpec, labels,
};

use super::{messages, sandbox_config, signal};

/// Which cgroups the machine has; resources are told differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cgroups {
    /// A tree for each controller.
    V1,
    /// One tree.
    V2,
}

/// The container as the runtime is asked for it.
pub(super) fn config(
    pod: &SandboxSpec,
    spec: &ContainerSpec,
    owner: &Owner,
    cgroups: Cgroups,
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

/// Where a container's log is, below its pod's folder.
pub(super) fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}

/// What a container may use. Cgroups of the first version know nothing of `unified`, and runtimes refuse it there; the pod's own
/// cgroup limits processes then.
pub(super) fn resources(resources: &Resources, cgroups: Cgroups) -> messages::LinuxContainerResources {
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
            Cgroups::V1 => std::collections::BTreeMap::new(),
            Cgroups::V2 => unified,
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
            Propagation::Private => messages::MountPropagation::Private,
            Propagation::HostToContainer => messages::MountPropagation::HostToContainer,
            Propagation::Bidirectional => messages::MountPropagation::Bidirectional,
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

/// Those of the pod, but for a container that sees another's processes.
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
    let listed = |own: &Option<Vec<String>>, usual: &[&str]| {
        own.clone()
            .unwrap_or_else(|| usual.iter().map(|path| (*path).to_owned()).collect())
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
        // Runtimes refuse a group without a user.
        run_as_group: identity.group.filter(|_| has_user).map(number),
        run_as_username: match identity.user {
            Some(_) => String::new(),
            None => identity.user_name.clone().unwrap_or_default(),
        },
        readonly_rootfs: security.read_only_root,
        supplemental_groups: identity.groups.clone(),
        supplemental_groups_policy: sandbox_config::groups_policy(security),
        no_new_privs: security.no_new_privileges,
        masked_paths: listed(&security.masked_paths, &MASKED_PATHS),
        readonly_paths: listed(&security.readonly_paths, &READ_ONLY_PATHS),
        seccomp: Some(sandbox_config::seccomp(&security.seccomp)),
        apparmor_profile: match &apparmor {
            Some(profile) if profile.localhost_ref.is_empty() => "unconfined".to_owned(),
            Some(profile) => format!("localhost/{}", profile.localhost_ref),
            None => String::new(),
        },
        apparmor,
        seccomp_profile_path: sandbox_config::seccomp_word(&security.seccomp),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;
    use crate::runtime::{Capabilities, Confinement, ContainerId, Identity, Security};

    fn made(spec: &ContainerSpec) -> messages::ContainerConfig {
        let owner = Owner::new("n1", "cluster");
        config(&SandboxSpec::default(), spec, &owner, Cgroups::V2)
    }

    fn secured(security: Security) -> messages::LinuxContainerSecurityContext {
        let spec = ContainerSpec {
            security,
            ..ContainerSpec::default()
        };
        made(&spec).linux.unwrap().security_context.unwrap()
    }

    #[test]
    fn a_container_carries_whose_it_is_and_where_its_log_goes() {
        let spec = ContainerSpec {
            name: "app".to_owned(),
            attempt: 3,
            stop_signal: "SIGQUIT".to_owned(),
            ..ContainerSpec::default()
        };
        let config = made(&spec);
        assert_eq!(config.log_path, "app/3.log");
        assert_eq!(config.labels[labels::ATTEMPT], "3");
        assert_eq!(config.labels[labels::NODE], "n1");
        assert_eq!(config.stop_signal, 18);
    }

    #[test]
    fn mounts_keep_what_they_are() {
        let host = Mount {
            source: MountSource::Host(PathBuf::from("/data")),
            target: "/d".to_owned(),
            read_only: true,
            propagation: Propagation::Bidirectional,
            recursive_read_only: true,
        };
        let image = Mount {
            source: MountSource::Image {
                image: "sha256:1".to_owned(),
                sub_path: "etc".to_owned(),
            },
            propagation: Propagation::Private,
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
    fn resources_are_told_as_the_cgroups_want_them() {
        let asked = Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            oom_score_adj: Some(-997),
            pids: Some(100),
            huge_pages: BTreeMap::from([("2MB".to_owned(), 4 << 20)]),
            unified: BTreeMap::from([("memory.high".to_owned(), "max".to_owned())]),
        };
        let new = resources(&asked, Cgroups::V2);
        assert_eq!(
            (new.cpu_shares, new.cpu_quota, new.cpu_period),
            (512, 50_000, 100_000)
        );
        assert_eq!((new.memory_limit_in_bytes, new.oom_score_adj), (64 << 20, -997));
        assert_eq!(new.hugepage_limits[0].limit, 4 << 20);
        assert_eq!(new.unified["pids.max"], "100");
        assert_eq!(new.unified["memory.high"], "max");
        assert!(resources(&asked, Cgroups::V1).unified.is_empty());
    }

    #[test]
    fn security_is_told_in_full() {
        let told = secured(Security {
            identity: Identity {
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
            apparmor: Confinement::Local("strict".to_owned()),
            seccomp: Confinement::Unconfined,
            no_new_privileges: true,
            read_only_root: true,
            selinux: Some(["u", "r", "t", "l"].map(str::to_owned)),
            masked_paths: Some(Vec::new()),
            ..Security::default()
        });
        assert_eq!((told.run_as_user, told.run_as_username.as_str()), (None, "www"));
        assert_eq!(told.run_as_group.unwrap().value, 5);
        assert_eq!(told.supplemental_groups, [1, 2]);
        assert_eq!(told.supplemental_groups_policy, 1);
        assert_eq!(told.capabilities.unwrap().drop_capabilities, ["ALL"]);
        assert_eq!(told.apparmor_profile, "localhost/strict");
        assert_eq!(told.seccomp_profile_path, "unconfined");
        assert_eq!(told.selinux_options.unwrap().level, "l");
        assert!(told.no_new_privs && told.readonly_rootfs);
        assert!(told.masked_paths.is_empty() && told.readonly_paths.contains(&"/proc/sys".to_owned()));
    }

    #[test]
    fn a_container_may_see_the_processes_of_another() {
        let spec = ContainerSpec {
            process_target: Some(ContainerId("c1".to_owned())),
            ..ContainerSpec::default()
        };
        let told = made(&spec).linux.unwrap().security_context.unwrap();
        let namespaces = told.namespace_options.unwrap();
        assert_eq!((namespaces.pid, namespaces.target_id.as_str()), (3, "c1"));
    }

    #[test]
    fn paths_are_hidden_where_nothing_is_said() {
        let told = secured(Security::default());
        assert!(told.masked_paths.contains(&"/proc/kcore".to_owned()));
        assert_eq!(told.seccomp.unwrap().profile_type, 0);
        assert_eq!(told.run_as_group, None);
    }
}
