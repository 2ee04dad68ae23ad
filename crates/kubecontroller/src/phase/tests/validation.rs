//! Tests of phases, transitions and their validation.

use kube::CustomResourceExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn object_follows_transitions_to_terminal_phase() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
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
    // A terminal phase runs no handler.
    let after = machine.pass(&environment, &object).await.unwrap();
    assert_eq!((after.then, log.all().len()), (NextPass::Stop, 2));
}

#[tokio::test(start_paused = true)]
async fn failure_moves_object_to_error_phase() {
    let log = CallLog::default();
    let environment = environment();
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
async fn phase_without_handler_fails_fatally() {
    let environment = environment();
    let mut object = migration();
    let machine = one_with(Phase::default());
    drive(&machine, &environment, &mut object).await;
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "Handler for phase Run not found")
    );
    let state = state(&object, &["Run"]);
    assert_eq!(state.completion(), Completion::Failed);
    // The same holds for a phase that an earlier version of the program declared.
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
async fn handlers_find_values_of_environment_and_prepare() {
    struct Bucket(&'static str);
    struct Target(String);
    async fn work(context: HandlerContext<Migration>) -> StepResult<Migration> {
        let bucket = context.settings::<Bucket>()?;
        let target = context.settings::<Target>()?;
        let note = format!("{} {} {}", bucket.0, target.0, context.phase());
        Ok(Step::done().change(move |object: &mut Migration| {
            object.status.get_or_insert_default().notes.push(note.clone());
        }))
    }
    let prepare = |context: HandlerContext<Migration>| async move {
        let target = Target(format!("to-{}", context.resource().spec.source));
        Ok(context.with(target))
    };
    let build = || {
        StateMachine::builder("move").phase(
            "Run",
            Phase::run(function(work)).then("Succeeded").on_error("Failed"),
        )
    };
    let build = || build().succeeded("Succeeded").failed("Failed");
    let environment = environment().with(Bucket("b"));
    let mut object = migration();
    object.spec.source = "redis".to_owned();
    drive(
        &build().prepare(prepare).build().unwrap(),
        &environment,
        &mut object,
    )
    .await;
    assert_eq!(object.status.as_ref().unwrap().notes, ["b to-redis Run"]);
    // The error names the missing type.
    let mut object = migration();
    drive(&build().build().unwrap(), &environment, &mut object).await;
    assert!(reason_of(&object).contains("Target"), "{}", reason_of(&object));
    // A failed preparation leaves the object unchanged.
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
async fn finished_handler_may_choose_next_phase() {
    let log = CallLog::default();
    let environment = environment();
    let to_end: fn() -> StepResult<Migration> = || Ok(Step::done().next("Succeeded"));
    let not_done: fn() -> StepResult<Migration> = || Ok(Step::not_yet().next("Succeeded"));
    let undeclared: fn() -> StepResult<Migration> = || Ok(Step::done().next("Mars"));
    for (results, phase, runs) in [
        ([to_end], "Succeeded", 0),
        ([not_done], "Precheck", 0),
        ([undeclared], "PreFailed", 0),
    ] {
        let machine = two(script(&log, "check", results), script(&log, "move", [done]))
            .build()
            .unwrap();
        let mut object = migration();
        pass(&machine, &environment, &mut object).await;
        assert_eq!((object.phase(), log.count("move")), (phase, runs));
    }
    // The choice of a child is ignored.
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
async fn reentered_phase_starts_with_empty_state() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let back: fn() -> StepResult<Migration> = || Ok(Step::done().next("Precheck"));
    let check = serial([script(&log, "a", [done]), script(&log, "b", [done])]);
    let machine = two(check, script(&log, "move", [back, done])).build().unwrap();
    drive(&machine, &environment, &mut object).await;
    assert_eq!(log.all(), ["a", "b", "move", "a", "b", "move"]);
    assert_eq!(object.phase(), "Succeeded");
}

#[test]
fn build_reports_all_errors_at_once() {
    let log = CallLog::default();
    let ok = || script(&log, "x", [done]);
    let nameless = || function(|_: HandlerContext<Migration>| async { done() });
    let builder = StateMachine::<Migration>::builder("move")
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
        r#"terminal phase "A" must not have a handler or transitions"#,
        r#"the initial phase "Nope" is not declared"#,
        r#"the composite handler of "A" has no children"#,
        r#"two children of the handler of "B" are named "x""#,
        r#"a child of the handler of "B" has no name"#,
        r#"phase "B" leads to "Mars" (then), which is not declared"#,
        r#"phase "C" has no handler"#,
        r#"phase "C" has no next phase"#,
        r#"phase "C" allows zero tries"#,
        r#"phase "C" has a timeout of zero"#,
        r#"phase "C" has a timeout but no error phase"#,
        r#""no label!" is not a valid phase name"#,
        r#"phase "no label!" is its own error phase"#,
        r#"share the error phase "Failed""#,
        r#"phase "Failed" cannot be reached from "Nope""#,
    ] {
        assert!(
            errors.messages().iter().any(|error| error.contains(want)),
            "{want}\n{errors}"
        );
    }
    assert!(two(ok(), ok()).build().is_ok());
}

#[test]
fn handler_is_named_after_function_or_phase() {
    async fn collect(_: HandlerContext<Migration>) -> StepResult<Migration> {
        done()
    }
    assert_eq!(function(collect).name(), "collect");
    let machine = one(function(|_: HandlerContext<Migration>| async { done() }));
    assert_eq!(
        machine.get("Run").unwrap().handler.as_ref().unwrap().name(),
        "Run"
    );
}

#[test]
fn crd_schema_contains_phase_status() {
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
fn renders_mermaid_and_dot() {
    let log = CallLog::default();
    let check = Phase::run(script(&log, "x", [done]))
        .then("Mig.rate")
        .on_error("PreFailed")
        .jumps_to("Success");
    let machine = StateMachine::<Migration>::builder("move")
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
