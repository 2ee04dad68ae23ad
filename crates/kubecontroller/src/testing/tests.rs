//! What the API in memory promises.

use std::{pin::pin, time::Duration};

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

use super::{FakeApi, Fault, Requests, eventually, eventually_within};

fn map(name: &str, labels: &[(&str, &str)]) -> ConfigMap {
    let labels: Value = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default", "labels": labels}}))
        .unwrap()
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {}, "template": {}},
    });
    serde_json::from_value(value).unwrap()
}

fn maps(api: &FakeApi) -> Api<ConfigMap> {
    Api::namespaced(api.client(), "default")
}

fn deployments(api: &FakeApi) -> Api<Deployment> {
    Api::namespaced(api.client(), "default")
}

/// The code of a refusal; 0 if the connection broke.
fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

fn said<K: kube::ResourceExt>(event: &WatchEvent<K>) -> String {
    match event {
        WatchEvent::Added(object) => format!("+{}", object.name_any()),
        WatchEvent::Modified(object) => format!("~{}", object.name_any()),
        WatchEvent::Deleted(object) => format!("-{}", object.name_any()),
        WatchEvent::Bookmark(mark) => format!("={}", mark.metadata.annotations.len()),
        WatchEvent::Error(status) => format!("!{}", status.code),
    }
}

async fn take<K: kube::ResourceExt>(
    events: &mut (impl Stream<Item = Result<WatchEvent<K>, kube::Error>> + Unpin),
    n: usize,
) -> String {
    let events: Vec<_> = events
        .take(n)
        .map_ok(|event| said(&event))
        .try_collect()
        .await
        .unwrap();
    events.join(" ")
}

#[tokio::test]
async fn an_object_is_created_once_and_read_back() {
    let api = FakeApi::new();
    let made = maps(&api)
        .create(&PostParams::default(), &map("a", &[]))
        .await
        .unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.creation_timestamp.is_some());
    assert_eq!(maps(&api).get("a").await.unwrap(), made);
    let again = maps(&api).create(&PostParams::default(), &map("a", &[])).await;
    let kube::Error::Api(status) = again.unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (409, "configmaps \"a\" already exists")
    );
    let missing = maps(&api).get("b").await;
    let kube::Error::Api(status) = missing.unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (404, "configmaps \"b\" not found")
    );
}

#[tokio::test]
async fn generated_names_differ() {
    let api = FakeApi::new();
    let mut wanted = map("", &[]);
    wanted.metadata.name = None;
    wanted.metadata.generate_name = Some("x-".to_owned());
    for _ in 0..100 {
        maps(&api).create(&PostParams::default(), &wanted).await.unwrap();
    }
    assert_eq!(api.list::<ConfigMap>().len(), 100);
    assert!(
        api.list::<ConfigMap>().iter().all(|map| map
            .metadata
            .name
            .as_ref()
            .is_some_and(|name| name.len() == 7))
    );
}

#[tokio::test]
async fn an_old_version_cannot_be_written() {
    let api = FakeApi::new();
    let old = api.put(&map("a", &[]));
    let mut new = old.clone();
    new.data = Some([("k".to_owned(), "v".to_owned())].into());
    let stored = maps(&api)
        .replace("a", &PostParams::default(), &new)
        .await
        .unwrap();
    assert_ne!(stored.metadata.resource_version, old.metadata.resource_version);
    assert_eq!(
        code(maps(&api).replace("a", &PostParams::default(), &new).await),
        409
    );
    let same = maps(&api)
        .replace("a", &PostParams::default(), &stored)
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version, stored.metadata.resource_version,
        "nothing changed, so no version passed"
    );
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_spec_only() {
    let api = FakeApi::new();
    let mut made = deployments(&api)
        .create(&PostParams::default(), &deployment("d", 1))
        .await
        .unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    made.status = serde_json::from_value(json!({"replicas": 3})).unwrap();
    made.spec.replicas = Some(9);
    let after = deployments(&api)
        .replace_status("d", &PostParams::default(), &made)
        .await
        .unwrap();
    assert_eq!(after.spec.replicas, Some(1), "a status write leaves the spec");
    assert_eq!(
        (after.metadata.generation, after.status.as_ref().unwrap().replicas),
        (Some(1), Some(3))
    );
    made = after;
    made.status = None;
    made.spec.replicas = Some(2);
    let after = deployments(&api)
        .replace("d", &PostParams::default(), &made)
        .await
        .unwrap();
    assert_eq!(
        (after.metadata.generation, after.status.unwrap().replicas),
        (Some(2), Some(3)),
        "the rest leaves the status"
    );
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let api = FakeApi::new();
    let mut held = map("a", &[]);
    held.metadata.finalizers = Some(vec!["x/y".to_owned()]);
    api.put(&held);
    let going = maps(&api)
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    let mut more = going.clone();
    more.metadata.finalizers = Some(vec!["x/y".to_owned(), "z/z".to_owned()]);
    assert_eq!(
        code(maps(&api).replace("a", &PostParams::default(), &more).await),
        422
    );
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps(&api)
        .patch("a", &PatchParams::default(), &none)
        .await
        .unwrap();
    assert_eq!(code(maps(&api).get("a").await), 404);
}

