//! What pods need of a runtime of CRI, claimed of a real containerd.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt};
use k3_node::{
    PodIdentity,
    runtime::{
        Attached, Change, Container, ContainerId, ContainerSpec, ContainerState, ExecSpec, LogOptions, Mount,
        MountSource, NamespaceMode, Owner, Propagation, Resources, Runtime, RuntimeError, SandboxId,
        SandboxSpec, SandboxState, TerminalSize, cri::Cri, network::BridgeNetwork,
    },
};
use k3_test_services::{Containerd, TEST_IMAGE};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};

/// Nothing here takes that long.
const PATIENCE: Duration = Duration::from_mins(1);

/// A containerd, a client of it, and a folder for logs. The fields end in this order.
struct Machine {
    cri: Cri,
    containerd: Containerd,
    logs: tempfile::TempDir,
}

struct Pod {
    sandbox: SandboxId,
    spec: SandboxSpec,
}

impl Machine {
    fn start() -> Self {
        Self::on(Containerd::start().unwrap())
    }

    fn on(containerd: Containerd) -> Self {
        containerd.load_test_images().unwrap();
        Machine {
            cri: client(containerd.socket(), "n1"),
            containerd,
            logs: tempfile::tempdir().unwrap(),
        }
    }

    fn spec(&self, name: &str) -> SandboxSpec {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let uid = format!("uid-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        SandboxSpec {
            log_directory: self.logs.path().join(format!("shop_{name}_{uid}")),
            pod: PodIdentity {
                namespace: "shop".to_owned(),
                name: name.to_owned(),
                uid,
            },
            hostname: name.to_owned(),
            ..SandboxSpec::default()
        }
    }

    async fn pod(&self, name: &str) -> Pod {
        let spec = self.spec(name);
        let sandbox = self.cri.run_sandbox(&spec).await.unwrap();
        Pod { sandbox, spec }
    }

    /// A container that runs a script.
    async fn run(&self, pod: &Pod, name: &str, script: &str) -> ContainerId {
        self.run_with(pod, container(name, script)).await
    }

    async fn run_with(&self, pod: &Pod, spec: ContainerSpec) -> ContainerId {
        let id = self
            .cri
            .create_container(&pod.sandbox, &pod.spec, &spec)
            .await
            .unwrap();
        self.cri.start_container(&id).await.unwrap();
        id
    }

    async fn find(&self, id: &ContainerId) -> Option<Container> {
        let all = self.cri.containers().await.unwrap();
        all.into_iter().find(|container| container.id == *id)
    }

    /// The container, once it has ended.
    async fn ended(&self, id: &ContainerId) -> Container {
        eventually(async || {
            let container = self.find(id).await.unwrap();
            matches!(container.state, ContainerState::Exited(_)).then_some(container)
        })
        .await
    }

    async fn log(&self, id: &ContainerId, options: &LogOptions) -> String {
        let lines = self.cri.logs(id, options).await.unwrap();
        let bytes: Vec<_> = timeout(PATIENCE, lines.map_ok(|line| line.bytes).try_collect())
            .await
            .unwrap()
            .unwrap();
        String::from_utf8(bytes.concat()).unwrap()
    }

    /// Waits until a log has so many lines.
    async fn log_of_lines(&self, id: &ContainerId, count: usize) {
        eventually(async || {
            let log = self.log(id, &LogOptions::default()).await;
            (log.lines().count() == count).then_some(())
        })
        .await;
    }

    async fn exec(&self, id: &ContainerId, command: &[&str]) -> (i32, String) {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let ran = self.cri.exec_sync(id, &command, PATIENCE).await.unwrap();
        (ran.code, String::from_utf8(ran.stdout).unwrap())
    }
}

fn client(socket: &Path, node: &str) -> Cri {
    let owner = Owner::new(node, "cluster");
    Cri::connect(socket, owner).unwrap()
}

