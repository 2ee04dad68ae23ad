//! Tests of the fake runtime's behaviour that other tests rely on.

use super::*;
use crate::PodIdentity;

fn pod() -> SandboxSpec {
    SandboxSpec {
        pod: PodIdentity {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
        },
        ..SandboxSpec::default()
    }
}

#[tokio::test(start_paused = true)]
async fn container_exit_is_an_event() {
    let runtime = FakeRuntime::new(clock()).with_image("busybox:latest");
    let after = Duration::from_secs(3);
    runtime.set_programs("main", &[FakeProgram::Exit { after, code: 1 }]);
    let sandbox = runtime.run_pod_sandbox(&pod()).await.unwrap();
    let spec = ContainerSpec {
        name: "main".to_owned(),
        image: "sha256:busybox:latest".to_owned(),
        ..ContainerSpec::default()
    };
    let id = runtime.create_container(&sandbox, &pod(), &spec).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    let mut changes = runtime.container_events().await.unwrap();
    assert_eq!(runtime.running(), ["web/main#0"]);
    assert_eq!(changes.next().await, Some(PodLifecycleEvent::Any));
    assert!(runtime.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn interrupts_calls_before_and_after_their_effect() {
    let runtime = FakeRuntime::new(clock());
    for (cut, left) in [(Interruption::Before, 0), (Interruption::After, 1)] {
        runtime.interrupt_at(1, cut);
        let spec = pod();
        tokio::select! {
            _ = runtime.run_pod_sandbox(&spec) => panic!("an interrupted call returned"),
            () = runtime.wait_until_interrupted() => {}
        }
        assert_eq!(runtime.sandbox_count(SandboxState::Ready), left);
        runtime.remove_faults();
    }
}
