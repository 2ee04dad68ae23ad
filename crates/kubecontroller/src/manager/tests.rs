//! What managers promise.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
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
    metrics,
    testing::{FakeApi, eventually},
};

const SECOND: Duration = Duration::from_secs(1);

/// What happened, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    async fn has(&self, what: &str) {
        eventually(|| async { self.all().iter().any(|known| known == what) }).await;
    }
}

/// A reconciler of config maps that writes down what happens to it.
struct Probe {
    name: &'static str,
    resource: &'static str,
    diary: Diary,
    fails: &'static str,
}

impl Probe {
    fn new(name: &'static str, resource: &'static str, diary: &Diary) -> Self {
        Probe {
            name,
            resource,
            diary: diary.clone(),
            fails: "",
        }
    }

    fn step(&self, step: &str) -> Result<(), BoxError> {
        self.diary.add(format!("{} {step}", self.name));
        if self.fails == step {
            Err(format!("no {step}").into())
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
        let (name, diary) = (self.name, self.diary.clone());
        let controller =
            manager
                .controller(name)
                .for_(&maps)
                .reconciler(reconcile_fn(move |request: Request| {
                    diary.add(format!("{name} {}", request.key));
                    async { Ok(Outcome::Done) }
                }));
        manager.add(controller);
        let diary = self.diary.clone();
        let watcher = task(&format!("{name}-watcher"), move |stop: Stop| {
            let diary = diary.clone();
            async move {
                diary.add("watcher begins");
                stop.stopped().await;
                sleep(SECOND).await;
                diary.add("watcher ends");
                Ok(())
            }
        });
        manager.add(watcher.without_leader_election());
        Ok(())
    }

    async fn after_sync(&self, manager: &Manager) -> Result<(), BoxError> {
        let maps = manager.informers().typed::<ConfigMap>(InformerScope::default());
        self.step("after sync")?;
        self.diary.add(format!("{} of them", maps.store().len()));
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

/// A cluster with some config maps.
fn cluster(keys: &[&str]) -> FakeApi {
    let api = FakeApi::new();
    for key in keys {
        let key: Key = key.parse().unwrap();
        api.put(&map(key.namespace(), key.name()));
    }
    api
}

/// A running app: its stop, and how it ends.
fn start(app: App, config: Config, api: &FakeApi) -> (Stop, JoinSet<Result<(), ManagerError>>) {
    let stop = Stop::new();
    let mut running = JoinSet::new();
    running.spawn(app.run(config, api.client(), stop.clone()));
    (stop, running)
}

async fn end(mut running: JoinSet<Result<(), ManagerError>>) -> Result<(), ManagerError> {
    let ended = timeout(Duration::from_mins(10), running.join_next()).await;
    ended
        .expect("it ends")
        .expect("there is one")
        .expect("it does not panic")
}

fn index(diary: &[String], what: &str) -> usize {
    diary
        .iter()
        .position(|known| known == what)
        .unwrap_or_else(|| panic!("no {what} in {diary:?}"))
}

#[tokio::test(start_paused = true)]
async fn the_start_has_an_order_and_the_stop_has_the_opposite_one() {
    let api = cluster(&["a/one", "a/two", "b/three"]);
    let diary = Diary::default();
    let leader = {
        let diary = diary.clone();
        task("leader", move |stop: Stop| {
            let diary = diary.clone();
            async move {
                diary.add("leader begins");
                stop.stopped().await;
                sleep(SECOND).await;
                diary.add("leader ends");
                Ok(())
            }
        })
    };
    let app = App::new("test")
        .with(Probe::new("probe", "configmaps", &diary))
        .register(|manager| {
            manager.add(leader);
            Ok(())
        });
    let (stop, running) = start(app, Config::default(), &api);
    diary.has("probe b/three").await;
    diary.has("leader begins").await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let all = diary.all();
    let order = [
        "probe setup",
        "probe after sync",
        "3 of them",
        "watcher begins",
        "leader ends",
        "watcher ends",
    ];
    let places: Vec<_> = order.iter().map(|what| index(&all, what)).collect();
    assert!(places.is_sorted(), "{all:?}");
    assert!(index(&all, "probe a/one") > index(&all, "3 of them"), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_set_up_ends_the_start() {
    let api = cluster(&[]);
    let diary = Diary::default();
    let mut first = Probe::new("first", "configmaps", &diary);
    first.fails = "setup";
    let app = App::new("test")
        .with(first)
        .with(Probe::new("second", "secrets", &diary));
    let (_stop, running) = start(app, Config::default(), &api);
    let error = end(running).await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.exit_code()),
        ("cannot set up first: no setup", 1)
    );
    assert_eq!(diary.all(), ["first setup"]);
    assert!(api.requests().is_empty());

    let calls = Diary::default();
    let (one, two) = (calls.clone(), calls.clone());
    let app = App::new("test")
        .register(move |_| {
            one.add("one");
            Ok(())
        })
        .register(move |_| {
            two.add("two");
            Err("no two".into())
        })
        .register(|_| panic!("the second failed"));
    let (_stop, running) = start(app, Config::default(), &api);
    assert_eq!(
        end(running).await.unwrap_err().to_string(),
        "cannot set up test: no two"
    );
    assert_eq!(calls.all(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_ends_the_program() {
    let api = cluster(&["a/one"]);
    let diary = Diary::default();
    let mut probe = Probe::new("probe", "configmaps", &diary);
    probe.fails = "after sync";
    let (_stop, running) = start(App::new("test").with(probe), Config::default(), &api);
    let error = end(running).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "probe failed when its informers were synced: no after sync"
    );
    assert_eq!(diary.all(), ["probe setup", "probe after sync"]);
}

#[tokio::test(start_paused = true)]
async fn controllers_are_enabled_by_name_or_resource_and_unknown_names_are_refused() {
    let api = cluster(&["a/one"]);
    let diary = Diary::default();
    let app = || {
        let first = Probe::new("first", "ats", &diary);
        App::new("test")
            .with(first)
            .with(Probe::new("second", "dummies", &diary))
    };
    let with = |words: &[&str]| Config {
        selection: ControllerSelection::parse(
            &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(),
        )
        .unwrap(),
        ..Config::default()
    };
    let (stop, running) = start(app(), with(&["*", "-ats"]), &api);
    diary.has("second a/one").await;
    sleep(60 * SECOND).await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    assert!(
        !diary.all().iter().any(|what| what.starts_with("first")),
        "{:?}",
        diary.all()
    );

    let (_stop, running) = start(app(), with(&["bats"]), &api);
    let error = end(running).await.unwrap_err();
    let want = "there is no controller \"bats\"; there are: ats, dummies, first, second";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (want, 2));
}

#[tokio::test(start_paused = true)]
async fn a_filter_of_a_resource_hides_the_rest_of_it() {
    let api = cluster(&["default/apple", "default/pear", "other/apple"]);
    let diary = Diary::default();
    let app = || App::new("test").with(Probe::new("probe", "configmaps", &diary));
    let mut config = Config::default();
    config
        .filters
        .insert("configmaps".to_owned(), "default/a*".to_owned());
    let (stop, running) = start(app(), config, &api);
    diary.has("probe default/apple").await;
    sleep(60 * SECOND).await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let seen: Vec<_> = diary
        .all()
        .into_iter()
        .filter(|what| what.contains('/'))
        .collect();
    assert_eq!(seen, ["probe default/apple"]);

    let mut config = Config::default();
    config.filters.insert("pods".to_owned(), "*".to_owned());
    let (_stop, running) = start(app(), config, &api);
    let error = end(running).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "resource-filter.pods: no controller is for that; there are: configmaps"
    );
}

/// One that does not use the manager's controllers.
struct Careless;

impl Setup for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }

    fn resource(&self) -> &'static str {
        "configmaps"
    }

