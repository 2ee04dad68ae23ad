//! Reset, revert, purge, audit, continue.

use kube::ResourceExt;
use serde_json::json;

use super::*;

async fn failed(log: &Log, environment: &MachineEnvironment) -> (Machine<Migration>, Migration) {
    let bad = serial([script(log, "ok", [done]), script(log, "bad", [fatal, done])]);
    let machine = two(script(log, "check", [done]), bad).build().unwrap();
    let mut object = migration();
    drive(&machine, environment, &mut object).await;
    assert_eq!(object.phase(), "Failed");
    (machine, object)
}

#[tokio::test(start_paused = true)]
async fn a_reset_leads_back_to_the_failure_and_keeps_what_succeeded() {
    let (log, environment) = (Log::default(), environment());
    let (machine, mut object) = failed(&log, &environment).await;
    let kept = state(&object, &["Run", "ok"]);
    let mut cleared = Vec::new();
    machine
        .reset(&mut object, |path, _| cleared.push(path.join("/")))
        .unwrap();
    assert_eq!(cleared, ["Run/bad", "Run"]);
    assert_eq!((object.phase(), reason_of(&object).as_str()), ("Run", ""));
    assert_eq!(state(&object, &["Run", "bad"]), State::default());
    assert_eq!(state(&object, &["Run", "ok"]), kept);
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), log.all().join(" ").as_str()),
        ("Succeeded", "check ok bad bad")
    );
    // Only what failed can be reset.
    let refused = machine.reset(&mut object, |_, _| {}).unwrap_err();
    assert_eq!(refused, ActionRejection::NotFailed("Succeeded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_reset_hands_failed_objects_over_again_and_no_others() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    object.spec.tables = ["1", "2"]
        .map(|id| Table {
            id: id.to_owned(),
            shard: None,
        })
        .into();
    let seen = log.clone();
    let work = move |_: Context<Migration>, batch: Vec<ObjectState>| {
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
async fn each_action_does_its_work_and_no_other() {
    let (log, environment) = (Log::default(), environment());
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
    let known = |object: &Migration| object.phases().unwrap().state.keys().cloned().collect::<Vec<_>>();
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
            (after.phase(), after.paused(), known(&after)),
            (phase, paused, states.into_iter().map(str::to_owned).collect()),
            "{name}"
        );
        assert_eq!(after.annotations().len(), annotations, "{name}");
        assert_eq!(after.spec.source, object.spec.source);
    }
    let purged = act("purge", json!({})).unwrap();
    assert_eq!(reason_of(&purged), "bad: broken");
    for (name, arguments, why) in [
        (
            "revert",
            json!({ "to": "Failed" }),
            ActionRejection::NotOnPath("Failed".to_owned()),
        ),
        (
            "audit",
            json!({ "result": "Passed" }),
            ActionRejection::NotWaiting("Failed".to_owned()),
        ),
    ] {
        assert_eq!(act(name, arguments).unwrap_err(), why);
    }
    assert!(matches!(
        act("explode", json!({})),
        Err(ActionRejection::Unknown(_))
    ));
    assert!(matches!(
        act("audit", json!({ "result": "Maybe" })),
        Err(ActionRejection::Unknown(_))
    ));
    let mut running = migration();
    let refused = machine
        .act(&mut running, &Action::Purge, environment.now())
        .unwrap_err();
    assert_eq!(refused, ActionRejection::NotEnded(String::new()));
    for name in Action::NAMES {
        assert!(
            Action::named(name, Some(&json!({ "result": "Passed" }))).is_ok(),
            "{name}"
        );
    }
}
