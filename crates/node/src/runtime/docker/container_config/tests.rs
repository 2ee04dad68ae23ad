use std::path::PathBuf;

use super::*;
use crate::{
    PodIdentity,
    runtime::{Capabilities, ContainerResources, DnsSpec, HostEntry, PortMapping, SecurityProfile},
};

fn config_generator(flavor: EngineFlavor) -> ContainerConfigGenerator {
    ContainerConfigGenerator {
        flavor,
        api: ApiVersion(1, 41),
        owner: ContainerOwner::new("n", "c"),
        oom_floor: -1_000,
    }
}

fn pod() -> SandboxSpec {
    SandboxSpec {
        pod: PodIdentity {
            namespace: "default".into(),
            name: "web".into(),
            uid: "1".into(),
        },
        hostname: "web".into(),
        users: NamespaceMode::Node,
        ..SandboxSpec::default()
    }
}

fn container() -> ContainerSpec {
    ContainerSpec {
        name: "nginx".into(),
        image: "sha256:1".into(),
        ..ContainerSpec::default()
    }
}

fn container_request(
    flavor: EngineFlavor,
    pod: &SandboxSpec,
    spec: &ContainerSpec,
) -> CreateContainerRequest {
    config_generator(flavor)
        .container_config(&SandboxId("abc".into()), pod, spec, None)
        .unwrap()
}

#[test]
fn containers_join_the_sandbox_network() {
    let request = config_generator(EngineFlavor::Docker)
        .sandbox_config(&pod(), None)
        .unwrap();
    assert_eq!(request.host_config.network_mode, "bridge");
    assert_eq!(request.host_config.ipc_mode, "shareable");
    assert_eq!(request.hostname, "web");
    let request = container_request(EngineFlavor::Docker, &pod(), &container());
    assert_eq!(request.host_config.network_mode, "container:abc");
    assert_eq!(request.host_config.ipc_mode, "container:abc");
    assert_eq!(request.host_config.uts_mode, "");
    assert_eq!(request.hostname, "");
    let request = container_request(EngineFlavor::Podman, &pod(), &container());
    assert_eq!(request.host_config.uts_mode, "container:abc");
}

#[test]
fn host_network_has_no_hostname_and_ports() {
    let pod = SandboxSpec {
        network: NamespaceMode::Node,
        ports: vec![PortMapping {
            protocol: Protocol::Tcp,
            container_port: 80,
            host_port: 80,
            host_ip: None,
        }],
        ..pod()
    };
    let request = config_generator(EngineFlavor::Docker)
        .sandbox_config(&pod, None)
        .unwrap();
    assert_eq!(request.host_config.network_mode, "host");
    assert_eq!(request.host_config.uts_mode, "host");
    assert_eq!(request.hostname, "");
    assert!(request.host_config.port_bindings.is_empty());
}

#[test]
fn maps_host_ports() {
    let mapping = |host_port, host_ip| PortMapping {
        protocol: Protocol::Udp,
        container_port: 53,
        host_port,
        host_ip,
    };
    let pod = SandboxSpec {
        ports: vec![
            mapping(1053, None),
            mapping(2053, Some([127, 0, 0, 1].into())),
            mapping(0, None),
        ],
        ..pod()
    };
    let request = config_generator(EngineFlavor::Docker)
        .sandbox_config(&pod, None)
        .unwrap();
    assert_eq!(request.exposed_ports.iter().collect::<Vec<_>>(), ["53/udp"]);
    let bound: Vec<_> = request.host_config.port_bindings["53/udp"]
        .iter()
        .map(|binding| (binding.host_ip.as_str(), binding.host_port.as_str()))
        .collect();
    assert_eq!(bound, [("", "1053"), ("127.0.0.1", "2053")]);
}

#[test]
fn sets_dns_and_extra_hosts() {
    let with = |dns| {
        let pod = SandboxSpec { dns, ..pod() };
        config_generator(EngineFlavor::Docker)
            .sandbox_config(&pod, None)
            .unwrap()
            .host_config
    };
    assert!(with(None).dns_search.is_empty());
    let servers = DnsSpec {
        servers: vec!["10.0.0.10".into()],
        ..DnsSpec::default()
    };
    let host = with(Some(servers));
    assert_eq!(host.dns, ["10.0.0.10"]);
    assert_eq!(
        host.dns_search,
        ["."],
        "search domains of the host must not leak into the pod"
    );
    let pod = SandboxSpec {
        hosts: vec![HostEntry {
            ip: "10.1.2.3".into(),
            names: vec!["a".into(), "b".into()],
        }],
        ..pod()
    };
    let host = config_generator(EngineFlavor::Docker)
        .sandbox_config(&pod, None)
        .unwrap()
        .host_config;
    assert_eq!(host.extra_hosts, ["a:10.1.2.3", "b:10.1.2.3"]);
}

