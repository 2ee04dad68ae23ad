//! Environment, user, capabilities, resources and mounts of processes.

use k3_node::runtime::{
    Capabilities, ContainerResources, ContainerSecurity, Mount, MountPropagation, MountSource, ProcessUser,
    SecurityProfile,
};

use crate::test_node::TestNode;

pub(crate) async fn runs_command_with_environment_and_working_dir(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script(r#"echo "$GREETING in $(pwd) as $(hostname)""#);
    spec.env = vec![("GREETING".into(), "hello = \"you\"".into())];
    spec.working_dir = "/tmp".into();
    let expected = format!("hello = \"you\" in /tmp as {}\n", pod.spec.hostname);
    assert_eq!(node.output_of(&pod, &spec).await, (expected, 0));
    // Without a command, the image's is used: a shell, which exits for lack of input.
    let mut spec = node.script("");
    spec.name = "image".into();
    spec.command = Vec::new();
    spec.args = Vec::new();
    assert_eq!(node.output_of(&pod, &spec).await, (String::new(), 0));
    // Arguments replace the image's command.
    let mut spec = node.script("");
    spec.name = "args".into();
    spec.command = Vec::new();
    spec.args = vec!["echo".into(), "only".into()];
    assert_eq!(node.output_of(&pod, &spec).await, ("only\n".to_owned(), 0));
}

pub(crate) async fn applies_and_updates_resource_limits(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script("sleep 1000");
    let limits = |memory: u64, cpu_quota: i64, cpu_shares: u64| ContainerResources {
        cpu_shares: Some(cpu_shares),
        cpu_quota: Some(cpu_quota),
        cpu_period: Some(100_000),
        memory: Some(memory),
        ..ContainerResources::default()
    };
    spec.resources = limits(64 << 20, 50_000, 512);
    let id = node.start(&pod, &spec).await;
    // Cgroup v1 and v2; v2 scales CPU weights differently.
    let read = "cd /sys/fs/cgroup; \
        cat memory/memory.limit_in_bytes memory.max 2>/dev/null; \
        cat cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 cpu.max";
    assert_eq!(node.exec(&id, read).await, "67108864\n50000\n");
    node.runtime
        .update_container_resources(&id, &limits(128 << 20, 75_000, 1024))
        .await
        .unwrap();
    assert_eq!(node.exec(&id, read).await, "134217728\n75000\n");
    node.runtime
        .update_container_resources(&id, &limits(48 << 20, 20_000, 256))
        .await
        .unwrap();
    assert_eq!(node.exec(&id, read).await, "50331648\n20000\n");
}

pub(crate) async fn runs_as_user_and_groups(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script("id -u; id -g; id -G");
    spec.security.identity = ProcessUser {
        user: Some(1234),
        group: Some(2345),
        groups: vec![77, 88],
        ..ProcessUser::default()
    };
    let (output, _) = node.output_of(&pod, &spec).await;
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..2], ["1234", "2345"]);
    for group in ["77", "88"] {
        assert!(lines[2].split(' ').any(|found| found == group), "{output}");
    }
}

pub(crate) async fn applies_security_context(node: &TestNode) {
    let pod = node.pod().await;
    let status = r"
        grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status
        touch /here 2>/dev/null && echo writable || echo read-only";
    let with = async |name: &str, security: ContainerSecurity| {
        let mut spec = node.script(status);
        spec.name = name.into();
        spec.security = security;
        let (output, _) = node.output_of(&pod, &spec).await;
        output.replace('\t', " ")
    };
    let usual = with("usual", ContainerSecurity::default()).await;
    assert!(
        usual.contains("NoNewPrivs: 0") && usual.contains("Seccomp: 2") && usual.contains("writable"),
        "{usual}"
    );
    let none = with(
        "none",
        ContainerSecurity {
            capabilities: Capabilities {
                add: Vec::new(),
                drop: vec!["ALL".into()],
            },
            read_only_root: true,
            no_new_privileges: true,
            seccomp: SecurityProfile::Unconfined,
            ..ContainerSecurity::default()
        },
    )
    .await;
    assert!(none.contains("CapEff: 0000000000000000"), "{none}");
    assert!(
        none.contains("NoNewPrivs: 1") && none.contains("Seccomp: 0") && none.contains("read-only"),
        "{none}"
    );
    let one = with(
        "one",
        ContainerSecurity {
            capabilities: Capabilities {
                add: vec!["NET_ADMIN".into()],
                drop: vec!["ALL".into()],
            },
            ..ContainerSecurity::default()
        },
    )
    .await;
    assert!(one.contains("CapEff: 0000000000001000"), "{one}");
    // Only a fully privileged test can grant all capabilities.
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_whole = own
        .lines()
        .any(|line| line.starts_with("CapEff:\t000001ffffffffff"));
    if !is_whole {
        return;
    }
    let all = with(
        "all",
        ContainerSecurity {
            privileged: true,
            ..ContainerSecurity::default()
        },
    )
    .await;
    // Expect CAP_SYS_ADMIN, which default capabilities lack.
    let rights = all
        .lines()
        .find_map(|line| line.strip_prefix("CapEff: "))
        .unwrap();
    assert_ne!(u64::from_str_radix(rights, 16).unwrap() & (1 << 21), 0, "{all}");
}

pub(crate) async fn mounts_host_directories(node: &TestNode) {
    let pod = node.pod().await;
    let directory = node.directory().join("shared");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("from-machine"), "seen").unwrap();
    let mount = |target: &str, read_only| Mount {
        source: MountSource::Host(directory.clone()),
        target: target.into(),
        read_only,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    };
    let mut spec = node.script(
        "cat /data/from-machine; echo >/data/from-container; touch /fixed/no 2>/dev/null && echo writable; true",
    );
    spec.mounts = vec![mount("/data", false), mount("/fixed", true)];
    assert_eq!(node.output_of(&pod, &spec).await, ("seen".to_owned(), 0));
    assert!(directory.join("from-container").exists());
}
