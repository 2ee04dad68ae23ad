//! Lifecycle of sandboxes and containers.

use std::time::Duration;

use futures_util::StreamExt;
use k3_node::runtime::{
    ContainerOwner, ContainerResources, ContainerState, LogOptions, PodLifecycleEvent, RuntimeError,
    SandboxState,
};
use k3_test_services::TEST_IMAGE;

use crate::test_node::{TestNode, eventually, soon};

pub(crate) async fn sandbox_and_container_lifecycle(node: &TestNode) {
    let runtime = &node.runtime;
    let pod = node.pod().await;
    let addresses = runtime.pod_sandbox_ips(&pod.sandbox).await.unwrap();
    let sandboxes = runtime.list_pod_sandboxes().await.unwrap();
    assert_eq!(sandboxes.len(), 1);
    assert_eq!(sandboxes[0].id, pod.sandbox);
    assert_eq!(sandboxes[0].pod, pod.spec.pod);
    assert_eq!(sandboxes[0].state, SandboxState::Ready);
    assert_eq!(sandboxes[0].addresses.len(), 1);
    assert_eq!(sandboxes[0].addresses, addresses);

    std::fs::create_dir_all(pod.spec.log_directory.join("main")).unwrap();
    let spec = node.script("sleep 1000");
    let id = runtime
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
        .unwrap();
    let container = node.container(&id).await.unwrap();
    assert_eq!(container.state, ContainerState::Created);
    assert_eq!(
        (container.sandbox, container.pod),
        (pod.sandbox.clone(), pod.spec.pod.clone())
    );
    assert_eq!(
        (container.name.as_str(), container.image.as_str()),
        ("main", TEST_IMAGE)
    );
    assert!(container.image_id.contains("sha256:"), "{}", container.image_id);

    runtime.start_container(&id).await.unwrap();
    assert!(node.container(&id).await.unwrap().is_running());
    runtime.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    assert_ne!(node.exit(&id).await.code, 0);
    // Docker's list reports a stopped container a little later than its stop call.
    let stopped = eventually("the sandbox is not ready", async || {
        let mut sandboxes = runtime.list_pod_sandboxes().await.unwrap();
        let sandbox = sandboxes.remove(0);
        (sandbox.state == SandboxState::NotReady).then_some(sandbox)
    })
    .await;
    assert!(stopped.addresses.is_empty());
    runtime.remove_pod_sandbox(&pod.sandbox).await.unwrap();
    assert_eq!(runtime.list_pod_sandboxes().await.unwrap(), []);
    assert_eq!(runtime.list_containers().await.unwrap(), []);
    assert!(runtime.pod_sandbox_ips(&pod.sandbox).await.unwrap().is_empty());
}

pub(crate) async fn reports_exit_code_and_reason(node: &TestNode) {
    let pod = node.pod().await;
    for (script, code, reason) in [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("kill -9 $$", 137, "Error"),
    ] {
        let mut spec = node.script(script);
        // PID 1 of a namespace cannot kill itself with a signal, but its child can.
        spec.args = vec![format!("sh -c '{script}'; exit $?")];
        spec.name = format!("ends-with-{code}");
        let id = node.start(&pod, &spec).await;
        let exit = node.exit(&id).await;
        assert_eq!((exit.code, exit.reason.as_str()), (code, reason), "{script}");
        assert!(exit.started.unwrap() <= exit.finished, "{exit:?}");
    }
}

