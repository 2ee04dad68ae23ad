//! What a container finds itself in.

use k3_node::runtime::{
    Capabilities, Confinement, Identity, Mount, MountSource, Propagation, Resources, Security,
};

use crate::world::World;

pub(crate) async fn a_container_runs_what_it_is_told_where_it_is_told(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script(r#"echo "$GREETING in $(pwd) as $(hostname)""#);
    spec.env = vec![("GREETING".into(), "hello = \"you\"".into())];
    spec.working_dir = "/tmp".into();
    let expected = format!("hello = \"you\" in /tmp as {}\n", pod.spec.hostname);
    assert_eq!(world.output_of(&pod, &spec).await, (expected, 0));
    // Without a command it is the image's: a shell, which finds no input and ends.
    let mut spec = world.script("");
    (spec.name, spec.command, spec.args) = ("image".into(), Vec::new(), Vec::new());
    assert_eq!(world.output_of(&pod, &spec).await, (String::new(), 0));
    // Arguments alone take the place of the image's command.
    let mut spec = world.script("");
    (spec.name, spec.command, spec.args) = ("args".into(), Vec::new(), vec!["echo".into(), "only".into()]);
    assert_eq!(world.output_of(&pod, &spec).await, ("only\n".to_owned(), 0));
}

pub(crate) async fn limits_are_in_the_cgroups_and_can_be_changed(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script("sleep 1000");
    let limits = |memory: u64, cpu_quota: i64, cpu_shares: u64| Resources {
        cpu_shares: Some(cpu_shares),
        cpu_quota: Some(cpu_quota),
        cpu_period: Some(100_000),
        memory: Some(memory),
        ..Resources::default()
    };
    spec.resources = limits(64 << 20, 50_000, 512);
    let id = world.start(&pod, &spec).await;
    // Both versions of cgroups; the second counts weights in its own way.
    let read = "cd /sys/fs/cgroup; \
        cat memory/memory.limit_in_bytes memory.max 2>/dev/null; \
        cat cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 cpu.max";
    assert_eq!(world.exec(&id, read).await, "67108864\n50000\n");
    world
        .runtime
        .update_resources(&id, &limits(128 << 20, 75_000, 1024))
        .await
        .unwrap();
    assert_eq!(world.exec(&id, read).await, "134217728\n75000\n");
    world
        .runtime
        .update_resources(&id, &limits(48 << 20, 20_000, 256))
        .await
        .unwrap();
    assert_eq!(world.exec(&id, read).await, "50331648\n20000\n");
}

pub(crate) async fn a_process_is_who_it_is_told_to_be(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script("id -u; id -g; id -G");
    spec.security.identity = Identity {
        user: Some(1234),
        group: Some(2345),
        groups: vec![77, 88],
        ..Identity::default()
    };
    let (output, _) = world.output_of(&pod, &spec).await;
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..2], ["1234", "2345"]);
    for group in ["77", "88"] {
        assert!(lines[2].split(' ').any(|found| found == group), "{output}");
    }
}

pub(crate) async fn rights_are_what_was_asked_for(world: &World) {
    let pod = world.pod().await;
    let status = r"
        grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status
        touch /here 2>/dev/null && echo writable || echo read-only";
    let with = async |name: &str, security: Security| {
        let mut spec = world.script(status);
        (spec.name, spec.security) = (name.into(), security);
        let (output, _) = world.output_of(&pod, &spec).await;
        output.replace('\t', " ")
    };
    let usual = with("usual", Security::default()).await;
    assert!(
        usual.contains("NoNewPrivs: 0") && usual.contains("Seccomp: 2") && usual.contains("writable"),
        "{usual}"
    );
    let none = with(
        "none",
        Security {
            capabilities: Capabilities {
                add: Vec::new(),
                drop: vec!["ALL".into()],
            },
            read_only_root: true,
            no_new_privileges: true,
            seccomp: Confinement::Unconfined,
            ..Security::default()
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
        Security {
            capabilities: Capabilities {
                add: vec!["NET_ADMIN".into()],
                drop: vec!["ALL".into()],
            },
            ..Security::default()
        },
    )
    .await;
    assert!(one.contains("CapEff: 0000000000001000"), "{one}");
    // All rights can be given only by who has them all.
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_whole = own
        .lines()
        .any(|line| line.starts_with("CapEff:\t000001ffffffffff"));
    if !is_whole {
        return;
    }
    let all = with(
        "all",
        Security {
            privileged: true,
            ..Security::default()
        },
    )
    .await;
    // Beyond the usual ones at least to administer the machine.
    let rights = all
        .lines()
        .find_map(|line| line.strip_prefix("CapEff: "))
        .unwrap();
    assert_ne!(u64::from_str_radix(rights, 16).unwrap() & (1 << 21), 0, "{all}");
}

pub(crate) async fn folders_of_the_machine_are_mounted(world: &World) {
    let pod = world.pod().await;
    let folder = world.folder().join("shared");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("from-machine"), "seen").unwrap();
    let mount = |target: &str, read_only| Mount {
        source: MountSource::Host(folder.clone()),
        target: target.into(),
        read_only,
        propagation: Propagation::Private,
        recursive_read_only: false,
    };
    let mut spec = world.script(
        "cat /data/from-machine; echo >/data/from-container; touch /fixed/no 2>/dev/null && echo writable; true",
    );
    spec.mounts = vec![mount("/data", false), mount("/fixed", true)];
    assert_eq!(world.output_of(&pod, &spec).await, ("seen".to_owned(), 0));
    assert!(folder.join("from-container").exists());
}
