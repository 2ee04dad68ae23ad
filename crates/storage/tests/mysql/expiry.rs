//! Entries that delete themselves, by the clock of the database, once.

use std::time::Duration;

use k3_storage::{Change, Revision, Store, Write};
use tokio::time::Instant;

use crate::server::{TestServer, assert_whole, create, events_upto, eventually, key, watch};

const SECOND: Duration = Duration::from_secs(1);

/// Long enough for a few requests of a busy machine, short enough to be waited for.
const BRIEFLY: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_expires_once_however_many_processes_watch_it() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let written = Instant::now();
    let write = Write::create(key("/a"), "x").expiring(BRIEFLY);
    let revision = stores[0].commit(write).await.unwrap();
    let entry = stores[1].get(&key("/a")).await.unwrap().unwrap();
    assert_eq!(entry.expiry.unwrap().ttl, BRIEFLY);
    let mut events = watch(&stores[1], revision).await;
    let deletion = events_upto(&mut events, revision.next()).await;
    assert!(written.elapsed() >= BRIEFLY, "{:?}", written.elapsed());
    assert_eq!(deletion[0].change, Change::Deleted);
    assert_eq!(stores[0].get(&key("/a")).await.unwrap(), None);
    // Both tried; one deletion is in the log, and the next commit follows on it.
    let last = create(&stores[0], "/b", "y").await;
    assert_eq!(last, revision.next().next());
    assert_whole(&events_upto(&mut events, last).await, revision.next());
}

#[tokio::test]
async fn a_put_without_a_time_to_live_makes_an_entry_permanent() {
    let server = TestServer::start();
    let store = server.open().await;
    let write = Write::create(key("/a"), "x").expiring(BRIEFLY);
    let revision = store.commit(write).await.unwrap();
    let revision = store
        .commit(Write::update(key("/a"), revision, "y"))
        .await
        .unwrap();
    // Something that expires later shows that the time has passed.
    let write = Write::create(key("/b"), "x").expiring(BRIEFLY + SECOND);
    store.commit(write).await.unwrap();
    eventually("the other entry expires", async || {
        store.get(&key("/b")).await.unwrap().is_none()
    })
    .await;
    let entry = store.get(&key("/a")).await.unwrap().unwrap();
    assert_eq!((entry.revision, entry.expiry), (revision, None));
}

#[tokio::test]
async fn deadlines_outlive_the_process_that_set_them() {
    let server = TestServer::start();
    let store = server.open().await;
    let write = Write::create(key("/a"), "x").expiring(SECOND);
    let revision = store.commit(write).await.unwrap();
    store.close().await;
    drop(store);
    let store = server.open().await;
    let events = events_upto(&mut watch(&store, Revision::FIRST).await, revision.next()).await;
    assert_eq!(events.last().unwrap().change, Change::Deleted);
}
