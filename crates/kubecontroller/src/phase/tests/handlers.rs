//! Functions, composites, objects.

use super::*;

fn sleeps(
    log: &Log,
    name: &'static str,
    time: u64,
    answer: fn() -> StepResult<Migration>,
) -> Handler<Migration> {
    let log = log.clone();
    let run = move |_: Context<Migration>| {
        let log = log.clone();
        async move {
            log.add(format!("{name} begins"));
            tokio::time::sleep(seconds(time)).await;
            log.add(format!("{name} ends"));
            answer()
        }
    };
    function(run).named(name)
}

fn notes(name: &'static str) -> Handler<Migration> {
    let run = move |context: Context<Migration>| async move {
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
async fn a_handler_that_is_not_done_is_entered_again_with_its_last_state() {
    let (environment, mut object) = (environment(), migration());
    let seen = Log::default();
    let log = seen.clone();
    let run = move |context: Context<Migration>| {
        log.add(format!(
            "{} {}",
            context.last().start_time.is_some(),
            context.last().failed
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
async fn serial_children_stop_at_a_failure_and_done_ones_are_not_run_again() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
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
    assert_eq!(state(&object, &["Run", "c"]), State::default());
    pass(&machine, &environment, &mut object).await;
    let failed = state(&object, &["Run"]);
    assert!(failed.failed && !failed.fatal && !failed.done && failed.error.is_none());
    assert_eq!(reason_of(&object), "b: later");
    drive(&machine, &environment, &mut object).await;
    assert_eq!(log.all(), ["a", "b", "b", "b", "c"]);
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "c: broken")
    );
    assert_eq!(state(&object, &["Run", "d"]).start_time, None);
    let all = state(&object, &["Run"]);
    assert!(all.done && all.failed && all.fatal);
}

#[tokio::test(start_paused = true)]
async fn parallel_children_run_at_once() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    let machine = one(parallel(["a", "b", "c"].map(|name| sleeps(&log, name, 1, done))));
    let began = Instant::now();
    pass(&machine, &environment, &mut object).await;
    assert_eq!(began.elapsed(), seconds(1));
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn the_first_error_cancels_the_other_parallel_children_and_all_are_waited_for() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    let polite = {
        let log = log.clone();
        let run = move |context: Context<Migration>| {
            let log = log.clone();
            async move {
                context.cancelled().await;
                tokio::time::sleep(seconds(2)).await;
                log.add("tidied up");
                Err(PhaseError::cancelled())
            }
        };
        function(run).named("polite").grace(seconds(3))
    };
    let quick = sleeps(&log, "quick", 1, done);
    let nested = serial([sleeps(&log, "slow", 100, done)]).named("nested");
    let machine = one(parallel([quick, sleeps(&log, "bad", 1, retry), nested, polite]));
    let began = Instant::now();
    pass(&machine, &environment, &mut object).await;
    assert_eq!(began.elapsed(), seconds(3));
    assert_eq!((log.count("slow ends"), log.count("tidied up")), (0, 1));
    for (child, result) in [
        ("quick", HandlerResult::Succeeded),
        ("nested", HandlerResult::Doing),
        ("polite", HandlerResult::Doing),
    ] {
        let state = state(&object, &["Run", child]);
        assert_eq!((state.result(), state.failed), (result, false), "{child}");
    }
    assert_eq!(reason_of(&object), "bad: later");
    // The next try runs those that are not done, and only those.
    pass(&machine, &environment, &mut object).await;
    assert_eq!((log.count("quick begins"), log.count("slow begins")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn errors_of_children_are_told_together_and_the_state_mirrors_the_tree() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
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
    let names = |state: &State| state.state.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&state(&object, &["Run"])), ["a", "e", "inner"]);
    assert_eq!(names(&state(&object, &["Run", "inner"])), ["c", "d"]);
    assert_eq!(names(&state(&object, &["Run", "e"])), ["f"]);
    let inner = state(&object, &["Run", "inner"]);
    assert!(inner.fatal && inner.error.is_none());
    assert!(
        !state(&object, &["Run", "inner", "d"]).fatal,
        "one that may be tried again stays so"
    );
}

#[tokio::test(start_paused = true)]
async fn a_composite_without_children_fails_for_good() {
    for (handler, want) in [
        (serial([]), "Composite handler Run has no children"),
        (
            serial([parallel([]).named("hollow")]),
            "hollow: Composite handler hollow has no children",
        ),
    ] {
        let (environment, mut object) = (environment(), migration());
        drive(&one(handler), &environment, &mut object).await;
        assert_eq!((object.phase(), reason_of(&object).as_str()), ("Failed", want));
    }
}

#[tokio::test(start_paused = true)]
async fn children_in_a_row_see_the_changes_of_those_before_and_parallel_ones_lose_none() {
    let (environment, mut object) = (environment(), migration());
    let both = parallel([serial([notes("b"), notes("c")]).named("bc"), notes("d")]).named("both");
    drive(&one(serial([notes("a"), both])), &environment, &mut object).await;
    let want = ["a saw 0", "b saw 1", "c saw 2", "d saw 1"];
    assert_eq!(object.status.as_ref().unwrap().notes, want);
    // A change cannot reach what the machine keeps.
    let wild = function(|_: Context<Migration>| async {
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

fn work_through(log: &Log, size: usize, work: fn(ObjectState) -> ObjectState) -> Machine<Migration> {
    let log = log.clone();
    let list = paths(ObjectPaths::new("spec.tables[*]", "id").group("shard"));
    let work = move |_: Context<Migration>, batch: Vec<ObjectState>| {
        let ids: Vec<&str> = batch.iter().map(|object| object.id.as_str()).collect();
        log.add(ids.join(","));
        async move { Ok(Step::objects(batch.into_iter().map(work))) }
    };
    one(objects(list, work).batch(size))
}

#[tokio::test(start_paused = true)]
async fn objects_are_handed_over_in_batches_or_by_group() {
    let environment = environment();
    let (plain, shard) = (None, Some("s"));
    for (size, shards, want) in [
        (2, [plain; 5], vec!["1,2", "3,4", "5"]),
        (0, [plain; 5], vec!["1,2,3,4,5"]),
        (2, [plain, shard, plain, shard, shard], vec!["1,3", "2,4,5"]),
    ] {
        let (log, mut object) = (Log::default(), migration());
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
    // Without objects there is nothing to do.
    let mut object = migration();
    drive(
        &work_through(&Log::default(), 2, ObjectState::finished),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn warnings_and_errors_of_objects_are_those_of_their_handler() {
    fn warned(object: ObjectState) -> ObjectState {
        let odd = object.id == "2";
        let object = object.finished();
        if odd { object.warned("slow") } else { object }
    }
    fn failed(object: ObjectState) -> ObjectState {
        if object.id == "1" {
            object.failed("gone")
        } else {
            warned(object)
        }
    }
    let (log, environment) = (Log::default(), environment());
    for (work, phase, result, told) in [
        (
            warned as fn(_) -> _,
            "Succeeded",
            HandlerResult::Warning,
            "2: slow",
        ),
        (failed as fn(_) -> _, "Failed", HandlerResult::Failed, "1: gone"),
    ] {
        let mut object = migration();
        object.spec.tables = ["1", "2", "3"].map(|id| table(id, None)).into();
        drive(&work_through(&log, 1, work), &environment, &mut object).await;
        let state = state(&object, &["Run"]);
        assert_eq!((object.phase(), state.result()), (phase, result));
        assert_eq!(state.error.or(state.warning).as_deref(), Some(told));
    }
    // All were worked on although the first failed.
    assert_eq!(log.all().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn objects_are_told_apart_by_their_ids() {
    let (environment, mut object) = (environment(), migration());
    object.spec.tables = vec![table("1", None), table("1", None)];
    drive(
        &work_through(&Log::default(), 0, ObjectState::finished),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(reason_of(&object), r#"two objects have the id "1""#);
    object = migration();
    object.spec.tables = vec![table("", None)];
    drive(
        &work_through(&Log::default(), 0, ObjectState::finished),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(
        reason_of(&object),
        r#"no id at "id" in an object of "spec.tables[*]""#
    );
}