    async fn setup(&self, _: &mut Manager) -> Result<(), BoxError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_nobody_applies_is_refused() {
    let mut config = Config::default();
    config.filters.insert("configmaps".to_owned(), "a/*".to_owned());
    let (_stop, running) = start(App::new("test").with(Careless), config, &cluster(&[]));
    let error = end(running).await.unwrap_err();
    let want = "resource-filter.configmaps: the controller careless does not filter";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (want, 2));
}

#[tokio::test(start_paused = true)]
async fn dependencies_are_waited_for_and_circles_are_refused() {
    let api = cluster(&["a/one"]);
    let diary = Diary::default();
    let app = || {
        let first = Probe::new("first", "ats", &diary);
        App::new("test")
            .with(first)
            .with(Probe::new("second", "dummies", &diary))
    };
    let with = |gates: &[(&str, &str)]| {
        let mut config = Config::default();
        for (name, gate) in gates {
            config
                .dependencies
                .insert((*name).to_owned(), vec![StartCondition::parse(gate).unwrap()]);
        }
        config
    };
    let (stop, running) = start(app(), with(&[("first", "dummies")]), &api);
    diary.has("first a/one").await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
    let all = diary.all();
    assert!(
        index(&all, "second a/one") < index(&all, "first a/one"),
        "{all:?}"
    );
    for (gates, want) in [
        (
            &[("first", "second"), ("second", "first")][..],
            "first depends on itself",
        ),
        (
            &[("first", "third")],
            "first depends on third, which is not there or disabled",
        ),
        (
            &[("third", "first")],
            "dependencies.third: there is no such controller; there are: ats, dummies, first, second",
        ),
    ] {
        let (_stop, running) = start(app(), with(gates), &api);
        let error = end(running).await.unwrap_err();
        assert!(
            error.to_string().starts_with(want) && error.exit_code() == 2,
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_manager_that_fails_ends_the_others_gracefully() {
    let api = cluster(&["a/one"]);
    let diary = Diary::default();
    let mut bad = Probe::new("bad", "secrets", &diary);
    bad.fails = "after sync";
    let app = App::new("good")
        .with(Probe::new("good", "configmaps", &diary))
        .manager("bad")
        .with(bad);
    let (_stop, running) = start(app, Config::default(), &api);
    let error = end(running).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().starts_with("bad failed"), "{error}");

    let diary = Diary::default();
    let app = App::new("good")
        .with(Probe::new("good", "configmaps", &diary))
        .add_runnable(task("web", |_| async {
            sleep(60 * SECOND).await;
            Err("no port".into())
        }));
    let (_stop, running) = start(app, Config::default(), &api);
    assert_eq!(end(running).await.unwrap_err().to_string(), "web failed: no port");
    index(&diary.all(), "watcher ends");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_is_started_again_and_counted() {
    let api = cluster(&["a/one"]);
    let context = ManagerContext::new(Config::default(), api.client());
    let mut manager = Manager::with_context("test", context.clone());
    let runs = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&runs);
    let diary = Diary::default();
    manager.with(Probe::new("probe", "configmaps", &diary));
    manager.add(task("weak", move |_| {
        assert!(ran.fetch_add(1, Ordering::SeqCst) >= 3, "weak");
        async { Ok(()) }
    }));
    manager.setup().await.unwrap();
    let stop = Stop::new();
    let mut running = JoinSet::new();
    running.spawn(manager.run(stop.clone()));
    eventually(|| async { runs.load(Ordering::SeqCst) == 4 }).await;
    let figures = metrics::encode_text(&context.registry());
    assert!(
        figures.contains("controller_restarts_total{controller=\"weak\"} 3"),
        "{figures}"
    );
    api.put(&map("a", "two"));
    diary.has("probe a/two").await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_runnables_of_one_name_are_refused() {
    let app = App::new("test").register(|manager| {
        manager.add(task("twin", |_| async { Ok(()) }));
        manager.add(task("twin", |_| async { Ok(()) }));
        Ok(())
    });
    let (_stop, running) = start(app, Config::default(), &cluster(&[]));
    let error = end(running).await.unwrap_err().to_string();
    assert_eq!(error, "cannot set up test: there are two runnables called twin");
}

#[tokio::test(start_paused = true)]
async fn lists_that_never_come_end_the_start_after_a_limit() {
    let api = cluster(&["a/one"]);
    api.faults().hang();
    let diary = Diary::default();
    let begin = Instant::now();
    let (_stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &diary)),
        Config::default(),
        &api,
    );
    let error = end(running).await.unwrap_err();
    assert!(matches!(error, ManagerError::NotSynced(_)), "{error}");
    assert!(begin.elapsed() >= Duration::from_mins(2));
    assert_eq!(diary.all(), ["probe setup"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_first_list_ends_it_too() {
    let api = cluster(&["a/one"]);
    api.faults().hang();
    let diary = Diary::default();
    let (stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &diary)),
        Config::default(),
        &api,
    );
    sleep(SECOND).await;
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_manager_asks_for_nothing_but_its_lease() {
    let api = cluster(&["a/one"]);
    let diary = Diary::default();
    let mut config = Config::default();
    config.leader.elect = true;
    let (stop, running) = start(
        App::new("idle").with(Probe::new("probe", "configmaps", &diary)),
        config,
        &api,
    );
    diary.has("probe a/one").await;
    sleep(10 * SECOND).await;
    api.clear_requests();
    // Not as long as a watch lives.
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
async fn of_two_replicas_one_works_and_the_other_takes_over_at_once_when_it_stops() {
    let api = cluster(&["a/one"]);
    let (first, second) = (Diary::default(), Diary::default());
    let app = |diary: &Diary| App::new("pair").with(Probe::new("probe", "configmaps", diary));
    let config = || {
        let mut config = Config::default();
        config.leader.elect = true;
        config
    };
    let (stop, running) = start(app(&first), config(), &api);
    first.has("probe a/one").await;
    let (stop_second, running_second) = start(app(&second), config(), &api);
    second.has("watcher begins").await;
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
async fn a_controller_works_as_the_configuration_says() {
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
                        let mut busy = busy.lock().unwrap();
                        busy.0 += 1;
                        busy.1 = busy.1.max(busy.0);
                    }
                    sleep(SECOND).await;
                    busy.lock().unwrap().0 -= 1;
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
    assert_eq!(*busy.lock().unwrap(), (0, 2));
    stop.stop(30 * SECOND);
    end(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn informers_work_as_the_configuration_says() {
    let api = cluster(&["a/1", "a/2", "a/3"]);
    let diary = Diary::default();
    let mut config = Config::default();
    config.informer.resync = Some(5 * SECOND);
    config.informer.incremental_sync = true;
    let (stop, running) = start(
        App::new("test").with(Probe::new("probe", "configmaps", &diary)),
        config,
        &api,
    );
    diary.has("probe a/1").await;
    sleep(60 * SECOND).await;
    let runs = diary.all().iter().filter(|what| *what == "probe a/1").count();
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
        App::new("test").with(Probe::new("probe", "configmaps", &diary)),
        config,
        &api,
    );
    assert!(matches!(end(running).await, Err(ManagerError::NotSynced(_))));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limits_all_reconciles_of_a_controller() {
    let keys: Vec<_> = (0..100).map(|number| format!("a/{number}")).collect();
    let api = cluster(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let diary = Diary::default();
    let mut config = Config::default();
    config.controller.qps = Some(10.0);
    let begin = Instant::now();
    let app = App::new("test").with(Probe::new("probe", "configmaps", &diary));
    let (stop, running) = start(app, config, &api);
    let reconciled = || {
        diary
            .all()
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

struct Homebound;

impl Setup for Homebound {
    fn name(&self) -> &'static str {
        "homebound"
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
    .description("Where one lives")
    .catalog("living")
    .prefix("ho")
    .controller_type(ControllerType::PhaseMachine)
    .no_portable();

crate::register! {
    name: "homebound",
    metadata: HOMES,
    make: || Homebound,
    settings: &[ControllerSetting { key: "homes.colour", help: "Which", default: "red" }],
}

#[tokio::test(start_paused = true)]
async fn what_is_linked_is_there_and_what_needs_a_cluster_is_left_out_in_portable_mode() {
    let api = cluster(&[]);
    let (_stop, running) = start(App::new("hub").linked(), Config::default(), &api);
    let error = end(running).await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot set up homebound: set up with"),
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
fn a_resource_is_found_by_plural_or_short_name_and_can_be_listed() {
    for name in ["homes", "ho"] {
        assert_eq!(Registration::find(name).unwrap().metadata(), &HOMES);
    }
    assert!(Registration::find("home").is_none() && Registration::find("").is_none());
    let shown = serde_json::to_value(HOMES).unwrap();
    let want = serde_json::json!({
        "resource": "homes", "type": "Home", "groupVersion": "demo.example.com/v1", "desc": "Where one lives",
        "catalog": "living", "prefix": "ho", "controllerType": "phasemachine", "noPortable": true,
    });
    assert_eq!(shown, want);
}
