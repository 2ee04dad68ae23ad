//! Tests of errors, backoff, timeouts, tries and panics.

use super::*;
use crate::Backoff;

#[tokio::test(start_paused = true)]
async fn retriable_failure_is_retried_and_fatal_one_is_not() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let machine = one(script(&log, "work", [retry, fatal]));
    pass(&machine, &environment, &mut object).await;
    let failed = state(&object, &["Run"]);
    assert_eq!((object.phase(), reason_of(&object).as_str()), ("Run", "later"));
    assert_eq!(failed.completion(), Completion::Retrying);
    drive(&machine, &environment, &mut object).await;
    assert_eq!((object.phase(), log.all().len()), ("Failed", 2));
}

#[tokio::test(start_paused = true)]
async fn unclassified_errors_are_fatal_except_network_and_server_errors() {
    fn api(code: u16) -> PhaseError {
        let status = kube::core::Status {
            code,
            message: "no".to_owned(),
            ..Default::default()
        };
        kube::Error::Api(Box::new(status)).into()
    }
    for (error, fatal) in [
        (PhaseError::from("x".parse::<u32>().unwrap_err()), true),
        (
            PhaseError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
            false,
        ),
        (
            PhaseError::from(std::io::Error::from(std::io::ErrorKind::NotFound)),
            true,
        ),
        (api(404), true),
        (api(422), true),
        (api(409), false),
        (api(429), false),
        (api(503), false),
    ] {
        assert_eq!(error.is_fatal_by_default(), fatal, "{error:?}");
    }
    assert_eq!(api(404).to_string(), "no");
    // `is_fatal` of the builder overrides the default.
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let parse: fn() -> StepResult<Migration> = || Ok("x".parse::<u32>().map(|_| Step::done())?);
    let machine = StateMachine::builder("move")
        .phase(
            "Run",
            Phase::run(script(&log, "work", [parse, done]))
                .then("Succeeded")
                .on_error("Failed"),
        )
        .succeeded("Succeeded")
        .failed("Failed")
        .is_fatal(|_| false);
    drive(&machine.build().unwrap(), &environment, &mut object).await;
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn passes_wait_for_defer_interval_and_failures_back_off() {
    let log = CallLog::default();
    let environment = environment();
    let wait = |results: [fn() -> _; 6], backoff, defer| {
        let machine = two(script(&log, "work", results), script(&log, "move", [done]));
        let machine = match backoff {
            Some(backoff) => machine.backoff(backoff),
            None => machine,
        };
        machine.defer(seconds(defer)).build().unwrap()
    };
    let longest = |base| Some(Backoff::exponential(seconds(base), seconds(30)));
    let constant = Some(Backoff::constant(seconds(5)));
    for (machine, want) in [
        (
            wait([not_yet, not_yet, done, done, done, done], None, 5),
            vec![5, 5, 5],
        ),
        (
            wait([retry, retry, retry, retry, retry, done], longest(5), 5),
            vec![5, 10, 20, 30, 30, 5],
        ),
        (
            wait([retry, retry, not_yet, retry, retry, done], longest(1), 1),
            vec![1, 2, 1, 1, 2, 1],
        ),
        (
            wait([retry, retry, retry, done, done, done], constant, 5),
            vec![5, 5, 5, 5],
        ),
    ] {
        let mut object = migration();
        let waits = drive(&machine, &environment, &mut object).await;
        assert_eq!(waits, want.into_iter().map(seconds).collect::<Vec<_>>());
    }
    // A delay returned by the handler overrides the defer interval.
    let later: fn() -> StepResult<Migration> = || Ok(Step::not_yet().after(seconds(77)));
    let mut object = migration();
    let machine = one(serial([script(&log, "later", [later])]));
    assert_eq!(
        pass(&machine, &environment, &mut object).await.then,
        NextPass::After(seconds(77))
    );
    // A child without a delay is not kept waiting by a sibling with one.
    let mut object = migration();
    let machine = one(parallel([
        script(&log, "later", [later]),
        script(&log, "soon", [not_yet]),
    ]));
    assert_eq!(
        pass(&machine, &environment, &mut object).await.then,
        NextPass::After(seconds(5))
    );
}

#[tokio::test(start_paused = true)]
async fn phase_times_out_while_handler_hangs_waits_or_fails() {
    let log = CallLog::default();
    let environment = environment();
    let hangs = function(|_: HandlerContext<Migration>| std::future::pending()).named("hangs");
    let deep = serial([
        script(&log, "first", [done]),
        function(|_: HandlerContext<Migration>| std::future::pending()).named("second"),
    ]);
    for handler in [
        hangs,
        deep,
        script(&log, "waits", [not_yet]),
        script(&log, "fails", [retry]),
    ] {
        let machine = one_with(Phase::run(handler).timeout(seconds(5)).defer(seconds(3)));
        let mut object = migration();
        let began = Instant::now();
        drive(&machine, &environment, &mut object).await;
        assert_eq!(began.elapsed(), seconds(5));
        let why = "phase Run timed out after 5s";
        assert_eq!((object.phase(), reason_of(&object).as_str()), ("Failed", why));
        assert_eq!(machine.failed_reason(&object).as_deref(), Some(why));
        // A reset restarts the timeout.
        machine.reset(&mut object, |_, _| {}).unwrap();
        let began = Instant::now();
        drive(&machine, &environment, &mut object).await;
        assert_eq!(began.elapsed(), seconds(5));
    }
    assert_eq!(log.count("first"), 1, "successes are kept");
}

#[tokio::test(start_paused = true)]
async fn timeout_runs_while_program_is_down() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let machine = one_with(Phase::run(script(&log, "work", [not_yet])).timeout(seconds(5)));
    machine.begin(&mut object, environment.now());
    assert!(
        state(&object, &["Run"]).start_time.is_some(),
        "written before the handler runs"
    );
    tokio::time::sleep(seconds(60)).await;
    pass(&machine, &environment, &mut object).await;
    assert_eq!((object.phase(), log.all().len()), ("Failed", 0));
}

