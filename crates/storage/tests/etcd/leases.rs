//! Entries that delete themselves, by etcd's leases.

use std::time::Duration;

use k3_storage::{CommitError, Page, Prefix, Store, Write};
use k3_task::Clock;
use k3_test_services::Etcd;

use crate::{
    gateway,
    support::{TestWatcher, create, key, open, until},
};

#[tokio::test]
async fn an_entry_expires_as_a_deletion() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    // Long enough for a few requests of a busy machine.
    let ttl = Duration::from_secs(4);
    let written = store
        .commit(Write::create(key("/a/x"), "1").expiring(ttl))
        .await
        .unwrap();
    let entry = store.get(&key("/a/x")).await.unwrap().unwrap();
    let expiry = entry.expiry.unwrap();
    assert_eq!(expiry.ttl, ttl);
    assert!(expiry.left(Clock::system().system_time()) <= ttl);
    let listed = store.range(&Prefix::all(), Page::all()).await.unwrap();
    assert_eq!(listed.entries[0].expiry, Some(expiry));

    let mut watcher = TestWatcher::start(&store, "/a/", written).await;
    while watcher.seen.is_empty() {
        watcher.batch().await;
    }
    let (revision, name, value) = watcher.seen[0].clone();
    assert_eq!((name.as_str(), value), ("/a/x", None));
    assert!(revision > written);
    assert!(store.get(&key("/a/x")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_later_write_without_a_time_to_live_makes_an_entry_permanent() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    // Long enough for a few requests of a busy machine.
    let short = Duration::from_secs(4);
    let kept = store
        .commit(Write::create(key("/kept"), "1").expiring(short))
        .await
        .unwrap();
    store
        .commit(Write::create(key("/lost"), "1").expiring(short))
        .await
        .unwrap();
    store
        .commit(Write::update(key("/kept"), kept, "2"))
        .await
        .unwrap();
    until("the other entry to expire", async || {
        store.get(&key("/lost")).await.unwrap().is_none().then_some(())
    })
    .await;
    let entry = store.get(&key("/kept")).await.unwrap().unwrap();
    assert_eq!((&entry.value[..], entry.expiry), (&b"2"[..], None));
}

#[tokio::test]
async fn a_refused_write_leaves_no_lease_behind() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    create(&store, "/x", "1").await;
    let refused = store
        .commit(Write::create(key("/x"), "2").expiring(Duration::from_hours(1)))
        .await;
    assert!(
        matches!(refused, Err(CommitError::Conflict(Some(_)))),
        "{refused:?}"
    );
    let leases = gateway::call(&etcd.endpoint(), "lease/leases", "{}");
    assert!(!leases.contains("ID"), "{leases}");
}

#[tokio::test]
async fn many_entries_that_expire_together_are_one_event_each() {
    let etcd = Etcd::start().unwrap();
    let store = open(&etcd.endpoint()).await;
    let start = store.current_revision().await.unwrap();
    let mut watcher = TestWatcher::start(&store, "/", start).await;
    for index in 0..20 {
        store
            .commit(Write::create(key(&format!("/{index}")), "1").expiring(Duration::from_secs(1)))
            .await
            .unwrap();
    }
    while watcher.seen.len() < 40 {
        // The watcher checks that each event has a revision of its own.
        watcher.batch().await;
    }
    let deleted = watcher.seen.iter().filter(|(_, _, value)| value.is_none());
    assert_eq!(deleted.count(), 20);
}
