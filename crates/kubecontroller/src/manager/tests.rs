//! Tests of managers and programs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    BoxError, Config, ControllerSetting, ControllerType, Manager, ManagerContext, ManagerError, Registration,
    ResourceMetadata, Setup, Stop, selection::ControllerSelection, start_condition::StartCondition, task,
};
use crate::{
    App, Key,
    controller::{Outcome, Request, reconcile_fn},
    informer::InformerScope,
    testing::{FakeApi, eventually},
};

const SECOND: Duration = Duration::from_secs(1);

/// A log of what happened, in order.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    async fn has(&self, what: &str) {
        eventually(|| async { self.all().iter().any(|known| known == what) }).await;
    }
}

/// A reconciler of config maps that logs its steps.
struct Probe {
    name: &'static str,
    resource: &'static str,
    log: EventLog,
    fails: &'static str,
}

impl Probe {
    fn new(name: &'static str, resource: &'static str, log: &EventLog) -> Self {
        Probe {
            name,
            resource,
            log: log.clone(),
            fails: "",
        }
    }

    fn step(&self, step: &str) -> Result<(), BoxError> {
        self.log.add(format!("{} {step}", self.name));
        if self.fails == step {
            Err(format!("{step} failed").into())
        } else {
            Ok(())
        }
    }
}

impl Setup for Probe {
    fn name(&self) -> &str {
        self.name
    }

    fn resource(&self) -> &str {
        self.resource
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        self.step("setup")?;
        let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
        let name = self.name;
        let log = self.log.clone();
        let controller =
            manager
                .controller(name)
                .for_(&maps)
                .reconciler(reconcile_fn(move |request: Request| {
                    log.add(format!("{name} {}", request.key));
                    async { Ok(Outcome::Done) }
                }));
        manager.add(controller);
        let log = self.log.clone();
        let watcher = task(&format!("{name}-watcher"), move |stop: Stop| {
            let log = log.clone();
            async move {
                log.add("watcher starts");
                stop.stopped().await;
                sleep(SECOND).await;
                log.add("watcher ends");
                Ok(())
            }
        });
        manager.add(watcher.without_leader_election());
        Ok(())
    }

    async fn after_sync(&self, manager: &Manager) -> Result<(), BoxError> {
        let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
        self.step("after sync")?;
        self.log.add(format!("{} objects", maps.store().len()));
        Ok(())
    }
}

