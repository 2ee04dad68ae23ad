//! Tests of the CRI runtime with a real containerd.
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
        Container, ContainerId, ContainerOwner, ContainerResources, ContainerSpec, ContainerState, ExecSpec,
        LogOptions, Mount, MountPropagation, MountSource, NamespaceMode, PodLifecycleEvent, ProcessStreams,
        Runtime, RuntimeError, SandboxId, SandboxSpec, SandboxState, TerminalSize, cni::CniBridge,
        cri::CriRuntime,
    },
};
use k3_test_services::{Containerd, TEST_IMAGE};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};

/// Limit of every wait.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A containerd with a client and a log directory. Fields are dropped in this order.
struct TestNode {
    cri: CriRuntime,
    containerd: Containerd,
    logs: tempfile::TempDir,
}

struct Pod {
    sandbox: SandboxId,
    spec: SandboxSpec,
}

impl TestNode {
    fn start() -> Self {
        Self::on(Containerd::start().unwrap())
    }

    fn on(containerd: Containerd) -> Self {
        containerd.load_test_images().unwrap();
        TestNode {
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
        let sandbox = self.cri.run_pod_sandbox(&spec).await.unwrap();
        Pod { sandbox, spec }
    }

    /// Starts a container with a script.
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
        let all = self.cri.list_containers().await.unwrap();
        all.into_iter().find(|container| container.id == *id)
    }

    /// Waits for the exit of a container.
    async fn wait_for_exit(&self, id: &ContainerId) -> Container {
        eventually(async || {
            let container = self.find(id).await.unwrap();
            matches!(container.state, ContainerState::Exited(_)).then_some(container)
        })
        .await
    }

    async fn log(&self, id: &ContainerId, options: &LogOptions) -> String {
        let lines = self.cri.container_logs(id, options).await.unwrap();
        let bytes: Vec<_> = timeout(TEST_TIMEOUT, lines.map_ok(|line| line.bytes).try_collect())
            .await
            .unwrap()
            .unwrap();
        String::from_utf8(bytes.concat()).unwrap()
    }

    /// Waits until a log has this number of lines.
    async fn wait_for_log_lines(&self, id: &ContainerId, count: usize) {
        eventually(async || {
            let log = self.log(id, &LogOptions::default()).await;
            (log.lines().count() == count).then_some(())
        })
        .await;
    }

    async fn exec(&self, id: &ContainerId, command: &[&str]) -> (i32, String) {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let ran = self.cri.exec_sync(id, &command, TEST_TIMEOUT).await.unwrap();
        (ran.code, String::from_utf8(ran.stdout).unwrap())
    }
}

