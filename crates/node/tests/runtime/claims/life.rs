//! How sandboxes and containers begin and end.

use std::time::Duration;

use futures_util::StreamExt;
use k3_node::runtime::{Change, ContainerState, LogOptions, Owner, Resources, RuntimeError, SandboxState};
use k3_test_services::TEST_IMAGE;

use crate::world::{World, eventually, soon};

pub(crate) async fn a_sandbox_and_its_container_live_and_end(world: &World) {
    let runtime = &world.runtime;
    let pod = world.pod().await;
    let addresses = runtime.addresses(&pod.sandbox).await.unwrap();
    let sandboxes = runtime.sandboxes().await.unwrap();
    assert_eq!(sandboxes.len(), 1);
    assert_eq!(sandboxes[0].id, pod.sandbox);
    assert_eq!(sandboxes[0].pod, pod.spec.pod);
    assert_eq!(sandboxes[0].state, SandboxState::Ready);
    assert_eq!(sandboxes[0].addresses.len(), 1);
    assert_eq!(sandboxes[0].addresses, addresses);

    std::fs::create_dir_all(pod.spec.log_directory.join("main")).unwrap();
    let spec = world.script("sleep 1000");
    let id = runtime
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
        .unwrap();
    let container = world.container(&id).await.unwrap();
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
    assert!(world.container(&id).await.unwrap().is_running());
    runtime.stop_sandbox(&pod.sandbox).await.unwrap();
    assert_ne!(world.exit(&id).await.code, 0);
    // A Docker answers that it has stopped one a little before its list says so.
    let stopped = eventually("the sandbox is not ready", async || {
        let mut sandboxes = runtime.sandboxes().await.unwrap();
        let sandbox = sandboxes.remove(0);
        (sandbox.state == SandboxState::NotReady).then_some(sandbox)
    })
    .await;
    assert!(stopped.addresses.is_empty());
    runtime.remove_sandbox(&pod.sandbox).await.unwrap();
    assert_eq!(runtime.sandboxes().await.unwrap(), []);
    assert_eq!(runtime.containers().await.unwrap(), []);
    assert!(runtime.addresses(&pod.sandbox).await.unwrap().is_empty());
}

pub(crate) async fn the_end_of_a_container_is_told(world: &World) {
    let pod = world.pod().await;
    for (script, code, reason) in [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("kill -9 $$", 137, "Error"),
    ] {
        let mut spec = world.script(script);
        // The first process of a namespace cannot end itself by a signal: a child of it can.
        spec.args = vec![format!("sh -c '{script}'; exit $?")];
        spec.name = format!("ends-with-{code}");
        let id = world.start(&pod, &spec).await;
        let exit = world.exit(&id).await;
        assert_eq!((exit.code, exit.reason.as_str()), (code, reason), "{script}");
        assert!(exit.started.unwrap() <= exit.finished, "{exit:?}");
    }
}

