//! Tests of watches.

use std::pin::pin;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    api::{ListParams, WatchEvent, WatchParams},
    core::PartialObjectMeta,
};

use super::{super::FakeApi, map, maps, take};

#[tokio::test]
async fn watch_resumes_at_resource_version() {
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
async fn compaction_keeps_running_watches() {
    let api = FakeApi::new();
    let first = api.put(&map("a", &[])).metadata.resource_version.unwrap();
    let mut events = pin!(maps(&api).watch(&WatchParams::default(), &first).await.unwrap());
    api.compact();
    api.put(&map("b", &[]));
    assert_eq!(take(&mut events, 1).await, "+b");
}

#[tokio::test]
async fn watch_with_selector_adds_and_deletes_objects_that_change() {
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
async fn streamed_list_ends_with_a_bookmark() {
    let api = FakeApi::new();
    api.put(&map("a", &[]));
    api.put(&map("b", &[]));
    let wanted = WatchParams::default().initial_events().timeout(10);
    let mut events = pin!(maps(&api).watch(&wanted, "0").await.unwrap());
    assert_eq!(take(&mut events, 3).await, "+a +b =1");
    api.bookmark();
    assert_eq!(take(&mut events, 1).await, "=0");
    // The timeout ends the watch with a last bookmark.
    assert_eq!(take(&mut events, 9).await, "=0");
}

#[tokio::test]
async fn metadata_watch_returns_partial_objects() {
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