fn client(socket: &Path, node: &str) -> CriRuntime {
    let owner = ContainerOwner::new(node, "cluster");
    CriRuntime::connect(socket, owner).unwrap()
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

async fn eventually<T>(mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let polled = async {
        loop {
            if let Some(found) = poll().await {
                return found;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TEST_TIMEOUT, polled).await.unwrap()
}

/// Sends input to a process, and returns its exit code and outputs.
async fn finish(attached: ProcessStreams, input: &[u8]) -> (i32, String, String) {
    let ProcessStreams {
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
    let code = timeout(TEST_TIMEOUT, all).await.unwrap().unwrap();
    (code, texts.0, texts.1)
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_lifecycle() {
    let node = TestNode::start();
    let version = node.cri.version().await.unwrap();
    assert_eq!(version.name, "containerd");
    let readiness = node.cri.status().await.unwrap();
    assert_eq!(readiness.problems, Vec::<String>::new());

    let pod = node.pod("web").await;
    let app = node
        .run(&pod, "app", "echo out; echo err >&2; exec sleep 1000")
        .await;
    let sandboxes = node.cri.list_pod_sandboxes().await.unwrap();
    assert_eq!(sandboxes.len(), 1);
    assert_eq!(sandboxes[0].state, SandboxState::Ready);
    assert_eq!(sandboxes[0].pod, pod.spec.pod);
    assert_eq!(sandboxes[0].addresses.len(), 1);

    let found = node.find(&app).await.unwrap();
    assert!(found.is_running());
    assert_eq!((found.name.as_str(), &found.pod), ("app", &pod.spec.pod));
    assert_eq!(found.sandbox, pod.sandbox);
    assert!(found.image.ends_with("busybox:1"), "{}", found.image);
    assert!(!found.image_id.is_empty());

    assert_eq!(node.exec(&app, &["hostname"]).await, (0, "web\n".to_owned()));

    // Clients of other nodes do not see it.
    let other = client(node.containerd.socket(), "n2");
    assert!(other.list_containers().await.unwrap().is_empty());
    assert!(other.list_pod_sandboxes().await.unwrap().is_empty());

    node.cri.stop_container(&app, Duration::ZERO).await.unwrap();
    node.cri.stop_container(&app, Duration::ZERO).await.unwrap();
    let ContainerState::Exited(exit) = node.wait_for_exit(&app).await.state else {
        panic!("the container did not exit");
    };
    assert_eq!((exit.code, exit.reason.as_str()), (137, "Error"));
    assert!(exit.started.is_some());

    let directory = pod.spec.log_directory.clone();
    assert!(directory.join("app/0.log").exists());
    node.cri.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    node.cri.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    assert_eq!(
        node.cri.list_pod_sandboxes().await.unwrap()[0].state,
        SandboxState::NotReady
    );
    node.cri.remove_pod_sandbox(&pod.sandbox).await.unwrap();
    node.cri.remove_pod_sandbox(&pod.sandbox).await.unwrap();
    node.cri.remove_container(&app).await.unwrap();
    assert!(node.cri.list_containers().await.unwrap().is_empty());
    assert!(node.cri.list_pod_sandboxes().await.unwrap().is_empty());
    assert!(!directory.exists(), "logs are removed with the pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_exit_code_and_reason() {
    let node = TestNode::start();
    let pod = node.pod("jobs").await;
    for (name, script, code, reason) in [("good", "exit 0", 0, "Completed"), ("bad", "exit 3", 3, "Error")] {
        let id = node.run(&pod, name, script).await;
        let ContainerState::Exited(exit) = node.wait_for_exit(&id).await.state else {
            panic!("the container did not exit");
        };
        assert_eq!((exit.code, exit.reason.as_str()), (code, reason));
    }
    // A failed start reports the runtime's message.
    let mut broken = container("broken", "");
    broken.command = vec!["/no/such/program".to_owned()];
    let id = node
        .cri
        .create_container(&pod.sandbox, &pod.spec, &broken)
        .await
        .unwrap();
    let error = node.cri.start_container(&id).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::OperationFailed(output) if output.contains("no such file")),
        "{error}"
    );
    let ContainerState::Exited(exit) = node.wait_for_exit(&id).await.state else {
        panic!("the container did not exit");
    };
    assert_eq!(
        (exit.code, exit.reason.as_str(), exit.started),
        (128, "StartError", None)
    );

    // Attempts are separate containers; removing one removes its log only.
    let mut again = container("good", "echo again");
    again.attempt = 1;
    let again = node.run_with(&pod, again).await;
    assert_eq!(node.wait_for_exit(&again).await.attempt, 1);
    let log = pod.spec.log_directory.join("good/1.log");
    assert!(log.exists());
    node.cri.remove_container(&again).await.unwrap();
    assert!(!log.exists());
    assert!(pod.spec.log_directory.join("good/0.log").exists());

    let error = node
        .cri
        .start_container(&ContainerId("none".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::NotFound(_)));

    // A second sandbox of the same attempt is rejected.
    let error = node.cri.run_pod_sandbox(&pod.spec).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::OperationFailed(output) if output.contains("is reserved for")),
        "{error}"
    );
    let error = client(node.containerd.socket(), "n2")
        .run_pod_sandbox(&pod.spec)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RuntimeError::NameTaken { holder, .. } if *holder == pod.sandbox.0),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_and_attach_streams() {
    let node = TestNode::start();
    let pod = node.pod("web").await;
    let app = node.run(&pod, "app", "exec sleep 1000").await;
    let spec = |script: &str| ExecSpec {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    };

    assert_eq!(node.exec(&app, &["sh", "-c", "exit 7"]).await.0, 7);
    let slow = ["sleep".to_owned(), "100".to_owned()];
    let error = node
        .cri
        .exec_sync(&app, &slow, Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }), "{error}");

    // The command reads to the end of input, then writes.
    let input = vec![b'x'; 300_000];
    let attached = node
        .cri
        .exec(&app, &spec("wc -c; echo oops >&2; exit 5"))
        .await
        .unwrap();
    let (code, out, err) = finish(attached, &input).await;
    assert_eq!((code, out.trim(), err.as_str()), (5, "300000", "oops\n"));

    // Without stdin, with much output.
    let quiet = ExecSpec {
        stdin: false,
        ..spec("seq 1 100000")
    };
    let (code, out, _) = finish(node.cri.exec(&app, &quiet).await.unwrap(), b"").await;
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 100_000);
    assert!(out.ends_with("100000\n"));

    // With a terminal, which is resized.
    let terminal = ExecSpec {
        tty: true,
        stderr: false,
        ..spec(
            "until [ \"$(stty size)\" = '40 100' ]; do sleep 0.05; done; echo sized; read line; echo got $line",
        )
    };
    let mut attached = node.cri.exec(&app, &terminal).await.unwrap();
    let size = TerminalSize {
        width: 100,
        height: 40,
    };
    attached.resize.as_ref().unwrap().send(size).await.unwrap();
    let mut stdout = attached.stdout.take().unwrap();
    let mut stdin = attached.stdin.take().unwrap();
    let talk = async {
        let mut output = String::new();
        let mut buffer = [0; 256];
        while !output.contains("sized") {
            let length = stdout.read(&mut buffer).await.unwrap();
            assert!(length > 0, "{output}");
            output.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
        }
        stdin.write_all(b"hello\n").await.unwrap();
        stdout.read_to_string(&mut output).await.unwrap();
        output
    };
    let both = async { tokio::join!(attached.done, talk) };
    let (code, output) = timeout(TEST_TIMEOUT, both).await.unwrap();
    assert_eq!(code.unwrap(), 0);
    assert!(output.contains("got hello"), "{output}");

    // A missing program is an error.
    let nothing = ExecSpec {
        command: vec!["/no/such".to_owned()],
        ..spec("")
    };
    let done = node.cri.exec(&app, &nothing).await.unwrap().done;
    assert!(timeout(TEST_TIMEOUT, done).await.unwrap().is_err());

    // Attach to the first process.
    let echo = ContainerSpec {
        stdin: true,
        stdin_once: true,
        ..container("echo", "exec cat")
    };
    let echo = node.run_with(&pod, echo).await;
    let attached = node.cri.attach(&echo, &spec("")).await.unwrap();
    let (_, out, _) = finish(attached, b"hello\n").await;
    assert_eq!(out, "hello\n");
    node.wait_for_exit(&echo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn port_forward() {
    let node = TestNode::start();
    let pod = node.pod("web").await;
    node.run(
        &pod,
        "app",
        "while true; do echo hello | nc -l -p 8080 127.0.0.1; done",
    )
    .await;
    let output = eventually(async || {
        let mut stream = node.cri.port_forward(&pod.sandbox, 8080).await.ok()?;
        let mut output = String::new();
        stream.read_to_string(&mut output).await.ok()?;
        (!output.is_empty()).then_some(output)
    })
    .await;
    assert_eq!(output, "hello\n");
    let Err(error) = node.cri.port_forward(&pod.sandbox, 9999).await else {
        panic!("connected to a closed port");
    };
    assert!(error.to_string().contains("9999"), "{error}");
    node.cri.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    assert!(node.cri.port_forward(&pod.sandbox, 8080).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_follows_and_rotates_logs() {
    let node = TestNode::start();
    let pod = node.pod("web").await;
    // The runtime reads stdout and stderr separately, without a common order.
    let script = "seq 1 3; until [ -e /bad ]; do sleep 0.05; done; echo bad >&2; \
                  until [ -e /go ]; do sleep 0.05; done; echo more; \
                  until [ -e /end ]; do sleep 0.05; done; echo last";
    let app = node.run(&pod, "app", script).await;
    node.wait_for_log_lines(&app, 3).await;
    node.exec(&app, &["touch", "/bad"]).await;
    node.wait_for_log_lines(&app, 4).await;
    let tail = LogOptions {
        tail: Some(2),
        ..LogOptions::default()
    };
    assert_eq!(node.log(&app, &tail).await, "3\nbad\n");

    let follow = LogOptions {
        follow: true,
        tail: Some(1),
        ..LogOptions::default()
    };
    let mut lines = node
        .cri
        .container_logs(&app, &follow)
        .await
        .unwrap()
        .map_ok(|line| line.bytes);
    assert_eq!(lines.try_next().await.unwrap().unwrap(), "bad\n");
    // A log below the limit is not rotated.
    node.cri.rotate_logs(1 << 20, 1).await.unwrap();
    node.cri.rotate_logs(4, 1).await.unwrap();
    node.exec(&app, &["touch", "/go"]).await;
    assert_eq!(lines.try_next().await.unwrap().unwrap(), "more\n");
    let directory = pod.spec.log_directory.join("app");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
    assert_eq!(
        node.log(&app, &LogOptions::default()).await,
        "1\n2\n3\nbad\nmore\n"
    );
    node.cri.rotate_logs(4, 1).await.unwrap();
    assert_eq!(
        std::fs::read_dir(&directory).unwrap().count(),
        2,
        "one rotated file is kept"
    );
    node.exec(&app, &["touch", "/end"]).await;
    let rest: Vec<_> = timeout(TEST_TIMEOUT, lines.try_collect()).await.unwrap().unwrap();
    assert_eq!(rest, ["last\n"]);
    node.wait_for_exit(&app).await;
    node.cri.remove_container(&app).await.unwrap();
    assert_eq!(
        std::fs::read_dir(&directory).unwrap().count(),
        0,
        "rotated files are removed as well"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn applies_resources_mounts_and_user() {
    let node = TestNode::start();
    let pod = node.pod("web").await;
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("file"), "content").unwrap();
    let mut spec = container("app", "exec sleep 1000");
    spec.env = vec![("GREETING".to_owned(), "hi there".to_owned())];
    spec.working_dir = "/tmp".to_owned();
    spec.mounts = vec![Mount {
        source: MountSource::Host(data.path().to_path_buf()),
        target: "/data".to_owned(),
        read_only: true,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    }];
    spec.resources = ContainerResources {
        memory: Some(64 << 20),
        cpu_shares: Some(512),
        ..ContainerResources::default()
    };
    spec.security.identity.user = Some(1000);
    spec.security.identity.group = Some(1001);
    spec.security.identity.groups = vec![2000];
    spec.security.no_new_privileges = true;
    let app = node.run_with(&pod, spec).await;
    let output = node
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
    assert_eq!(output, "hi there\n/tmp\n1000\n1001\n1001 2000\ncontentro\n");
    let (_, status) = node.exec(&app, &["grep", "NoNewPrivs", "/proc/1/status"]).await;
    assert_eq!(status.trim(), "NoNewPrivs:\t1");
    let limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null";
    let read = node.exec(&app, &["sh", "-c", limit]).await.1;
    assert_eq!(read.trim(), (64 << 20).to_string());
    let more = ContainerResources {
        memory: Some(96 << 20),
        ..ContainerResources::default()
    };
    node.cri.update_container_resources(&app, &more).await.unwrap();
    let read = node.exec(&app, &["sh", "-c", limit]).await.1;
    assert_eq!(read.trim(), (96 << 20).to_string());

    let usage = node.cri.list_container_stats().await.unwrap();
    let own = usage.iter().find(|usage| usage.name == "app").unwrap();
    assert_eq!(own.pod, pod.spec.pod);
    assert!(own.cpu_nanoseconds > 0 && own.memory > 0, "{own:?}");
    let shared = usage.iter().find(|usage| usage.name.is_empty()).unwrap();
    assert!(shared.network.is_some(), "{shared:?}");

    let image = node.cri.image_status(TEST_IMAGE).await.unwrap().unwrap();
    assert!(image.tags.iter().any(|tag| tag == TEST_IMAGE), "{image:?}");
    assert!(node.cri.image_status("k3.test/none:1").await.unwrap().is_none());
    assert!(node.cri.list_images().await.unwrap().len() >= 2);
    assert!(node.cri.image_fs_info().await.unwrap().path.exists());
    let error = node.cri.pull_image("k3.test/none:1", None).await.unwrap_err();
    assert!(matches!(error, RuntimeError::ImagePull(_)), "{error}");
    let error = node.cri.pull_image("No Name", None).await.unwrap_err();
    assert!(matches!(error, RuntimeError::InvalidImageName(_)), "{error}");

    let volume = Mount {
        source: MountSource::Image {
            image: image.id,
            sub_path: String::new(),
        },
        target: "/image".to_owned(),
        read_only: true,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    };
    let spec = ContainerSpec {
        mounts: vec![volume],
        ..container("image", "exit 0")
    };
    let error = node
        .cri
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RuntimeError::Unsupported(output) if output.contains("cannot mount images")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_runtime_restart() {
    let node = TestNode::start();
    // A containerd that is slow to report missing events ends the first stream: subscribe again.
    let (mut changes, pod, expected) = loop {
        let mut changes = node.cri.container_events().await.unwrap();
        let pod = node.pod("web").await;
        let expected = PodLifecycleEvent::Pod {
            uid: pod.spec.pod.uid.clone(),
        };
        if let Some(change) = timeout(TEST_TIMEOUT, changes.next()).await.unwrap() {
            assert_eq!(change, expected);
            break (changes, pod, expected);
        }
    };
    let app = node.run(&pod, "app", "echo before; exec sleep 1000").await;
    assert_eq!(
        timeout(TEST_TIMEOUT, changes.next()).await.unwrap(),
        Some(expected.clone())
    );

    node.containerd.kill().unwrap();
    let error = node.cri.list_containers().await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error}");
    // The stream returns pending events, and ends with the connection.
    while let Some(change) = timeout(TEST_TIMEOUT, changes.next()).await.unwrap() {
        assert_eq!(change, expected);
    }
    node.containerd.restart().unwrap();
    let found = eventually(async || node.cri.list_containers().await.ok()).await;
    assert!(
        found
            .iter()
            .any(|container| container.id == app && container.is_running())
    );
    assert_eq!(node.exec(&app, &["true"]).await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn configures_missing_pod_network() {
    let mut node = TestNode::on(Containerd::start_without_network().unwrap());
    let problems = node.cri.status().await.unwrap().problems;
    assert!(
        problems[0].starts_with(
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"
        ),
        "{problems:?}"
    );
    let network = CniBridge::new("cri-net", "cluster", vec!["10.87.9.0/24".to_owned()]);
    node.cri = client(node.containerd.socket(), "n1").with_network(network);
    // containerd loads new configurations periodically, perhaps after the first status call has given up.
    eventually(async || {
        let readiness = node.cri.status().await.unwrap();
        readiness.problems.is_empty().then_some(())
    })
    .await;
    let files: Vec<PathBuf> = std::fs::read_dir(node.containerd.networks())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files, [node.containerd.networks().join("10-k3-cri-net.conflist")]);

    let server = node.pod("server").await;
    node.run(&server, "app", "while true; do echo hello | nc -l -p 8080; done")
        .await;
    let address = node.cri.list_pod_sandboxes().await.unwrap()[0].addresses[0];
    assert!(address.to_string().starts_with("10.87.9."), "{address}");
    let client_pod = node.pod("client").await;
    let app = node.run(&client_pod, "app", "exec sleep 1000").await;
    let address = address.to_string();
    let output = eventually(async || {
        let (code, output) = node.exec(&app, &["nc", "-w", "2", &address, "8080"]).await;
        (code == 0 && !output.is_empty()).then_some(output)
    })
    .await;
    assert_eq!(output, "hello\n");

    let mut host = node.spec("host");
    host.network = NamespaceMode::Node;
    host.hostname = String::new();
    let sandbox = node.cri.run_pod_sandbox(&host).await.unwrap();
    let sandboxes = node.cri.list_pod_sandboxes().await.unwrap();
    let found = sandboxes.iter().find(|found| found.id == sandbox).unwrap();
    assert!(
        found.addresses.is_empty(),
        "a sandbox with the host network has no pod IP"
    );

    for sandbox in sandboxes {
        node.cri.stop_pod_sandbox(&sandbox.id).await.unwrap();
        node.cri.remove_pod_sandbox(&sandbox.id).await.unwrap();
    }
    remove_bridge();
}

/// The CNI plugin leaves its bridge behind.
fn remove_bridge() {
    let removed = std::process::Command::new("ip")
        .args(["link", "delete", "k3-cri-net"])
        .status();
    assert!(removed.unwrap().success());
}
