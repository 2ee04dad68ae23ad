//! Tests against a fake CRI-O, which Debian does not package, with fault injection.

mod crio;
mod websocket;

use std::time::Duration;

use futures_util::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use self::crio::{EventSupport, FakeCrio, Fault};
use super::{
    CallTimeouts, CriRuntime,
    messages::{self, method},
};
use crate::{
    PodIdentity,
    runtime::{
        ContainerId, ContainerOwner, ContainerSpec, ContainerState, ExecSpec, Mount, MountPropagation,
        MountSource, PodLifecycleEvent, Runtime, RuntimeError, SandboxId, SandboxSpec, labels,
    },
};

/// Generous limit of every wait.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

fn client(crio: &FakeCrio) -> CriRuntime {
    let owner = ContainerOwner::new("n1", "cluster");
    CriRuntime::connect(&crio.socket(), owner).unwrap()
}

/// A client with a short start timeout.
fn client_with_short_timeout(crio: &FakeCrio) -> CriRuntime {
    client(crio).with_timeouts(CallTimeouts {
        start: Duration::from_millis(100),
        ..CallTimeouts::default()
    })
}

fn pod(crio: &FakeCrio) -> SandboxSpec {
    SandboxSpec {
        pod: PodIdentity {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
        },
        log_directory: crio.directory().join("logs"),
        ..SandboxSpec::default()
    }
}

async fn run(cri: &CriRuntime, crio: &FakeCrio, spec: ContainerSpec) -> (SandboxId, ContainerId) {
    let pod = pod(crio);
    let sandbox = cri.run_pod_sandbox(&pod).await.unwrap();
    let id = cri.create_container(&sandbox, &pod, &spec).await.unwrap();
    cri.start_container(&id).await.unwrap();
    (sandbox, id)
}

fn app() -> ContainerSpec {
    ContainerSpec {
        name: "app".to_owned(),
        image: "app:1".to_owned(),
        user_image: "app:1".to_owned(),
        ..ContainerSpec::default()
    }
}

fn event(node: &str) -> messages::ContainerEventResponse {
    messages::ContainerEventResponse {
        pod_sandbox_status: Some(messages::PodSandboxStatus {
            metadata: Some(messages::PodSandboxMetadata {
                uid: "u1".to_owned(),
                ..messages::PodSandboxMetadata::default()
            }),
            labels: [
                (labels::NODE.to_owned(), node.to_owned()),
                (labels::CLUSTER.to_owned(), "cluster".to_owned()),
            ]
            .into(),
            ..messages::PodSandboxStatus::default()
        }),
        ..messages::ContainerEventResponse::default()
    }
}

#[tokio::test]
async fn reports_version_status_and_cgroup_driver() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    assert_eq!(cri.version().await.unwrap().to_string(), "cri-o://1.34.0");
    let readiness = cri.status().await.unwrap();
    assert!(readiness.problems.is_empty() && readiness.systemd_cgroups);
    crio.state().network = false;
    let readiness = cri.status().await.unwrap();
    assert!(
        readiness.problems[0].starts_with(
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
             message:Network plugin returns error: no CNI configuration file"
        ),
        "{readiness:?}"
    );
    crio.state()
        .faults
        .insert(method::RUNTIME_CONFIG, Fault::Unimplemented);
    assert!(!cri.status().await.unwrap().systemd_cgroups);
}

#[tokio::test]
async fn missing_socket_is_unreachable() {
    let owner = || ContainerOwner::new("n1", "cluster");
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().join("none.sock"), directory.path().to_path_buf()] {
        let error = CriRuntime::connect(&path, owner()).unwrap_err();
        assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error}");
    }
}

