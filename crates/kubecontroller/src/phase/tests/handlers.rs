//! Tests of functions, composites and handlers of objects.

use super::*;

fn sleeps(
    log: &CallLog,
    name: &'static str,
    time: u64,
    result: fn() -> StepResult<Migration>,
) -> PhaseHandler<Migration> {
    let log = log.clone();
    let run = move |_: HandlerContext<Migration>| {
        let log = log.clone();
        async move {
            log.add(format!("{name} begins"));
            tokio::time::sleep(seconds(time)).await;
            log.add(format!("{name} ends"));
            result()
        }
    };
    function(run).named(name)
}

fn notes(name: &'static str) -> PhaseHandler<Migration> {
    let run = move |context: HandlerContext<Migration>| async move {
        let before = context
            .resource()
            .status
            .as_ref()
            .map_or(0, |status| status.notes.len());
        let note = format!("{name} saw {before}");
        Ok(Step::done().change(move |object: &mut Migration| {
            object.status.get_or_insert_default().notes.push(note.clone());
        }))
    };
    function(run).named(name)
}

#[tokio::test(start_paused = true)]
async fn unfinished_handler_runs_again_with_last_state() {
    let environment = environment();
    let mut object = migration();
    let seen = CallLog::default();
    let log = seen.clone();
    let run = move |context: HandlerContext<Migration>| {
        log.add(format!(
            "{} {}",
            context.last().start_time.is_some(),
            context.last().completion().is_failure()
        ));
        let runs = log.all().len();
        async move {
            match runs {
                1 => not_yet(),
                2 => retry(),
                _ => done(),
            }
        }
    };
    let machine = one(function(run).named("work"));
    pass(&machine, &environment, &mut object).await;
    let began = state(&object, &["Run"]).start_time;
    tokio::time::sleep(seconds(5)).await;
    drive(&machine, &environment, &mut object).await;
    assert_eq!(seen.all(), ["false false", "true false", "true true"]);
    assert_eq!(state(&object, &["Run"]).start_time, began);
    assert!(state(&object, &["Run"]).end_time > began);
}

#[tokio::test(start_paused = true)]
async fn serial_children_stop_at_failure_and_finished_ones_do_not_run_again() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let children = [
        script(&log, "a", [done]),
        script(&log, "b", [not_yet, retry, done]),
        script(&log, "c", [fatal]),
        script(&log, "d", [done]),
    ];
    let machine = one(serial(children).named("all"));
    pass(&machine, &environment, &mut object).await;
    assert_eq!(log.all(), ["a", "b"]);
    assert_eq!(state(&object, &["Run", "a"]).result(), HandlerResult::Succeeded);
    assert_eq!(state(&object, &["Run", "b"]).result(), HandlerResult::Doing);
    assert_eq!(state(&object, &["Run", "c"]), HandlerState::default());
    pass(&machine, &environment, &mut object).await;
    let failed = state(&object, &["Run"]);
    assert_eq!(
        (failed.completion(), &failed.error),
        (Completion::Retrying, &None)
    );
    assert_eq!(reason_of(&object), "b: later");
    drive(&machine, &environment, &mut object).await;
    assert_eq!(log.all(), ["a", "b", "b", "b", "c"]);
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "c: broken")
    );
    assert_eq!(state(&object, &["Run", "d"]).start_time, None);
    let all = state(&object, &["Run"]);
    assert_eq!(all.completion(), Completion::Failed);
}

#[tokio::test(start_paused = true)]
async fn parallel_children_run_concurrently() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let machine = one(parallel(["a", "b", "c"].map(|name| sleeps(&log, name, 1, done))));
    let began = Instant::now();
    pass(&machine, &environment, &mut object).await;
    assert_eq!(began.elapsed(), seconds(1));
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn first_error_cancels_parallel_siblings_and_awaits_them() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let graceful = {
        let log = log.clone();
        let run = move |context: HandlerContext<Migration>| {
            let log = log.clone();
            async move {
                context.cancelled().await;
                tokio::time::sleep(seconds(2)).await;
                log.add("cleaned up");
                Err(PhaseError::cancelled())
            }
        };
        function(run).named("graceful").grace(seconds(3))
    };
    let quick = sleeps(&log, "quick", 1, done);
    let nested = serial([sleeps(&log, "slow", 100, done)]).named("nested");
    let machine = one(parallel([quick, sleeps(&log, "bad", 1, retry), nested, graceful]));
    let began = Instant::now();
    pass(&machine, &environment, &mut object).await;
    assert_eq!(began.elapsed(), seconds(3));
    assert_eq!((log.count("slow ends"), log.count("cleaned up")), (0, 1));
    for (child, result) in [
        ("quick", HandlerResult::Succeeded),
        ("nested", HandlerResult::Doing),
        ("graceful", HandlerResult::Doing),
    ] {
        let state = state(&object, &["Run", child]);
        assert_eq!(
            (state.result(), state.completion().is_failure()),
            (result, false),
            "{child}"
        );
    }
    assert_eq!(reason_of(&object), "bad: later");
    // The next try runs only unfinished children.
    pass(&machine, &environment, &mut object).await;
    assert_eq!((log.count("quick begins"), log.count("slow begins")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn reason_joins_errors_of_children_and_state_mirrors_tree() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let inner = parallel([script(&log, "c", [fatal]), script(&log, "d", [retry])]).named("inner");
    let machine = one(serial([
        script(&log, "a", [done]),
        inner,
        serial([script(&log, "f", [done])]).named("e"),
    ]));
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "c: broken; d: later")
    );
    assert_eq!(machine.failed_reason(&object).as_deref(), Some("broken"));
    let names = |state: &HandlerState| state.state.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&state(&object, &["Run"])), ["a", "e", "inner"]);
    assert_eq!(names(&state(&object, &["Run", "inner"])), ["c", "d"]);
    assert_eq!(names(&state(&object, &["Run", "e"])), ["f"]);
    let inner = state(&object, &["Run", "inner"]);
    assert_eq!((inner.completion(), &inner.error), (Completion::Failed, &None));
    assert_eq!(
        state(&object, &["Run", "inner", "d"]).completion(),
        Completion::Retrying,
        "a retriable failure stays retriable"
    );
}

