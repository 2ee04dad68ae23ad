//! Tests of the reconciler against a fake API server with concurrent writers.

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    Key,
    controller::Controller,
    informer::{InformerScope, SharedInformerFactory},
    manager::Stop,
    metrics::Metrics,
    store::Store,
    testing::{FakeApi, Fault, RequestMatcher, eventually},
};

struct TestMachine {
    api: FakeApi,
    reconciler: PhaseReconciler<Migration>,
    key: Key,
}

impl TestMachine {
    fn new(machine: StateMachine<Migration>) -> Self {
        let api = FakeApi::with_clock(clock());
        api.put(&migration());
        let environment = MachineEnvironment::new(api.client())
            .clock(clock())
            .with(api.clone());
        TestMachine {
            api,
            reconciler: PhaseReconciler::new(machine, environment),
            key: Key::new("default", "m"),
        }
    }

    fn object(&self) -> Migration {
        self.api.get("default", "m").unwrap()
    }

    async fn pass(&self) -> NextPass {
        self.reconciler.pass(&self.key).await.unwrap()
    }

    /// The pass that stores the beginning of the first phase.
    async fn begin(&self) {
        assert_eq!(self.pass().await, NextPass::After(Duration::ZERO));
    }

    async fn drive(&self) {
        for _ in 0..100 {
            let NextPass::After(wait) = self.pass().await else {
                return;
            };
            tokio::time::sleep(wait).await;
        }
        panic!("no end: {:?}", self.object());
    }

    /// Patches the status as another client.
    async fn patch_status(&self, status: Value) {
        patch_status(&self.api, status).await;
    }
}

