//! A write happens if what it expects is there, whole, once, with a revision of its own.

use std::{collections::BTreeSet, sync::Arc};

use k3_storage::{Change, CommitError, Operation, Precondition, Revision, Store, Write};
use tokio::task::JoinSet;

use crate::{
    backend::TestBackend,
    follower::brief,
    store_ext::{StoreExt, key, soon},
};

conformance_tests! {
    every: [
        create_of_an_existing_key_returns_the_entry,
        an_update_of_an_older_state_conflicts_and_shows_the_newest,
        an_update_of_nothing_conflicts_and_shows_nothing,
        a_delete_of_another_state_conflicts_and_deletes_nothing,
        a_delete_that_expects_nothing_conflicts,
        a_key_that_was_deleted_and_created_again_is_another_entry,
        a_write_that_conflicts_leaves_no_trace,
        writing_the_same_value_again_is_a_commit,
        revisions_grow_across_all_keys,
        of_many_creates_one_wins,
        of_many_updates_of_one_state_one_wins,
        of_updates_and_deletes_of_one_state_one_wins,
        no_increment_is_lost,
        concurrent_commits_never_share_a_revision,
        an_abandoned_commit_happens_whole_or_not_at_all,
    ],
    durable: [
        revisions_continue_after_the_store_is_opened_again,
    ],
    shared: [
        of_many_writers_on_two_handles_one_wins,
        no_increment_is_lost_between_two_handles,
    ],
}

async fn create_of_an_existing_key_returns_the_entry(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/a", "one").await;
    let shown = store.conflict(Write::create(key("/a"), "two")).await.unwrap();
    assert_eq!((&*shown.value, shown.revision), (&b"one"[..], created));
    assert_eq!(store.read("/a").await, Some(shown));
}

async fn an_update_of_an_older_state_conflicts_and_shows_the_newest(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "one").await;
    let second = store.update("/a", first, "two").await;
    let shown = store
        .conflict(Write::update(key("/a"), first, "three"))
        .await
        .unwrap();
    assert_eq!((&*shown.value, shown.revision), (&b"two"[..], second));
    // Nor does a revision match that is newer than the entry, or was never used.
    store.create("/b", "other").await;
    for wrong in [second.next(), Revision::new(u64::MAX / 2), Revision::ZERO] {
        let shown = store
            .conflict(Write::update(key("/a"), wrong, "three"))
            .await
            .unwrap();
        assert_eq!(shown.revision, second);
    }
    assert_eq!(store.read("/a").await.unwrap().value, "two");
}

async fn an_update_of_nothing_conflicts_and_shows_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let stands = store.stands().await;
    for wrong in [stands, Revision::ZERO, Revision::FIRST] {
        assert_eq!(store.conflict(Write::update(key("/a"), wrong, "one")).await, None);
        assert_eq!(store.conflict(Write::delete(key("/a"), wrong)).await, None);
    }
    let created = store.create("/a", "one").await;
    let deleted = store.delete("/a", created).await;
    for deleted in [created, deleted] {
        assert_eq!(
            store.conflict(Write::update(key("/a"), deleted, "two")).await,
            None
        );
    }
    assert_eq!(store.read("/a").await, None);
}

async fn a_delete_of_another_state_conflicts_and_deletes_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "one").await;
    let second = store.update("/a", first, "two").await;
    let shown = store.conflict(Write::delete(key("/a"), first)).await.unwrap();
    assert_eq!((&*shown.value, shown.revision), (&b"two"[..], second));
    assert_eq!(store.read("/a").await, Some(shown));
    let deleted = store.delete("/a", second).await;
    assert!(deleted > second);
    assert_eq!(store.conflict(Write::delete(key("/a"), second)).await, None);
}

async fn a_delete_that_expects_nothing_conflicts(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let delete = Write {
        key: key("/a"),
        precondition: Precondition::Absent,
        operation: Operation::Delete,
    };
    assert_eq!(store.conflict(delete.clone()).await, None);
    store.create("/a", "one").await;
    let _ = store.conflict(delete).await;
    assert!(store.read("/a").await.is_some());
}