pub(crate) async fn a_program_that_is_not_there_is_told(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script("");
    spec.command = vec!["/no/such/program".into()];
    std::fs::create_dir_all(pod.spec.log_directory.join("main")).unwrap();
    // Some runtimes look when a container is made, others when it is started.
    let error = match world
        .runtime
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
    {
        Ok(id) => world.runtime.start_container(&id).await.unwrap_err(),
        Err(error) => error,
    };
    let message = error.to_string();
    assert!(message.contains("/no/such/program"), "{message}");
    if let Some(container) = world.runtime.containers().await.unwrap().first() {
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

pub(crate) async fn what_needs_too_much_memory_is_killed_and_told(world: &World) {
    let pod = world.pod().await;
    let mut spec = world.script("exec dd if=/dev/zero of=/dev/null bs=200M count=2");
    spec.resources = Resources {
        memory: Some(32 << 20),
        ..Resources::default()
    };
    let id = world.start(&pod, &spec).await;
    assert_eq!(world.exit(&id).await.code, 137);
    // Podman's monitor does not see it where both versions of cgroups are mounted, and nobody else can tell afterwards.
    let is_hybrid = std::path::Path::new("/sys/fs/cgroup/unified").exists();
    if !(world.place.name == "podman" && is_hybrid) {
        // The kernel tells of the end and of its reason apart, and a runtime may hear of the reason last.
        eventually("the reason is told", async || {
            (world.exit(&id).await.reason == "OOMKilled").then_some(())
        })
        .await;
    }
}

pub(crate) async fn a_container_has_its_grace_and_no_more(world: &World) {
    let pod = world.pod().await;
    let mut polite = world.script("trap 'exit 7' TERM; echo ready; while true; do sleep 0.05; done");
    polite.name = "polite".into();
    let mut deaf = world.script("trap '' TERM; echo ready; while true; do sleep 0.05; done");
    deaf.name = "deaf".into();
    for (spec, code) in [(polite, 7), (deaf, 137)] {
        let id = world.start(&pod, &spec).await;
        eventually("it listens to signals", async || {
            world
                .log(&id, &LogOptions::default())
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
        world.runtime.stop_container(&id, grace).await.unwrap();
        assert_eq!(world.exit(&id).await.code, code, "{}", spec.name);
    }
}

pub(crate) async fn stopping_and_removing_again_succeeds(world: &World) {
    let runtime = &world.runtime;
    let pod = world.pod().await;
    let id = world.start(&pod, &world.script("sleep 1000")).await;
    for _ in 0..2 {
        runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    }
    for _ in 0..2 {
        runtime.remove_container(&id).await.unwrap();
    }
    runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    for _ in 0..2 {
        runtime.stop_sandbox(&pod.sandbox).await.unwrap();
    }
    for _ in 0..2 {
        runtime.remove_sandbox(&pod.sandbox).await.unwrap();
    }
    let error = runtime
        .exec_sync(&id, &["true".into()], Duration::from_mins(1))
        .await
        .unwrap_err();
    assert!(matches!(error, RuntimeError::NotFound(_)), "{error:?}");
}

pub(crate) async fn a_new_connection_finds_what_was_there(world: &World) {
    let mut spec = world.pod_spec();
    spec.attempt = 2;
    spec.labels.insert("app".into(), "web".into());
    spec.annotations.insert("note".into(), "kept".into());
    let pod = world.run(spec).await;
    let mut spec = world.script("sleep 1000");
    spec.attempt = 4;
    spec.labels.insert("part".into(), "front".into());
    spec.annotations.insert("hash".into(), "1234".into());
    let id = world.start(&pod, &spec).await;
    let first = world.container(&id).await.unwrap();

    let again = world.connect_as(&world.owner.node).await;
    let containers = again.containers().await.unwrap();
    assert_eq!(containers, [first]);
    assert_eq!(containers[0].attempt, 4);
    assert_eq!(containers[0].annotations["hash"], "1234");
    assert_eq!(containers[0].labels["part"], "front");
    let sandboxes = again.sandboxes().await.unwrap();
    assert_eq!(sandboxes, world.runtime.sandboxes().await.unwrap());
    assert_eq!(sandboxes[0].attempt, 2);
    assert_eq!(sandboxes[0].labels["app"], "web");
    assert_eq!(sandboxes[0].annotations["note"], "kept");
    again.stop_container(&id, Duration::ZERO).await.unwrap();
    assert_eq!(world.exit(&id).await.code, 137);
}

pub(crate) async fn two_owners_never_see_each_other(world: &World) {
    let pod = world.pod().await;
    let id = world.start(&pod, &world.script("sleep 1000")).await;
    let other = world.connect_as("somebody-else").await;
    let is_mine = |node: &str| node == world.owner.node;
    assert!(
        other
            .containers()
            .await
            .unwrap()
            .iter()
            .all(|container| !is_mine(&container.pod.namespace))
    );
    assert!(
        other
            .sandboxes()
            .await
            .unwrap()
            .iter()
            .all(|sandbox| !is_mine(&sandbox.pod.namespace))
    );
    assert!(
        other
            .usage()
            .await
            .unwrap()
            .iter()
            .all(|usage| !is_mine(&usage.pod.namespace))
    );
    assert!(other.stop_container(&id, Duration::ZERO).await.is_err());
    assert!(other.remove_container(&id).await.is_err());
    assert!(other.remove_sandbox(&pod.sandbox).await.is_err());
    assert!(world.container(&id).await.unwrap().is_running());
}

pub(crate) async fn nodes_of_two_clusters_with_one_name_leave_each_other_alone(world: &World) {
    let pod = world.pod().await;
    let id = world.start(&pod, &world.script("sleep 1000")).await;
    let owner = Owner::new(&world.owner.node, format!("another-than-{}", world.owner.cluster));
    let other = world.connect_owner(owner.clone()).await;
    assert_eq!(other.sandboxes().await.unwrap(), []);
    assert_eq!(other.containers().await.unwrap(), []);
    assert_eq!(other.usage().await.unwrap().len(), 0);
    assert!(other.stop_container(&id, Duration::ZERO).await.is_err());
    assert!(other.remove_container(&id).await.is_err());
    assert!(other.stop_sandbox(&pod.sandbox).await.is_err());
    assert!(other.remove_sandbox(&pod.sandbox).await.is_err());
    assert_eq!(other.other_clusters().await.unwrap()[&world.owner.cluster], 2);
    // A pod of the same name in the other cluster: both run, and each sees its own.
    let mut spec = pod.spec.clone();
    spec.pod.uid.push_str("-other");
    let sandbox = other.run_sandbox(&spec).await.unwrap();
    let theirs = other
        .create_container(&sandbox, &spec, &world.script("sleep 1000"))
        .await
        .unwrap();
    other.start_container(&theirs).await.unwrap();
    assert_eq!(other.containers().await.unwrap().len(), 1);
    assert_eq!(world.runtime.containers().await.unwrap().len(), 1);
    assert_eq!(world.runtime.other_clusters().await.unwrap()[&owner.cluster], 2);
    assert!(world.runtime.images_in_use().await.unwrap().len() >= 2);
    other.stop_sandbox(&sandbox).await.unwrap();
    other.remove_sandbox(&sandbox).await.unwrap();
    assert!(world.container(&id).await.unwrap().is_running());
}

pub(crate) async fn changes_wake_who_listens(world: &World) {
    let pod = world.pod().await;
    let id = world.start(&pod, &world.script("read line; exit 5")).await;
    let is_ours = |change: &Change| match change {
        Change::Any => true,
        Change::Pod { uid } => *uid == pod.spec.pod.uid,
    };
    soon("a change of our pod", async {
        // A runtime that takes long to say that it has no events ends the stream at first: who listens begins again.
        for number in 0.. {
            let mut changes = world.runtime.changes().await.unwrap();
            let mut spec = world.script("exit 5");
            spec.name = format!("other-{number}");
            let other = world.start(&pod, &spec).await;
            while let Some(change) = changes.next().await {
                assert!(is_ours(&change), "{change:?}");
                // What woke us is seen by who looks then, sooner or later.
                let container = world.container(&other).await.unwrap();
                if matches!(container.state, ContainerState::Exited(_)) {
                    return;
                }
            }
        }
    })
    .await;
    assert!(world.container(&id).await.is_some());
}

pub(crate) async fn an_attempt_follows_another(world: &World) {
    let pod = world.pod().await;
    for attempt in 0..3 {
        let mut spec = world.script("exit 1");
        spec.attempt = attempt;
        let id = world.start(&pod, &spec).await;
        world.exit(&id).await;
    }
    let mut attempts: Vec<_> = world
        .runtime
        .containers()
        .await
        .unwrap()
        .iter()
        .map(|one| one.attempt)
        .collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 1, 2]);
    // A sandbox that ended makes room for the next one, too.
    world.runtime.stop_sandbox(&pod.sandbox).await.unwrap();
    let mut spec = pod.spec.clone();
    spec.attempt = 1;
    world.run(spec).await;
    assert_eq!(world.runtime.sandboxes().await.unwrap().len(), 2);
}
