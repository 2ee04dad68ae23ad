//! A closed store has ended its watches, does nothing more, and has lost nothing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k3_storage::{CommitError, ImportError, Page, ReadError, Revision, Store, StoreError, WatchError, Write};
use tokio::task::JoinSet;

use crate::{
    backend::TestBackend,
    follower::revisions,
    store_ext::{StoreExt, key, prefix, soon},
};

conformance_tests! {
    every: [
        closing_ends_every_watch,
        a_closed_store_refuses_further_work,
        closing_twice_is_closing,
        writers_of_a_store_that_closes_are_answered,
    ],
    durable: [
        what_was_acknowledged_before_a_close_is_there_after_it,
    ],
    shared: [
        closing_one_handle_leaves_the_other_alone,
    ],
}

async fn closing_ends_every_watch(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut waiting = store.follow("/", start).await;
    let mut never_asked = store.follow("/", start).await;
    let mut quiet = store.follow("/quiet/", start).await;
    let created = store.create("/a", "1").await;
    assert_eq!(revisions(&waiting.take(1).await), [created]);
    let mut waiter = JoinSet::new();
    waiter.spawn(async move { waiting.end().await });
    store.close().await;
    for error in [
        waiter.join_next().await.unwrap().unwrap(),
        never_asked.end().await,
        quiet.end().await,
    ] {
        assert!(
            matches!(error, WatchError::Store(StoreError::Closed)),
            "{error:?}"
        );
    }
}

async fn a_closed_store_refuses_further_work(backend: &dyn TestBackend) {
    let store = backend.open().await;
    store.create("/a", "1").await;
    store.close().await;
    let closed = |error: &StoreError| matches!(error, StoreError::Closed);
    assert!(matches!(store.get(&key("/a")).await, Err(ReadError::Store(error)) if closed(&error)));
    let range = store.range(&prefix(""), Page::all()).await;
    assert!(matches!(range, Err(ReadError::Store(error)) if closed(&error)));
    let commit = store.commit(Write::create(key("/b"), "1")).await;
    assert!(matches!(commit, Err(CommitError::Store(error)) if closed(&error)));
    let watch_error = store.watch_error("", Revision::FIRST).await;
    assert!(matches!(watch_error, WatchError::Store(error) if closed(&error)));
    assert!(matches!(store.compact(Revision::FIRST).await, Err(error) if closed(&error)));
    assert!(matches!(store.current_revision().await, Err(error) if closed(&error)));
    assert!(matches!(store.health().await, Err(error) if closed(&error)));
    let import = store.begin_import(Revision::FIRST).await.map(|_| ());
    assert!(matches!(import, Err(ImportError::Store(error)) if closed(&error)));
}

async fn closing_twice_is_closing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    soon("the end of both", async {
        tokio::join!(store.close(), store.close())
    })
    .await;
    soon("a third", store.close()).await;
    assert!(matches!(store.health().await, Err(StoreError::Closed)));
}

async fn writers_of_a_store_that_closes_are_answered(backend: &dyn TestBackend) {
    let store = backend.open().await;
    close_amid_writes(&store).await;
}

async fn what_was_acknowledged_before_a_close_is_there_after_it(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let acknowledged = close_amid_writes(&store).await;
    drop(store);

    let store = backend.open().await;
    for (name, revision) in &acknowledged {
        let entry = store.read(name).await.expect("it was acknowledged");
        assert_eq!((entry.revision, &*entry.value), (*revision, name.as_bytes()));
    }
    // What is there is also what the history reports, whether it was acknowledged or not.
    let range = store.list("/").await;
    let received = store.follow("/", start).await.take(range.entries.len()).await;
    let mut there: Vec<_> = range.entries.iter().map(|entry| entry.revision).collect();
    there.sort_unstable();
    assert_eq!(revisions(&received), there);
}

async fn closing_one_handle_leaves_the_other_alone(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let start = one.stands().await;
    let mut watch = other.follow("/", start).await;
    let created = one.create("/a", "1").await;
    one.close().await;
    let updated = other.update("/a", created, "2").await;
    assert_eq!(revisions(&watch.take(2).await), [created, updated]);
    let third = backend.open().await;
    assert_eq!(third.read("/a").await.unwrap().revision, updated);
}

/// Closes the store while writers are at work, and returns what was acknowledged. Each must get
/// an answer.
async fn close_amid_writes(store: &Arc<dyn Store>) -> Vec<(String, Revision)> {
    let done = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = Arc::clone(store);
        let done = Arc::clone(&done);
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            for round in 0.. {
                let name = format!("/{writer}/{round}");
                match store.commit(Write::create(key(&name), name.clone())).await {
                    Ok(revision) => acknowledged.push((name, revision)),
                    Err(CommitError::Store(StoreError::Closed) | CommitError::Uncertain(_)) => break,
                    Err(error) => panic!("{error:?}"),
                }
                done.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            acknowledged
        });
    }
    soon("some writes", async {
        while done.load(Ordering::Relaxed) < 50 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.close().await;
    soon("an answer for every writer", writers.join_all())
        .await
        .concat()
}