pub(crate) async fn reports_missing_program(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script("");
    spec.command = vec!["/no/such/program".into()];
    std::fs::create_dir_all(pod.spec.log_directory.join("main")).unwrap();
    // Some runtimes check the program at creation, others at start.
    let error = match node
        .runtime
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
    {
        Ok(id) => node.runtime.start_container(&id).await.unwrap_err(),
        Err(error) => error,
    };
    let message = error.to_string();
    assert!(message.contains("/no/such/program"), "{message}");
    if let Some(container) = node.runtime.list_containers().await.unwrap().first() {
        match &container.state {
            ContainerState::Exited(exit) => {
                assert!(
                    ["ContainerCannotRun", "StartError"].contains(&exit.reason.as_str()),
                    "{exit:?}"
                );
                assert_ne!(exit.code, 0);
            }
            ContainerState::Created => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn reports_oom_kill(node: &TestNode) {
    let pod = node.pod().await;
    let mut spec = node.script("exec dd if=/dev/zero of=/dev/null bs=200M count=2");
    spec.resources = ContainerResources {
        memory: Some(32 << 20),
        ..ContainerResources::default()
    };
    let id = node.start(&pod, &spec).await;
    assert_eq!(node.exit(&id).await.code, 137);
    // Podman's monitor misses the OOM kill on hosts with both cgroup versions.
    let is_hybrid = std::path::Path::new("/sys/fs/cgroup/unified").exists();
    if !(node.runtime_under_test.name == "podman" && is_hybrid) {
        // The kernel reports exit and OOM kill separately, so the reason may arrive later.
        eventually("the reason is OOMKilled", async || {
            (node.exit(&id).await.reason == "OOMKilled").then_some(())
        })
        .await;
    }
}

pub(crate) async fn stop_respects_grace_period(node: &TestNode) {
    let pod = node.pod().await;
    let mut handler = node.script("trap 'exit 7' TERM; echo ready; while true; do sleep 0.05; done");
    handler.name = "polite".into();
    let mut ignorer = node.script("trap '' TERM; echo ready; while true; do sleep 0.05; done");
    ignorer.name = "deaf".into();
    for (spec, code) in [(handler, 7), (ignorer, 137)] {
        let id = node.start(&pod, &spec).await;
        eventually("the signal handler is set", async || {
            node.log(&id, &LogOptions::default())
                .await
                .contains("ready")
                .then_some(())
        })
        .await;
        let grace = if code == 7 {
            Duration::from_mins(1)
        } else {
            Duration::from_secs(1)
        };
        node.runtime.stop_container(&id, grace).await.unwrap();
        assert_eq!(node.exit(&id).await.code, code, "{}", spec.name);
    }
}

pub(crate) async fn stop_and_remove_are_idempotent(node: &TestNode) {
    let runtime = &node.runtime;
    let pod = node.pod().await;
    let id = node.start(&pod, &node.script("sleep 1000")).await;
    for _ in 0..2 {
        runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    }
    for _ in 0..2 {
        runtime.remove_container(&id).await.unwrap();
    }
    runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    for _ in 0..2 {
        runtime.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    }
    for _ in 0..2 {
        runtime.remove_pod_sandbox(&pod.sandbox).await.unwrap();
    }
    let error = runtime
        .exec_sync(&id, &["true".into()], Duration::from_mins(1))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::NotFound(_)), "{error:?}");
}

pub(crate) async fn new_connection_lists_existing_containers(node: &TestNode) {
    let mut spec = node.pod_spec();
    spec.attempt = 2;
    spec.labels.insert("app".into(), "web".into());
    spec.annotations.insert("note".into(), "kept".into());
    let pod = node.run(spec).await;
    let mut spec = node.script("sleep 1000");
    spec.attempt = 4;
    spec.labels.insert("part".into(), "front".into());
    spec.annotations.insert("hash".into(), "1234".into());
    let id = node.start(&pod, &spec).await;
    let first = node.container(&id).await.unwrap();

    let again = node.connect_as(&node.owner.node).await;
    let containers = again.list_containers().await.unwrap();
    assert_eq!(containers, [first]);
    assert_eq!(containers[0].attempt, 4);
    assert_eq!(containers[0].annotations["hash"], "1234");
    assert_eq!(containers[0].labels["part"], "front");
    let sandboxes = again.list_pod_sandboxes().await.unwrap();
    assert_eq!(sandboxes, node.runtime.list_pod_sandboxes().await.unwrap());
    assert_eq!(sandboxes[0].attempt, 2);
    assert_eq!(sandboxes[0].labels["app"], "web");
    assert_eq!(sandboxes[0].annotations["note"], "kept");
    again.stop_container(&id, Duration::ZERO).await.unwrap();
    assert_eq!(node.exit(&id).await.code, 137);
}

pub(crate) async fn nodes_are_isolated(node: &TestNode) {
    let pod = node.pod().await;
    let id = node.start(&pod, &node.script("sleep 1000")).await;
    let other = node.connect_as("other-node").await;
    let is_mine = |namespace: &str| namespace == node.owner.node;
    assert!(
        other
            .list_containers()
            .await
            .unwrap()
            .iter()
            .all(|container| !is_mine(&container.pod.namespace))
    );
    assert!(
        other
            .list_pod_sandboxes()
            .await
            .unwrap()
            .iter()
            .all(|sandbox| !is_mine(&sandbox.pod.namespace))
    );
    assert!(
        other
            .list_container_stats()
            .await
            .unwrap()
            .iter()
            .all(|usage| !is_mine(&usage.pod.namespace))
    );
    assert!(other.stop_container(&id, Duration::ZERO).await.is_err());
    assert!(other.remove_container(&id).await.is_err());
    assert!(other.remove_pod_sandbox(&pod.sandbox).await.is_err());
    assert!(node.container(&id).await.unwrap().is_running());
}

pub(crate) async fn clusters_are_isolated(node: &TestNode) {
    let pod = node.pod().await;
    let id = node.start(&pod, &node.script("sleep 1000")).await;
    let owner = ContainerOwner::new(&node.owner.node, format!("another-than-{}", node.owner.cluster));
    let other = node.connect_owner(owner.clone()).await;
    assert_eq!(other.list_pod_sandboxes().await.unwrap(), []);
    assert_eq!(other.list_containers().await.unwrap(), []);
    assert_eq!(other.list_container_stats().await.unwrap().len(), 0);
    assert!(other.stop_container(&id, Duration::ZERO).await.is_err());
    assert!(other.remove_container(&id).await.is_err());
    assert!(other.stop_pod_sandbox(&pod.sandbox).await.is_err());
    assert!(other.remove_pod_sandbox(&pod.sandbox).await.is_err());
    assert_eq!(other.other_clusters().await.unwrap()[&node.owner.cluster], 2);
    // Both clusters run a pod of the same name, and each lists only its own.
    let mut spec = pod.spec.clone();
    spec.pod.uid.push_str("-other");
    let sandbox = other.run_pod_sandbox(&spec).await.unwrap();
    let other_container = other
        .create_container(&sandbox, &spec, &node.script("sleep 1000"))
        .await
        .unwrap();
    other.start_container(&other_container).await.unwrap();
    assert_eq!(other.list_containers().await.unwrap().len(), 1);
    assert_eq!(node.runtime.list_containers().await.unwrap().len(), 1);
    assert_eq!(node.runtime.other_clusters().await.unwrap()[&owner.cluster], 2);
    assert!(node.runtime.images_in_use().await.unwrap().len() >= 2);
    other.stop_pod_sandbox(&sandbox).await.unwrap();
    other.remove_pod_sandbox(&sandbox).await.unwrap();
    assert!(node.container(&id).await.unwrap().is_running());
}

pub(crate) async fn reports_container_events(node: &TestNode) {
    let pod = node.pod().await;
    let id = node.start(&pod, &node.script("read line; exit 5")).await;
    let is_ours = |change: &PodLifecycleEvent| match change {
        PodLifecycleEvent::Any => true,
        PodLifecycleEvent::Pod { uid } => *uid == pod.spec.pod.uid,
    };
    soon("an event of the pod", async {
        // A runtime that is slow to report missing events ends the first stream: subscribe again.
        for number in 0.. {
            let mut changes = node.runtime.container_events().await.unwrap();
            let mut spec = node.script("exit 5");
            spec.name = format!("other-{number}");
            let other = node.start(&pod, &spec).await;
            while let Some(change) = changes.next().await {
                assert!(is_ours(&change), "{change:?}");
                // The list may follow the event a little later.
                let container = node.container(&other).await.unwrap();
                if matches!(container.state, ContainerState::Exited(_)) {
                    return;
                }
            }
        }
    })
    .await;
    assert!(node.container(&id).await.is_some());
}

pub(crate) async fn keeps_containers_of_earlier_attempts(node: &TestNode) {
    let pod = node.pod().await;
    for attempt in 0..3 {
        let mut spec = node.script("exit 1");
        spec.attempt = attempt;
        let id = node.start(&pod, &spec).await;
        node.exit(&id).await;
    }
    let mut attempts: Vec<_> = node
        .runtime
        .list_containers()
        .await
        .unwrap()
        .iter()
        .map(|one| one.attempt)
        .collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 1, 2]);
    // A stopped sandbox releases its name to the next attempt.
    node.runtime.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    let mut spec = pod.spec.clone();
    spec.attempt = 1;
    node.run(spec).await;
    assert_eq!(node.runtime.list_pod_sandboxes().await.unwrap().len(), 2);
}