#[tokio::test]
async fn reports_events_of_own_pods() {
    let crio = FakeCrio::start().await;
    crio.state().events = EventSupport::Enabled;
    let cri = client(&crio);
    let mut changes = cri.container_events().await.unwrap();
    crio.send_event(event("n2"));
    crio.send_event(event("n1"));
    let expected = PodLifecycleEvent::Pod { uid: "u1".to_owned() };
    assert_eq!(
        timeout(TEST_TIMEOUT, changes.next()).await.unwrap(),
        Some(expected)
    );
    assert_eq!(crio.calls(method::LIST_CONTAINERS), 0, "nothing is compared");
    // Fault::Break breaks all connections.
    crio.state().faults.insert(method::VERSION, Fault::Break);
    cri.version().await.unwrap_err();
    assert_eq!(timeout(TEST_TIMEOUT, changes.next()).await.unwrap(), None);
}

#[tokio::test]
async fn compares_lists_without_events() {
    for fault in [None, Some(Fault::Unimplemented)] {
        let crio = FakeCrio::start().await;
        if let Some(fault) = fault {
            crio.state().faults.insert(method::GET_CONTAINER_EVENTS, fault);
        }
        let cri = client(&crio);
        let (_, id) = run(&cri, &crio, app()).await;
        let mut changes = cri.container_events().await.unwrap();
        crio.end(&id.0, 1);
        let expected = PodLifecycleEvent::Pod { uid: "u1".to_owned() };
        assert_eq!(
            timeout(TEST_TIMEOUT, changes.next()).await.unwrap(),
            Some(expected)
        );
        crio.state().faults.insert(method::LIST_CONTAINERS, Fault::Break);
        assert_eq!(timeout(TEST_TIMEOUT, changes.next()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn fetches_status_once_per_state() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    let (_, id) = run(&cri, &crio, app()).await;
    for _ in 0..3 {
        let containers = cri.list_containers().await.unwrap();
        assert!(containers[0].is_running());
        assert_eq!(containers[0].image_id, "registry.example/app@sha256:1234");
    }
    assert_eq!(crio.calls(method::CONTAINER_STATUS), 1);
    crio.end(&id.0, 3);
    let containers = cri.list_containers().await.unwrap();
    let ContainerState::Exited(exit) = &containers[0].state else {
        panic!("the container did not exit");
    };
    assert_eq!((exit.code, exit.reason.as_str()), (3, "Error"));
    for _ in 0..3 {
        assert_eq!(cri.list_pod_sandboxes().await.unwrap()[0].addresses.len(), 1);
    }
    assert_eq!(crio.calls(method::POD_SANDBOX_STATUS), 1);
}

#[tokio::test]
async fn touches_only_owned_containers() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    cri.remove_container(&ContainerId("none".to_owned()))
        .await
        .unwrap();
    let error = cri
        .start_container(&ContainerId("none".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::NotFound(_)));
    let (sandbox, id) = run(&cri, &crio, app()).await;
    // Other owners cannot stop or remove them.
    for other in [
        ContainerOwner::new("n2", "cluster"),
        ContainerOwner::new("n1", "another cluster"),
    ] {
        let other = CriRuntime::connect(&crio.socket(), other).unwrap();
        assert!(
            other.list_containers().await.unwrap().is_empty()
                && other.list_pod_sandboxes().await.unwrap().is_empty()
        );
        let refused = [
            other.stop_container(&id, Duration::ZERO).await,
            other.remove_container(&id).await,
            other.stop_pod_sandbox(&sandbox).await,
            other.remove_pod_sandbox(&sandbox).await,
        ];
        for answer in refused {
            assert!(matches!(answer, Err(RuntimeError::OperationFailed(_))));
        }
    }
    cri.stop_pod_sandbox(&sandbox).await.unwrap();
    cri.remove_pod_sandbox(&sandbox).await.unwrap();
    assert!(cri.list_containers().await.unwrap().is_empty());
    assert!(!crio.directory().join("logs").exists());
}

#[tokio::test]
async fn mounts_image_volumes() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    let mut spec = app();
    spec.mounts = vec![Mount {
        source: MountSource::Image {
            image: "data:1".to_owned(),
            sub_path: "files".to_owned(),
        },
        target: "/data".to_owned(),
        read_only: true,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    }];
    run(&cri, &crio, spec).await;
    let state = crio.state();
    let mounts = &state.created[0].mounts;
    assert_eq!(mounts[0].image.as_ref().unwrap().image, "data:1");
    assert_eq!(mounts[0].image_sub_path, "files");
    assert!(mounts[0].host_path.is_empty());
}

#[tokio::test]
async fn end_of_input_reaches_the_command() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    let (_, id) = run(&cri, &crio, app()).await;
    let spec = |command: &[&str]| ExecSpec {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let attached = cri.exec(&id, &spec(&["cat"])).await.unwrap();
    let mut stdin = attached.stdin.unwrap();
    let mut stdout = attached.stdout.unwrap();
    let mut stderr = attached.stderr.unwrap();
    let input = vec![b'x'; 200_000];
    let talk = async {
        let mut texts = (Vec::new(), String::new());
        let write = async {
            stdin.write_all(&input).await.unwrap();
            stdin.shutdown().await.unwrap();
        };
        let (code, (), out, err) = tokio::join!(
            attached.done,
            write,
            stdout.read_to_end(&mut texts.0),
            stderr.read_to_string(&mut texts.1)
        );
        out.and(err).unwrap();
        (code, texts)
    };
    let (code, (out, err)) = timeout(TEST_TIMEOUT, talk).await.unwrap();
    assert_eq!((code.unwrap(), err.as_str()), (0, "done\n"));
    assert!(out == input, "{} bytes received", out.len());
    assert_eq!(
        crio.calls(method::EXEC),
        1,
        "WebSockets must work at the first attempt"
    );

    let failed = cri.exec(&id, &spec(&["fail", "42"])).await.unwrap().done;
    assert_eq!(timeout(TEST_TIMEOUT, failed).await.unwrap().unwrap(), 42);
    let normal = cri.exec(&id, &spec(&["true"])).await.unwrap().done;
    assert_eq!(timeout(TEST_TIMEOUT, normal).await.unwrap().unwrap(), 0);
    let broken = cri.exec(&id, &spec(&["die"])).await.unwrap().done;
    assert!(timeout(TEST_TIMEOUT, broken).await.unwrap().is_err());
}

#[tokio::test]
async fn port_forward_enters_sandbox_through_containers() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    let (sandbox, _) = run(&cri, &crio, app()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut stream = cri.port_forward(&sandbox, port).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    server.write_all(b"hello").await.unwrap();
    drop(server);
    let mut received = String::new();
    stream.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "hello");
    cri.stop_pod_sandbox(&sandbox).await.unwrap();
    assert!(cri.port_forward(&sandbox, port).await.is_err());
}

