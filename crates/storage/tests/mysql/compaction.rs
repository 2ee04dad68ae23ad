//! Forgetting history never leaves a hole that a reader could fall into.

use std::sync::Arc;

use k3_storage::{Page, Prefix, ReadError, Revision, Store, WatchError, mysql::MysqlStore};

use crate::server::{TestServer, assert_whole, create, delete, events_upto, key, number, run, update, watch};

/// Some keys, updated, one deleted. Returns the newest revision.
async fn fill(store: &MysqlStore) -> Revision {
    for n in 0..10 {
        let mut revision = create(store, &format!("/k/{n}"), "0").await;
        for _ in 0..9 {
            revision = update(store, &format!("/k/{n}"), revision, "1").await;
        }
    }
    let deleted = create(store, "/k/deleted", "x").await;
    delete(store, "/k/deleted", deleted).await
}

#[tokio::test]
async fn compaction_deletes_only_unreadable_states() {
    let server = TestServer::start();
    let store = server.open().await;
    let newest = fill(&store).await;
    let mut admin = server.admin().await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 102);
    let boundary = Revision::new(newest.get() - 1);
    store.compact(boundary).await.unwrap();
    // Ten live values, the last value of the key that is deleted only later, and that deletion.
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 12);
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_names").await, 11);

    let page = |at| Page {
        at: Some(at),
        ..Page::all()
    };
    let at_boundary = store.range(&Prefix::all(), page(boundary)).await.unwrap();
    assert_eq!(at_boundary.entries.len(), 11);
    let before = Revision::new(boundary.get() - 1);
    let refused = store.range(&Prefix::all(), page(before)).await;
    assert!(
        matches!(refused, Err(ReadError::Compacted { requested, oldest }) if requested == before && oldest == boundary),
        "{refused:?}"
    );
    let refused = store.watch(&Prefix::all(), before).await;
    assert!(
        matches!(refused, Err(WatchError::Compacted { after, oldest }) if after == before && oldest == boundary),
        "{refused:?}"
    );
    let future = newest.next();
    let refused = store.range(&Prefix::all(), page(future)).await;
    assert!(
        matches!(refused, Err(ReadError::Future { requested, current }) if requested == future && current == newest),
        "{refused:?}"
    );
    // The deletion at the boundary is not lost on those who watch from there.
    let events = events_upto(&mut watch(&store, boundary).await, newest).await;
    assert_whole(&events, boundary);

    store.compact(Revision::new(u64::MAX)).await.unwrap();
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 10);
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_names").await, 10);
    assert_eq!(store.current_revision().await.unwrap(), newest);
    // Lower than what is compacted already: nothing changes.
    store.compact(boundary).await.unwrap();
    assert!(matches!(
        store.range(&Prefix::all(), page(boundary)).await,
        Err(ReadError::Compacted { oldest, .. }) if oldest == newest
    ));
    assert_eq!(create(&store, "/k/deleted", "again").await, newest.next());
}

#[tokio::test]
async fn a_compaction_that_was_interrupted_is_finished_by_the_next() {
    let server = TestServer::start();
    let store = server.open().await;
    let newest = fill(&store).await;
    let mut admin = server.admin().await;
    // As after a crash behind the mark, before any row was deleted.
    run(&mut admin, "UPDATE k3_store SET compacted = revision").await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 102);
    let old = Page {
        at: Some(Revision::new(newest.get() - 5)),
        ..Page::all()
    };
    let refused = store.range(&Prefix::all(), old).await;
    assert!(matches!(refused, Err(ReadError::Compacted { .. })), "{refused:?}");
    store.compact(Revision::FIRST).await.unwrap();
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_compactors_do_not_disturb_readers_and_writers() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let mut first = Revision::FIRST;
    for n in 0..40 {
        first = create(&stores[0], &format!("/k/{n:02}"), "x").await;
    }
    let writer = tokio::spawn({
        let store = Arc::clone(&stores[0]);
        async move {
            for round in 0..15 {
                for n in 0..40 {
                    let name = format!("/k/{n:02}");
                    let entry = store.get(&key(&name)).await.unwrap().unwrap();
                    // One key vanishes and returns, so that names are deleted too.
                    if n == round {
                        delete(&store, &name, entry.revision).await;
                        create(&store, &name, "again").await;
                    } else {
                        update(&store, &name, entry.revision, "y").await;
                    }
                }
            }
        }
    });
    let compactors: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                loop {
                    let revision = store.current_revision().await.unwrap();
                    store.compact(revision).await.unwrap();
                }
            })
        })
        .collect();
    let mut whole = 0;
    let mut compacted = 0;
    while !writer.is_finished() {
        let mut range = stores[1].range(&Prefix::all(), Page::first(7)).await.unwrap();
        let mut names: Vec<_> = range.entries.iter().map(|entry| entry.key.clone()).collect();
        loop {
            let Some(next) = range.next(7) else {
                // A key that vanished for a moment may be missing; nothing else may.
                assert!(names.len() >= 39, "{names:?}");
                whole += 1;
                break;
            };
            match stores[1].range(&Prefix::all(), next).await {
                Ok(page) => {
                    names.extend(page.entries.iter().map(|entry| entry.key.clone()));
                    range = page;
                }
                Err(ReadError::Compacted { .. }) => {
                    compacted += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    writer.await.unwrap();
    for compactor in compactors {
        compactor.abort();
        // Either it was aborted just now, or it failed before and reports it here.
        let Err(ended) = compactor.await;
        assert!(ended.is_cancelled(), "{ended}");
    }
    println!("{whole} whole ranges, {compacted} cut short");
    let newest = stores[0].current_revision().await.unwrap();
    stores[0].compact(newest).await.unwrap();
    let mut admin = server.admin().await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 40);
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_names").await, 40);
    assert!(newest > first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_state_is_never_compacted_while_it_is_read() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let mut creates = tokio::task::JoinSet::new();
    for n in 0..1100 {
        let store = Arc::clone(&stores[0]);
        creates.spawn(async move { create(&store, &format!("/{n:04}"), "x").await });
    }
    creates.join_all().await;
    // More than one chunk, and compacted between any two.
    let disturber = tokio::spawn({
        let store = Arc::clone(&stores[0]);
        async move {
            let mut revision = create(&store, "/busy", "0").await;
            loop {
                revision = update(&store, "/busy", revision, "1").await;
                store.compact(revision).await.unwrap();
            }
        }
    });
    for _ in 0..30 {
        for limit in [0, 1000] {
            let range = stores[1].range(&Prefix::all(), Page::first(limit)).await.unwrap();
            let expected = if limit == 0 { 1100..=1101 } else { 1000..=1000 };
            assert!(expected.contains(&range.entries.len()), "{}", range.entries.len());
        }
    }
    assert!(!disturber.is_finished());
    disturber.abort();
}
