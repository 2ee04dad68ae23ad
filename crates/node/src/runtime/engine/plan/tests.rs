use std::path::PathBuf;

use super::*;
use crate::{
    PodIdentity,
    runtime::{Capabilities, Confinement, DnsSpec, HostEntry, PortMapping, Resources},
};

fn planner(flavor: Flavor) -> Planner {
    Planner {
        flavor,
        api: Api(1, 41),
        owner: Owner::new("n", "c"),
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

fn planned(flavor: Flavor, pod: &SandboxSpec, spec: &ContainerSpec) -> NewContainer {
    planner(flavor)
        .container(&SandboxId("abc".into()), pod, spec, None)
        .unwrap()
}

#[test]
fn a_sandbox_has_its_own_network_and_shares_it() {
    let plan = planner(Flavor::Docker).sandbox(&pod(), None).unwrap();
    assert_eq!(plan.host_config.network_mode, "bridge");
    assert_eq!(plan.host_config.ipc_mode, "shareable");
    assert_eq!(plan.hostname, "web");
    let plan = planned(Flavor::Docker, &pod(), &container());
    assert_eq!(plan.host_config.network_mode, "container:abc");
    assert_eq!(plan.host_config.ipc_mode, "container:abc");
    assert_eq!(plan.host_config.uts_mode, "");
    assert_eq!(plan.hostname, "");
    let plan = planned(Flavor::Podman, &pod(), &container());
    assert_eq!(plan.host_config.uts_mode, "container:abc");
}

#[test]
fn the_network_of_the_machine_has_neither_a_name_nor_ports_of_its_own() {
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
    let plan = planner(Flavor::Docker).sandbox(&pod, None).unwrap();
    assert_eq!(plan.host_config.network_mode, "host");
    assert_eq!(plan.host_config.uts_mode, "host");
    assert_eq!(plan.hostname, "");
    assert!(plan.host_config.port_bindings.is_empty());
}

#[test]
fn ports_of_the_machine_lead_into_the_pod() {
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
    let plan = planner(Flavor::Docker).sandbox(&pod, None).unwrap();
    assert_eq!(plan.exposed_ports.iter().collect::<Vec<_>>(), ["53/udp"]);
    let bound: Vec<_> = plan.host_config.port_bindings["53/udp"]
        .iter()
        .map(|binding| (binding.host_ip.as_str(), binding.host_port.as_str()))
        .collect();
    assert_eq!(bound, [("", "1053"), ("127.0.0.1", "2053")]);
}

#[test]
fn names_are_resolved_as_asked_for() {
    let with = |dns| {
        let pod = SandboxSpec { dns, ..pod() };
        planner(Flavor::Docker).sandbox(&pod, None).unwrap().host_config
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
        "suffixes of the machine are not those of the pod"
    );
    let pod = SandboxSpec {
        hosts: vec![HostEntry {
            ip: "10.1.2.3".into(),
            names: vec!["a".into(), "b".into()],
        }],
        ..pod()
    };
    let host = planner(Flavor::Docker).sandbox(&pod, None).unwrap().host_config;
    assert_eq!(host.extra_hosts, ["a:10.1.2.3", "b:10.1.2.3"]);
}

#[test]
fn processes_are_shared_only_when_asked_for() {
    let mode = |process| {
        let pod = SandboxSpec { process, ..pod() };
        planned(Flavor::Docker, &pod, &container()).host_config.pid_mode
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
    let plan = planned(Flavor::Docker, &alone, &targeted);
    assert_eq!(plan.host_config.pid_mode, "container:other");
}

#[test]
fn what_the_engine_does_not_know_is_refused() {
    let apart = SandboxSpec {
        users: NamespaceMode::Pod,
        ..pod()
    };
    assert!(planner(Flavor::Docker).sandbox(&apart, None).is_err());
    let mut strict = container();
    strict.security.identity.strict_groups = true;
    assert!(
        planner(Flavor::Docker)
            .container(&SandboxId("abc".into()), &pod(), &strict, None)
            .is_err()
    );
}

#[test]
fn who_a_process_is() {
    let text = |user: Option<i64>, name: Option<&str>, group: Option<i64>| {
        super::user(&Identity {
            user,
            user_name: name.map(Into::into),
            group,
            ..Identity::default()
        })
    };
    assert_eq!(text(None, None, None), "");
    assert_eq!(text(Some(1000), None, None), "1000");
    assert_eq!(text(Some(1000), None, Some(2000)), "1000:2000");
    assert_eq!(text(None, Some("daemon"), Some(2)), "daemon:2");
    assert_eq!(text(None, None, Some(2000)), "0:2000");
}

#[test]
fn security_is_told_in_the_words_of_the_engine() {
    let spec = ContainerSpec {
        security: Security {
            capabilities: Capabilities {
                add: vec!["NET_ADMIN".into()],
                drop: vec!["ALL".into()],
            },
            identity: Identity {
                groups: vec![7, 8],
                ..Identity::default()
            },
            read_only_root: true,
            no_new_privileges: true,
            seccomp: Confinement::Unconfined,
            apparmor: Confinement::Local("mine".into()),
            selinux: Some([String::new(), String::new(), "t".into(), "s0".into()]),
            ..Security::default()
        },
        ..container()
    };
    let host = planned(Flavor::Docker, &pod(), &spec).host_config;
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
fn a_profile_in_a_file_is_sent_to_docker_and_named_to_podman() {
    let spec = ContainerSpec {
        security: Security {
            seccomp: Confinement::Local("/p.json".into()),
            ..Security::default()
        },
        ..container()
    };
    let options = |flavor, content| {
        planner(flavor)
            .container(&SandboxId("abc".into()), &pod(), &spec, content)
            .map(|plan| plan.host_config.security_opt)
    };
    assert_eq!(options(Flavor::Docker, Some("{}")).unwrap(), ["seccomp={}"]);
    assert!(options(Flavor::Docker, None).is_err());
    assert_eq!(options(Flavor::Podman, None).unwrap(), ["seccomp=/p.json"]);
}

#[test]
fn limits_reach_the_engine_and_memory_has_no_swap() {
    let spec = ContainerSpec {
        resources: Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            oom_score_adj: Some(-997),
            pids: Some(100),
            ..Resources::default()
        },
        ..container()
    };
    let host = planned(Flavor::Docker, &pod(), &spec).host_config;
    assert_eq!(host.limits.memory_swap, Some(64 << 20));
    assert_eq!(host.limits.pids_limit, Some(100));
    assert_eq!(host.oom_score_adj, Some(-997));
    let restricted = Planner {
        oom_floor: 0,
        ..planner(Flavor::Docker)
    };
    let plan = restricted
        .container(&SandboxId("abc".into()), &pod(), &spec, None)
        .unwrap();
    assert_eq!(
        plan.host_config.oom_score_adj,
        Some(0),
        "an engine that may not lower it is not asked to"
    );
    let huge = ContainerSpec {
        resources: Resources {
            huge_pages: [("2MB".to_owned(), 1 << 21)].into(),
            ..Resources::default()
        },
        ..container()
    };
    assert!(
        planner(Flavor::Docker)
            .container(&SandboxId("abc".into()), &pod(), &huge, None)
            .is_err()
    );
}

#[test]
fn what_is_mounted_depends_on_what_the_engine_knows() {
    let spec = |source, recursive_read_only| ContainerSpec {
        mounts: vec![crate::runtime::Mount {
            source,
            target: "/data".into(),
            read_only: true,
            propagation: Propagation::HostToContainer,
            recursive_read_only,
        }],
        ..container()
    };
    let folder = || MountSource::Host(PathBuf::from("/srv"));
    let image = || MountSource::Image {
        image: "i".into(),
        sub_path: String::new(),
    };
    let plan = |api, spec: &ContainerSpec| {
        let planner = Planner {
            api,
            ..planner(Flavor::Docker)
        };
        planner
            .container(&SandboxId("abc".into()), &pod(), spec, None)
            .map(|plan| plan.host_config.mounts[0].clone())
    };
    let mount = plan(Api(1, 41), &spec(folder(), false)).unwrap();
    assert_eq!((mount.kind, mount.read_only), ("bind", true));
    let options = mount.bind_options.unwrap();
    assert_eq!(
        (options.propagation, options.read_only_non_recursive),
        ("rslave", false)
    );
    assert!(plan(Api(1, 41), &spec(folder(), true)).is_err());
    let newer = plan(Api(1, 44), &spec(folder(), false))
        .unwrap()
        .bind_options
        .unwrap();
    assert!(newer.read_only_non_recursive);
    let forced = plan(Api(1, 44), &spec(folder(), true))
        .unwrap()
        .bind_options
        .unwrap();
    assert!(forced.read_only_force_recursive && !forced.read_only_non_recursive);
    assert!(plan(Api(1, 41), &spec(image(), false)).is_err());
    assert_eq!(plan(Api(1, 48), &spec(image(), false)).unwrap().kind, "image");
}

#[test]
fn the_plan_is_written_as_the_engine_reads_it() {
    let spec = ContainerSpec {
        command: vec!["/bin/sh".into()],
        args: vec!["-c".into(), "true".into()],
        env: vec![("A".into(), "1".into())],
        ..container()
    };
    let text = serde_json::to_value(planned(Flavor::Docker, &pod(), &spec)).unwrap();
    assert_eq!(text["Entrypoint"], serde_json::json!(["/bin/sh"]));
    assert_eq!(text["Cmd"], serde_json::json!(["-c", "true"]));
    assert_eq!(text["Env"], serde_json::json!(["A=1"]));
    assert_eq!(text["Healthcheck"]["Test"], serde_json::json!(["NONE"]));
    assert_eq!(text["HostConfig"]["LogConfig"]["Type"], "json-file");
    assert_eq!(text["HostConfig"]["LogConfig"]["Config"]["max-file"], "5");
    assert_eq!(text.get("User"), None);
}
