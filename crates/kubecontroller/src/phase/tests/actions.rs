//! Tests of the actions reset, revert, purge, audit and continue.

use kube::ResourceExt;
use serde_json::json;

use super::*;

async fn failed(log: &CallLog, environment: &MachineEnvironment) -> (StateMachine<Migration>, Migration) {
    let bad = serial([script(log, "ok", [done]), script(log, "bad", [fatal, done])]);
    let machine = two(script(log, "check", [done]), bad).build().unwrap();
    let mut object = migration();
    drive(&machine, environment, &mut object).await;
    assert_eq!(object.phase(), "Failed");
    (machine, object)
}

#[tokio::test(start_paused = true)]
async fn reset_returns_to_failed_phase_and_keeps_successes() {
    let log = CallLog::default();
    let environment = environment();
    let (machine, mut object) = failed(&log, &environment).await;
    let kept = state(&object, &["Run", "ok"]);
    let mut cleared = Vec::new();
    machine
        .reset(&mut object, |path, _| cleared.push(path.join("/")))
        .unwrap();
    assert_eq!(cleared, ["Run/bad", "Run"]);
    assert_eq!((object.phase(), reason_of(&object).as_str()), ("Run", ""));
    assert_eq!(state(&object, &["Run", "bad"]), HandlerState::default());
    assert_eq!(state(&object, &["Run", "ok"]), kept);
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), log.all().join(" ").as_str()),
        ("Succeeded", "check ok bad bad")
    );
    // A succeeded object cannot be reset.
    let rejection = machine.reset(&mut object, |_, _| {}).unwrap_err();
    assert_eq!(rejection, ActionRejection::NotFailed("Succeeded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn reset_retries_only_failed_objects() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    object.spec.tables = ["1", "2"]
        .map(|id| Table {
            id: id.to_owned(),
            shard: None,
        })
        .into();
    let seen = log.clone();
    let work = move |_: HandlerContext<Migration>, batch: Vec<ObjectState>| {
        let first = seen.all().is_empty();
        seen.add(batch.iter().map(|object| object.id.as_str()).collect::<String>());
        let broken = move |object: ObjectState| {
            if first && object.id == "2" {
                object.failed("x")
            } else {
                object.finished()
            }
        };
        async move { Ok(Step::objects(batch.into_iter().map(broken))) }
    };
    let machine = one(objects(paths(ObjectPaths::new("spec.tables[*]", "id")), work));
    drive(&machine, &environment, &mut object).await;
    assert_eq!(machine.failed_reason(&object).as_deref(), Some("x"));
    machine.reset(&mut object, |_, _| {}).unwrap();
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), log.all()),
        ("Succeeded", vec!["12".to_owned(), "2".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn actions_change_only_what_they_name() {
    let log = CallLog::default();
    let environment = environment();
    let (machine, object) = failed(&log, &environment).await;
    let act = |name: &str, arguments: serde_json::Value| {
        let mut object = object.clone();
        object
            .annotations_mut()
            .insert("reconciling-barrier".to_owned(), "move:Run".to_owned());
        object
            .annotations_mut()
            .insert("mine".to_owned(), "stays".to_owned());
        let action = Action::named(name, Some(&arguments))?;
        machine
            .act(&mut object, &action, environment.now())
            .map(|()| object)
    };
    let states_of = |object: &Migration| object.phases().unwrap().state.keys().cloned().collect::<Vec<_>>();
    for (name, arguments, phase, paused, states, annotations) in [
        ("pause", json!({}), "Failed", true, vec!["Precheck", "Run"], 2),
        ("resume", json!({}), "Failed", false, vec!["Precheck", "Run"], 2),
        ("continue", json!({}), "Failed", false, vec!["Precheck", "Run"], 1),
        ("reset", json!({}), "Run", false, vec!["Precheck", "Run"], 2),
        ("revert", json!({}), "Precheck", false, vec![], 2),
        (
            "revert",
            json!({ "to": "Run" }),
            "Run",
            false,
            vec!["Precheck"],
            2,
        ),
        ("purge", json!({}), "Failed", false, vec![], 2),
    ] {
        let after = act(name, arguments).unwrap();
        assert_eq!(
            (after.phase(), after.paused(), states_of(&after)),
            (phase, paused, states.into_iter().map(str::to_owned).collect()),
            "{name}"
        );
        assert_eq!(after.annotations().len(), annotations, "{name}");
        assert_eq!(after.spec.source, object.spec.source);
    }
    let purged = act("purge", json!({})).unwrap();
    assert_eq!(reason_of(&purged), "bad: broken");
    for (name, arguments, rejection) in [
        (
            "revert",
            json!({ "to": "Failed" }),
            ActionRejection::NotOnPath("Failed".to_owned()),
        ),
        (
            "audit",
            json!({ "result": "Passed" }),
            ActionRejection::NoApprovalPending("Failed".to_owned()),
        ),
    ] {
        assert_eq!(act(name, arguments).unwrap_err(), rejection);
    }
    assert!(matches!(
        act("explode", json!({})),
        Err(ActionRejection::InvalidAction(_))
    ));
    assert!(matches!(
        act("audit", json!({ "result": "Maybe" })),
        Err(ActionRejection::InvalidAction(_))
    ));
    let mut running = migration();
    let rejection = machine
        .act(&mut running, &Action::Purge, environment.now())
        .unwrap_err();
    assert_eq!(rejection, ActionRejection::NotTerminal(String::new()));
    for name in Action::NAMES {
        assert!(
            Action::named(name, Some(&json!({ "result": "Passed" }))).is_ok(),
            "{name}"
        );
    }
}
