//! What tests rely on in the runtime that runs nothing.

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
async fn a_container_ends_when_its_program_does_and_wakes_who_listens() {
    let runtime = FakeRuntime::new(clock()).with_image("busybox:latest");
    let after = Duration::from_secs(3);
    runtime.program("main", &[Program::Exit { after, code: 1 }]);
    let sandbox = runtime.run_sandbox(&pod()).await.unwrap();
    let spec = ContainerSpec {
        name: "main".to_owned(),
        image: "sha256:busybox:latest".to_owned(),
        ..ContainerSpec::default()
    };
    let id = runtime.create_container(&sandbox, &pod(), &spec).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    let mut changes = runtime.changes().await.unwrap();
    assert_eq!(runtime.running(), ["web/main#0"]);
    assert_eq!(changes.next().await, Some(Change::Any));
    assert!(runtime.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_cut_before_and_after_it_is_done() {
    let runtime = FakeRuntime::new(clock());
    for (cut, left) in [(Cut::Before, 0), (Cut::After, 1)] {
        runtime.cut_at(1, cut);
        let spec = pod();
        tokio::select! {
            _ = runtime.run_sandbox(&spec) => panic!("a cut call never answers"),
            () = runtime.was_cut() => {}
        }
        assert_eq!(runtime.sandbox_count(SandboxState::Ready), left);
        runtime.heal();
    }
}