fn map(namespace: &str, name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// A fake API with config maps.
fn cluster(keys: &[&str]) -> FakeApi {
    let api = FakeApi::new();
    for key in keys {
        let key: Key = key.parse().unwrap();
        api.put(&map(key.namespace(), key.name()));
    }
    api
}

/// Runs an app and returns its stop and its task.
fn start(app: App, config: Config, api: &FakeApi) -> (Stop, JoinSet<Result<(), ManagerError>>) {
    let stop = Stop::new();
    let mut running = JoinSet::new();
    running.spawn(app.run(config, api.client(), stop.clone()));
    (stop, running)
}

async fn end(mut running: JoinSet<Result<(), ManagerError>>) -> Result<(), ManagerError> {
    let ended = timeout(Duration::from_mins(10), running.join_next()).await;
    ended
        .expect("the app ends")
        .expect("the app is running")
        .expect("the app does not panic")
}

fn index(log: &[String], what: &str) -> usize {
    log.iter()
        .position(|known| known == what)
        .unwrap_or_else(|| panic!("no {what} in {log:?}"))
}

#[tokio::test(start_paused = true)]
async fn starts_in_order_and_stops_in_reverse() {
    let api = cluster(&["a/one", "a/two", "b/three"]);
    let log = EventLog::default();
    let leader = {
        let log = log.clone();
        task("leader", move |stop: Stop| {
            let log = log.clone();
            async move {
                log.add("leader starts");
                stop.stopped().await;
                sleep(SECOND).await;
                log.add("leader ends");
                Ok(())
            }
        })
    };
    let app = App::new("test")
        .with(Probe::new("probe", "configmaps", &log))
        .register(|manager| {
            manager.add(leader);
            Ok(())
        });
    let (stop, running) = start(app, Config::default(), &api);
    log.has("probe b/three").await;
    log.has("leader starts").await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let all = log.all();
    let order = [
        "probe setup",
        "probe after sync",
        "3 objects",
        "watcher starts",
        "leader ends",
        "watcher ends",
    ];
    let positions: Vec<_> = order.iter().map(|what| index(&all, what)).collect();
    assert!(positions.is_sorted(), "{all:?}");
    assert!(index(&all, "probe a/one") > index(&all, "3 objects"), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_setup_ends_the_start() {
    let api = cluster(&[]);
    let log = EventLog::default();
    let mut first = Probe::new("first", "configmaps", &log);
    first.fails = "setup";
    let app = App::new("test")
        .with(first)
        .with(Probe::new("second", "secrets", &log));
    let (_stop, running) = start(app, Config::default(), &api);
    let error = end(running).await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.exit_code()),
        ("setup of first failed: setup failed", 1)
    );
    assert_eq!(log.all(), ["first setup"]);
    assert!(api.requests().is_empty());

    let calls = EventLog::default();
    let one = calls.clone();
    let two = calls.clone();
    let app = App::new("test")
        .register(move |_| {
            one.add("one");
            Ok(())
        })
        .register(move |_| {
            two.add("two");
            Err("error two".into())
        })
        .register(|_| panic!("the second failed"));
    let (_stop, running) = start(app, Config::default(), &api);
    assert_eq!(
        end(running).await.unwrap_err().to_string(),
        "setup of test failed: error two"
    );
    assert_eq!(calls.all(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn failed_hook_ends_the_program() {
    let api = cluster(&["a/one"]);
    let log = EventLog::default();
    let mut probe = Probe::new("probe", "configmaps", &log);
    probe.fails = "after sync";
    let (_stop, running) = start(App::new("test").with(probe), Config::default(), &api);
    let error = end(running).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "after_sync hook of probe failed: after sync failed"
    );
    assert_eq!(log.all(), ["probe setup", "probe after sync"]);
}

#[tokio::test(start_paused = true)]
async fn selects_controllers_by_name_or_resource_and_rejects_unknown_names() {
    let api = cluster(&["a/one"]);
    let log = EventLog::default();
    let app = || {
        let first = Probe::new("first", "ats", &log);
        App::new("test")
            .with(first)
            .with(Probe::new("second", "dummies", &log))
    };
    let with = |names: &[&str]| Config {
        selection: ControllerSelection::parse(
            &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
        )
        .unwrap(),
        ..Config::default()
    };
    let (stop, running) = start(app(), with(&["*", "-ats"]), &api);
    log.has("second a/one").await;
    sleep(60 * SECOND).await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    assert!(
        !log.all().iter().any(|what| what.starts_with("first")),
        "{:?}",
        log.all()
    );

    let (_stop, running) = start(app(), with(&["bats"]), &api);
    let error = end(running).await.unwrap_err();
    let want = "unknown controller \"bats\"; known: ats, dummies, first, second";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (want, 2));
}

#[tokio::test(start_paused = true)]
async fn resource_filter_hides_other_objects() {
    let api = cluster(&["default/apple", "default/pear", "other/apple"]);
    let log = EventLog::default();
    let app = || App::new("test").with(Probe::new("probe", "configmaps", &log));
    let mut config = Config::default();
    config
        .filters
        .insert("configmaps".to_owned(), "default/a*".to_owned());
    let (stop, running) = start(app(), config, &api);
    log.has("probe default/apple").await;
    sleep(60 * SECOND).await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let seen: Vec<_> = log.all().into_iter().filter(|what| what.contains('/')).collect();
    assert_eq!(seen, ["probe default/apple"]);

    let mut config = Config::default();
    config.filters.insert("pods".to_owned(), "*".to_owned());
    let (_stop, running) = start(app(), config, &api);
    let error = end(running).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "resource-filter.pods: no controller handles this resource; known: configmaps"
    );
}

/// A setup that does not create its controller with [`Manager::controller`].
struct UnfilteredSetup;

impl Setup for UnfilteredSetup {
    fn name(&self) -> &'static str {
        "unfiltered"
    }

    fn resource(&self) -> &'static str {
        "configmaps"
    }

    async fn setup(&self, _: &mut Manager) -> Result<(), BoxError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn filter_without_support_is_rejected() {
    let mut config = Config::default();
    config.filters.insert("configmaps".to_owned(), "a/*".to_owned());
    let (_stop, running) = start(App::new("test").with(UnfilteredSetup), config, &cluster(&[]));
    let error = end(running).await.unwrap_err();
    let want = "resource-filter.configmaps: the controller unfiltered does not support filters";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (want, 2));
}