#[test]
fn sets_pid_namespace() {
    let mode = |process| {
        let pod = SandboxSpec { process, ..pod() };
        container_request(EngineFlavor::Docker, &pod, &container())
            .host_config
            .pid_mode
    };
    assert_eq!(mode(NamespaceMode::Container), "");
    assert_eq!(mode(NamespaceMode::Pod), "container:abc");
    assert_eq!(mode(NamespaceMode::Node), "host");
    let targeted = ContainerSpec {
        process_target: Some(crate::runtime::ContainerId("other".into())),
        ..container()
    };
    let alone = SandboxSpec {
        process: NamespaceMode::Container,
        ..pod()
    };
    let request = container_request(EngineFlavor::Docker, &alone, &targeted);
    assert_eq!(request.host_config.pid_mode, "container:other");
}

#[test]
fn rejects_unsupported_options() {
    let apart = SandboxSpec {
        users: NamespaceMode::Pod,
        ..pod()
    };
    assert!(
        config_generator(EngineFlavor::Docker)
            .sandbox_config(&apart, None)
            .is_err()
    );
    let mut strict = container();
    strict.security.identity.strict_groups = true;
    assert!(
        config_generator(EngineFlavor::Docker)
            .container_config(&SandboxId("abc".into()), &pod(), &strict, None)
            .is_err()
    );
}

#[test]
fn formats_user_and_group() {
    let text = |user: Option<i64>, name: Option<&str>, group: Option<i64>| {
        super::user(&ProcessUser {
            user,
            user_name: name.map(Into::into),
            group,
            ..ProcessUser::default()
        })
    };
    assert_eq!(text(None, None, None), "");
    assert_eq!(text(Some(1000), None, None), "1000");
    assert_eq!(text(Some(1000), None, Some(2000)), "1000:2000");
    assert_eq!(text(None, Some("daemon"), Some(2)), "daemon:2");
    assert_eq!(text(None, None, Some(2000)), "0:2000");
}

#[test]
fn sets_security_options() {
    let spec = ContainerSpec {
        security: ContainerSecurity {
            capabilities: Capabilities {
                add: vec!["NET_ADMIN".into()],
                drop: vec!["ALL".into()],
            },
            identity: ProcessUser {
                groups: vec![7, 8],
                ..ProcessUser::default()
            },
            read_only_root: true,
            no_new_privileges: true,
            seccomp: SecurityProfile::Unconfined,
            apparmor: SecurityProfile::Localhost("mine".into()),
            selinux: Some([String::new(), String::new(), "t".into(), "s0".into()]),
            ..ContainerSecurity::default()
        },
        ..container()
    };
    let host = container_request(EngineFlavor::Docker, &pod(), &spec).host_config;
    assert_eq!(host.cap_add, ["NET_ADMIN"]);
    assert_eq!(host.cap_drop, ["ALL"]);
    assert_eq!(host.group_add, ["7", "8"]);
    assert!(host.readonly_rootfs && !host.privileged);
    assert_eq!(
        host.security_opt,
        [
            "seccomp=unconfined",
            "apparmor=mine",
            "no-new-privileges",
            "label=type:t",
            "label=level:s0"
        ]
    );
}

#[test]
fn sends_seccomp_profile_content_to_docker_and_path_to_podman() {
    let spec = ContainerSpec {
        security: ContainerSecurity {
            seccomp: SecurityProfile::Localhost("/p.json".into()),
            ..ContainerSecurity::default()
        },
        ..container()
    };
    let options = |flavor, content| {
        config_generator(flavor)
            .container_config(&SandboxId("abc".into()), &pod(), &spec, content)
            .map(|request| request.host_config.security_opt)
    };
    assert_eq!(options(EngineFlavor::Docker, Some("{}")).unwrap(), ["seccomp={}"]);
    assert!(options(EngineFlavor::Docker, None).is_err());
    assert_eq!(options(EngineFlavor::Podman, None).unwrap(), ["seccomp=/p.json"]);
}