fn container(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        image: TEST_IMAGE.to_owned(),
        user_image: TEST_IMAGE.to_owned(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        ..ContainerSpec::default()
    }
}

async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looked = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, looked).await.unwrap()
}

/// What a process wrote, and how it ended, after it was given this input.
async fn finish(attached: Attached, input: &[u8]) -> (i32, String, String) {
    let Attached {
        stdin,
        stdout,
        stderr,
        done,
        ..
    } = attached;
    let write = async {
        if let Some(mut stdin) = stdin {
            stdin.write_all(input).await.unwrap();
            stdin.shutdown().await.unwrap();
        }
    };
    let mut texts = (String::new(), String::new());
    let read_stdout = async {
        if let Some(mut stdout) = stdout {
            stdout.read_to_string(&mut texts.0).await.unwrap();
        }
    };
    let read_stderr = async {
        if let Some(mut stderr) = stderr {
            stderr.read_to_string(&mut texts.1).await.unwrap();
        }
    };
    let all = async { tokio::join!(done, write, read_stdout, read_stderr).0 };
    let code = timeout(PATIENCE, all).await.unwrap().unwrap();
    (code, texts.0, texts.1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lives_and_ends() {
    let machine = Machine::start();
    let version = machine.cri.version().await.unwrap();
    assert_eq!(version.name, "containerd");
    let readiness = machine.cri.readiness().await.unwrap();
    assert_eq!(readiness.problems, Vec::<String>::new());

    let pod = machine.pod("web").await;
    let app = machine
        .run(&pod, "app", "echo out; echo err >&2; exec sleep 1000")
        .await;
    let sandboxes = machine.cri.sandboxes().await.unwrap();
    assert_eq!(sandboxes.len(), 1);
    assert_eq!(sandboxes[0].state, SandboxState::Ready);
    assert_eq!(sandboxes[0].pod, pod.spec.pod);
    assert_eq!(sandboxes[0].addresses.len(), 1);

    let seen = machine.find(&app).await.unwrap();
    assert!(seen.is_running());
    assert_eq!((seen.name.as_str(), &seen.pod), ("app", &pod.spec.pod));
    assert_eq!(seen.sandbox, pod.sandbox);
    assert!(seen.image.ends_with("busybox:1"), "{}", seen.image);
    assert!(!seen.image_id.is_empty());

    assert_eq!(machine.exec(&app, &["hostname"]).await, (0, "web\n".to_owned()));

    // Nobody else's client sees or touches it.
    let other = client(machine.containerd.socket(), "n2");
    assert!(other.containers().await.unwrap().is_empty());
    assert!(other.sandboxes().await.unwrap().is_empty());

    machine.cri.stop_container(&app, Duration::ZERO).await.unwrap();
    machine.cri.stop_container(&app, Duration::ZERO).await.unwrap();
    let ContainerState::Exited(exit) = machine.ended(&app).await.state else {
        panic!("it has ended");
    };
    assert_eq!((exit.code, exit.reason.as_str()), (137, "Error"));
    assert!(exit.started.is_some());

    let folder = pod.spec.log_directory.clone();
    assert!(folder.join("app/0.log").exists());
    machine.cri.stop_sandbox(&pod.sandbox).await.unwrap();
    machine.cri.stop_sandbox(&pod.sandbox).await.unwrap();
    assert_eq!(
        machine.cri.sandboxes().await.unwrap()[0].state,
        SandboxState::NotReady
    );
    machine.cri.remove_sandbox(&pod.sandbox).await.unwrap();
    machine.cri.remove_sandbox(&pod.sandbox).await.unwrap();
    machine.cri.remove_container(&app).await.unwrap();
    assert!(machine.cri.containers().await.unwrap().is_empty());
    assert!(machine.cri.sandboxes().await.unwrap().is_empty());
    assert!(!folder.exists(), "logs go with the pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_are_told_with_code_and_reason() {
    let machine = Machine::start();
    let pod = machine.pod("jobs").await;
    for (name, script, code, reason) in [("good", "exit 0", 0, "Completed"), ("bad", "exit 3", 3, "Error")] {
        let id = machine.run(&pod, name, script).await;
        let ContainerState::Exited(exit) = machine.ended(&id).await.state else {
            panic!("it has ended");
        };
        assert_eq!((exit.code, exit.reason.as_str()), (code, reason));
    }
    // What cannot be started says why, in the runtime's words.
    let mut broken = container("broken", "");
    broken.command = vec!["/no/such/program".to_owned()];
    let id = machine
        .cri
        .create_container(&pod.sandbox, &pod.spec, &broken)
        .await
        .unwrap();
    let error = machine.cri.start_container(&id).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Refused(said) if said.contains("no such file")),
        "{error}"
    );
    let ContainerState::Exited(exit) = machine.ended(&id).await.state else {
        panic!("it has ended");
    };
    assert_eq!(
        (exit.code, exit.reason.as_str(), exit.started),
        (128, "StartError", None)
    );

    // Attempts of one container are told apart, and an old one can be removed with its log.
    let mut again = container("good", "echo again");
    again.attempt = 1;
    let again = machine.run_with(&pod, again).await;
    assert_eq!(machine.ended(&again).await.attempt, 1);
    let log = pod.spec.log_directory.join("good/1.log");
    assert!(log.exists());
    machine.cri.remove_container(&again).await.unwrap();
    assert!(!log.exists());
    assert!(pod.spec.log_directory.join("good/0.log").exists());

    let error = machine
        .cri
        .start_container(&ContainerId("none".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::NotFound(_)));

    // The same pod again, with the same attempt, has no second sandbox.
    let error = machine.cri.run_sandbox(&pod.spec).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Refused(said) if said.contains("is reserved for")),
        "{error}"
    );
    let error = client(machine.containerd.socket(), "n2")
        .run_sandbox(&pod.spec)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RuntimeError::NameTaken { holder, .. } if *holder == pod.sandbox.0),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_have_their_streams() {
    let machine = Machine::start();
    let pod = machine.pod("web").await;
    let app = machine.run(&pod, "app", "exec sleep 1000").await;
    let spec = |script: &str| ExecSpec {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    };

    assert_eq!(machine.exec(&app, &["sh", "-c", "exit 7"]).await.0, 7);
    let slow = ["sleep".to_owned(), "100".to_owned()];
    let error = machine
        .cri
        .exec_sync(&app, &slow, Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }), "{error}");

    // The end of input reaches the command, which goes on to write.
    let input = vec![b'x'; 300_000];
    let attached = machine
        .cri
        .exec(&app, &spec("wc -c; echo oops >&2; exit 5"))
        .await
        .unwrap();
    let (code, out, err) = finish(attached, &input).await;
    assert_eq!((code, out.trim(), err.as_str()), (5, "300000", "oops\n"));

    // Without input, and with much output.
    let quiet = ExecSpec {
        stdin: false,
        ..spec("seq 1 100000")
    };
    let (code, out, _) = finish(machine.cri.exec(&app, &quiet).await.unwrap(), b"").await;
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 100_000);
    assert!(out.ends_with("100000\n"));

    // With a terminal, which is told its size.
    let terminal = ExecSpec {
        tty: true,
        stderr: false,
        ..spec(
            "until [ \"$(stty size)\" = '40 100' ]; do sleep 0.05; done; echo sized; read line; echo got $line",
        )
    };
    let mut attached = machine.cri.exec(&app, &terminal).await.unwrap();
    let size = TerminalSize {
        width: 100,
        height: 40,
    };
    attached.resize.as_ref().unwrap().send(size).await.unwrap();
    let mut stdout = attached.stdout.take().unwrap();
    let mut stdin = attached.stdin.take().unwrap();
    let talk = async {
        let mut said = String::new();
        let mut buffer = [0; 256];
        while !said.contains("sized") {
            let length = stdout.read(&mut buffer).await.unwrap();
            assert!(length > 0, "{said}");
            said.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
        }
        stdin.write_all(b"hello\n").await.unwrap();
        stdout.read_to_string(&mut said).await.unwrap();
        said
    };
    let both = async { tokio::join!(attached.done, talk) };
    let (code, said) = timeout(PATIENCE, both).await.unwrap();
    assert_eq!(code.unwrap(), 0);
    assert!(said.contains("got hello"), "{said}");

    // What is no program says so.
    let nothing = ExecSpec {
        command: vec!["/no/such".to_owned()],
        ..spec("")
    };
    let done = machine.cri.exec(&app, &nothing).await.unwrap().done;
    assert!(timeout(PATIENCE, done).await.unwrap().is_err());

    // Attached, the first process hears and is heard.
    let echo = ContainerSpec {
        stdin: true,
        stdin_once: true,
        ..container("echo", "exec cat")
    };
    let echo = machine.run_with(&pod, echo).await;
    let attached = machine.cri.attach(&echo, &spec("")).await.unwrap();
    let (_, out, _) = finish(attached, b"hello\n").await;
    assert_eq!(out, "hello\n");
    machine.ended(&echo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_a_pod_are_reached_from_within() {
    let machine = Machine::start();
    let pod = machine.pod("web").await;
    machine
        .run(
            &pod,
            "app",
            "while true; do echo hello | nc -l -p 8080 127.0.0.1; done",
        )
        .await;
    let said = eventually(async || {
        let mut stream = machine.cri.connect(&pod.sandbox, 8080).await.ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).await.ok()?;
        (!said.is_empty()).then_some(said)
    })
    .await;
    assert_eq!(said, "hello\n");
    let Err(error) = machine.cri.connect(&pod.sandbox, 9999).await else {
        panic!("nobody listens there");
    };
    assert!(error.to_string().contains("9999"), "{error}");
    machine.cri.stop_sandbox(&pod.sandbox).await.unwrap();
    assert!(machine.cri.connect(&pod.sandbox, 8080).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_followed_and_rotated() {
    let machine = Machine::start();
    let pod = machine.pod("web").await;
    // The runtime reads the two streams apart: what comes on both at once is in no order.
    let script = "seq 1 3; until [ -e /bad ]; do sleep 0.05; done; echo bad >&2; \
                  until [ -e /go ]; do sleep 0.05; done; echo more; \
                  until [ -e /end ]; do sleep 0.05; done; echo last";
    let app = machine.run(&pod, "app", script).await;
    machine.log_of_lines(&app, 3).await;
    machine.exec(&app, &["touch", "/bad"]).await;
    machine.log_of_lines(&app, 4).await;
    let tail = LogOptions {
        tail: Some(2),
        ..LogOptions::default()
    };
    assert_eq!(machine.log(&app, &tail).await, "3\nbad\n");

    let follow = LogOptions {
        follow: true,
        tail: Some(1),
        ..LogOptions::default()
    };
    let mut lines = machine
        .cri
        .logs(&app, &follow)
        .await
        .unwrap()
        .map_ok(|line| line.bytes);
    assert_eq!(lines.try_next().await.unwrap().unwrap(), "bad\n");
    // Nothing is too small to be kept.
    machine.cri.rotate_logs(1 << 20, 1).await.unwrap();
    machine.cri.rotate_logs(4, 1).await.unwrap();
    machine.exec(&app, &["touch", "/go"]).await;
    assert_eq!(lines.try_next().await.unwrap().unwrap(), "more\n");
    let folder = pod.spec.log_directory.join("app");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    assert_eq!(
        machine.log(&app, &LogOptions::default()).await,
        "1\n2\n3\nbad\nmore\n"
    );
    machine.cri.rotate_logs(4, 1).await.unwrap();
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        2,
        "one old one is kept"
    );
    machine.exec(&app, &["touch", "/end"]).await;
    let rest: Vec<_> = timeout(PATIENCE, lines.try_collect()).await.unwrap().unwrap();
    assert_eq!(rest, ["last\n"]);
    machine.ended(&app).await;
    machine.cri.remove_container(&app).await.unwrap();
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "rotated ones go as well"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_mounts_and_users_are_as_asked_for() {
    let machine = Machine::start();
    let pod = machine.pod("web").await;
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("file"), "content").unwrap();
    let mut spec = container("app", "exec sleep 1000");
    spec.env = vec![("GREETING".to_owned(), "hi there".to_owned())];
    spec.working_dir = "/tmp".to_owned();
    spec.mounts = vec![Mount {
        source: MountSource::Host(data.path().to_path_buf()),
        target: "/data".to_owned(),
        read_only: true,
        propagation: Propagation::Private,
        recursive_read_only: false,
    }];
    spec.resources = Resources {
        memory: Some(64 << 20),
        cpu_shares: Some(512),
        ..Resources::default()
    };
    spec.security.identity.user = Some(1000);
    spec.security.identity.group = Some(1001);
    spec.security.identity.groups = vec![2000];
    spec.security.no_new_privileges = true;
    let app = machine.run_with(&pod, spec).await;
    let said = machine
        .exec(
            &app,
            &[
                "sh",
                "-c",
                "echo $GREETING; pwd; id -u; id -g; id -G; cat /data/file; touch /data/x || echo ro",
            ],
        )
        .await
        .1;
    assert_eq!(said, "hi there\n/tmp\n1000\n1001\n1001 2000\ncontentro\n");
    let (_, status) = machine
        .exec(&app, &["grep", "NoNewPrivs", "/proc/1/status"])
        .await;
    assert_eq!(status.trim(), "NoNewPrivs:\t1");
    let limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null";
    let read = machine.exec(&app, &["sh", "-c", limit]).await.1;
    assert_eq!(read.trim(), (64 << 20).to_string());
    let more = Resources {
        memory: Some(96 << 20),
        ..Resources::default()
    };
    machine.cri.update_resources(&app, &more).await.unwrap();
    let read = machine.exec(&app, &["sh", "-c", limit]).await.1;
    assert_eq!(read.trim(), (96 << 20).to_string());

    let usage = machine.cri.usage().await.unwrap();
    let own = usage.iter().find(|usage| usage.name == "app").unwrap();
    assert_eq!(own.pod, pod.spec.pod);
    assert!(own.cpu_nanoseconds > 0 && own.memory > 0, "{own:?}");
    let shared = usage.iter().find(|usage| usage.name.is_empty()).unwrap();
    assert!(shared.network.is_some(), "{shared:?}");

    let image = machine.cri.image(TEST_IMAGE).await.unwrap().unwrap();
    assert!(image.tags.iter().any(|tag| tag == TEST_IMAGE), "{image:?}");
    assert!(machine.cri.image("k3.test/none:1").await.unwrap().is_none());
    assert!(machine.cri.images().await.unwrap().len() >= 2);
    assert!(machine.cri.image_filesystem().await.unwrap().path.exists());
    let error = machine.cri.pull_image("k3.test/none:1", None).await.unwrap_err();
    assert!(matches!(error, RuntimeError::ImagePull(_)), "{error}");
    let error = machine.cri.pull_image("No Name", None).await.unwrap_err();
    assert!(matches!(error, RuntimeError::InvalidImageName(_)), "{error}");

    let volume = Mount {
        source: MountSource::Image {
            image: image.id,
            sub_path: String::new(),
        },
        target: "/image".to_owned(),
        read_only: true,
        propagation: Propagation::Private,
        recursive_read_only: false,
    };
    let spec = ContainerSpec {
        mounts: vec![volume],
        ..container("image", "exit 0")
    };
    let error = machine
        .cri
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Unsupported(said) if said.contains("cannot mount images")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_wake_and_a_restart_of_the_runtime_is_survived() {
    let machine = Machine::start();
    // A containerd that takes long to say that it has no events ends the stream at first: who listens begins again.
    let (mut changes, pod, expected) = loop {
        let mut changes = machine.cri.changes().await.unwrap();
        let pod = machine.pod("web").await;
        let expected = Change::Pod {
            uid: pod.spec.pod.uid.clone(),
        };
        if let Some(change) = timeout(PATIENCE, changes.next()).await.unwrap() {
            assert_eq!(change, expected);
            break (changes, pod, expected);
        }
    };
    let app = machine.run(&pod, "app", "echo before; exec sleep 1000").await;
    assert_eq!(
        timeout(PATIENCE, changes.next()).await.unwrap(),
        Some(expected.clone())
    );

    machine.containerd.kill().unwrap();
    let error = machine.cri.containers().await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error}");
    // It ends with the connection, after what was told before.
    while let Some(change) = timeout(PATIENCE, changes.next()).await.unwrap() {
        assert_eq!(change, expected);
    }
    machine.containerd.restart().unwrap();
    let seen = eventually(async || machine.cri.containers().await.ok()).await;
    assert!(
        seen.iter()
            .any(|container| container.id == app && container.is_running())
    );
    assert_eq!(machine.exec(&app, &["true"]).await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_made_where_there_is_none() {
    let mut machine = Machine::on(Containerd::start_without_network().unwrap());
    let problems = machine.cri.readiness().await.unwrap().problems;
    assert!(
        problems[0].starts_with(
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"
        ),
        "{problems:?}"
    );
    let network = BridgeNetwork::new("cri-net", "cluster", vec!["10.87.9.0/24".to_owned()]);
    machine.cri = client(machine.containerd.socket(), "n1").with_network(network);
    // containerd looks for what is new in its own time, which may be longer than one answer waits.
    eventually(async || {
        let readiness = machine.cri.readiness().await.unwrap();
        readiness.problems.is_empty().then_some(())
    })
    .await;
    let files: Vec<PathBuf> = std::fs::read_dir(machine.containerd.networks())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(
        files,
        [machine.containerd.networks().join("10-k3-cri-net.conflist")]
    );

    let server = machine.pod("server").await;
    machine
        .run(&server, "app", "while true; do echo hello | nc -l -p 8080; done")
        .await;
    let address = machine.cri.sandboxes().await.unwrap()[0].addresses[0];
    assert!(address.to_string().starts_with("10.87.9."), "{address}");
    let asker = machine.pod("client").await;
    let app = machine.run(&asker, "app", "exec sleep 1000").await;
    let address = address.to_string();
    let said = eventually(async || {
        let (code, said) = machine.exec(&app, &["nc", "-w", "2", &address, "8080"]).await;
        (code == 0 && !said.is_empty()).then_some(said)
    })
    .await;
    assert_eq!(said, "hello\n");

    let mut host = machine.spec("host");
    host.network = NamespaceMode::Node;
    host.hostname = String::new();
    let sandbox = machine.cri.run_sandbox(&host).await.unwrap();
    let sandboxes = machine.cri.sandboxes().await.unwrap();
    let seen = sandboxes.iter().find(|seen| seen.id == sandbox).unwrap();
    assert!(
        seen.addresses.is_empty(),
        "the machine's network has no address of a pod"
    );

    for sandbox in sandboxes {
        machine.cri.stop_sandbox(&sandbox.id).await.unwrap();
        machine.cri.remove_sandbox(&sandbox.id).await.unwrap();
    }
    remove_bridge();
}

/// The plugin leaves its bridge, and nobody else would remove it.
fn remove_bridge() {
    let removed = std::process::Command::new("ip")
        .args(["link", "delete", "k3-cri-net"])
        .status();
    assert!(removed.unwrap().success());
}
