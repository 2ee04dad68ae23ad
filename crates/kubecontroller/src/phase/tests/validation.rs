//! Phases, transitions, and what can be wrong with them.

use kube::CustomResourceExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_object_goes_from_the_initial_phase_to_the_end_by_the_transitions() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    let machine = two(script(&log, "check", [done]), script(&log, "move", [done]))
        .build()
        .unwrap();
    let mut begun = object.clone();
    machine.begin(&mut begun, clock().now());
    assert_eq!(begun.phase(), "Precheck");
    pass(&machine, &environment, &mut object).await;
    assert_eq!(object.phase(), "Run");
    drive(&machine, &environment, &mut object).await;
    assert_eq!(object.phase(), "Succeeded");
    assert!(machine.is_terminal(&object) && !machine.is_failed(&object));
    assert_eq!(log.all(), ["check", "move"]);
    // Nothing is done at the end.
    let after = machine.pass(&environment, &object).await.unwrap();
    assert_eq!((after.then, log.all().len()), (NextPass::Stop, 2));
}

#[tokio::test(start_paused = true)]
async fn a_failure_leads_to_the_error_phase_of_the_phase_it_happened_in() {
    let (log, environment) = (Log::default(), environment());
    for (check, run, end) in [
        (fatal as fn() -> _, done as fn() -> _, "PreFailed"),
        (done, fatal, "Failed"),
    ] {
        let machine = two(script(&log, "check", [check]), script(&log, "move", [run]))
            .build()
            .unwrap();
        let mut object = migration();
        drive(&machine, &environment, &mut object).await;
        assert_eq!((object.phase(), reason_of(&object).as_str()), (end, "broken"));
        assert!(machine.is_failed(&object));
        assert_eq!(machine.failed_reason(&object).as_deref(), Some("broken"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_phase_without_a_handler_fails_for_good() {
    let (environment, mut object) = (environment(), migration());
    let machine = one_with(Phase::default());
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "Handler for phase Run not found")
    );
    let state = state(&object, &["Run"]);
    assert!(state.done && state.failed && state.fatal);
    // So does one that only a former version of the program knew.
    let mut object = migration();
    object.phases_mut().phase = "Ghost".to_owned();
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "Handler for phase Ghost not found")
    );
    machine.reset(&mut object, |_, _| {}).unwrap();
    assert_eq!(object.phase(), "Ghost");
}