async fn patch_status(api: &FakeApi, status: Value) {
    let migrations: Api<Migration> = Api::namespaced(api.client(), "default");
    let patch = Patch::Merge(json!({ "status": status }));
    migrations
        .patch_status("m", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A handler during whose first run another client writes.
fn while_it_runs<F, Fut>(log: &CallLog, write: F) -> PhaseHandler<Migration>
where
    F: Fn(FakeApi) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let log = log.clone();
    let write = Arc::new(write);
    let run = move |context: HandlerContext<Migration>| {
        let log = log.clone();
        let write = Arc::clone(&write);
        async move {
            log.add("work");
            if log.count("work") == 1 {
                write(FakeApi::clone(&*context.settings::<FakeApi>()?)).await;
            }
            Ok(Step::done().change(|object: &mut Migration| {
                object
                    .status
                    .get_or_insert_default()
                    .notes
                    .push("mine".to_owned());
            }))
        }
    };
    function(run).named("work")
}

#[tokio::test(start_paused = true)]
async fn phase_is_written_to_status_and_label_before_handler_runs() {
    let log = CallLog::default();
    let seen = log.clone();
    let look = function(move |context: HandlerContext<Migration>| {
        let seen = seen.clone();
        async move {
            let stored: Migration = context.settings::<FakeApi>()?.get("default", "m").unwrap();
            seen.add(stored.phase());
            done()
        }
    });
    let served = TestMachine::new(
        two(look.named("look"), script(&log, "move", [not_yet, done]))
            .build()
            .unwrap(),
    );
    served.begin().await;
    assert!(log.all().is_empty());
    served.pass().await;
    assert_eq!(log.all(), ["Precheck"], "written before the handler runs");
    let object = served.object();
    assert_eq!(
        (object.phase(), object.labels()["example.org/phase"].as_str()),
        ("Run", "Run")
    );
    served.drive().await;
    let object = served.object();
    assert_eq!(
        (object.phase(), object.labels()["example.org/phase"].as_str()),
        ("Succeeded", "Succeeded")
    );
}

#[tokio::test(start_paused = true)]
async fn pass_without_changes_writes_nothing() {
    let log = CallLog::default();
    let served = TestMachine::new(one(script(&log, "work", [not_yet])));
    served.begin().await;
    served.pass().await;
    let version = served.object().resource_version();
    for _ in 0..5 {
        tokio::time::sleep(seconds(5)).await;
        served.pass().await;
    }
    assert_eq!(
        (log.all().len(), served.object().resource_version()),
        (6, version)
    );
    // The same holds for terminal and paused objects.
    let ended = TestMachine::new(one(script(&log, "work", [done])));
    ended.drive().await;
    ended
        .api
        .edit::<Migration>("default", "m", |object| object.set_pause(true));
    let version = ended.object().resource_version();
    ended.pass().await;
    assert_eq!(ended.object().resource_version(), version);
}

#[tokio::test(start_paused = true)]
async fn pass_costs_at_most_two_writes() {
    let log = CallLog::default();
    let check = Phase::run(script(&log, "check", [retry, not_yet, done]));
    let work = Phase::run(script(&log, "move", [fatal]));
    let machine = StateMachine::builder("move")
        .phase(
            "Precheck",
            check.timeout(seconds(600)).then("Run").on_error("PreFailed"),
        )
        .phase(
            "Run",
            work.needs_approval()
                .timeout(seconds(600))
                .then("Succeeded")
                .on_error("Failed"),
        )
        .succeeded("Succeeded")
        .failed("PreFailed")
        .failed("Failed")
        .cleanup(script(&log, "clean", [not_yet, done]));
    let served = TestMachine::new(machine.build().unwrap());
    let mut counts = Vec::new();
    let mut pass = async || {
        let before = served.api.writes().len();
        let then = served.pass().await;
        counts.push(served.api.writes().len() - before);
        if let NextPass::After(wait) = then {
            tokio::time::sleep(wait).await;
        }
    };
    // Finalizer; beginning; a failure with the label; an unfinished run; the transition with its label; the request for an
    // approval; nothing.
    for _ in 0..7 {
        pass().await;
    }
    served
        .patch_status(json!({ "audit": { "Run": { "result": "Passed" } } }))
        .await;
    // The beginning of the timeout; the failure with its label; nothing.
    for _ in 0..3 {
        pass().await;
    }
    assert_eq!(served.object().phase(), "Failed");
    let migrations: Api<Migration> = Api::namespaced(served.api.client(), "default");
    migrations.delete("m", &DeleteParams::default()).await.unwrap();
    // The state of the clean-up; the finalizer.
    for _ in 0..2 {
        pass().await;
    }
    assert!(served.api.get::<Migration>("default", "m").is_none());
    assert_eq!(counts, [1, 1, 2, 1, 2, 1, 0, 1, 2, 0, 1, 1]);
    assert_eq!(log.all(), ["check", "check", "check", "move", "clean", "clean"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_to_other_fields_are_kept() {
    let log = CallLog::default();
    let others = |api: FakeApi| async move {
        api.edit::<Migration>("default", "m", |object| {
            object.spec.source = "new".to_owned();
            object.labels_mut().insert("mine".to_owned(), "too".to_owned());
        });
        patch_status(&api, json!({ "foreign": { "x": 1 }, "pause": true })).await;
    };
    let served = TestMachine::new(one(while_it_runs(&log, others)));
    served.drive().await;
    let object = served.object();
    assert_eq!((object.phase(), log.all().len()), ("Succeeded", 1));
    assert_eq!(
        (object.spec.source.as_str(), object.labels()["mine"].as_str()),
        ("new", "too")
    );
    assert!(object.paused());
    let raw: Api<DynamicObject> = Api::namespaced_with(
        served.api.client(),
        "default",
        &kube::core::ApiResource::erase::<Migration>(&()),
    );
    assert_eq!(
        raw.get("m").await.unwrap().data["status"]["foreign"],
        json!({ "x": 1 })
    );
}

#[tokio::test(start_paused = true)]
async fn conflicting_write_repeats_the_pass() {
    let log = CallLog::default();
    let others = |api: FakeApi| async move { patch_status(&api, json!({ "notes": ["theirs"] })).await };
    let served = TestMachine::new(one(while_it_runs(&log, others)));
    served.begin().await;
    assert_eq!(served.pass().await, NextPass::After(Duration::ZERO));
    assert_eq!(served.object().status.unwrap().notes, ["theirs"]);
    served.drive().await;
    let object = served.object();
    assert_eq!((object.phase(), log.all().len()), ("Succeeded", 2));
    assert_eq!(object.status.unwrap().notes, ["theirs", "mine"]);
}

#[tokio::test(start_paused = true)]
async fn many_concurrent_writers_lose_nothing() {
    let log = CallLog::default();
    let served = Arc::new(TestMachine::new(one(script(
        &log,
        "work",
        [not_yet, retry, not_yet, retry, done],
    ))));
    let others = Arc::clone(&served);
    let others = async move {
        for at in 0..50 {
            others
                .api
                .edit::<Migration>("default", "m", |object| object.spec.source = at.to_string());
            others.patch_status(json!({ "foreign": at })).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    };
    tokio::join!(served.drive(), others);
    let object = served.object();
    assert_eq!((object.phase(), object.spec.source.as_str()), ("Succeeded", "49"));
    assert_eq!(log.all().len(), 5, "no result of a pass was lost");
}

#[tokio::test(start_paused = true)]
async fn result_that_cannot_be_written_is_written_later() {
    for fault in [Fault::Status(503), Fault::ConnectionReset, Fault::LostResponse] {
        let log = CallLog::default();
        let served = TestMachine::new(
            two(script(&log, "check", [done]), script(&log, "move", [done]))
                .build()
                .unwrap(),
        );
        let write = RequestMatcher::verb("patch")
            .resource("migrations/status")
            .skip(1)
            .times(1);
        served.api.faults().on(write, fault);
        served.begin().await;
        assert_eq!(
            served.pass().await,
            NextPass::After(seconds(5)),
            "a failed write is retried, not returned as an error"
        );
        served.drive().await;
        assert_eq!(
            (served.object().phase(), log.all().join(" ").as_str()),
            ("Succeeded", "check move"),
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn finished_handler_does_not_run_again_whichever_write_fails() {
    for fault in [
        Fault::Status(503),
        Fault::Status(409),
        Fault::ConnectionReset,
        Fault::LostResponse,
    ] {
        for at in 0..9 {
            let log = CallLog::default();
            let check = script(&log, "check", [retry, done]);
            let machine = two(
                serial([script(&log, "first", [done]), check]),
                script(&log, "move", [not_yet, done]),
            );
            let served = TestMachine::new(machine.cleanup(script(&log, "clean", [done])).build().unwrap());
            served
                .api
                .faults()
                .on(RequestMatcher::writes().skip(at).times(1), fault);
            let mut errors = 0;
            while served.object().phase() != "Succeeded" {
                match served.reconciler.pass(&served.key).await {
                    Ok(NextPass::After(wait)) => tokio::time::sleep(wait).await,
                    Ok(NextPass::Stop) => assert_eq!(served.object().phase(), "Succeeded"),
                    Err(error) => {
                        errors += 1;
                        assert!(errors < 3, "{error}");
                    }
                }
            }
            assert_eq!(
                log.all(),
                ["first", "check", "check", "move", "move"],
                "{fault:?} at {at}"
            );
            served.drive().await;
            assert_eq!(
                served.object().labels()["example.org/phase"],
                "Succeeded",
                "{fault:?} at {at}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stale_store_does_not_repeat_handlers() {
    let log = CallLog::default();
    let machine = || {
        two(script(&log, "check", [done]), script(&log, "move", [done]))
            .build()
            .unwrap()
    };
    let api = FakeApi::with_clock(clock());
    let store = Store::default();
    let old: Migration = api.put(&migration());
    let key = Key::new("default", "m");
    store.insert(key.clone(), Arc::new(old));
    let reconciler = machine().into_reconciler(MachineEnvironment::new(api.client()).clock(clock()), &store);
    let mut waits = Vec::new();
    while let NextPass::After(wait) = reconciler.pass(&key).await.unwrap() {
        waits.push(wait);
        assert!(waits.len() < 20, "{:?}", log.all());
        tokio::time::sleep(wait).await;
    }
    assert_eq!(log.all(), ["check", "move"]);
    assert_eq!(api.get::<Migration>("default", "m").unwrap().phase(), "Succeeded");
    // An object that is not in the store is deleted.
    store.remove(&key);
    assert_eq!(reconciler.pass(&key).await.unwrap(), NextPass::Stop);
    assert!(reconciler.remembers_nothing());
}

#[tokio::test(start_paused = true)]
async fn own_writes_keep_the_defer_interval_and_foreign_writes_end_it() {
    let log = CallLog::default();
    let served = TestMachine::new(one(script(&log, "work", [not_yet])));
    served.begin().await;
    served.pass().await;
    tokio::time::sleep(seconds(2)).await;
    assert_eq!(
        (served.pass().await, log.all().len()),
        (NextPass::After(seconds(3)), 1)
    );
    served
        .api
        .edit::<Migration>("default", "m", |object| object.spec.source = "x".to_owned());
    assert_eq!(
        (served.pass().await, log.all().len()),
        (NextPass::After(seconds(5)), 2)
    );
}

fn with_cleanup(log: &CallLog, cleanup: PhaseHandler<Migration>) -> StateMachine<Migration> {
    two(script(log, "check", [done]), script(log, "move", [done]))
        .cleanup(cleanup)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn terminal_object_is_ignored_until_its_deletion_triggers_cleanup() {
    let log = CallLog::default();
    let clean = serial([
        script(&log, "first", [done]),
        script(&log, "second", [not_yet, retry, fatal, done]),
    ]);
    let served = TestMachine::new(with_cleanup(&log, clean));
    let machine = Arc::clone(served.reconciler.machine());
    served.pass().await;
    assert_eq!(served.object().finalizers(), ["example.org/ongoing"]);
    served.drive().await;
    assert!(
        !machine.needs_work(&served.object()),
        "edits of terminal objects are ignored"
    );
    let migrations: Api<Migration> = Api::namespaced(served.api.client(), "default");
    migrations.delete("m", &DeleteParams::default()).await.unwrap();
    assert!(machine.needs_work(&served.object()));
    served.drive().await;
    assert!(served.api.get::<Migration>("default", "m").is_none());
    assert_eq!(
        log.all(),
        ["check", "move", "first", "second", "second", "second", "second"]
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_object_is_cleaned_up_in_any_phase_even_if_paused() {
    let log = CallLog::default();
    let served = TestMachine::new(with_cleanup(&log, script(&log, "clean", [done])));
    served.begin().await;
    served.begin().await;
    served.pass().await;
    served.patch_status(json!({ "pause": true })).await;
    let migrations: Api<Migration> = Api::namespaced(served.api.client(), "default");
    migrations.delete("m", &DeleteParams::default()).await.unwrap();
    served.drive().await;
    assert_eq!(log.all(), ["check", "clean"]);
    assert!(served.api.get::<Migration>("default", "m").is_none());
}

#[tokio::test(start_paused = true)]
async fn blocked_object_is_not_written() {
    let log = CallLog::default();
    let served = TestMachine::new(with_cleanup(&log, script(&log, "clean", [done])));
    let time = (clock().now() + seconds(60)).as_second();
    served.api.edit::<Migration>("default", "m", |object| {
        object
            .annotations_mut()
            .insert("no-reconciling-before".to_owned(), time.to_string());
    });
    let before = served.object();
    assert!(matches!(served.pass().await, NextPass::After(_)));
    assert_eq!(served.object().resource_version(), before.resource_version());
    served.drive().await;
    assert_eq!(served.object().phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn act_on_retries_after_conflicts() {
    let log = CallLog::default();
    let served = TestMachine::new(one(script(&log, "work", [fatal, done])));
    let machine = Arc::clone(served.reconciler.machine());
    let key = &served.key;
    served.api.edit::<Migration>("default", "m", |object| {
        object
            .annotations_mut()
            .insert("reconciling-barrier".to_owned(), "move:Run".to_owned());
    });
    let environment = MachineEnvironment::new(served.api.client_with_user_agent("someone")).clock(clock());
    served.drive().await;
    assert!(log.all().is_empty());
    machine
        .act_on(&environment, key, &Action::Continue)
        .await
        .unwrap();
    served.drive().await;
    assert_eq!(served.object().phase(), "Failed");
    // The first write is delayed and conflicts.
    let slow = RequestMatcher::writes().user_agent("someone").times(1);
    served.api.faults().on(slow, Fault::Delay(seconds(2)));
    let others = async {
        tokio::time::sleep(seconds(1)).await;
        served.patch_status(json!({ "foreign": 1 })).await;
    };
    let (reset, ()) = tokio::join!(machine.act_on(&environment, key, &Action::Reset), others);
    assert_eq!(reset.unwrap().phase(), "Run");
    served.drive().await;
    assert_eq!((served.object().phase(), log.all().len()), ("Succeeded", 2));
    let rejection = machine
        .act_on(&environment, key, &Action::Reset)
        .await
        .unwrap_err();
    assert!(matches!(
        rejection,
        ActionError::Rejected(ActionRejection::NotFailed(_))
    ));
    let missing = machine
        .act_on(&environment, &Key::new("default", "no"), &Action::Reset)
        .await
        .unwrap_err();
    assert!(matches!(missing, ActionError::NotFound(_)));
}

#[tokio::test(start_paused = true)]
async fn controller_processes_object_from_creation_to_deletion() {
    let log = CallLog::default();
    let events = CallLog::default();
    let api = FakeApi::with_clock(clock());
    let informers = SharedInformerFactory::new(api.client());
    let migrations = informers.typed::<Migration>(InformerScope::default());
    let metrics = Metrics::default();
    let event_sink = {
        let events = events.clone();
        move |about: &k8s_openapi::api::core::v1::ObjectReference, event: &PhaseEvent| {
            events.add(format!(
                "{} {} {}",
                about.name.clone().unwrap_or_default(),
                event.reason,
                event.note
            ));
        }
    };
    let machine = two(script(&log, "check", [retry, done]), script(&log, "move", [done]))
        .cleanup(script(&log, "clean", [done]))
        .build()
        .unwrap();
    assert_eq!(machine.resource(), "migrations");
    let reconciler = machine
        .into_reconciler(
            MachineEnvironment::new(api.client()).clock(clock()),
            migrations.store(),
        )
        .event_sink(event_sink)
        .metrics(&metrics);
    let controller = Controller::new("migrations")
        .for_where(&migrations, reconciler.predicate())
        .reconciler(reconciler);
    let stop = Stop::new();
    informers.start();
    let work = async {
        eventually(|| async { migrations.is_synced() }).await;
        let began = Instant::now();
        api.put(&migration());
        let phase = |want: &'static str| {
            let api = api.clone();
            move || {
                let phase = api
                    .get::<Migration>("default", "m")
                    .map(|object| object.phase().to_owned());
                async move {
                    if phase.as_deref() == Some(want) {
                        Ok(())
                    } else {
                        Err(phase)
                    }
                }
            }
        };
        eventually(phase("Succeeded")).await;
        // Three passes with two defer intervals between them.
        let took = began.elapsed();
        assert!(took >= seconds(10) && took < seconds(11), "{took:?}");
        assert_eq!(log.all(), ["check", "check", "move"]);
        // An edit of a terminal object is ignored; its deletion is not.
        let writes = api.writes().len();
        api.edit::<Migration>("default", "m", |object| object.spec.source = "edited".to_owned());
        tokio::time::sleep(seconds(30)).await;
        assert_eq!((api.writes().len(), log.all().len()), (writes, 3));
        let migrations: Api<Migration> = Api::namespaced(api.client(), "default");
        migrations.delete("m", &DeleteParams::default()).await.unwrap();
        eventually(|| async { api.get::<Migration>("default", "m").is_none() }).await;
        assert_eq!(log.all(), ["check", "check", "move", "clean"]);
        stop.stop(seconds(5));
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), work);
    ran.unwrap();
    informers.stop().await;
    assert_eq!(
        events.all(),
        [
            "m PhaseRetry phase Precheck: try 1 failed, again in 5s: later",
            "m PhaseChanged Precheck -> Run",
            "m PhaseChanged Run -> Succeeded",
        ]
    );
    let text = metrics.text();
    for line in [
        r#"phase_transitions_total{machine="move",from="Precheck",to="Run"} 1"#,
        r#"phase_failures_total{machine="move",phase="Precheck",fatal="false"} 1"#,
        r#"phase_duration_seconds_count{machine="move",phase="Precheck"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}
