//! Controllers over a fake API server.

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ConfigMap, Pod},
};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use super::*;
use crate::{
    events::EventBroadcaster,
    informer::{Delta, Informer, InformerScope, SharedInformerFactory},
    testing::{FakeApi, eventually},
};

fn object<K: serde::de::DeserializeOwned>(namespace: &str, name: &str, more: &Value) -> K {
    let mut metadata = json!({"namespace": namespace, "name": name});
    for (field, value) in more.as_object().into_iter().flatten() {
        metadata[field] = value.clone();
    }
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

fn map(name: &str) -> ConfigMap {
    object("shop", name, &json!({}))
}

fn maps(api: &FakeApi) -> (SharedInformerFactory, Informer<ConfigMap>) {
    let informers = SharedInformerFactory::new(api.client());
    let maps = informers.typed::<ConfigMap>(InformerScope::default());
    informers.start();
    (informers, maps)
}

/// A reconciler that records its requests and succeeds.
fn recording_reconciler(runs: &RecordedRuns) -> impl Reconciler + use<> {
    let runs = runs.clone();
    reconcile_fn(move |request| {
        runs.record(&request);
        async { Ok(Outcome::Done) }
    })
}

#[tokio::test(start_paused = true)]
async fn reconcile_object_fn_is_called_for_deleted_objects() {
    let api = FakeApi::new();
    api.put(&map("web"));
    let (_informers, maps) = maps(&api);
    let lookups: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = Arc::clone(&lookups);
    let running = start(
        Controller::new("test")
            .for_(&maps)
            .reconciler(reconcile_object_fn(
                maps.store(),
                move |lookup: CacheLookup<ConfigMap>| {
                    recorded.lock().push(format!("{lookup:?}"));
                    async { Ok(Outcome::Done) }
                },
            )),
    );
    let wait_for_lookups = async |expected: &[&str]| {
        eventually(async || {
            let lookups = lookups.lock().clone();
            if lookups == expected { Ok(()) } else { Err(lookups) }
        })
        .await;
    };
    wait_for_lookups(&[r#"Found("shop/web")"#]).await;
    assert!(api.remove::<ConfigMap>("shop", "web"));
    wait_for_lookups(&[r#"Found("shop/web")"#, r#"NotFound("shop/web")"#]).await;
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owns_enqueues_the_old_and_the_new_controller() {
    let owned_by = |api_version: &str, kind: &str, name: &str| {
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true});
        object::<Pod>("shop", "pod", &json!({"uid": "1", "ownerReferences": [owner]}))
    };
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    api.put(&owned_by("apps/v1", "ReplicaSet", "a"));
    let informers = SharedInformerFactory::new(api.client());
    let pods = informers.typed::<Pod>(InformerScope::default());
    let sets = informers.typed::<ReplicaSet>(InformerScope::default());
    informers.start();
    let controller = Controller::new("test").for_(&sets).owns(&pods, "apps/ReplicaSet");
    let running = start(controller.workers(1).reconciler(recording_reconciler(&runs)));
    runs.wait_for(1).await;
    api.put(&owned_by("apps/v1", "ReplicaSet", "b"));
    runs.wait_for(3).await;
    // Owners of another kind or group are ignored, but the owner that lost the pod is enqueued.
    api.put(&owned_by("apps/v1", "StatefulSet", "c"));
    runs.wait_for(4).await;
    api.put(&owned_by("other/v1", "ReplicaSet", "d"));
    api.put(&owned_by("apps/v1", "ReplicaSet", "e"));
    runs.wait_for(5).await;
    let mut keys = runs.keys();
    keys[1..3].sort();
    assert_eq!(keys, ["shop/a", "shop/a", "shop/b", "shop/b", "shop/e"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owns_finds_cluster_scoped_owners() {
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1", "controller": true});
    api.put(&object::<Pod>(
        "shop",
        "pod",
        &json!({"ownerReferences": [owner]}),
    ));
    let informers = SharedInformerFactory::new(api.client());
    let pods = informers.typed::<Pod>(InformerScope::default());
    informers.start();
    let controller = Controller::new("test").owns(&pods, "Node").cluster_scoped();
    let running = start(controller.reconciler(recording_reconciler(&runs)));
    runs.wait_for(1).await;
    assert_eq!(runs.keys(), ["n1"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn live_changes_are_reconciled_before_the_initial_list() {
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    let gate = Arc::new(Semaphore::new(0));
    for number in 0..20 {
        api.put(&map(&format!("map-{number:02}")));
    }
    let (_informers, maps) = maps(&api);
    let recorded = runs.clone();
    let held = Arc::clone(&gate);
    let runner = Controller::new("test")
        .for_(&maps)
        .workers(1)
        .reconciler(reconcile_fn(move |request| {
            recorded.record(&request);
            let held = Arc::clone(&held);
            async move {
                held.acquire().await?.forget();
                Ok(Outcome::Done)
            }
        }));
    let running = start(runner);
    runs.wait_for(1).await;
    api.edit::<ConfigMap>("shop", "map-19", |map| {
        map.data = Some([("a".to_owned(), "b".to_owned())].into());
    });
    api.put(&map("new"));
    eventually(async || maps.store().len() == 21).await;
    gate.add_permits(100);
    runs.wait_for(21).await;
    assert_eq!(runs.keys()[1..3], ["shop/map-19", "shop/new"]);
    assert_eq!(runs.count(), 21);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_label_filter_applies_to_keys_of_all_sources() {
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    let labelled =
        |name: &str, app: &str| object::<ConfigMap>("shop", name, &json!({"labels": {"app": app}}));
    api.put(&labelled("a", "web"));
    api.put(&labelled("b", "db"));
    let (informers, maps) = maps(&api);
    let pods = informers.typed::<Pod>(InformerScope::default());
    let both = |_: &Delta<Pod>| vec![Key::new("shop", "a"), Key::new("shop", "b")];
    let controller = Controller::new("test").for_(&maps).watches(&pods, both);
    let running = start(
        controller
            .filter("labels: app=web".parse().unwrap())
            .reconciler(recording_reconciler(&runs)),
    );
    runs.wait_for(1).await;
    api.put(&object::<Pod>("shop", "pod", &json!({})));
    runs.wait_for(2).await;
    // The change that leaves the filter still causes a reconcile; later ones do not.
    api.put(&labelled("a", "db"));
    runs.wait_for(3).await;
    api.put(&labelled("a", "other"));
    api.put(&labelled("c", "web"));
    runs.wait_for(4).await;
    assert_eq!(runs.keys(), ["shop/a", "shop/a", "shop/a", "shop/c"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_not_reconciled_before_its_own_write_is_seen() {
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    api.put(&map("parent"));
    let (_informers, maps) = maps(&api);
    let children: Api<ConfigMap> = Api::namespaced(api.client(), "shop");
    let recorded = runs.clone();
    let informer = maps.clone();
    let only_parent = |delta: &Delta<ConfigMap>| delta.object().name_any() == "parent";
    let runner = Controller::new("test")
        .for_where(&maps, only_parent)
        .reconciler(reconcile_fn(move |request| {
            recorded.record(&request);
            let children = children.clone();
            let informer = informer.clone();
            async move {
                if informer.store().len() < 2 {
                    let child = ConfigMap {
                        metadata: kube::core::ObjectMeta {
                            generate_name: Some("child-".to_owned()),
                            ..kube::core::ObjectMeta::default()
                        },
                        ..ConfigMap::default()
                    };
                    let child = children.create(&PostParams::default(), &child).await?;
                    request.record_write(&informer, &child.resource_version().unwrap_or_default());
                }
                Ok(Outcome::Done)
            }
        }));
    eventually(async || api.requests().iter().any(|request| request.verb == "watch")).await;
    // The informer receives no events for a while.
    api.faults().reject_watches(3);
    api.faults().drop_watches();
    let running = start(runner);
    for _ in 0..50 {
        running.handle.queue().add(Key::new("shop", "parent"));
        sleep(Duration::from_millis(10)).await;
    }
    let runs_before = runs.count();
    eventually(async || maps.store().len() == 2).await;
    eventually(async || runs.count() > runs_before).await;
    assert_eq!((runs_before, api.list::<ConfigMap>().len()), (1, 2));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_start_fails_if_the_informers_do_not_sync() {
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    api.put(&map("web"));
    api.faults().fail_next(usize::MAX, 503);
    let (_informers, maps) = maps(&api);
    let runner = Controller::new("test")
        .for_(&maps)
        .cache_sync_timeout(30 * SECOND);
    let runner = runner.reconciler(recording_reconciler(&runs));
    let begin = Instant::now();
    let error = runner.run(Stop::new()).await.unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!((begin.elapsed(), runs.count()), (30 * SECOND, 0));
}

#[tokio::test(start_paused = true)]
async fn a_repeatedly_failing_object_gets_one_event() {
    let api = FakeApi::new();
    let runs = RecordedRuns::default();
    let uid = api.put(&map("web")).metadata.uid;
    let (_informers, maps) = maps(&api);
    let broadcaster = Arc::new(EventBroadcaster::new(api.client()));
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    let writer = Arc::clone(&broadcaster);
    let writer_stop = stop.clone();
    tasks.spawn(async move { crate::manager::Runnable::run(&*writer, writer_stop).await });
    let recorded = runs.clone();
    let controller = Controller::new("test")
        .for_(&maps)
        .recorder::<ConfigMap>(&broadcaster.recorder("test"));
    let running = start(controller.reconciler(reconcile_fn(move |request| {
        recorded.record(&request);
        async { Err(Error::unknown("no luck")) }
    })));
    runs.wait_for(9).await;
    running.stop(SECOND).await.unwrap();
    stop.stop(60 * SECOND);
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let events: Vec<k8s_openapi::api::events::v1::Event> = api.list();
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(event.reason.as_deref(), Some("ReconcileFailed"));
    assert!(
        event
            .note
            .as_deref()
            .unwrap_or_default()
            .contains("5 times in a row"),
        "{event:?}"
    );
    let regarding = event.regarding.clone().unwrap_or_default();
    assert_eq!(
        (regarding.kind.as_deref(), regarding.uid),
        (Some("ConfigMap"), uid)
    );
}
