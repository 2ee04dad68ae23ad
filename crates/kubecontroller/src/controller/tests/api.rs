//! Against an API in memory.

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

/// Notes what it is asked to reconcile.
fn noting(seen: &CacheLookup) -> impl Reconciler + use<> {
    let seen = seen.clone();
    reconcile_fn(move |request| {
        seen.note(&request);
        async { Ok(Outcome::Done) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_by_object_is_told_of_those_that_are_gone() {
    let api = FakeApi::new();
    api.put(&map("web"));
    let (_informers, maps) = maps(&api);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&told);
    let running = start(
        Controller::new("test")
            .for_(&maps)
            .reconciler(reconcile_object_fn(
                maps.store(),
                move |seen: super::super::CacheLookup<ConfigMap>| {
                    noted.lock().unwrap().push(format!("{seen:?}"));
                    async { Ok(Outcome::Done) }
                },
            )),
    );
    let is_told = async |words: &[&str]| {
        eventually(async || {
            let told = told.lock().unwrap().clone();
            if told == words { Ok(()) } else { Err(told) }
        })
        .await;
    };
    is_told(&[r#"There("shop/web")"#]).await;
    assert!(api.remove::<ConfigMap>("shop", "web"));
    is_told(&[r#"There("shop/web")"#, r#"Gone("shop/web")"#]).await;
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_an_object_concerns_its_owner_old_and_new() {
    let owned_by = |api_version: &str, kind: &str, name: &str| {
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true});
        object::<Pod>("shop", "pod", &json!({"uid": "1", "ownerReferences": [owner]}))
    };
    let (api, seen) = (FakeApi::new(), CacheLookup::default());
    api.put(&owned_by("apps/v1", "ReplicaSet", "a"));
    let informers = SharedInformerFactory::new(api.client());
    let pods = informers.typed::<Pod>(InformerScope::default());
    let sets = informers.typed::<ReplicaSet>(InformerScope::default());
    informers.start();
    let controller = Controller::new("test").for_(&sets).owns(&pods, "apps/ReplicaSet");
    let running = start(controller.workers(1).reconciler(noting(&seen)));
    seen.reaches(1).await;
    api.put(&owned_by("apps/v1", "ReplicaSet", "b"));
    seen.reaches(3).await;
    // Neither another kind nor another group is meant; the one that lost it is.
    api.put(&owned_by("apps/v1", "StatefulSet", "c"));
    seen.reaches(4).await;
    api.put(&owned_by("other/v1", "ReplicaSet", "d"));
    api.put(&owned_by("apps/v1", "ReplicaSet", "e"));
    seen.reaches(5).await;
    let mut keys = seen.keys();
    keys[1..3].sort();
    assert_eq!(keys, ["shop/a", "shop/a", "shop/b", "shop/b", "shop/e"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owners_without_a_namespace_are_found() {
    let (api, seen) = (FakeApi::new(), CacheLookup::default());
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
    let running = start(controller.reconciler(noting(&seen)));
    seen.reaches(1).await;
    assert_eq!(seen.keys(), ["n1"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn live_changes_come_before_what_was_there() {
    let (api, seen, gate) = (
        FakeApi::new(),
        CacheLookup::default(),
        Arc::new(Semaphore::new(0)),
    );
    for number in 0..20 {
        api.put(&map(&format!("map-{number:02}")));
    }
    let (_informers, maps) = maps(&api);
    let (told, held) = (seen.clone(), Arc::clone(&gate));
    let runner = Controller::new("test")
        .for_(&maps)
        .workers(1)
        .reconciler(reconcile_fn(move |request| {
            told.note(&request);
            let held = Arc::clone(&held);
            async move {
                held.acquire().await?.forget();
                Ok(Outcome::Done)
            }
        }));
    let running = start(runner);
    seen.reaches(1).await;
    api.edit::<ConfigMap>("shop", "map-19", |map| {
        map.data = Some([("a".to_owned(), "b".to_owned())].into());
    });
    api.put(&map("new"));
    eventually(async || maps.store().len() == 21).await;
    gate.add_permits(100);
    seen.reaches(21).await;
    assert_eq!(seen.keys()[1..3], ["shop/map-19", "shop/new"]);
    assert_eq!(seen.count(), 21);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_filter_looks_at_labels_wherever_a_key_comes_from() {
    let (api, seen) = (FakeApi::new(), CacheLookup::default());
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
            .reconciler(noting(&seen)),
    );
    seen.reaches(1).await;
    api.put(&object::<Pod>("shop", "pod", &json!({})));
    seen.reaches(2).await;
    // One that leaves is seen leaving, and then no more.
    api.put(&labelled("a", "db"));
    seen.reaches(3).await;
    api.put(&labelled("a", "other"));
    api.put(&labelled("c", "web"));
    seen.reaches(4).await;
    assert_eq!(seen.keys(), ["shop/a", "shop/a", "shop/a", "shop/c"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_does_not_run_again_before_its_own_write_was_seen() {
    let (api, seen) = (FakeApi::new(), CacheLookup::default());
    api.put(&map("parent"));
    let (_informers, maps) = maps(&api);
    let children: Api<ConfigMap> = Api::namespaced(api.client(), "shop");
    let (told, informer) = (seen.clone(), maps.clone());
    let only_parent = |delta: &Delta<ConfigMap>| delta.object().name_any() == "parent";
    let runner = Controller::new("test")
        .for_where(&maps, only_parent)
        .reconciler(reconcile_fn(move |request| {
            told.note(&request);
            let (children, informer) = (children.clone(), informer.clone());
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
    // The informer hears nothing for a while.
    api.faults().refuse_watches(3);
    api.faults().drop_watches();
    let running = start(runner);
    for _ in 0..50 {
        running.handle.queue().add(Key::new("shop", "parent"));
        sleep(Duration::from_millis(10)).await;
    }
    let runs_before = seen.count();
    eventually(async || maps.store().len() == 2).await;
    eventually(async || seen.count() > runs_before).await;
    assert_eq!((runs_before, api.list::<ConfigMap>().len()), (1, 2));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_api_that_does_not_answer_is_an_error_after_a_while_and_nothing_ran() {
    let (api, seen) = (FakeApi::new(), CacheLookup::default());
    api.put(&map("web"));
    api.faults().fail_next(usize::MAX, 503);
    let (_informers, maps) = maps(&api);
    let runner = Controller::new("test")
        .for_(&maps)
        .cache_sync_timeout(30 * SECOND);
    let runner = runner.reconciler(noting(&seen));
    let begin = Instant::now();
    let mistake = runner.run(Stop::new()).await.unwrap_err();
    assert!(mistake.to_string().contains("503"), "{mistake}");
    assert_eq!((begin.elapsed(), seen.count()), (30 * SECOND, 0));
}

#[tokio::test(start_paused = true)]
async fn users_hear_once_of_an_object_that_fails_again_and_again() {
    let (api, seen) = (FakeApi::new(), CacheLookup::default());
    let uid = api.put(&map("web")).metadata.uid;
    let (_informers, maps) = maps(&api);
    let (events, stop, mut tasks) = (
        Arc::new(EventBroadcaster::new(api.client())),
        Stop::new(),
        JoinSet::new(),
    );
    let (writer, told) = (Arc::clone(&events), stop.clone());
    tasks.spawn(async move { crate::manager::Runnable::run(&*writer, told).await });
    let noted = seen.clone();
    let controller = Controller::new("test")
        .for_(&maps)
        .recorder::<ConfigMap>(&events.recorder("test"));
    let running = start(controller.reconciler(reconcile_fn(move |request| {
        noted.note(&request);
        async { Err(Error::unknown("no luck")) }
    })));
    seen.reaches(9).await;
    running.stop(SECOND).await.unwrap();
    stop.stop(60 * SECOND);
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let told: Vec<k8s_openapi::api::events::v1::Event> = api.list();
    let [event] = told.as_slice() else {
        panic!("{told:?}");
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
