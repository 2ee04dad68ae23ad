//! Watches beside compaction, and beside other users of the same etcd.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use k3_storage::{Page, ReadError, Revision, Store, WatchError, Write};
use k3_test_services::Etcd;
use tokio::task::JoinSet;

use crate::{
    gateway,
    support::{TestWatcher, create, key, open, open_under, prefix, until},
};

/// Creates and deletes an entry, and then some: the second revision is a deletion.
async fn history(store: &k3_storage::etcd::EtcdStore) -> [Revision; 4] {
    let created = create(store, "/a/x", "1").await;
    let deleted = store.commit(Write::delete(key("/a/x"), created)).await.unwrap();
    let other = create(store, "/a/y", "1").await;
    let last = store
        .commit(Write::update(key("/a/y"), other, "2"))
        .await
        .unwrap();
    [created, deleted, other, last]
}

async fn assert_compacted(store: &k3_storage::etcd::EtcdStore, after: Revision, oldest: Revision) {
    let refused = store.watch(&prefix("/a/"), after).await.unwrap_err();
    assert!(
        matches!(refused, WatchError::Compacted { after: a, oldest: o } if (a, o) == (after, oldest)),
        "{refused:?}"
    );
    let page = Page {
        at: Some(after),
        ..Page::all()
    };
    let refused = store.range(&prefix("/a/"), page).await.unwrap_err();
    assert!(
        matches!(refused, ReadError::Compacted { requested: a, oldest: o } if (a, o) == (after, oldest)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn rejects_watches_below_the_compacted_revision() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let [created, deleted, other, last] = history(&store).await;
    store.compact(deleted).await.unwrap();
    // etcd itself would accept this one, and lose the deletion.
    assert_compacted(&store, created, deleted).await;
    let mut watcher = TestWatcher::start(&store, "/a/", deleted).await;
    watcher.reach(last).await;
    assert_eq!(watcher.revisions(), [other, last]);
    // Once more, and one in the future, change nothing that is not to change.
    store.compact(created).await.unwrap();
    store.compact(Revision::new(u64::MAX)).await.unwrap();
    // Not exactly the last write: the store may have touched its own keys after it.
    let refused = store.watch(&prefix("/a/"), other).await.unwrap_err();
    assert!(
        matches!(refused, WatchError::Compacted { oldest, .. } if oldest >= last),
        "{refused:?}"
    );
    assert_eq!(store.get(&key("/a/y")).await.unwrap().unwrap().revision, last);
}

#[tokio::test]
async fn detects_a_compaction_by_another_process() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let [created, deleted, ..] = history(&store).await;
    gateway::compact(&etcd.endpoint(), deleted.get());
    assert_compacted(&store, created, deleted).await;
    // Also by a process that has not seen any of this happen.
    let fresh = open(&etcd.endpoint()).await;
    assert_compacted(&fresh, created, deleted).await;
    TestWatcher::start(&fresh, "/a/", deleted).await;
}

#[tokio::test]
async fn compaction_during_a_replay_ends_the_watch() {
    let etcd = Etcd::start().unwrap();
    let writer = open(&etcd.endpoint()).await;
    for round in 0..10 {
        let name = format!("/a/{round}");
        let created = create(&writer, &name, "1").await;
        let deleted = writer.commit(Write::delete(key(&name), created)).await.unwrap();
        let reader = open(&etcd.endpoint()).await;
        let mut events = reader.watch(&prefix("/a/"), created).await.unwrap();
        // Long enough to ask etcd for its history, shorter than etcd takes to look into it.
        let begun = tokio::time::timeout(std::time::Duration::from_millis(20), events.next()).await;
        writer.compact(deleted).await.unwrap();
        let acknowledged = match begun {
            Ok(acknowledged) => acknowledged,
            Err(_) => crate::support::soon("the replay", events.next()).await,
        };
        match acknowledged {
            Ok(batch) => assert_eq!(batch.events[0].revision, deleted, "{batch:?} lacks the deletion"),
            Err(error) => assert!(matches!(error, WatchError::Compacted { .. }), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn rejects_a_watch_from_a_future_revision() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let current = create(&store, "/a/x", "1").await;
    let after = Revision::new(current.get() + 5);
    let refused = store.watch(&prefix("/a/"), after).await.unwrap_err();
    assert!(
        matches!(refused, WatchError::Future { after: a, current: c } if a == after && c >= current),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_fresh_process_replays_the_past_from_etcd() {
    let etcd = Etcd::start().unwrap();
    let writer = open(&etcd.endpoint()).await;
    let start = writer.current_revision().await.unwrap();
    let mut written = Vec::new();
    for index in 0..2500 {
        written.push(create(&writer, &format!("/a/{index}"), "1").await);
    }
    // The newest revision is not ours, so no event of ours marks the end of the replay.
    gateway::put(&etcd.endpoint(), "/elsewhere", "1");
    let reader = open(&etcd.endpoint()).await;
    let mut watcher = TestWatcher::start(&reader, "/a/", start).await;
    watcher.reach(*written.last().unwrap()).await;
    assert_eq!(watcher.revisions(), written);
}

#[tokio::test]
async fn a_reader_that_is_interrupted_all_the_time_gets_through_a_replay() {
    let etcd = Etcd::start().unwrap();
    let writer = open(&etcd.endpoint()).await;
    let start = writer.current_revision().await.unwrap();
    let mut written = Vec::new();
    for index in 0..300 {
        written.push(create(&writer, &format!("/a/{index}"), "1").await);
    }
    let reader = open(&etcd.endpoint()).await;
    let mut events = reader.watch(&prefix("/a/"), start).await.unwrap();
    let mut seen = Vec::new();
    crate::support::soon("the replay", async {
        while seen.len() < written.len() {
            // Shorter than etcd takes to look into its history.
            let pause = std::time::Duration::from_millis(20);
            if let Ok(batch) = tokio::time::timeout(pause, events.next()).await {
                seen.extend(batch.unwrap().events.iter().map(|event| event.revision));
            }
        }
    })
    .await;
    assert_eq!(seen, written);
}

#[tokio::test]
async fn a_quiet_watch_advances_with_commits_elsewhere() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let neighbour = open_under(&etcd.endpoint(), "/other/").await;
    let start = store.current_revision().await.unwrap();
    let mut watcher = TestWatcher::start(&store, "/a/", start).await;
    for round in 0..5 {
        create(&neighbour, &format!("/{round}"), "1").await;
        let current = store.current_revision().await.unwrap();
        assert!(current > watcher.reached);
        watcher.reach(current).await;
    }
    assert!(watcher.seen.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bookmark_is_never_ahead_of_an_event() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let peer = open(&etcd.endpoint()).await;
    let neighbour = open_under(&etcd.endpoint(), "/other/").await;
    let start = store.current_revision().await.unwrap();
    let done = Arc::new(AtomicBool::new(false));

    let mut writers = JoinSet::new();
    for (name, writer) in [("mine", &store), ("peer", &peer), ("neighbour", &neighbour)] {
        for lane in 0..4 {
            let writer = Arc::clone(writer);
            let done = Arc::clone(&done);
            writers.spawn(async move {
                let mut written = Vec::new();
                for index in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    written.push(create(&writer, &format!("/{name}/{lane}-{index}"), "1").await);
                }
                (name, written)
            });
        }
    }
    // The watcher fails when an event arrives with or below a revision that was reported complete.
    let mut watcher = TestWatcher::start(&store, "/mine/", start).await;
    let mut peers = TestWatcher::start(&store, "/peer/", start).await;
    for _ in 0..200 {
        let current = store.current_revision().await.unwrap();
        watcher.reach(current).await;
        peers.reach(current).await;
    }
    done.store(true, Ordering::Relaxed);
    let mut mine = Vec::new();
    let mut theirs = Vec::new();
    while let Some(outcome) = writers.join_next().await {
        match outcome.unwrap() {
            ("mine", written) => mine.extend(written),
            ("peer", written) => theirs.extend(written),
            _ => {}
        }
    }
    mine.sort();
    theirs.sort();
    let current = store.current_revision().await.unwrap();
    watcher.reach(current).await;
    peers.reach(current).await;
    assert_eq!(watcher.revisions(), mine);
    assert_eq!(peers.revisions(), theirs);
}

#[tokio::test]
async fn an_idle_store_writes_nothing() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let written = create(&store, "/a/x", "1").await;
    // The watch of etcd may have begun later than the write, and then finds out that it missed nothing
    // by one write of its own. A watch from before the write hears of the write at any rate.
    let mut watcher = TestWatcher::start(&store, "/a/", Revision::new(written.get() - 1)).await;
    watcher.reach(written).await;
    let before = until("the store to become idle", async || {
        let now = store.current_revision().await.unwrap();
        let reached = tokio::time::timeout(std::time::Duration::from_secs(1), watcher.reach(now)).await;
        (reached.is_ok() && store.current_revision().await.unwrap() == now).then_some(now)
    })
    .await;
    for _ in 0..50 {
        assert_eq!(store.current_revision().await.unwrap(), before);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
