//! Compaction forgets history, reports it, and forgets nothing else.

use std::{sync::Arc, time::Duration};

use k3_storage::{Change, Page, Range, ReadError, Revision, Store, WatchError};
use tokio::task::JoinSet;

use crate::{
    backend::TestBackend,
    follower::{brief, revisions},
    store_ext::{StoreExt, contents, prefix},
};

conformance_tests! {
    every: [
        compaction_keeps_current_entries,
        the_compacted_state_can_be_read_and_those_before_cannot,
        a_watch_may_begin_at_the_compacted_revision_and_not_before,
        a_delete_at_the_edge_is_reported_or_refused_but_never_skipped,
        compacting_the_future_forgets_all_history_and_no_more,
        compacting_what_is_compacted_changes_nothing,
        revisions_never_go_back_at_a_compaction,
        a_watch_that_keeps_up_is_not_cut_off,
        overtaken_watch_sees_every_event_or_compacted,
        the_next_page_of_a_compacted_range_is_refused,
        a_range_of_the_newest_state_is_never_compacted_away,
        concurrent_compactions_and_writes_lose_nothing,
    ],
    durable: [
        what_is_compacted_stays_so_after_the_store_is_opened_again,
        history_behind_the_compaction_is_there_after_the_store_is_opened_again,
    ],
    shared: [
        a_compaction_by_a_peer_is_one_for_all,
    ],
}

async fn compaction_keeps_current_entries(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let quiet = store.create("/a/quiet", "old").await;
    let mut busy = store.create("/a/busy", "0").await;
    let deleted = store.create("/a/deleted", "0").await;
    for round in 1..20_u8 {
        busy = store.update("/a/busy", busy, vec![round]).await;
    }
    store.delete("/a/deleted", deleted).await;
    let before = store.list("/a/").await;
    store.compact(store.stands().await).await.unwrap();
    let after = store.list("/a/").await;
    assert_eq!(after.entries, before.entries);
    assert_eq!(store.read("/a/deleted").await, None);
    // With the revisions that writers expect.
    store.update("/a/quiet", quiet, "new").await;
    store.update("/a/busy", busy, "new").await;
    store.create("/a/deleted", "again").await;
}

async fn the_compacted_state_can_be_read_and_those_before_cannot(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "1").await;
    let second = store.update("/a", first, "2").await;
    let third = store.update("/a", second, "3").await;
    store.compact(second).await.unwrap();
    match list_at(&store, first).await {
        Err(ReadError::Compacted { requested, oldest }) => assert_eq!((requested, oldest), (first, second)),
        other => panic!("must be compacted, but: {other:?}"),
    }
    assert_eq!(contents(&store.list_at("/", second).await), [("/a", &b"2"[..])]);
    assert_eq!(contents(&store.list_at("/", third).await), [("/a", &b"3"[..])]);
}

async fn a_watch_may_begin_at_the_compacted_revision_and_not_before(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(store.create(&format!("/{number}"), "1").await);
    }
    store.compact(made[2]).await.unwrap();
    for before in [Revision::ZERO, start, made[0], made[1]] {
        assert_compacted(store.watch_error("/", before).await, before, made[2]);
        // Also under a prefix where nothing was lost: the store cannot know any more.
        assert_compacted(store.watch_error("/quiet/", before).await, before, made[2]);
    }
    let mut watch = store.follow("/", made[2]).await;
    assert_eq!(revisions(&watch.take(2).await), made[3..]);
    let mut watch = store.follow("/", made[3]).await;
    assert_eq!(revisions(&watch.take(1).await), made[4..]);
}

async fn a_delete_at_the_edge_is_reported_or_refused_but_never_skipped(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/a", "1").await;
    let before = store.create("/b", "1").await;
    let deleted = store.delete("/a", created).await;
    store.compact(before).await.unwrap();
    // Just behind the edge: the delete is the first event.
    let mut watch = store.follow("/", before).await;
    let events = watch.take(1).await;
    assert_eq!(
        (events[0].revision, &events[0].change),
        (deleted, &Change::Deleted)
    );
    // At the edge: a caller that has not seen it is refused, a caller that has does not see it again.
    store.compact(deleted).await.unwrap();
    assert_compacted(store.watch_error("/", before).await, before, deleted);
    let mut watch = store.follow("/", deleted).await;
    let again = store.create("/a", "2").await;
    let events = watch.take(1).await;
    assert_eq!(brief(&events), [("/a", '+', &b"2"[..])]);
    assert_eq!(events[0].revision, again);
}

