//! Machines and servers: what is written, what is not, and who else writes.

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use prometheus_client::registry::Registry;
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

struct Served {
    api: FakeApi,
    reconciler: PhaseReconciler<Migration>,
    key: Key,
}

impl Served {
    fn new(machine: Machine<Migration>) -> Self {
        let api = FakeApi::with_clock(clock());
        api.put(&migration());
        let environment = MachineEnvironment::new(api.client())
            .clock(clock())
            .with(api.clone());
        Served {
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

    async fn drive(&self) {
        for _ in 0..100 {
            let NextPass::After(wait) = self.pass().await else {
                return;
            };
            tokio::time::sleep(wait).await;
        }
        panic!("no end: {:?}", self.object());
    }

    /// What others write into the status.
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

/// A handler during whose run somebody else writes.
fn while_it_runs<F, Fut>(log: &Log, write: F) -> Handler<Migration>
where
    F: Fn(FakeApi) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (log, write) = (log.clone(), Arc::new(write));
    let run = move |context: Context<Migration>| {
        let (log, write) = (log.clone(), Arc::clone(&write));
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
async fn the_phase_is_in_the_status_and_in_a_label_from_the_beginning() {
    let log = Log::default();
    let seen = log.clone();
    let look = function(move |context: Context<Migration>| {
        let seen = seen.clone();
        async move {
            let there: Migration = context.settings::<FakeApi>()?.get("default", "m").unwrap();
            seen.add(there.phase());
            done()
        }
    });
    let served = Served::new(
        two(look.named("look"), script(&log, "move", [not_yet, done]))
            .build()
            .unwrap(),
    );
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
async fn a_pass_that_changes_nothing_writes_nothing() {
    let log = Log::default();
    let served = Served::new(one(script(&log, "work", [not_yet])));
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
    // Nor does one over an object that has ended, or is paused.
    let ended = Served::new(one(script(&log, "work", [done])));
    ended.drive().await;
    ended
        .api
        .edit::<Migration>("default", "m", |object| object.set_pause(true));
    let version = ended.object().resource_version();
    ended.pass().await;
    assert_eq!(ended.object().resource_version(), version);
}

#[tokio::test(start_paused = true)]
async fn what_others_write_during_a_pass_is_not_lost() {
    let log = Log::default();
    let others = |api: FakeApi| async move {
        api.edit::<Migration>("default", "m", |object| {
            object.spec.source = "new".to_owned();
            object.labels_mut().insert("mine".to_owned(), "too".to_owned());
        });
        patch_status(&api, json!({ "foreign": { "x": 1 }, "pause": true })).await;
    };
    let served = Served::new(one(while_it_runs(&log, others)));
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
async fn a_pass_that_was_overtaken_in_its_own_fields_is_repeated_upon_what_others_wrote() {
    let log = Log::default();
    let others = |api: FakeApi| async move { patch_status(&api, json!({ "notes": ["theirs"] })).await };
    let served = Served::new(one(while_it_runs(&log, others)));
    assert_eq!(served.pass().await, NextPass::After(Duration::ZERO));
    assert_eq!(served.object().status.unwrap().notes, ["theirs"]);
    served.drive().await;
    let object = served.object();
    assert_eq!((object.phase(), log.all().len()), ("Succeeded", 2));
    assert_eq!(object.status.unwrap().notes, ["theirs", "mine"]);
}

#[tokio::test(start_paused = true)]
async fn many_who_write_at_once_lose_nothing() {
    let log = Log::default();
    let served = Arc::new(Served::new(one(script(
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
    assert_eq!(log.all().len(), 5, "none of its passes was lost");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_written_is_kept_and_written_later() {
    for fault in [Fault::Status(503), Fault::Broken, Fault::Lost] {
        let log = Log::default();
        let served = Served::new(
            two(script(&log, "check", [done]), script(&log, "move", [done]))
                .build()
                .unwrap(),
        );
        let write = RequestMatcher::verb("patch")
            .resource("migrations/status")
            .skip(1)
            .times(1);
        served.api.faults().on(write, fault);
        assert_eq!(
            served.pass().await,
            NextPass::After(seconds(5)),
            "no failure: it comes again"
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
async fn whichever_write_fails_no_handler_that_ended_runs_again() {
    for fault in [Fault::Status(503), Fault::Status(409), Fault::Broken, Fault::Lost] {
        for at in 0..9 {
            let log = Log::default();
            let check = script(&log, "check", [retry, done]);
            let machine = two(
                serial([script(&log, "first", [done]), check]),
                script(&log, "move", [not_yet, done]),
            );
            let served = Served::new(machine.cleanup(script(&log, "tidy", [done])).build().unwrap());
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
async fn a_store_that_is_behind_makes_no_handler_run_twice() {
    let log = Log::default();
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
    // What the store does not have is gone.
    store.remove(&key);
    assert_eq!(reconciler.pass(&key).await.unwrap(), NextPass::Stop);
    assert!(reconciler.remembers_nothing());
}

#[tokio::test(start_paused = true)]
async fn its_own_writes_do_not_make_a_pass_come_early_and_those_of_others_do() {
    let log = Log::default();
    let served = Served::new(one(script(&log, "work", [not_yet])));
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

fn with_cleanup(log: &Log, cleanup: Handler<Migration>) -> Machine<Migration> {
    two(script(log, "check", [done]), script(log, "move", [done]))
        .cleanup(cleanup)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_that_ended_is_left_alone_until_it_is_deleted_and_then_cleaned_up() {
    let log = Log::default();
    let tidy = serial([
        script(&log, "first", [done]),
        script(&log, "second", [not_yet, retry, fatal, done]),
    ]);
    let served = Served::new(with_cleanup(&log, tidy));
    let machine = Arc::clone(served.reconciler.machine());
    served.pass().await;
    assert_eq!(served.object().finalizers(), ["example.org/ongoing"]);
    served.drive().await;
    assert!(!machine.wants(&served.object()), "an edit of it is not looked at");
    let migrations: Api<Migration> = Api::namespaced(served.api.client(), "default");
    migrations.delete("m", &DeleteParams::default()).await.unwrap();
    assert!(machine.wants(&served.object()));
    served.drive().await;
    assert!(served.api.get::<Migration>("default", "m").is_none());
    assert_eq!(
        log.all(),
        ["check", "move", "first", "second", "second", "second", "second"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_halfway_or_paused_is_cleaned_up_and_nothing_else() {
    let log = Log::default();
    let served = Served::new(with_cleanup(&log, script(&log, "tidy", [done])));
    served.pass().await;
    served.patch_status(json!({ "pause": true })).await;
    let migrations: Api<Migration> = Api::namespaced(served.api.client(), "default");
    migrations.delete("m", &DeleteParams::default()).await.unwrap();
    served.drive().await;
    assert_eq!(log.all(), ["check", "tidy"]);
    assert!(served.api.get::<Migration>("default", "m").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_must_wait_is_not_touched() {
    let log = Log::default();
    let served = Served::new(with_cleanup(&log, script(&log, "tidy", [done])));
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
async fn actions_are_done_to_objects_of_a_server_although_others_write() {
    let log = Log::default();
    let served = Served::new(one(script(&log, "work", [fatal, done])));
    let (machine, key) = (Arc::clone(served.reconciler.machine()), &served.key);
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
    // The first write is slow, and overtaken.
    let slow = RequestMatcher::writes().user_agent("someone").times(1);
    served.api.faults().on(slow, Fault::Late(seconds(2)));
    let others = async {
        tokio::time::sleep(seconds(1)).await;
        served.patch_status(json!({ "foreign": 1 })).await;
    };
    let (reset, ()) = tokio::join!(machine.act_on(&environment, key, &Action::Reset), others);
    assert_eq!(reset.unwrap().phase(), "Run");
    served.drive().await;
    assert_eq!((served.object().phase(), log.all().len()), ("Succeeded", 2));
    let refused = machine
        .act_on(&environment, key, &Action::Reset)
        .await
        .unwrap_err();
    assert!(matches!(
        refused,
        ActionError::ActionRejection(ActionRejection::NotFailed(_))
    ));
    let missing = machine
        .act_on(&environment, &Key::new("default", "no"), &Action::Reset)
        .await
        .unwrap_err();
    assert!(matches!(missing, ActionError::Missing(_)));
}

#[tokio::test(start_paused = true)]
async fn a_controller_drives_objects_from_creation_to_deletion() {
    let (log, told) = (Log::default(), Log::default());
    let api = FakeApi::with_clock(clock());
    let informers = SharedInformerFactory::new(api.client());
    let migrations = informers.typed::<Migration>(InformerScope::default());
    let mut registry = Registry::default();
    let event_sink = {
        let told = told.clone();
        move |about: &k8s_openapi::api::core::v1::ObjectReference, notice: &PhaseEvent| {
            told.add(format!(
                "{} {} {}",
                about.name.clone().unwrap_or_default(),
                notice.reason,
                notice.note
            ));
        }
    };
    let machine = two(script(&log, "check", [retry, done]), script(&log, "move", [done]))
        .cleanup(script(&log, "tidy", [done]))
        .build()
        .unwrap();
    assert_eq!(machine.resource(), "migrations");
    let reconciler = machine
        .into_reconciler(
            MachineEnvironment::new(api.client()).clock(clock()),
            migrations.store(),
        )
        .event_sink(event_sink)
        .metrics(&Metrics::new(&mut registry));
    let controller = Controller::new("migrations")
        .for_where(&migrations, reconciler.interest())
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
        // Three passes, two defers between them.
        let took = began.elapsed();
        assert!(took >= seconds(10) && took < seconds(11), "{took:?}");
        assert_eq!(log.all(), ["check", "check", "move"]);
        // An edit of what has ended is not looked at; its deletion is.
        let writes = api.writes().len();
        api.edit::<Migration>("default", "m", |object| object.spec.source = "edited".to_owned());
        tokio::time::sleep(seconds(30)).await;
        assert_eq!((api.writes().len(), log.all().len()), (writes, 3));
        let migrations: Api<Migration> = Api::namespaced(api.client(), "default");
        migrations.delete("m", &DeleteParams::default()).await.unwrap();
        eventually(|| async { api.get::<Migration>("default", "m").is_none() }).await;
        assert_eq!(log.all(), ["check", "check", "move", "tidy"]);
        stop.stop(seconds(5));
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), work);
    ran.unwrap();
    informers.stop().await;
    assert_eq!(
        told.all(),
        [
            "m PhaseRetry phase Precheck: try 1 failed, again in 5s: later",
            "m PhaseChanged Precheck -> Run",
            "m PhaseChanged Run -> Succeeded",
        ]
    );
    let text = crate::metrics::encode_text(&registry);
    for line in [
        r#"phase_transitions_total{machine="move",from="Precheck",to="Run"} 1"#,
        r#"phase_failures_total{machine="move",phase="Precheck",fatal="false"} 1"#,
        r#"phase_duration_seconds_count{machine="move",phase="Precheck"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}
