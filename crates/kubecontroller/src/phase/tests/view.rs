//! Tests of views.

use serde_json::{Value, json};

use super::*;

fn times(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                usize::from(
                    name == "timestamp"
                        && value
                            .as_str()
                            .is_some_and(|time| time.starts_with("2027-01-15T08:00:")),
                ) + times(value)
            })
            .sum(),
        Value::Array(items) => items.iter().map(times).sum(),
        _ => 0,
    }
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("timestamp");
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn view_shows_path_and_checklist_with_times() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let checks = serial([
        script(&log, "disk", [done]).desc("disk is large enough"),
        parallel([script(&log, "net", [fatal, done])]).named("links"),
        script(&log, "last", [done]),
    ]);
    let machine = two(
        script(&log, "check", [done]).desc("checks the environment"),
        checks,
    )
    .build()
    .unwrap();
    drive(&machine, &environment, &mut object).await;
    let mut view = json!(machine.view(&object));
    assert_eq!(times(&view), 6, "{view}");
    without_times(&mut view);
    let want = json!({
        "phasesSummary": [
            { "phase": "Precheck", "desc": "checks the environment", "result": "Succeeded" },
            { "phase": "Run", "desc": "", "result": "Failed" },
            { "phase": "Done", "desc": "", "result": "Pending" },
        ],
        "phaseDetail": { "view": "checklist", "data": {
            "result": "Failed", "desc": "Run", "checks": [
                { "result": "Succeeded", "desc": "disk is large enough", "checks": [] },
                { "result": "Failed", "desc": "links", "checks": [{ "result": "Failed", "desc": "net", "checks": [] }] },
                { "result": "Pending", "desc": "last", "checks": [] },
            ],
        } },
    });
    assert_eq!(view, want);
    machine.reset(&mut object, |_, _| {}).unwrap();
    drive(&machine, &environment, &mut object).await;
    let end = machine.summary(&object).pop().unwrap();
    assert_eq!(
        (end.phase.as_str(), end.result),
        ("Done", HandlerResult::Succeeded)
    );
    assert_eq!(end.timestamp, state(&object, &["Run"]).end_time);
}

#[tokio::test(start_paused = true)]
async fn view_shows_objects_as_list_or_progress() {
    let environment = environment();
    let list = || {
        |_: HandlerContext<Migration>| async {
            Ok(["a", "b", "c"]
                .map(|id| ObjectState::new(id).named(format!("table {id}")))
                .into())
        }
    };
    let work = || {
        |_: HandlerContext<Migration>, batch: Vec<ObjectState>| async move {
            Ok(Step::objects(
                batch.into_iter().map(|object| object.finished().warned("slow")),
            ))
        }
    };
    let view = async |handler: PhaseHandler<Migration>| {
        let machine = one(handler.batch(1));
        let mut object = migration();
        let blank = json!(machine.detail(&object, "Run"));
        pass(&machine, &environment, &mut object).await;
        (blank, json!(machine.view(&object).phase_detail))
    };
    let (blank, mut seen) = view(objects(list(), work())).await;
    assert_eq!(blank, json!({ "view": "objectdetail", "data": {} }));
    let first = seen["data"]["a"].as_object_mut().unwrap();
    assert!(first.remove("startTime").is_some() && first.remove("endTime").is_some());
    assert_eq!(
        seen["data"]["a"],
        json!({ "id": "a", "name": "table a", "result": "Warning", "warning": "slow" })
    );
    assert_eq!(
        seen["data"]["b"],
        json!({ "id": "b", "name": "table b", "result": "Pending" })
    );
    let (_, seen) = view(objects(list(), work()).details(|_, object| json!(object.done))).await;
    assert_eq!(seen["data"], json!({ "a": true, "b": false, "c": false }));
    let (_, seen) = view(objects(list(), work()).view(HandlerView::Progress)).await;
    assert_eq!(
        seen,
        json!({ "view": "progress", "data": { "doneCount": 1, "totalCount": 3, "percent": 33 } })
    );
    let (_, seen) = view(objects(list(), work()).progress(|_, _| HandlerProgress::new(7, 8))).await;
    assert_eq!(
        seen["data"],
        json!({ "doneCount": 7, "totalCount": 8, "percent": 87 })
    );
    let (_, seen) = view(serial([objects(list(), work()).named("x")]).view(HandlerView::ObjectDetail)).await;
    assert_eq!(seen["data"].as_object().unwrap().len(), 3);
}