#[tokio::test(start_paused = true)]
async fn waits_for_dependencies_and_rejects_cycles() {
    let api = cluster(&["a/one"]);
    let log = EventLog::default();
    let app = || {
        let first = Probe::new("first", "ats", &log);
        App::new("test")
            .with(first)
            .with(Probe::new("second", "dummies", &log))
    };
    let with = |conditions: &[(&str, &str)]| {
        let mut config = Config::default();
        for (name, condition) in conditions {
            config.dependencies.insert(
                (*name).to_owned(),
                vec![StartCondition::parse(condition).unwrap()],
            );
        }
        config
    };
    let (stop, running) = start(app(), with(&[("first", "dummies")]), &api);
    log.has("first a/one").await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let all = log.all();
    assert!(
        index(&all, "second a/one") < index(&all, "first a/one"),
        "{all:?}"
    );
    for (conditions, want) in [
        (
            &[("first", "second"), ("second", "first")][..],
            "first depends on itself",
        ),
        (
            &[("first", "third")],
            "first depends on third, which does not exist or is disabled",
        ),
        (
            &[("third", "first")],
            "dependencies.third: unknown controller; known: ats, dummies, first, second",
        ),
    ] {
        let (_stop, running) = start(app(), with(conditions), &api);
        let error = end(running).await.unwrap_err();
        assert!(
            error.to_string().starts_with(want) && error.exit_code() == 2,
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failure_of_one_manager_stops_the_others_gracefully() {
    let api = cluster(&["a/one"]);
    let log = EventLog::default();
    let mut bad = Probe::new("bad", "secrets", &log);
    bad.fails = "after sync";
    let app = App::new("good")
        .with(Probe::new("good", "configmaps", &log))
        .manager("bad")
        .with(bad);
    let (_stop, running) = start(app, Config::default(), &api);
    let error = end(running).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(
        error.to_string().starts_with("after_sync hook of bad failed"),
        "{error}"
    );

    let log = EventLog::default();
    let app = App::new("good")
        .with(Probe::new("good", "configmaps", &log))
        .add_runnable(task("web", |_| async {
            sleep(60 * SECOND).await;
            Err("no port".into())
        }));
    let (_stop, running) = start(app, Config::default(), &api);
    assert_eq!(end(running).await.unwrap_err().to_string(), "web failed: no port");
    index(&log.all(), "watcher ends");
}

#[tokio::test(start_paused = true)]
async fn panicking_controller_is_restarted_and_counted() {
    let api = cluster(&["a/one"]);
    let context = ManagerContext::new(Config::default(), api.client());
    let mut manager = Manager::with_context("test", context.clone());
    let runs = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&runs);
    let log = EventLog::default();
    manager.with(Probe::new("probe", "configmaps", &log));
    manager.add(task("failing", move |_| {
        assert!(ran.fetch_add(1, Ordering::SeqCst) >= 3, "failing");
        async { Ok(()) }
    }));
    manager.setup().await.unwrap();
    let stop = Stop::new();
    let mut running = JoinSet::new();
    running.spawn(manager.run(stop.clone()));
    eventually(|| async { runs.load(Ordering::SeqCst) == 4 }).await;
    let text = context.metrics().text();
    assert!(
        text.contains("controller_restarts_total{controller=\"failing\"} 3"),
        "{text}"
    );
    api.put(&map("a", "two"));
    log.has("probe a/two").await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn duplicate_runnable_name_is_rejected() {
    let app = App::new("test").register(|manager| {
        manager.add(task("duplicate", |_| async { Ok(()) }));
        manager.add(task("duplicate", |_| async { Ok(()) }));
        Ok(())
    });
    let (_stop, running) = start(app, Config::default(), &cluster(&[]));
    let error = end(running).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "setup of test failed: two runnables have the name duplicate"
    );
}

#[tokio::test(start_paused = true)]
async fn start_fails_if_caches_do_not_sync_in_time() {
    let api = cluster(&["a/one"]);
    api.faults().hang();
    let log = EventLog::default();
    let begin = Instant::now();
    let (_stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &log)),
        Config::default(),
        &api,
    );
    let error = end(running).await.unwrap_err();
    assert!(matches!(error, ManagerError::CacheSyncTimeout(_)), "{error}");
    assert!(begin.elapsed() >= Duration::from_mins(2));
    assert_eq!(log.all(), ["probe setup"]);
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_initial_sync() {
    let api = cluster(&["a/one"]);
    api.faults().hang();
    let log = EventLog::default();
    let (stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &log)),
        Config::default(),
        &api,
    );
    sleep(SECOND).await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_manager_only_renews_its_lease() {
    let api = cluster(&["a/one"]);
    let log = EventLog::default();
    let mut config = Config::default();
    config.leader.elect = true;
    let (stop, running) = start(
        App::new("idle").with(Probe::new("probe", "configmaps", &log)),
        config,
        &api,
    );
    log.has("probe a/one").await;
    sleep(10 * SECOND).await;
    api.clear_requests();
    // Shorter than the timeout of a watch.
    sleep(240 * SECOND).await;
    let others: Vec<_> = api
        .requests()
        .into_iter()
        .filter(|request| !request.is_for("leases"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let leases = api.requests().len();
    assert!((100..=121).contains(&leases), "{leases}");
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn second_replica_takes_over_when_the_leader_stops() {
    let api = cluster(&["a/one"]);
    let first = EventLog::default();
    let second = EventLog::default();
    let app = |log: &EventLog| App::new("pair").with(Probe::new("probe", "configmaps", log));
    let config = || {
        let mut config = Config::default();
        config.leader.elect = true;
        config
    };
    let (stop, running) = start(app(&first), config(), &api);
    first.has("probe a/one").await;
    let (stop_second, running_second) = start(app(&second), config(), &api);
    second.has("watcher starts").await;
    sleep(60 * SECOND).await;
    assert!(
        !second.all().contains(&"probe a/one".to_owned()),
        "{:?}",
        second.all()
    );
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let stopped = Instant::now();
    second.has("probe a/one").await;
    assert!(stopped.elapsed() < 6 * SECOND, "{:?}", stopped.elapsed());
    stop_second.stop(30 * SECOND);
    end(running_second).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controllers_use_configured_workers() {
    let api = cluster(&["a/1", "a/2", "a/3", "a/4", "a/5"]);
    let busy = Arc::new(Mutex::new((0, 0)));
    let watched = Arc::clone(&busy);
    let app = App::new("test").register(move |manager| {
        let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
        let slow = manager
            .controller("slow")
            .for_(&maps)
            .reconciler(reconcile_fn(move |_: Request| {
                let busy = Arc::clone(&watched);
                async move {
                    {
                        let mut busy = busy.lock();
                        busy.0 += 1;
                        busy.1 = busy.1.max(busy.0);
                    }
                    sleep(SECOND).await;
                    busy.lock().0 -= 1;
                    Ok(Outcome::Done)
                }
            }));
        manager.add(slow);
        Ok(())
    });
    let mut config = Config::default();
    config.controller.workers = 3;
    config.controller.max_concurrent = Some(2);
    let (stop, running) = start(app, config, &api);
    sleep(60 * SECOND).await;
    assert_eq!(*busy.lock(), (0, 2));
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn informers_use_configured_resync_and_limits() {
    let api = cluster(&["a/1", "a/2", "a/3"]);
    let log = EventLog::default();
    let mut config = Config::default();
    config.informer.resync = Some(5 * SECOND);
    config.informer.incremental_sync = true;
    let (stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &log)),
        config,
        &api,
    );
    log.has("probe a/1").await;
    sleep(60 * SECOND).await;
    let runs = log.all().iter().filter(|what| *what == "probe a/1").count();
    assert!((12..=14).contains(&runs), "{runs}");
    assert!(
        !api.requests()
            .iter()
            .any(|request| request.verb == "list" && request.is_for("configmaps"))
    );
    stop.stop(30 * SECOND);
    end(running).await.unwrap();

    let mut config = Config::default();
    config.informer.cache_size = Some(2);
    config.informer.sync_timeout = 20 * SECOND;
    let (_stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &log)),
        config,
        &api,
    );
    assert!(matches!(
        end(running).await,
        Err(ManagerError::CacheSyncTimeout(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn rate_limits_reconciles_of_a_controller() {
    let keys: Vec<_> = (0..100).map(|number| format!("a/{number}")).collect();
    let api = cluster(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let log = EventLog::default();
    let mut config = Config::default();
    config.controller.qps = Some(10.0);
    let begin = Instant::now();
    let app = App::new("test").with(Probe::new("probe", "configmaps", &log));
    let (stop, running) = start(app, config, &api);
    let reconciled = || {
        log.all()
            .iter()
            .filter(|what| what.starts_with("probe a/"))
            .count()
    };
    eventually(|| async { reconciled() == 100 }).await;
    assert!(
        begin.elapsed().abs_diff(9 * SECOND) < SECOND,
        "{:?}",
        begin.elapsed()
    );
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

// --- registered reconcilers ---

struct ClusterOnlySetup;

impl Setup for ClusterOnlySetup {
    fn name(&self) -> &'static str {
        "cluster-only"
    }

    fn resource(&self) -> &'static str {
        "homes"
    }

    async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
        Err(format!(
            "set up with {:?}",
            manager.config().controller_setting("homes.colour")
        )
        .into())
    }
}

const HOMES: ResourceMetadata = ResourceMetadata::new("homes", "Home", "demo.example.com/v1")
    .description("A place to live")
    .catalog("living")
    .prefix("ho")
    .controller_type(ControllerType::PhaseMachine)
    .no_portable();

crate::register! {
    name: "cluster-only",
    metadata: HOMES,
    make: || ClusterOnlySetup,
    settings: &[ControllerSetting { key: "homes.colour", help: "The color", default: "red" }],
}

#[tokio::test(start_paused = true)]
async fn linked_setup_runs_except_in_portable_mode() {
    let api = cluster(&[]);
    let (_stop, running) = start(App::new("hub").linked(), Config::default(), &api);
    let error = end(running).await.unwrap_err().to_string();
    assert!(
        error.starts_with("setup of cluster-only failed: set up with"),
        "{error}"
    );
    let config = Config {
        portable: true,
        ..Config::default()
    };
    let (stop, running) = start(App::new("hub").linked(), config, &api);
    sleep(SECOND).await;
    stop.stop(SECOND);
    end(running).await.unwrap();
}

#[test]
fn resource_is_found_by_plural_or_short_name() {
    for name in ["homes", "ho"] {
        assert_eq!(Registration::find(name).unwrap().metadata(), &HOMES);
    }
    assert!(Registration::find("home").is_none() && Registration::find("").is_none());
    let json = serde_json::to_value(HOMES).unwrap();
    let want = serde_json::json!({
        "resource": "homes", "type": "Home", "groupVersion": "demo.example.com/v1", "desc": "A place to live",
        "catalog": "living", "prefix": "ho", "controllerType": "phasemachine", "noPortable": true,
    });
    assert_eq!(json, want);
}