#[tokio::test]
async fn preconditions_guard_a_deletion() {
    let api = FakeApi::new();
    let there = api.put(&map("a", &[]));
    let asked = |uid: Option<String>, version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: version,
        }),
        ..DeleteParams::default()
    };
    assert_eq!(
        code(
            maps(&api)
                .delete("a", &asked(Some("other".to_owned()), None))
                .await
        ),
        409
    );
    assert_eq!(
        code(maps(&api).delete("a", &asked(None, Some("1".to_owned()))).await),
        409
    );
    let right = asked(there.metadata.uid, there.metadata.resource_version);
    assert!(
        maps(&api).delete("a", &right).await.unwrap().is_right(),
        "of what is gone the server says a status"
    );
}

#[tokio::test]
async fn a_pod_on_a_node_is_given_time_to_go() {
    let api = FakeApi::new();
    let pods: Api<Pod> = Api::namespaced(api.client(), "default");
    let pod = |name: &str| {
        serde_json::from_value::<Pod>(json!({"metadata": {"name": name}, "spec": {"containers": []}}))
            .unwrap()
    };
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let bind = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}});
    let body = serde_json::to_vec(&bind).unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/pods/b/binding")
        .body(body)
        .unwrap();
    api.client().request_text(request).await.unwrap();
    assert_eq!(
        pods.list(&ListParams::default().fields("spec.nodeName=n"))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    for name in ["a", "b"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    assert_eq!(api.list::<Pod>().len(), 1);
    pods.delete("b", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(api.list::<Pod>().is_empty());
}

#[tokio::test]
async fn lists_come_in_pages_of_one_moment() {
    let api = FakeApi::new();
    for name in ["a", "b", "c", "d"] {
        api.put(&map(name, &[("even", if name > "b" { "yes" } else { "no" })]));
    }
    let first = maps(&api).list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!(
        (first.items.len(), first.metadata.remaining_item_count),
        (3, Some(1))
    );
    api.remove::<ConfigMap>("default", "d");
    api.put(&map("e", &[]));
    let token = first.metadata.continue_.unwrap();
    let second = maps(&api)
        .list(&ListParams::default().limit(3).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(
        second
            .items
            .iter()
            .map(|map| map.metadata.name.clone().unwrap())
            .collect::<Vec<_>>(),
        ["d"]
    );
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    for (labels, count) in [
        ("even=yes", 1),
        ("even!=yes", 3),
        ("even", 3),
        ("!even", 1),
        ("even in (yes,no)", 3),
        ("even notin (no)", 2),
    ] {
        assert_eq!(
            maps(&api)
                .list(&ListParams::default().labels(labels))
                .await
                .unwrap()
                .items
                .len(),
            count,
            "{labels}"
        );
    }
    api.expire();
    assert_eq!(
        code(
            maps(&api)
                .list(&ListParams::default().continue_token(&token))
                .await
        ),
        410
    );
}

#[tokio::test]
async fn a_watch_resumes_where_it_is_told() {
    let api = FakeApi::new();
    let first = api.put(&map("a", &[])).metadata.resource_version.unwrap();
    api.put(&map("b", &[]));
    api.put(&map("a", &[("x", "y")]));
    api.remove::<ConfigMap>("default", "b");
    let mut events = pin!(maps(&api).watch(&WatchParams::default(), &first).await.unwrap());
    assert_eq!(take(&mut events, 3).await, "+b ~a -b");
    api.put(&map("c", &[]));
    assert_eq!(take(&mut events, 1).await, "+c");
    api.expire();
    assert_eq!(take(&mut events, 1).await, "!410");
    assert!(events.next().await.is_none());
    let mut late = pin!(maps(&api).watch(&WatchParams::default(), &first).await.unwrap());
    assert_eq!(take(&mut late, 1).await, "!410");
}

#[tokio::test]
async fn a_compaction_spares_the_watches_that_go_on() {
    let api = FakeApi::new();
    let first = api.put(&map("a", &[])).metadata.resource_version.unwrap();
    let mut events = pin!(maps(&api).watch(&WatchParams::default(), &first).await.unwrap());
    api.compact();
    api.put(&map("b", &[]));
    assert_eq!(take(&mut events, 1).await, "+b");
}

#[tokio::test]
async fn objects_enter_and_leave_what_a_watch_selects() {
    let api = FakeApi::new();
    let mut events = pin!(
        maps(&api)
            .watch(&WatchParams::default().labels("x=y"), "0")
            .await
            .unwrap()
    );
    api.put(&map("a", &[]));
    api.put(&map("a", &[("x", "y")]));
    api.put(&map("a", &[("x", "y"), ("z", "")]));
    api.put(&map("a", &[("x", "n")]));
    api.put(&map("a", &[("x", "n"), ("z", "")]));
    api.put(&map("b", &[("x", "y")]));
    assert_eq!(take(&mut events, 4).await, "+a ~a -a +b");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_bookmark() {
    let api = FakeApi::new();
    api.put(&map("a", &[]));
    api.put(&map("b", &[]));
    let wanted = WatchParams::default().initial_events().timeout(10);
    let mut events = pin!(maps(&api).watch(&wanted, "0").await.unwrap());
    assert_eq!(take(&mut events, 3).await, "+a +b =1");
    api.bookmark();
    assert_eq!(take(&mut events, 1).await, "=0");
    // The time-out ends it, with a last bookmark.
    assert_eq!(take(&mut events, 9).await, "=0");
}

#[tokio::test]
async fn a_selected_metadata_watch_shows_nothing_else() {
    let api = FakeApi::new();
    let mut full = map("a", &[("x", "y")]);
    full.data = Some([("k".to_owned(), "v".to_owned())].into());
    api.put(&full);
    let list = maps(&api).list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].metadata.labels, full.metadata.labels);
    let mut events = pin!(
        maps(&api)
            .watch_metadata(&WatchParams::default(), "0")
            .await
            .unwrap()
    );
    let Some(Ok(WatchEvent::Added(seen))) = events.next().await else {
        panic!()
    };
    let _: &PartialObjectMeta<ConfigMap> = &seen;
    assert_eq!(seen.metadata.name.as_deref(), Some("a"));
}

#[tokio::test]
async fn patches_change_what_they_say() {
    let api = FakeApi::new();
    api.put(&map("a", &[("x", "1"), ("y", "2")]));
    let json = Patch::Json::<()>(serde_json::from_value(json!([{"op": "test", "path": "/metadata/labels/x", "value": "1"}, {"op": "remove", "path": "/metadata/labels/x"}])).unwrap());
    let after = maps(&api)
        .patch("a", &PatchParams::default(), &json)
        .await
        .unwrap();
    assert_eq!(after.metadata.labels.unwrap().len(), 1);
    assert_eq!(
        code(maps(&api).patch("a", &PatchParams::default(), &json).await),
        422,
        "the test no longer holds"
    );
    let conditions = |kind: &str, status: &str| {
        Patch::Strategic(json!({"status": {"conditions": [{"type": kind, "status": status}]}}))
    };
    deployments(&api)
        .create(&PostParams::default(), &deployment("d", 1))
        .await
        .unwrap();
    for (kind, status) in [("A", "True"), ("B", "True"), ("A", "False")] {
        deployments(&api)
            .patch_status("d", &PatchParams::default(), &conditions(kind, status))
            .await
            .unwrap();
    }
    let found = deployments(&api)
        .get("d")
        .await
        .unwrap()
        .status
        .unwrap()
        .conditions
        .unwrap();
    assert_eq!(
        found
            .iter()
            .map(|one| format!(
                "{}={}",
                one.type_.as_deref().unwrap(),
                one.status.as_deref().unwrap()
            ))
            .collect::<Vec<_>>(),
        ["A=False", "B=True"]
    );
}

#[tokio::test]
async fn apply_owns_what_it_says() {
    let api = FakeApi::new();
    let body = |labels: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": labels}}))
    };
    let by = PatchParams::apply;
    maps(&api)
        .patch("a", &by("one"), &body(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    maps(&api)
        .patch("a", &by("two"), &body(json!({"z": "2"})))
        .await
        .unwrap();
    assert_eq!(
        code(maps(&api).patch("a", &by("two"), &body(json!({"x": "2"}))).await),
        409
    );
    let after = maps(&api)
        .patch("a", &by("one"), &body(json!({"x": "1"})))
        .await
        .unwrap();
    let names: Vec<String> = after.metadata.labels.unwrap().into_keys().collect();
    assert_eq!(
        names,
        ["x", "z"],
        "what one no longer says is gone, what two says stays"
    );
    maps(&api)
        .patch("a", &by("two").force(), &body(json!({"x": "2"})))
        .await
        .unwrap();
}

#[tokio::test]
async fn writes_can_be_refused_or_lost_from_the_nth_on() {
    let api = FakeApi::new();
    let create = async |name: &str| maps(&api).create(&PostParams::default(), &map(name, &[])).await;
    api.faults().refuse_writes_after(1);
    create("a").await.unwrap();
    assert_eq!(code(create("b").await), 503);
    api.faults().clear();
    api.faults().lose_write_after(1);
    create("c").await.unwrap();
    assert_eq!(code(create("d").await), 0, "done, but not answered");
    assert_eq!(code(create("e").await), 503);
    let names: Vec<_> = api
        .list::<ConfigMap>()
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert_eq!(api.writes().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_is_old_when_it_arrives() {
    let api = FakeApi::new();
    api.faults().slow_list(Duration::from_secs(5));
    let (listed, ()) = tokio::join!(
        async { maps(&api).list(&ListParams::default()).await.unwrap() },
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            api.put(&map("a", &[]));
        }
    );
    assert!(listed.items.is_empty());
    api.faults().clear();
    api.faults()
        .on(Requests::verb("list").of("configmaps").times(1), Fault::Hang);
    let hung = tokio::time::timeout(Duration::from_secs(3600), maps(&api).list(&ListParams::default())).await;
    assert!(hung.is_err());
    assert_eq!(
        maps(&api).list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}

#[tokio::test]
async fn watches_end_tear_and_repeat_as_told() {
    let api = FakeApi::new();
    let first = api.put(&map("a", &[])).metadata.resource_version.unwrap();
    for name in ["b", "c", "d"] {
        api.put(&map(name, &[]));
    }
    let watch = async || {
        maps(&api)
            .watch(&WatchParams::default(), &first)
            .await
            .unwrap()
            .boxed()
    };
    api.faults().drop_watches_every(2);
    assert_eq!(take(&mut watch().await, 9).await, "+b +c");
    api.faults().clear();
    api.faults().duplicate_events(1);
    assert_eq!(take(&mut watch().await, 4).await, "+b +b +c +c");
    api.faults().clear();
    api.faults().replay_events(1);
    assert_eq!(take(&mut watch().await, 2).await, "+a +b");
    api.faults().clear();
    api.faults().tear_frames(1);
    let torn: Vec<_> = watch().await.collect().await;
    assert!(torn.iter().all(Result::is_err), "half an event is none: {torn:?}");
    let mut dropped = watch().await;
    assert_eq!(take(&mut dropped, 1).await, "+b");
    api.faults().drop_watches();
    assert!(dropped.next().await.is_none());
    api.faults().refuse_watches(1);
    assert_eq!(
        code(
            maps(&api)
                .watch(&WatchParams::default(), &first)
                .await
                .map(|_| ())
        ),
        410
    );
}

#[tokio::test]
async fn requests_are_remembered_by_who_asked() {
    let api = FakeApi::new();
    let maps: Api<ConfigMap> = Api::namespaced(api.client_of("mine"), "default");
    api.faults().on(Requests::all().from("other"), Fault::Status(500));
    maps.list(&ListParams::default().labels("a=b")).await.unwrap();
    let seen = &api.requests()[0];
    assert_eq!(
        (seen.verb, seen.path.as_str(), seen.agent.as_str()),
        ("list", "/api/v1/namespaces/default/configmaps", "mine")
    );
    assert!(seen.query.contains("labelSelector=a%3Db"));
    let other: Api<ConfigMap> = Api::namespaced(api.client_of("other"), "default");
    assert_eq!(code(other.list(&ListParams::default()).await), 500);
}

#[tokio::test]
async fn known_kinds_are_discovered() {
    let api = FakeApi::new();
    api.register::<Deployment>(true);
    api.put(&map("a", &[]));
    let found = kube::Discovery::new(api.client()).run().await.unwrap();
    let (resource, _) = found
        .groups()
        .find(|group| group.name() == "apps")
        .unwrap()
        .recommended_kind("Deployment")
        .unwrap();
    assert_eq!(resource.plural, "deployments");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "last seen: \"not yet\"")]
async fn waiting_in_vain_says_what_was_seen() {
    let mut looks = 0;
    let found = eventually(|| {
        looks += 1;
        std::future::ready((looks > 3).then_some(looks))
    });
    assert_eq!(found.await, 4);
    eventually_within(Duration::from_secs(1), || async { Err::<(), _>("not yet") }).await;
}
