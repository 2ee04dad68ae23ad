//! Tests of fault injection, recorded requests and waiting.

use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams, WatchParams},
};

use super::{
    super::{FakeApi, Fault, RequestMatcher, eventually, eventually_within},
    code, map, maps, take,
};

#[tokio::test]
async fn writes_can_be_rejected_or_lost_from_the_nth_on() {
    let api = FakeApi::new();
    let create = async |name: &str| maps(&api).create(&PostParams::default(), &map(name, &[])).await;
    api.faults().reject_writes_after(1);
    create("a").await.unwrap();
    assert_eq!(code(create("b").await), 503);
    api.faults().clear();
    api.faults().lose_write_after(1);
    create("c").await.unwrap();
    assert_eq!(
        code(create("d").await),
        0,
        "the write takes effect without a response"
    );
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
async fn slow_list_is_stale_when_it_arrives() {
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
    api.faults().on(
        RequestMatcher::verb("list").resource("configmaps").times(1),
        Fault::Hang,
    );
    let hung = tokio::time::timeout(Duration::from_hours(1), maps(&api).list(&ListParams::default())).await;
    assert!(hung.is_err());
    assert_eq!(
        maps(&api).list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}

#[tokio::test]
async fn watches_end_repeat_and_truncate_events() {
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
    api.faults().truncate_frames(1);
    let truncated: Vec<_> = watch().await.collect().await;
    assert!(
        truncated.iter().all(Result::is_err),
        "half an event is not an event: {truncated:?}"
    );
    let mut dropped = watch().await;
    assert_eq!(take(&mut dropped, 1).await, "+b");
    api.faults().drop_watches();
    assert!(dropped.next().await.is_none());
    api.faults().reject_watches(1);
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
async fn requests_are_recorded_with_user_agent() {
    let api = FakeApi::new();
    let maps: Api<ConfigMap> = Api::namespaced(api.client_with_user_agent("mine"), "default");
    api.faults()
        .on(RequestMatcher::all().user_agent("other"), Fault::Status(500));
    maps.list(&ListParams::default().labels("a=b")).await.unwrap();
    let seen = &api.requests()[0];
    assert_eq!(
        (seen.verb, seen.path.as_str(), seen.agent.as_str()),
        ("list", "/api/v1/namespaces/default/configmaps", "mine")
    );
    assert!(seen.query.contains("labelSelector=a%3Db"));
    let other: Api<ConfigMap> = Api::namespaced(api.client_with_user_agent("other"), "default");
    assert_eq!(code(other.list(&ListParams::default()).await), 500);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "last observed: \"not yet\"")]
async fn timeout_reports_last_observation() {
    let mut looks = 0;
    let found = eventually(|| {
        looks += 1;
        std::future::ready((looks > 3).then_some(looks))
    });
    assert_eq!(found.await, 4);
    eventually_within(Duration::from_secs(1), || async { Err::<(), _>("not yet") }).await;
}