#[test]
fn limits_resources_without_swap() {
    let spec = ContainerSpec {
        resources: ContainerResources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            oom_score_adj: Some(-997),
            pids: Some(100),
            ..ContainerResources::default()
        },
        ..container()
    };
    let host = container_request(EngineFlavor::Docker, &pod(), &spec).host_config;
    assert_eq!(host.limits.memory_swap, Some(64 << 20));
    assert_eq!(host.limits.pids_limit, Some(100));
    assert_eq!(host.oom_score_adj, Some(-997));
    let restricted = ContainerConfigGenerator {
        oom_floor: 0,
        ..config_generator(EngineFlavor::Docker)
    };
    let request = restricted
        .container_config(&SandboxId("abc".into()), &pod(), &spec, None)
        .unwrap();
    assert_eq!(
        request.host_config.oom_score_adj,
        Some(0),
        "an engine without CAP_SYS_RESOURCE cannot lower the score"
    );
    let huge = ContainerSpec {
        resources: ContainerResources {
            huge_pages: [("2MB".to_owned(), 1 << 21)].into(),
            ..ContainerResources::default()
        },
        ..container()
    };
    assert!(
        config_generator(EngineFlavor::Docker)
            .container_config(&SandboxId("abc".into()), &pod(), &huge, None)
            .is_err()
    );
}

#[test]
fn mounts_depend_on_api_version() {
    let spec = |source, recursive_read_only| ContainerSpec {
        mounts: vec![crate::runtime::Mount {
            source,
            target: "/data".into(),
            read_only: true,
            propagation: MountPropagation::HostToContainer,
            recursive_read_only,
        }],
        ..container()
    };
    let directory = || MountSource::Host(PathBuf::from("/srv"));
    let image = || MountSource::Image {
        image: "i".into(),
        sub_path: String::new(),
    };
    let request = |api, spec: &ContainerSpec| {
        let config_generator = ContainerConfigGenerator {
            api,
            ..config_generator(EngineFlavor::Docker)
        };
        config_generator
            .container_config(&SandboxId("abc".into()), &pod(), spec, None)
            .map(|request| request.host_config.mounts[0].clone())
    };
    let mount = request(ApiVersion(1, 41), &spec(directory(), false)).unwrap();
    assert_eq!((mount.kind, mount.read_only), ("bind", true));
    let options = mount.bind_options.unwrap();
    assert_eq!(
        (options.propagation, options.read_only_non_recursive),
        ("rslave", false)
    );
    assert!(request(ApiVersion(1, 41), &spec(directory(), true)).is_err());
    let newer = request(ApiVersion(1, 44), &spec(directory(), false))
        .unwrap()
        .bind_options
        .unwrap();
    assert!(newer.read_only_non_recursive);
    let forced = request(ApiVersion(1, 44), &spec(directory(), true))
        .unwrap()
        .bind_options
        .unwrap();
    assert!(forced.read_only_force_recursive && !forced.read_only_non_recursive);
    assert!(request(ApiVersion(1, 41), &spec(image(), false)).is_err());
    assert_eq!(
        request(ApiVersion(1, 48), &spec(image(), false)).unwrap().kind,
        "image"
    );
}

#[test]
fn serializes_create_request() {
    let spec = ContainerSpec {
        command: vec!["/bin/sh".into()],
        args: vec!["-c".into(), "true".into()],
        env: vec![("A".into(), "1".into())],
        ..container()
    };
    let text = serde_json::to_value(container_request(EngineFlavor::Docker, &pod(), &spec)).unwrap();
    assert_eq!(text["Entrypoint"], serde_json::json!(["/bin/sh"]));
    assert_eq!(text["Cmd"], serde_json::json!(["-c", "true"]));
    assert_eq!(text["Env"], serde_json::json!(["A=1"]));
    assert_eq!(text["Healthcheck"]["Test"], serde_json::json!(["NONE"]));
    assert_eq!(text["HostConfig"]["LogConfig"]["Type"], "json-file");
    assert_eq!(text["HostConfig"]["LogConfig"]["Config"]["max-file"], "5");
    assert_eq!(text.get("User"), None);
}