#[tokio::test]
async fn reads_stats_from_cgroups() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    run(&cri, &crio, app()).await;
    let usage = cri.list_container_stats().await.unwrap();
    assert_eq!(usage[0].name, "app");
    assert!(usage[0].cpu_nanoseconds > 0 && usage[0].memory > 0, "{usage:?}");
    assert!(
        usage[1].name.is_empty() && usage[1].network.is_some(),
        "{usage:?}"
    );
}

#[tokio::test]
async fn timeout_does_not_delay_other_calls() {
    let crio = FakeCrio::start().await;
    let cri = client_with_short_timeout(&crio);
    crio.state().faults.insert(method::RUN_POD_SANDBOX, Fault::Hang);
    let pod = pod(&crio);
    let (timed_out, others) = tokio::join!(cri.run_pod_sandbox(&pod), cri.list_pod_sandboxes());
    let error = timed_out.unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "sandbox of pod shop/web(u1): context deadline exceeded"
    );
    assert!(others.unwrap().is_empty());
}

#[tokio::test]
async fn reconnects() {
    let crio = FakeCrio::start().await;
    let cri = client(&crio);
    for _ in 0..3 {
        crio.state().faults.insert(method::VERSION, Fault::Break);
        let error = cri.version().await.unwrap_err();
        assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error}");
        assert_eq!(cri.version().await.unwrap().name, "cri-o");
    }
}
