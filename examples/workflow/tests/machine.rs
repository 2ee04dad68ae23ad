//! Tests of the state machine.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use kubecontroller::{
    phase::{MachineEnvironment, NextPass, Phased},
    testing::FakeApi,
};
use workflow::{EntryPhase, Executor, Workflow, machine};

/// Runs a workflow until it stops.
async fn run(executor: Executor, spec: serde_json::Value) -> Workflow {
    let environment = MachineEnvironment::new(FakeApi::new().client()).with(executor);
    let machine = machine().unwrap();
    let mut workflow = Workflow::new("w", serde_json::from_value(spec).unwrap());
    for _ in 0..20 {
        let pass = machine.pass(&environment, &workflow).await.unwrap();
        workflow = pass.object;
        if pass.then == NextPass::Stop || machine.is_terminal(&workflow) {
            return workflow;
        }
    }
    panic!("the workflow does not end: {workflow:?}");
}

/// The vertices in the order of completion.
fn order(workflow: &Workflow) -> Vec<&str> {
    let entries = &workflow.status.as_ref().unwrap().entries;
    let mut ended: Vec<_> = entries
        .iter()
        .map(|(name, entry)| (entry.order, name.as_str()))
        .collect();
    ended.sort_unstable();
    ended.into_iter().map(|(_, name)| name).collect()
}

#[tokio::test]
async fn join_waits_for_longest_path() {
    let spec = serde_json::json!({
        "events": [{"name": "begin"}, {"name": "end"}],
        "activities": [{"name": "short"}, {"name": "long1"}, {"name": "long2", "type": "function", "function": "echo", "args": ["hi"]}],
        "gateways": [{"name": "fork"}, {"name": "join"}],
        "edges": [
            {"obj1": "begin", "obj2": "fork"}, {"obj1": "fork", "obj2": "short"}, {"obj1": "fork", "obj2": "long1"},
            {"obj1": "long1", "obj2": "long2"}, {"obj1": "short", "obj2": "join"}, {"obj1": "long2", "obj2": "join"},
            {"obj1": "join", "obj2": "end"},
        ],
    });
    let done = run(Executor::new(), spec).await;
    assert_eq!(done.phase(), "final");
    assert_eq!(
        order(&done),
        ["begin", "fork", "long1", "short", "long2", "join", "end"]
    );
    assert_eq!(done.status.unwrap().entries["long2"].reason, "hi");
}

#[tokio::test]
async fn cycle_is_rejected() {
    let spec = serde_json::json!({
        "activities": [{"name": "a"}, {"name": "b"}],
        "edges": [{"obj1": "a", "obj2": "b"}, {"obj1": "b", "obj2": "a"}],
    });
    let rejected = run(Executor::new(), spec).await;
    assert_eq!(rejected.phase(), "rejected");
    assert!(
        machine()
            .unwrap()
            .failed_reason(&rejected)
            .unwrap()
            .contains("cycle: a -> b -> a")
    );
}

#[tokio::test]
async fn failed_activity_fails_the_workflow() {
    let spec = serde_json::json!({
        "activities": [{"name": "bad", "type": "shell", "path": "true"}, {"name": "good"}, {"name": "later"}],
        "edges": [{"obj1": "bad", "obj2": "later"}],
    });
    let failed = run(Executor::new(), spec).await;
    assert_eq!((failed.phase(), order(&failed)), ("failed", vec!["bad", "good"]));
    let entries = &failed.status.as_ref().unwrap().entries;
    assert_eq!(
        (entries["bad"].phase, entries["good"].phase),
        (EntryPhase::Failed, EntryPhase::Done)
    );
    let why = machine().unwrap().failed_reason(&failed).unwrap();
    assert!(why.contains("not allowed"), "{why}");
}
