//! Filling a store from another.

use std::time::Duration;

use bytes::Bytes;
use k3_storage::{
    CommitError, Entry, Expiry, ImportError, Page, Prefix, ReadError, Revision, Store, StoreError, Write,
    mysql::MysqlStore,
};

use crate::server::{TestServer, create, delete, events_upto, eventually, key, number, watch};

fn entries(count: u64) -> Vec<Entry> {
    (0..count)
        .map(|n| Entry {
            key: key(format!("/{n:04}")),
            value: Bytes::from(format!("value {n}")),
            revision: Revision::new(10 + n * 3),
            expiry: None,
        })
        .collect()
}

async fn assert_unfinished(store: &MysqlStore) {
    assert!(matches!(
        store.get(&key("/a")).await,
        Err(ReadError::Store(StoreError::UnfinishedImport))
    ));
    assert!(matches!(
        store.commit(Write::create(key("/a"), "x")).await,
        Err(CommitError::Store(StoreError::UnfinishedImport))
    ));
    assert!(matches!(
        store.current_revision().await,
        Err(StoreError::UnfinishedImport)
    ));
    assert!(matches!(store.health().await, Err(StoreError::UnfinishedImport)));
    assert!(matches!(
        store.compact(Revision::FIRST).await,
        Err(StoreError::UnfinishedImport)
    ));
    assert!(store.range(&Prefix::all(), Page::all()).await.is_err());
    assert!(store.watch(&Prefix::all(), Revision::FIRST).await.is_err());
}

#[tokio::test]
async fn an_import_keeps_revisions_and_continues_above_the_source() {
    let server = TestServer::start();
    let [here, there] = [server.open().await, server.open().await];
    let mut source = entries(700);
    let soon = Expiry {
        deadline_ms: 1,
        ttl: Duration::from_mins(1),
    };
    source.push(Entry {
        key: key("/expired"),
        value: Bytes::from_static(b"x"),
        revision: Revision::new(5000),
        expiry: Some(soon),
    });
    let newest = Revision::new(9000);
    let mut import = here.begin_import(newest).await.unwrap();
    for part in source.chunks(300) {
        import.put(part.to_vec()).await.unwrap();
    }
    assert_unfinished(&there).await;
    assert_eq!(import.finish().await.unwrap(), newest);
    // What had expired on the way is deleted, here or there; the rest is as it was.
    let deleted = events_upto(&mut watch(&there, newest).await, newest.next()).await;
    assert_eq!(*deleted[0].key, *"/expired");
    source.pop();
    for store in [&here, &there] {
        let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
        assert_eq!(range.entries, source);
    }
    assert!(
        there.watch(&Prefix::all(), Revision::new(8999)).await.is_err(),
        "there is no history"
    );
    assert_eq!(create(&there, "/new", "x").await, newest.next().next());
    // An imported value is replaced and compacted like any other.
    let first = &source[0];
    here.commit(Write::update(first.key.clone(), first.revision, "new"))
        .await
        .unwrap();
    here.compact(Revision::new(u64::MAX)).await.unwrap();
    let mut admin = server.admin().await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 701);
}

#[tokio::test]
async fn an_interrupted_import_blocks_all_processes_until_restarted() {
    let server = TestServer::start();
    let store = server.open().await;
    let there = server.open().await;
    let mut import = store.begin_import(Revision::new(100)).await.unwrap();
    import.put(entries(20)).await.unwrap();
    drop(import);
    store.close().await;
    let store = server.open().await;
    assert_unfinished(&store).await;
    assert_unfinished(&there).await;
    let mut stale = store.begin_import(Revision::new(50)).await.unwrap();
    stale.put(entries(10)).await.unwrap();
    let mut import = there.begin_import(Revision::new(50)).await.unwrap();
    let refused = stale.put(entries(1)).await;
    assert!(matches!(refused, Err(ImportError::Superseded)), "{refused:?}");
    let refused = stale.finish().await;
    assert!(matches!(refused, Err(ImportError::Superseded)), "{refused:?}");
    import.put(entries(5)).await.unwrap();
    assert_eq!(import.finish().await.unwrap(), Revision::new(50));
    let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
    assert_eq!(range.entries, entries(5));
    eventually("the other process follows", async || {
        store
            .current_revision()
            .await
            .is_ok_and(|revision| revision == Revision::new(50))
    })
    .await;
}

#[tokio::test]
async fn import_needs_an_empty_store_and_never_lowers_revisions() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut revision = create(&store, "/a", "x").await;
    assert!(matches!(
        store.begin_import(Revision::new(100)).await,
        Err(ImportError::NotEmpty)
    ));
    revision = delete(&store, "/a", revision).await;
    for n in 0..20 {
        revision = create(&store, &format!("/{n}"), "x").await;
        revision = delete(&store, &format!("/{n}"), revision).await;
    }
    let import = store.begin_import(Revision::new(3)).await.unwrap();
    assert_eq!(
        import.finish().await.unwrap(),
        revision,
        "not below where it stood"
    );
    assert_eq!(create(&store, "/b", "x").await, revision.next());
}
