//! Filling an etcd from another store.

use std::{collections::HashSet, time::Duration};

use k3_storage::{
    CommitError, Entry, Expiry, ImportError, Page, Prefix, ReadError, Revision, Store, StoreError,
    WatchError, Write,
};
use k3_task::Clock;
use k3_test_services::Etcd;

use crate::support::{TestWatcher, create, key, open, prefix, until};

fn entry(name: &str, revision: u64) -> Entry {
    Entry {
        key: key(name),
        value: format!("value of {name}").into(),
        revision: Revision::new(revision),
        expiry: None,
    }
}

#[tokio::test]
async fn an_import_continues_above_the_source() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let peer = open(&etcd.endpoint()).await;
    let before = peer.current_revision().await.unwrap();
    let mut old = peer.watch(&Prefix::all(), before).await.unwrap();

    let source = Revision::new(5000);
    let mut import = store.begin_import(source).await.unwrap();
    let entries: Vec<_> = (0..250)
        .map(|index| entry(&format!("/a/{index:03}"), index + 1))
        .collect();
    import.put(entries.clone()).await.unwrap();
    let finished = import.finish().await.unwrap();
    assert!(finished >= source);

    for store in [&store, &peer] {
        let range = store.range(&prefix("/a/"), Page::all()).await.unwrap();
        assert!(range.revision >= finished);
        assert_eq!(range.entries.len(), 250);
        for (found, given) in range.entries.iter().zip(&entries) {
            assert_eq!((&found.key, &found.value), (&given.key, &given.value));
            assert!(found.revision > source && found.revision <= finished, "{found:?}");
        }
        let revisions: HashSet<_> = range.entries.iter().map(|entry| entry.revision).collect();
        assert_eq!(revisions.len(), 250, "two entries share a commit");
        // There is no history, neither of the store before nor of the import.
        for after in [before, Revision::new(finished.get() - 1)] {
            let refused = store.watch(&Prefix::all(), after).await.unwrap_err();
            assert!(
                matches!(refused, WatchError::Compacted { oldest, .. } if oldest == finished),
                "{refused:?}"
            );
            let page = Page {
                at: Some(after),
                ..Page::all()
            };
            let refused = store.range(&Prefix::all(), page).await.unwrap_err();
            assert!(matches!(refused, ReadError::Compacted { .. }), "{refused:?}");
        }
    }
    // A watch from before has nothing to continue with.
    let ended = crate::support::soon("the old watch to end", async {
        loop {
            if let Err(error) = old.next().await {
                return error;
            }
        }
    })
    .await;
    assert!(matches!(ended, WatchError::Compacted { .. }), "{ended:?}");

    // Both continue with the same numbers.
    let mut watcher = TestWatcher::start(&peer, "/a/", finished).await;
    let first = store.get(&key("/a/000")).await.unwrap().unwrap();
    let updated = store
        .commit(Write::update(key("/a/000"), first.revision, "new"))
        .await
        .unwrap();
    let made = create(&peer, "/a/new", "1").await;
    assert!(finished < updated && updated < made);
    watcher.reach(made).await;
    assert_eq!(watcher.revisions(), [updated, made]);
    assert_eq!(peer.get(&key("/a/000")).await.unwrap().unwrap().revision, updated);
    // A process that arrives later reads the offset from etcd.
    let later = open(&etcd.endpoint()).await;
    assert_eq!(later.get(&key("/a/new")).await.unwrap().unwrap().revision, made);
}

#[tokio::test]
async fn rejects_an_import_into_a_store_with_entries() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    create(&store, "/x", "1").await;
    let refused = store.begin_import(Revision::new(9)).await.map(|_| ());
    assert!(matches!(refused, Err(ImportError::NotEmpty)), "{refused:?}");
    assert_eq!(store.get(&key("/x")).await.unwrap().unwrap().value, "1");
}

#[tokio::test]
async fn an_unfinished_import_blocks_all_processes_until_repeated() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let peer = open(&etcd.endpoint()).await;
    let mut import = store.begin_import(Revision::new(100)).await.unwrap();
    import.put(vec![entry("/left", 1)]).await.unwrap();
    drop(import);
    drop(store);

    let fresh = open(&etcd.endpoint()).await;
    for store in [&peer, &fresh] {
        let read = store.get(&key("/left")).await;
        assert!(
            matches!(read, Err(ReadError::Store(StoreError::UnfinishedImport))),
            "{read:?}"
        );
        let written = store.commit(Write::create(key("/x"), "1")).await;
        assert!(
            matches!(written, Err(CommitError::Store(StoreError::UnfinishedImport))),
            "{written:?}"
        );
        let watched = store.watch(&Prefix::all(), Revision::FIRST).await;
        assert!(
            matches!(watched, Err(WatchError::Store(StoreError::UnfinishedImport))),
            "{watched:?}"
        );
        let well = store.health().await;
        assert!(matches!(well, Err(StoreError::UnfinishedImport)), "{well:?}");
        assert!(store.current_revision().await.is_err());
        assert!(store.compact(Revision::new(1)).await.is_err());
    }

    let mut overtaken = peer.begin_import(Revision::new(200)).await.unwrap();
    let mut import = fresh.begin_import(Revision::new(100)).await.unwrap();
    // Two at once would mix what they bring.
    overtaken.put(vec![entry("/mixed", 1)]).await.unwrap();
    import.put(vec![entry("/whole", 7)]).await.unwrap();
    let finished = import.finish().await.unwrap();
    let refused = overtaken.finish().await;
    assert!(matches!(refused, Err(ImportError::Superseded)), "{refused:?}");
    for store in [&peer, &fresh] {
        let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
        let names: Vec<_> = range.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(names, ["/whole"]);
        assert!(range.revision >= finished);
    }
}

#[tokio::test]
async fn imported_entries_keep_their_remaining_time_to_live() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let now = Clock::system().system_time();
    let hour = Duration::from_hours(1);
    let with = |name, expiry| Entry {
        expiry: Some(expiry),
        ..entry(name, 1)
    };
    // Written most of an hour ago, and just now by a clock that is a year ahead.
    let nearly_over = Expiry::after(now + Duration::from_secs(2) - hour, hour);
    let ahead = Expiry::after(now + 24 * 365 * hour, hour);
    let mut import = store.begin_import(Revision::new(100)).await.unwrap();
    import
        .put(vec![with("/short", nearly_over), with("/ahead", ahead)])
        .await
        .unwrap();
    import.finish().await.unwrap();
    let ahead = store.get(&key("/ahead")).await.unwrap().unwrap().expiry.unwrap();
    assert_eq!(ahead.ttl, hour);
    assert!(ahead.deadline_ms <= Expiry::after(Clock::system().system_time(), hour).deadline_ms + 1000);
    until("the entry to expire", async || {
        store.get(&key("/short")).await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(store.get(&key("/ahead")).await.unwrap().is_some());
}