async fn compacting_the_future_forgets_all_history_and_no_more(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "1").await;
    let second = store.update("/a", first, "2").await;
    store
        .compact(Revision::new(second.get() + 1_000_000))
        .await
        .unwrap();
    assert!(matches!(
        list_at(&store, first).await,
        Err(ReadError::Compacted { .. })
    ));
    // Not that far: what arrives next is reported and kept.
    let stands = store.stands().await;
    assert!(stands.get() < second.get() + 1_000_000);
    let mut watch = store.follow("/", stands).await;
    let third = store.update("/a", second, "3").await;
    let fourth = store.update("/a", third, "4").await;
    assert_eq!(revisions(&watch.take(2).await), [third, fourth]);
    assert_eq!(contents(&store.list_at("/", third).await), [("/a", &b"3"[..])]);
}

async fn compacting_what_is_compacted_changes_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "1").await;
    let second = store.update("/a", first, "2").await;
    store.update("/a", second, "3").await;
    for upto in [second, second, first, Revision::FIRST, Revision::ZERO] {
        store.compact(upto).await.unwrap();
        assert_compacted(store.watch_error("/", first).await, first, second);
        assert_eq!(contents(&store.list_at("/", second).await), [("/a", &b"2"[..])]);
    }
}

async fn revisions_never_go_back_at_a_compaction(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut last = store.stands().await;
    for round in 0..5 {
        let created = store.create("/a", vec![round]).await;
        assert!(created > last);
        // All that is left of the newest commit is its number.
        let deleted = store.delete("/a", created).await;
        store.compact(deleted).await.unwrap();
        assert!(store.stands().await >= deleted);
        assert!(store.list("/").await.revision >= deleted);
        last = deleted;
    }
}

async fn a_watch_that_keeps_up_is_not_cut_off(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watch = store.follow("/", start).await;
    for round in 0..20_u8 {
        let revision = store.put("/a", vec![round]).await;
        assert_eq!(revisions(&watch.take(1).await), [revision]);
        store.compact(revision).await.unwrap();
    }
}

async fn overtaken_watch_sees_every_event_or_compacted(backend: &dyn TestBackend) {
    // The commits of one writer cannot share a batch: more batches than any queue on the way holds.
    const WRITERS: usize = 4;
    const COMMITS: usize = 320;
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watch = store.follow("/", start).await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut made = Vec::new();
            for number in 0..COMMITS {
                made.push(store.put(&format!("/{writer}"), number.to_string()).await);
            }
            made
        });
    }
    let mut made = writers.join_all().await.concat();
    made.sort_unstable();
    store.compact(made[made.len() - 1]).await.unwrap();
    made.push(store.put("/0", "last").await);
    let mut received = Vec::new();
    while received.len() < made.len() {
        match watch.try_batch().await {
            Ok(batch) => received.extend(revisions(&batch.events)),
            Err(WatchError::Compacted { .. }) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    // Its events have no gap.
    assert_eq!(received, made[..received.len()]);
}

async fn the_next_page_of_a_compacted_range_is_refused(backend: &dyn TestBackend) {
    let store = backend.open().await;
    for name in ["/p/a", "/p/b", "/p/c"] {
        store.create(name, "1").await;
    }
    let page = store.range(&prefix("/p/"), Page::first(1)).await.unwrap();
    store.put("/p/c", "2").await;
    store.compact(store.stands().await).await.unwrap();
    match store.range(&prefix("/p/"), page.next(1).unwrap()).await {
        Err(ReadError::Compacted { requested, oldest }) => {
            assert_eq!(requested, page.revision);
            assert!(oldest > requested);
        }
        other => panic!("must be compacted, but: {other:?}"),
    }
}

async fn a_range_of_the_newest_state_is_never_compacted_away(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut writers = JoinSet::new();
    for part in 0..10 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for number in 0..150 {
                store.create(&format!("/l/{part}/{number}"), "").await;
            }
        });
    }
    writers.join_all().await;
    // Often enough to arrive between the parts of a read that follows on another, and no oftener: no process
    // could read a state that is compacted as soon as it is there.
    let mut compactor = JoinSet::new();
    compactor.spawn({
        let store = Arc::clone(&store);
        async move {
            for _ in 0..10 {
                let revision = store.put("/l/0/0", "new").await;
                store.compact(revision).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    // No process requested a revision, so none can be too old.
    while compactor.try_join_next().map(Result::unwrap).is_none() {
        assert_eq!(store.list("/l/").await.entries.len(), 1500);
    }
}

async fn concurrent_compactions_and_writes_lose_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watch = store.follow("/", start).await;
    let mut watcher = JoinSet::new();
    watcher.spawn(async move {
        let mut received = Vec::new();
        loop {
            match watch.try_batch().await {
                Ok(batch) => received.extend(batch.events.iter().cloned()),
                Err(WatchError::Compacted { .. }) => return received,
                Err(error) => panic!("{error:?}"),
            }
            if received.last().is_some_and(|event| &*event.key == "/last") {
                return received;
            }
        }
    });
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let name = format!("/{writer}");
            let mut made = Vec::new();
            for round in 0..60_u8 {
                made.push(store.put(&name, vec![round]).await);
                if round % 10 == writer {
                    store.compact(made[made.len() / 2]).await.unwrap();
                }
            }
            made
        });
    }
    let mut made = writers.join_all().await.concat();
    made.sort_unstable();
    assert!(
        made.is_sorted_by(|one, next| one < next),
        "a revision was used twice"
    );
    made.push(store.create("/last", "").await);
    let received = watcher.join_next().await.unwrap().unwrap();
    assert_eq!(revisions(&received), made[..received.len()]);
    let last: Vec<_> = (0..4).map(|_| vec![59_u8]).collect();
    let range = store.list("/").await;
    assert!(range.entries[..4].iter().map(|entry| &*entry.value).eq(&last));
}