#[tokio::test(start_paused = true)]
async fn composite_without_children_fails_fatally() {
    for (handler, want) in [
        (serial([]), "Composite handler Run has no children"),
        (
            serial([parallel([]).named("hollow")]),
            "hollow: Composite handler hollow has no children",
        ),
    ] {
        let environment = environment();
        let mut object = migration();
        drive(&one(handler), &environment, &mut object).await;
        assert_eq!((object.phase(), reason_of(&object).as_str()), ("Failed", want));
    }
}

#[tokio::test(start_paused = true)]
async fn children_see_changes_of_predecessors_and_no_change_is_lost() {
    let environment = environment();
    let mut object = migration();
    let both = parallel([serial([notes("b"), notes("c")]).named("bc"), notes("d")]).named("both");
    drive(&one(serial([notes("a"), both])), &environment, &mut object).await;
    let want = ["a saw 0", "b saw 1", "c saw 2", "d saw 1"];
    assert_eq!(object.status.as_ref().unwrap().notes, want);
    // A change cannot modify the machine's own part of the status.
    let wild = function(|_: HandlerContext<Migration>| async {
        Ok(Step::done().change(|object: &mut Migration| object.status = None))
    });
    let machine = two(serial([notes("a")]), wild).build().unwrap();
    let mut object = migration();
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), object.phases().unwrap().state.len()),
        ("Succeeded", 2)
    );
}

fn table(id: &str, shard: Option<&str>) -> Table {
    Table {
        id: id.to_owned(),
        shard: shard.map(str::to_owned),
    }
}

fn work_through(log: &CallLog, size: usize, work: fn(ObjectState) -> ObjectState) -> StateMachine<Migration> {
    let log = log.clone();
    let list = paths(ObjectPaths::new("spec.tables[*]", "id").group("shard"));
    let work = move |_: HandlerContext<Migration>, batch: Vec<ObjectState>| {
        let ids: Vec<&str> = batch.iter().map(|object| object.id.as_str()).collect();
        log.add(ids.join(","));
        async move { Ok(Step::objects(batch.into_iter().map(work))) }
    };
    one(objects(list, work).batch(size))
}

#[tokio::test(start_paused = true)]
async fn objects_are_batched_by_size_or_group() {
    let environment = environment();
    let plain = None;
    let shard = Some("s");
    for (size, shards, want) in [
        (2, [plain; 5], vec!["1,2", "3,4", "5"]),
        (0, [plain; 5], vec!["1,2,3,4,5"]),
        (2, [plain, shard, plain, shard, shard], vec!["1,3", "2,4,5"]),
    ] {
        let log = CallLog::default();
        let mut object = migration();
        object.spec.tables = (1..)
            .zip(shards)
            .map(|(id, shard)| table(&id.to_string(), shard))
            .collect();
        let machine = work_through(&log, size, ObjectState::finished);
        drive(&machine, &environment, &mut object).await;
        assert_eq!(log.all(), want);
        assert_eq!(object.phase(), "Succeeded");
        let first = &state(&object, &["Run"]).objects[0];
        assert!(first.done && first.start_time.is_some() && first.end_time.is_some());
    }
    // Without objects the handler is done at once.
    let mut object = migration();
    drive(
        &work_through(&CallLog::default(), 2, ObjectState::finished),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn handler_reports_warnings_and_errors_of_objects() {
    fn warned(object: ObjectState) -> ObjectState {
        let odd = object.id == "2";
        let object = object.finished();
        if odd { object.warned("slow") } else { object }
    }
    fn failed(object: ObjectState) -> ObjectState {
        if object.id == "1" {
            object.failed("lost")
        } else {
            warned(object)
        }
    }
    let log = CallLog::default();
    let environment = environment();
    for (work, phase, result, message) in [
        (
            warned as fn(_) -> _,
            "Succeeded",
            HandlerResult::Warning,
            "2: slow",
        ),
        (failed as fn(_) -> _, "Failed", HandlerResult::Failed, "1: lost"),
    ] {
        let mut object = migration();
        object.spec.tables = ["1", "2", "3"].map(|id| table(id, None)).into();
        drive(&work_through(&log, 1, work), &environment, &mut object).await;
        let state = state(&object, &["Run"]);
        assert_eq!((object.phase(), state.result()), (phase, result));
        assert_eq!(state.error.or(state.warning).as_deref(), Some(message));
    }
    // All objects were processed although the first failed.
    assert_eq!(log.all().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn objects_need_unique_nonempty_ids() {
    let environment = environment();
    let mut object = migration();
    object.spec.tables = vec![table("1", None), table("1", None)];
    drive(
        &work_through(&CallLog::default(), 0, ObjectState::finished),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(reason_of(&object), r#"two objects have the id "1""#);
    object = migration();
    object.spec.tables = vec![table("", None)];
    drive(
        &work_through(&CallLog::default(), 0, ObjectState::finished),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(
        reason_of(&object),
        r#"no id at "id" in an object of "spec.tables[*]""#
    );
}
