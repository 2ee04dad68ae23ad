//! What lies where in etcd, and who shares it.

use k3_storage::{
    CommitError, OpenError, Operation, Page, Precondition, Prefix, ReadError, Store, StoreError, Write,
    etcd::EtcdStore,
};
use k3_test_services::Etcd;

use crate::{
    gateway,
    support::{TestWatcher, create, impatient, key, open, open_under, prefix},
};

#[tokio::test]
async fn values_are_stored_unchanged() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    create(&store, "/pods/a", "hello").await;
    let found = gateway::get(&etcd.endpoint(), "/k3/data//pods/a");
    assert!(found.contains(&gateway::base64("hello")), "{found}");
}

#[tokio::test]
async fn processes_create_the_store_concurrently() {
    let etcd = Etcd::start().unwrap();
    let endpoint = etcd.endpoint();
    let (a, b, c) = tokio::join!(open(&endpoint), open(&endpoint), open(&endpoint));
    let written = create(&a, "/x", "1").await;
    for store in [&b, &c] {
        assert_eq!(store.get(&key("/x")).await.unwrap().unwrap().revision, written);
    }
}

#[tokio::test]
async fn two_processes_see_each_others_writes() {
    let etcd = Etcd::start().unwrap();
    let ours = open(&etcd.endpoint()).await;
    let theirs = open(&etcd.endpoint()).await;
    let start = ours.current_revision().await.unwrap();
    let mut watcher = TestWatcher::start(&ours, "/a/", start).await;

    let first = create(&theirs, "/a/x", "1").await;
    let refused = ours.commit(Write::create(key("/a/x"), "2")).await.unwrap_err();
    let CommitError::Conflict(Some(entry)) = refused else {
        panic!("{refused}")
    };
    assert_eq!((entry.revision, &entry.value[..]), (first, &b"1"[..]));
    let second = ours.commit(Write::update(key("/a/x"), first, "2")).await.unwrap();
    let deleted = theirs.commit(Write::delete(key("/a/x"), second)).await.unwrap();

    watcher.reach(deleted).await;
    assert_eq!(watcher.revisions(), [first, second, deleted]);
}

#[tokio::test]
async fn stores_under_different_prefixes_are_separate() {
    let etcd = Etcd::start().unwrap();
    let ours = open_under(&etcd.endpoint(), "/a/").await;
    let theirs = open_under(&etcd.endpoint(), "/ab/").await;
    create(&ours, "/x", "ours").await;
    create(&theirs, "/x", "theirs").await;
    for (store, value) in [(&ours, "ours"), (&theirs, "theirs")] {
        let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
        assert_eq!(range.entries.len(), 1);
        assert_eq!(range.entries[0].value, value);
    }
}

#[tokio::test]
async fn rejects_data_of_a_newer_format() {
    let etcd = Etcd::start().unwrap();
    drop(open(&etcd.endpoint()).await);
    gateway::put(&etcd.endpoint(), "/k3/meta/format", "2");
    let refused = EtcdStore::open(impatient([etcd.endpoint()])).await.map(|_| ());
    assert!(
        matches!(
            refused,
            Err(OpenError::NewerFormat {
                found: 2,
                known: 1,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn rejects_entries_without_a_format() {
    let etcd = Etcd::start().unwrap();
    gateway::put(&etcd.endpoint(), "/k3/data//x", "?");
    let refused = EtcdStore::open(impatient([etcd.endpoint()])).await.map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::Store(StoreError::Corrupt(_)))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_long_range_is_one_snapshot_however_many_answers_it_takes() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    // Large enough for several chunks, by number and by size.
    let value = "v".repeat(20_000);
    let mut last = None;
    for index in 0..700 {
        last = Some(create(&store, &format!("/a/{index:04}"), &value).await);
    }
    let snapshot = last.unwrap();
    create(&store, "/a/later", "").await;

    let page = Page {
        at: Some(snapshot),
        ..Page::all()
    };
    let range = store.range(&prefix("/a/"), page).await.unwrap();
    assert_eq!(
        (range.entries.len(), range.more, range.revision),
        (700, false, snapshot)
    );
    assert!(range.entries.is_sorted_by(|a, b| a.key < b.key));
    assert!(range.entries.iter().all(|entry| entry.value == value));

    let first = store.range(&prefix("/a/"), Page::first(450)).await.unwrap();
    assert_eq!((first.entries.len(), first.more), (450, true));
    let rest = store.range(&prefix("/a/"), first.next(0).unwrap()).await.unwrap();
    assert_eq!((rest.entries.len(), rest.more), (251, false));
}

#[tokio::test]
async fn maps_rejections_of_large_requests_to_too_large() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    // Allowed by the store, but with its key more than etcd takes by default.
    let value = "v".repeat(k3_storage::MAX_VALUE_BYTES);
    let refused = store.commit(Write::create(key("/x"), value)).await;
    assert!(
        matches!(refused, Err(CommitError::TooLarge { .. })),
        "{refused:?}"
    );
    assert!(store.get(&key("/x")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_revision_that_never_was_is_a_conflict_and_not_an_absence() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    for revision in [0, 1, u64::MAX] {
        let write = Write {
            key: key("/x"),
            precondition: Precondition::At(k3_storage::Revision::new(revision)),
            operation: Operation::Put {
                value: "1".into(),
                ttl: None,
            },
        };
        let refused = store.commit(write).await;
        assert!(matches!(refused, Err(CommitError::Conflict(None))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_closed_store_rejects_all_operations() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let start = store.current_revision().await.unwrap();
    let mut events = store.watch(&Prefix::all(), start).await.unwrap();
    store.close().await;
    let closed =
        |outcome: Result<(), StoreError>| assert!(matches!(outcome, Err(StoreError::Closed)), "{outcome:?}");
    closed(store.current_revision().await.map(|_| ()));
    closed(store.health().await.map(|_| ()));
    closed(store.compact(start).await);
    let read = store.get(&key("/x")).await;
    assert!(
        matches!(read, Err(ReadError::Store(StoreError::Closed))),
        "{read:?}"
    );
    let watched = events.next().await;
    assert!(
        matches!(watched, Err(k3_storage::WatchError::Store(StoreError::Closed))),
        "{watched:?}"
    );
}