async fn what_is_compacted_stays_so_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "1").await;
    let second = store.update("/a", first, "2").await;
    let deleted = store.delete("/a", second).await;
    store.compact(deleted).await.unwrap();
    store.close().await;
    drop(store);

    let store = backend.open().await;
    assert!(
        store.stands().await >= deleted,
        "the newest revision was forgotten"
    );
    assert_compacted(store.watch_error("/", second).await, second, deleted);
    assert!(matches!(
        list_at(&store, second).await,
        Err(ReadError::Compacted { .. })
    ));
    let mut watch = store.follow("/", deleted).await;
    let again = store.create("/a", "3").await;
    assert!(again > deleted);
    assert_eq!(revisions(&watch.take(1).await), [again]);
}

async fn history_behind_the_compaction_is_there_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut made = Vec::new();
    for number in 0..10_u8 {
        made.push(store.put("/a", vec![number]).await);
    }
    store.compact(made[4]).await.unwrap();
    store.close().await;
    drop(store);

    let store = backend.open().await;
    let mut watch = store.follow("/", made[4]).await;
    assert_eq!(revisions(&watch.take(5).await), made[5..]);
    for (number, at) in (4_u8..).zip(&made[4..]) {
        assert_eq!(contents(&store.list_at("/", *at).await), [("/a", &[number][..])]);
    }
}

async fn a_compaction_by_a_peer_is_one_for_all(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let first = one.create("/a", "1").await;
    let second = one.update("/a", first, "2").await;
    let third = one.update("/a", second, "3").await;
    one.compact(second).await.unwrap();
    assert_compacted(other.watch_error("/", first).await, first, second);
    assert!(matches!(
        list_at(&other, first).await,
        Err(ReadError::Compacted { .. })
    ));
    assert_eq!(contents(&other.list_at("/", second).await), [("/a", &b"2"[..])]);
    let mut watch = other.follow("/", second).await;
    assert_eq!(revisions(&watch.take(1).await), [third]);
}

async fn list_at(store: &Arc<dyn Store>, at: Revision) -> Result<Range, ReadError> {
    let page = Page {
        at: Some(at),
        ..Page::all()
    };
    store.range(&prefix("/"), page).await
}

fn assert_compacted(error: WatchError, requested: Revision, compacted: Revision) {
    match error {
        WatchError::Compacted { after, oldest } => assert_eq!((after, oldest), (requested, compacted)),
        other => panic!("a watch after {requested} must be compacted, but: {other:?}"),
    }
}
