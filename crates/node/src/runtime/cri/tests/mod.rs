//! Claims against a runtime that answers as CRI-O does, which no Debian has, and that can be told to fail.

mod crio;
mod websocket;

use std::time::Duration;

use futures_util::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use self::crio::{Crio, Events, Fault};
use super::{
    Cri, Limits,
    messages::{self, method},
};
use crate::{
    PodIdentity,
    runtime::{
        Change, ContainerId, ContainerSpec, ContainerState, ExecSpec, Mount, MountSource, Owner, Propagation,
        Runtime, RuntimeError, SandboxId, SandboxSpec, labels,
    },
};

/// Nothing here takes that long.
const PATIENCE: Duration = Duration::from_mins(1);

fn client(crio: &Crio) -> Cri {
    let owner = Owner::new("n1", "cluster");
    Cri::connect(&crio.socket(), owner).unwrap()
}

/// Has no time to start something, and as much as others for everything else.
fn impatient(crio: &Crio) -> Cri {
    client(crio).with_limits(Limits {
        start: Duration::from_millis(100),
        ..Limits::default()
    })
}

fn pod(crio: &Crio) -> SandboxSpec {
    SandboxSpec {
        pod: PodIdentity {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
        },
        log_directory: crio.folder().join("logs"),
        ..SandboxSpec::default()
    }
}

async fn run(cri: &Cri, crio: &Crio, spec: ContainerSpec) -> (SandboxId, ContainerId) {
    let pod = pod(crio);
    let sandbox = cri.run_sandbox(&pod).await.unwrap();
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
async fn it_is_known_by_its_name_and_its_cgroups() {
    let crio = Crio::start().await;
    let cri = client(&crio);
    assert_eq!(cri.version().await.unwrap().to_string(), "cri-o://1.34.0");
    let readiness = cri.readiness().await.unwrap();
    assert!(readiness.problems.is_empty() && readiness.systemd_cgroups);
    crio.state().network = false;
    let readiness = cri.readiness().await.unwrap();
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
    assert!(!cri.readiness().await.unwrap().systemd_cgroups);
}

#[tokio::test]
async fn what_is_no_socket_is_unreachable() {
    let owner = || Owner::new("n1", "cluster");
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("none.sock"), folder.path().to_path_buf()] {
        let error = Cri::connect(&path, owner()).unwrap_err();
        assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error}");
    }
}

#[tokio::test]
async fn events_wake_whose_they_are() {
    let crio = Crio::start().await;
    crio.state().events = Events::Told;
    let cri = client(&crio);
    let mut changes = cri.changes().await.unwrap();
    crio.tell(event("n2"));
    crio.tell(event("n1"));
    let expected = Change::Pod { uid: "u1".to_owned() };
    assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap(), Some(expected));
    assert_eq!(crio.calls(method::LIST_CONTAINERS), 0, "nothing is compared");
    // The next call breaks all connections.
    crio.state().faults.insert(method::VERSION, Fault::Break);
    cri.version().await.unwrap_err();
    assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap(), None);
}

