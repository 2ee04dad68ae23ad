//! Handles of one store are as good as one: each reports what the other did.

use k3_storage::Change;
use tokio::task::JoinSet;

use super::writers::write_on;
use crate::{
    backend::TestBackend,
    store_ext::{StoreExt, soon},
};

conformance_tests! {
    shared: [
        writes_of_another_handle_arrive_as_events,
        both_handles_see_the_same_events,
        a_watch_may_begin_after_a_revision_of_another_handle,
        asking_moves_on_watches_that_only_a_peer_passed,
        large_events_of_a_peer_arrive_whole,
    ],
}

async fn writes_of_another_handle_arrive_as_events(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let start = one.stands().await;
    let mut watch = other.follow("/", start).await;
    for round in 0..10 {
        let name = format!("/{round}");
        let created = one.create(&name, "1").await;
        let event = watch.event().await;
        assert_eq!((event.revision, &*event.key), (created, &*name));
    }
}

async fn both_handles_see_the_same_events(backend: &dyn TestBackend) {
    let handles = [backend.open().await, backend.open().await];
    let start = handles[0].stands().await;
    let mut watchers = JoinSet::new();
    for store in &handles {
        let mut watch = store.follow("/", start).await;
        watchers.spawn(async move { watch.take(6 * 40).await });
    }
    let mut committed = write_on(&handles, 6, 40).join_all().await.concat();
    committed.sort_by_key(|event| event.revision);
    for received in soon("the watchers", watchers.join_all()).await {
        assert!(received == committed);
    }
}

async fn a_watch_may_begin_after_a_revision_of_another_handle(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    for round in 0..10_u8 {
        let known = one.put("/a", vec![round]).await;
        // At once: the other handle has not heard of that revision yet.
        let mut watch = other.follow("/", known).await;
        let next = one.put("/b", vec![round]).await;
        assert_eq!(watch.event().await.revision, next);
    }
}

async fn asking_moves_on_watches_that_only_a_peer_passed(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let start = one.stands().await;
    let mut quiet = other.follow("/quiet/", start).await;
    let committed = one.create("/busy", "1").await;
    let stands = other.stands().await;
    assert!(stands >= committed);
    assert_eq!(quiet.upto(stands).await, []);
}

async fn large_events_of_a_peer_arrive_whole(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let start = one.stands().await;
    let mut watch = other.follow("/", start).await;
    // Together more than any message of a database or of its client may hold.
    let mut committed = Vec::new();
    for number in 0..12_u8 {
        let value = vec![number; 1_500_000];
        committed.push((one.create(&format!("/{number}"), value.clone()).await, value));
    }
    let mut late = other.follow("/", start).await;
    for watch in [&mut watch, &mut late] {
        for (revision, value) in &committed {
            let event = watch.event().await;
            assert_eq!(event.revision, *revision);
            assert!(event.change == Change::Created(value.clone().into()));
        }
    }
    let listed = other.list("/").await;
    assert_eq!(listed.entries.len(), 12);
}