async fn a_key_that_was_deleted_and_created_again_is_another_entry(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "same").await;
    let deleted = store.delete("/a", first).await;
    let second = store.create("/a", "same").await;
    assert!(first < deleted && deleted < second);
    let shown = store.conflict(Write::update(key("/a"), first, "stale")).await;
    assert_eq!(shown.unwrap().revision, second);
}

async fn a_write_that_conflicts_leaves_no_trace(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/a", "one").await;
    let mut watch = store.follow("/", created).await;
    store.conflict(Write::create(key("/a"), "x")).await;
    store.conflict(Write::update(key("/b"), created, "x")).await;
    store.conflict(Write::delete(key("/b"), created)).await;
    assert_eq!(store.read("/b").await, None);
    store.create("/c", "two").await;
    // The next event is that of the next commit that happened.
    assert_eq!(brief(&watch.take(1).await), [("/c", '+', &b"two"[..])]);
}

async fn writing_the_same_value_again_is_a_commit(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let first = store.create("/a", "same").await;
    let mut watch = store.follow("/", first).await;
    let second = store.update("/a", first, "same").await;
    assert!(second > first);
    let event = watch.event().await;
    assert_eq!(
        (event.revision, event.change),
        (second, Change::Updated("same".into()))
    );
}

async fn revisions_grow_across_all_keys(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut last = store.stands().await;
    for round in 0..10 {
        for name in ["/z", "/a", "/m"] {
            let name = format!("{name}/{round}");
            let created = store.create(&name, "1").await;
            let updated = store.update(&name, created, "2").await;
            let deleted = store.delete(&name, updated).await;
            assert!(last < created && created < updated && updated < deleted);
            last = deleted;
        }
    }
    assert!(store.stands().await >= last);
}

async fn of_many_creates_one_wins(backend: &dyn TestBackend) {
    let store = backend.open().await;
    for round in 0..5 {
        let name = format!("/{round}");
        race(std::slice::from_ref(&store), 16, |_| {
            Write::create(key(&name), "")
        })
        .await;
    }
}

async fn of_many_updates_of_one_state_one_wins(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut revision = store.create("/a", "start").await;
    for _ in 0..5 {
        race(std::slice::from_ref(&store), 16, |_| {
            Write::update(key("/a"), revision, "")
        })
        .await;
        let winner = store.read("/a").await.unwrap().revision;
        assert!(winner > revision);
        revision = winner;
    }
}

async fn of_updates_and_deletes_of_one_state_one_wins(backend: &dyn TestBackend) {
    let store = backend.open().await;
    for _ in 0..5 {
        let revision = store.put("/a", "start").await;
        race(std::slice::from_ref(&store), 16, |writer| match writer % 2 {
            0 => Write::update(key("/a"), revision, ""),
            _ => Write::delete(key("/a"), revision),
        })
        .await;
    }
}

async fn of_many_writers_on_two_handles_one_wins(backend: &dyn TestBackend) {
    let handles = [backend.open().await, backend.open().await];
    for round in 0..5 {
        let name = format!("/{round}");
        race(&handles, 16, |_| Write::create(key(&name), "")).await;
        let revision = handles[0].read(&name).await.unwrap().revision;
        race(&handles, 16, |_| Write::update(key(&name), revision, "")).await;
        let revision = handles[1].read(&name).await.unwrap().revision;
        race(&handles, 16, |_| Write::delete(key(&name), revision)).await;
    }
}

async fn no_increment_is_lost(backend: &dyn TestBackend) {
    let store = backend.open().await;
    count_up(&[store]).await;
}

async fn no_increment_is_lost_between_two_handles(backend: &dyn TestBackend) {
    count_up(&[backend.open().await, backend.open().await]).await;
}

async fn concurrent_commits_never_share_a_revision(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut mine = Vec::new();
            for round in 0..25 {
                mine.push(store.create(&format!("/{writer}/{round}"), "1").await);
            }
            assert!(mine.is_sorted_by(|one, next| one < next), "{mine:?}");
            mine
        });
    }
    let all = writers.join_all().await.concat();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), 200);
}