#[tokio::test]
async fn without_events_lists_are_compared() {
    for fault in [None, Some(Fault::Unimplemented)] {
        let crio = Crio::start().await;
        if let Some(fault) = fault {
            crio.state().faults.insert(method::GET_CONTAINER_EVENTS, fault);
        }
        let cri = client(&crio);
        let (_, id) = run(&cri, &crio, app()).await;
        let mut changes = cri.changes().await.unwrap();
        crio.end(&id.0, 1);
        let expected = Change::Pod { uid: "u1".to_owned() };
        assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap(), Some(expected));
        crio.state().faults.insert(method::LIST_CONTAINERS, Fault::Break);
        assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_status_is_asked_for_once_in_each_state() {
    let crio = Crio::start().await;
    let cri = client(&crio);
    let (_, id) = run(&cri, &crio, app()).await;
    for _ in 0..3 {
        let seen = cri.containers().await.unwrap();
        assert!(seen[0].is_running());
        assert_eq!(seen[0].image_id, "registry.example/app@sha256:1234");
    }
    assert_eq!(crio.calls(method::CONTAINER_STATUS), 1);
    crio.end(&id.0, 3);
    let seen = cri.containers().await.unwrap();
    let ContainerState::Exited(exit) = &seen[0].state else {
        panic!("it has ended");
    };
    assert_eq!((exit.code, exit.reason.as_str()), (3, "Error"));
    for _ in 0..3 {
        assert_eq!(cri.sandboxes().await.unwrap()[0].addresses.len(), 1);
    }
    assert_eq!(crio.calls(method::POD_SANDBOX_STATUS), 1);
}

#[tokio::test]
async fn what_is_gone_is_removed() {
    let crio = Crio::start().await;
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
    // Somebody else neither stops nor removes it.
    for other in [Owner::new("n2", "cluster"), Owner::new("n1", "another cluster")] {
        let other = Cri::connect(&crio.socket(), other).unwrap();
        assert!(other.containers().await.unwrap().is_empty() && other.sandboxes().await.unwrap().is_empty());
        let refused = [
            other.stop_container(&id, Duration::ZERO).await,
            other.remove_container(&id).await,
            other.stop_sandbox(&sandbox).await,
            other.remove_sandbox(&sandbox).await,
        ];
        for answer in refused {
            assert!(matches!(answer, Err(RuntimeError::Refused(_))));
        }
    }
    cri.stop_sandbox(&sandbox).await.unwrap();
    cri.remove_sandbox(&sandbox).await.unwrap();
    assert!(cri.containers().await.unwrap().is_empty());
    assert!(!crio.folder().join("logs").exists());
}

#[tokio::test]
async fn images_are_mounted_as_volumes() {
    let crio = Crio::start().await;
    let cri = client(&crio);
    let mut spec = app();
    spec.mounts = vec![Mount {
        source: MountSource::Image {
            image: "data:1".to_owned(),
            sub_path: "files".to_owned(),
        },
        target: "/data".to_owned(),
        read_only: true,
        propagation: Propagation::Private,
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
async fn the_end_of_input_reaches_the_command() {
    let crio = Crio::start().await;
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
    let (code, (out, err)) = timeout(PATIENCE, talk).await.unwrap();
    assert_eq!((code.unwrap(), err.as_str()), (0, "done\n"));
    assert!(out == input, "{} bytes came back", out.len());
    assert_eq!(crio.calls(method::EXEC), 1, "it speaks what is asked for first");

    let failed = cri.exec(&id, &spec(&["fail", "42"])).await.unwrap().done;
    assert_eq!(timeout(PATIENCE, failed).await.unwrap().unwrap(), 42);
    let well = cri.exec(&id, &spec(&["true"])).await.unwrap().done;
    assert_eq!(timeout(PATIENCE, well).await.unwrap().unwrap(), 0);
    let died = cri.exec(&id, &spec(&["die"])).await.unwrap().done;
    assert!(timeout(PATIENCE, died).await.unwrap().is_err());
}

#[tokio::test]
async fn a_sandbox_without_a_process_is_entered_through_its_containers() {
    let crio = Crio::start().await;
    let cri = client(&crio);
    let (sandbox, _) = run(&cri, &crio, app()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut stream = cri.connect(&sandbox, port).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    server.write_all(b"hello").await.unwrap();
    drop(server);
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello");
    cri.stop_sandbox(&sandbox).await.unwrap();
    assert!(cri.connect(&sandbox, port).await.is_err());
}

#[tokio::test]
async fn figures_that_are_not_told_are_read_from_the_kernel() {
    let crio = Crio::start().await;
    let cri = client(&crio);
    run(&cri, &crio, app()).await;
    let usage = cri.usage().await.unwrap();
    assert_eq!(usage[0].name, "app");
    assert!(usage[0].cpu_nanoseconds > 0 && usage[0].memory > 0, "{usage:?}");
    assert!(
        usage[1].name.is_empty() && usage[1].network.is_some(),
        "{usage:?}"
    );
}

#[tokio::test]
async fn a_call_that_is_not_answered_is_given_up_and_holds_up_no_other() {
    let crio = Crio::start().await;
    let cri = impatient(&crio);
    crio.state().faults.insert(method::RUN_POD_SANDBOX, Fault::Hang);
    let pod = pod(&crio);
    let (late, others) = tokio::join!(cri.run_sandbox(&pod), cri.sandboxes());
    let error = late.unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "sandbox of pod shop/web(u1): context deadline exceeded"
    );
    assert!(others.unwrap().is_empty());
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_again() {
    let crio = Crio::start().await;
    let cri = client(&crio);
    for _ in 0..3 {
        crio.state().faults.insert(method::VERSION, Fault::Break);
        let error = cri.version().await.unwrap_err();
        assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error}");
        assert_eq!(cri.version().await.unwrap().name, "cri-o");
    }
}