#[tokio::test(start_paused = true)]
async fn tries_limit_consecutive_failures() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let machine = one_with(Phase::run(serial([script(&log, "work", [retry])])).tries(3));
    drive(&machine, &environment, &mut object).await;
    assert_eq!(log.all().len(), 3);
    assert_eq!(
        (object.phase(), reason_of(&object).as_str()),
        ("Failed", "gave up after 3 tries: work: later")
    );
    // A run that does not fail resets the count.
    let log = CallLog::default();
    let mut object = migration();
    let machine =
        one_with(Phase::run(script(&log, "work", [retry, retry, not_yet, retry, retry, done])).tries(3));
    drive(&machine, &environment, &mut object).await;
    assert_eq!((object.phase(), log.all().len()), ("Succeeded", 6));
}

#[tokio::test(start_paused = true)]
async fn panic_fails_the_handler() {
    let log = CallLog::default();
    let environment = environment();
    let before: fn() -> StepResult<Migration> = || panic!("at {}", 7);
    let in_change: fn() -> StepResult<Migration> = || Ok(Step::done().change(|_| panic!("in change")));
    let sync =
        function(|_: HandlerContext<Migration>| -> std::future::Ready<_> { panic!("at 7") }).named("bad");
    for (bad, why) in [
        (script(&log, "bad", [before]), "bad: handler bad panicked: at 7"),
        (sync, "bad: handler bad panicked: at 7"),
        (
            script(&log, "bad", [in_change]),
            "bad: handler bad panicked: in change",
        ),
    ] {
        let mut object = migration();
        drive(&one(serial([bad])), &environment, &mut object).await;
        assert_eq!((object.phase(), reason_of(&object).as_str()), ("Failed", why));
    }
}

#[tokio::test(start_paused = true)]
async fn phase_without_error_phase_is_retried_forever() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let phase = Phase::run(serial([
        script(&log, "a", [done]),
        script(&log, "b", [fatal, fatal, done]),
    ]));
    let machine = StateMachine::builder("at")
        .phase("Run", phase.then("Done"))
        .succeeded("Done")
        .build()
        .unwrap();
    let waits = drive(&machine, &environment, &mut object).await;
    assert_eq!(waits, [seconds(5), seconds(10)]);
    assert_eq!(
        (object.phase(), log.all().join(" ").as_str()),
        ("Done", "a b b b")
    );
}

#[tokio::test(start_paused = true)]
async fn events_report_transitions_warnings_and_failures() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let warned: fn() -> StepResult<Migration> = || Ok(Step::done().warning("old version"));
    let machine = two(
        script(&log, "check", [warned]),
        script(&log, "move", [retry, fatal]),
    )
    .build()
    .unwrap();
    let mut events = Vec::new();
    while !machine.is_terminal(&object) {
        events.extend(
            pass(&machine, &environment, &mut object)
                .await
                .events
                .into_iter()
                .map(|event| (event.reason, event.note)),
        );
    }
    let events: Vec<_> = events
        .iter()
        .map(|(reason, note)| (*reason, note.as_str()))
        .collect();
    assert_eq!(
        events,
        [
            (reason::WARNED, "phase Precheck: old version"),
            (reason::CHANGED, "Precheck -> Run"),
            (reason::RETRY, "phase Run: try 1 failed, again in 5s: later"),
            (reason::FAILED, "phase Run failed: broken"),
            (reason::CHANGED, "Run -> Failed"),
        ]
    );
}