async fn an_abandoned_commit_happens_whole_or_not_at_all(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let before = store.stands().await;
    let mut watch = store.follow("/", before).await;
    for round in 0..40_u32 {
        let name = format!("/{round}");
        let mut commit = store.commit(Write::create(key(&name), "whole"));
        // Polled a little further each time, and then dropped as a client that disconnects drops it.
        for _ in 0..round % 8 {
            tokio::select! {
                biased;
                _ = &mut commit => break,
                () = tokio::task::yield_now() => {}
            }
        }
    }
    // The writer that follows is not held up, and is not confused with earlier requests. (Some of that
    // may still be on its way.)
    let last = store.create("/last", "1").await;
    let mut received = watch.upto(last).await;
    received.retain(|event| event.revision <= last);
    let there = store.list_at("/", last).await;
    assert_eq!(received.len(), there.entries.len());
    for (event, entry) in received.iter().zip({
        let mut entries = there.entries.clone();
        entries.sort_by_key(|entry| entry.revision);
        entries
    }) {
        assert_eq!((event.revision, &event.key), (entry.revision, &entry.key));
        assert_eq!(event.change, Change::Created(entry.value));
    }
}

async fn revisions_continue_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let mut last = Revision::ZERO;
    for round in 0..4 {
        let store = backend.open().await;
        assert!(store.stands().await >= last);
        let created = store.create("/a", vec![round]).await;
        assert!(created > last);
        // The newest commit leaves no entry behind, and its revision must not be used again.
        last = store.delete("/a", created).await;
        if round % 2 == 0 {
            store.compact(last).await.unwrap();
        }
        store.close().await;
    }
}

/// Lets many writers expect the same state, and checks that exactly one had it.
async fn race(handles: &[Arc<dyn Store>], count: usize, write: impl Fn(usize) -> Write) {
    let mut writers = JoinSet::new();
    for writer in 0..count {
        let store = Arc::clone(&handles[writer % handles.len()]);
        let mut write = write(writer);
        if let Operation::Put { value, .. } = &mut write.operation {
            *value = writer.to_string().into();
        }
        writers.spawn(async move { (write.clone(), store.commit(write).await) });
    }
    let answers = soon("the end of a race", writers.join_all()).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| answer.is_ok());
    let [(winner, Ok(revision))] = &won[..] else {
        panic!("one must win, but: {won:?}");
    };
    let now = handles[0].get(&winner.key).await.unwrap();
    match &winner.operation {
        Operation::Put { value, .. } => {
            let now = now.as_ref().unwrap();
            assert_eq!((&now.value, now.revision), (value, *revision));
        }
        Operation::Delete => assert_eq!(now, None),
    }
    for (_, answer) in lost {
        match answer {
            // No process wrote but the winner, so this is what the others must be shown.
            Err(CommitError::Conflict(shown)) => assert_eq!(shown, now),
            other => panic!("the other writers must get a conflict, but: {other:?}"),
        }
    }
}

/// Lets writers add one to a number periodically, each retrying on a conflict.
async fn count_up(handles: &[Arc<dyn Store>]) {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 10;
    handles[0].create("/count", "0").await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&handles[writer % handles.len()]);
        writers.spawn(async move {
            for _ in 0..ROUNDS {
                let mut entry = store.read("/count").await.unwrap();
                loop {
                    let number: usize = str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let write = Write::update(entry.key, entry.revision, (number + 1).to_string());
                    match store.commit(write).await {
                        Ok(_) => break,
                        Err(CommitError::Conflict(Some(newer))) => entry = newer,
                        other => panic!("{other:?}"),
                    }
                }
            }
        });
    }
    soon("the end of the count", writers.join_all()).await;
    let count = handles[0].read("/count").await.unwrap().value;
    assert_eq!(count, (WRITERS * ROUNDS).to_string());
}