#[tokio::test(start_paused = true)]
async fn handlers_are_given_what_the_world_and_the_preparation_know() {
    struct Bucket(&'static str);
    struct Target(String);
    async fn work(context: Context<Migration>) -> StepResult<Migration> {
        let (bucket, target) = (context.settings::<Bucket>()?, context.settings::<Target>()?);
        let note = format!("{} {} {}", bucket.0, target.0, context.phase());
        Ok(Step::done().change(move |object: &mut Migration| {
            object.status.get_or_insert_default().notes.push(note.clone());
        }))
    }
    let prepare = |context: Context<Migration>| async move {
        let target = Target(format!("to-{}", context.resource().spec.source));
        Ok(context.with(target))
    };
    let build = || {
        Machine::builder("move").phase(
            "Run",
            Phase::run(function(work)).then("Succeeded").on_error("Failed"),
        )
    };
    let build = || build().succeeded("Succeeded").failed("Failed");
    let (environment, mut object) = (environment().with(Bucket("b")), migration());
    object.spec.source = "redis".to_owned();
    drive(
        &build().prepare(prepare).build().unwrap(),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(object.status.as_ref().unwrap().notes, ["b to-redis Run"]);
    // What was not given is named.
    let mut object = migration();
    drive(&build().build().unwrap(), &environment, &mut object).await;
    assert!(reason_of(&object).contains("Target"), "{}", reason_of(&object));
    // A preparation that fails leaves the object alone.
    let bad = build()
        .prepare(|_| async { Err(PhaseError::retry("no network")) })
        .build()
        .unwrap();
    assert_eq!(
        bad.pass(&environment, &migration())
            .await
            .unwrap_err()
            .to_string(),
        "no network"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_done_may_choose_the_next_phase() {
    let (log, environment) = (Log::default(), environment());
    let to_end: fn() -> StepResult<Migration> = || Ok(Step::done().next("Succeeded"));
    let undone: fn() -> StepResult<Migration> = || Ok(Step::not_yet().next("Succeeded"));
    let nowhere: fn() -> StepResult<Migration> = || Ok(Step::done().next("Mars"));
    for (answers, phase, runs) in [
        ([to_end], "Succeeded", 0),
        ([undone], "Precheck", 0),
        ([nowhere], "PreFailed", 0),
    ] {
        let machine = two(script(&log, "check", answers), script(&log, "move", [done]))
            .build()
            .unwrap();
        let mut object = migration();
        pass(&machine, &environment, &mut object).await;
        assert_eq!((object.phase(), log.count("move")), (phase, runs));
    }
    // A child's wish is not heard.
    let machine = two(
        serial([script(&log, "check", [to_end])]),
        script(&log, "move", [done]),
    )
    .build()
    .unwrap();
    let mut object = migration();
    pass(&machine, &environment, &mut object).await;
    assert_eq!(object.phase(), "Run");
}

#[tokio::test(start_paused = true)]
async fn a_phase_that_is_entered_again_begins_afresh() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    let back: fn() -> StepResult<Migration> = || Ok(Step::done().next("Precheck"));
    let check = serial([script(&log, "a", [done]), script(&log, "b", [done])]);
    let machine = two(check, script(&log, "move", [back, done])).build().unwrap();
    drive(&machine, &environment, &mut object).await;
    assert_eq!(log.all(), ["a", "b", "move", "a", "b", "move"]);
    assert_eq!(object.phase(), "Succeeded");
}

#[test]
fn all_mistakes_of_a_declaration_are_named_at_once() {
    let log = Log::default();
    let ok = || script(&log, "x", [done]);
    let nameless = || function(|_: Context<Migration>| async { done() });
    let builder = Machine::<Migration>::builder("move")
        .initial("Nope")
        .phase("A", Phase::run(serial([])).then("B").on_error("Failed"))
        .phase(
            "B",
            Phase::run(parallel([ok(), ok(), nameless()]))
                .then("Mars")
                .on_error("Failed"),
        )
        .phase("C", Phase::default().timeout(seconds(0)).tries(0))
        .phase("no label!", Phase::run(ok()).then("A").on_error("no label!"))
        .phase("A", Phase::run(serial([])).then("B").on_error("Failed"))
        .succeeded("A")
        .failed("Failed");
    let errors = builder.build().unwrap_err();
    for want in [
        r#"phase "A" is declared twice"#,
        r#"terminal phase "A" has a handler or transitions"#,
        r#"the initial phase "Nope" is not declared"#,
        r#"the composite handler of "A" has no children"#,
        r#"two children of the handler of "B" are named "x""#,
        r#"a child of the handler of "B" has no name"#,
        r#"phase "B" leads to "Mars" (then), which is not declared"#,
        r#"phase "C" has no handler"#,
        r#"phase "C" leads nowhere"#,
        r#"phase "C" has no tries"#,
        r#"phase "C" has no time"#,
        r#"phase "C" has a time-out but no error phase"#,
        r#""no label!" is no name for a phase"#,
        r#"phase "no label!" is its own error phase"#,
        r#"share the error phase "Failed", which makes it unresettable"#,
        r#"phase "Failed" cannot be reached from "Nope""#,
    ] {
        assert!(
            errors.list().iter().any(|error| error.contains(want)),
            "{want}\n{errors}"
        );
    }
    assert!(two(ok(), ok()).build().is_ok());
}

#[test]
fn a_handler_is_named_as_its_function_or_its_phase() {
    async fn collect(_: Context<Migration>) -> StepResult<Migration> {
        done()
    }
    assert_eq!(function(collect).name(), "collect");
    let machine = one(function(|_: Context<Migration>| async { done() }));
    assert_eq!(
        machine.get("Run").unwrap().handler.as_ref().unwrap().name(),
        "Run"
    );
}

#[test]
fn the_status_is_part_of_the_schema_of_a_custom_resource() {
    let definition = serde_json::to_value(Migration::crd()).unwrap();
    let status =
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
    assert_eq!(status["phase"]["type"], "string");
    assert_eq!(status["notes"]["type"], "array");
    let state = &status["state"]["additionalProperties"]["properties"];
    assert_eq!(state["startTime"]["format"], "date-time");
    assert_eq!(state["failures"]["format"], "int32");
    assert_eq!(state["state"]["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(
        state["objects"]["items"]["properties"]["handleId"]["type"],
        "string"
    );
}

#[test]
fn a_machine_can_be_drawn() {
    let log = Log::default();
    let check = Phase::run(script(&log, "x", [done]))
        .then("Mig.rate")
        .on_error("PreFailed")
        .jumps_to("Success");
    let machine = Machine::<Migration>::builder("move")
        .phase("Init", check)
        .phase(
            "Mig.rate",
            Phase::run(script(&log, "y", [done]))
                .then("Success")
                .on_error("Fail"),
        )
        .succeeded("Success")
        .failed("PreFailed")
        .failed("Fail")
        .build()
        .unwrap();
    let want = "stateDiagram-v2
    state \"Mig.rate\" as Mig_rate
    [*] --> Init
    Init --> Mig_rate
    Init --> Success: jump
    Init --> PreFailed: error
    Mig_rate --> Success
    Mig_rate --> Fail: error
    Success --> [*]
    PreFailed --> [*]
    Fail --> [*]
";
    assert_eq!(machine.to_mermaid(), want);
    let dot = machine.to_dot();
    for line in [
        r#""Init" -> "Mig.rate";"#,
        r#""Fail" [shape=doublecircle, color=red];"#,
        r#"digraph "move" {"#,
    ] {
        assert!(dot.contains(line), "{dot}");
    }
}
