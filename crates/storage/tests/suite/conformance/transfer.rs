//! A store moves to any other backend, directly or through a backup, and continues there.

use std::{sync::Arc, time::Duration};

use k3_storage::{
    Entry, Revision, Store, Write,
    transfer::{backup, copy, inspect, restore},
};
use k3_task::Clock;

use crate::{
    backend::{Etcd, File, Memory, Mysql, TestBackend},
    store_ext::{StoreExt, key},
};

conformance_tests! {
    every: [
        copies_completely_into_every_backend,
        a_backup_is_restored_into_every_backend,
    ],
}

async fn copies_completely_into_every_backend(backend: &dyn TestBackend) {
    let source = backend.open().await;
    fill(&source).await;
    for target in everywhere().await {
        let target = target.open().await;
        let summary = copy(&*source, &*target, &Clock::system(), |_| {}).await.unwrap();
        assert_eq!(summary.transferred.entries, ENTRIES as u64);
        assert_is_copy(&source, &target, summary.source).await;
    }
}

async fn a_backup_is_restored_into_every_backend(backend: &dyn TestBackend) {
    let source = backend.open().await;
    fill(&source).await;
    let mut stream = Vec::new();
    let summary = backup(&*source, &mut stream, Clock::system().system_time(), |_| {})
        .await
        .unwrap();
    assert_eq!(inspect(&stream[..]).await.unwrap(), summary);
    for target in everywhere().await {
        let target = target.open().await;
        restore(&stream[..], &*target, |_| {}).await.unwrap();
        assert_is_copy(&source, &target, summary.revision).await;
    }
}

const ENTRIES: usize = 60;

/// Entries of all sorts, with holes in the revisions between them.
async fn fill(store: &Arc<dyn Store>) {
    for number in 0..ENTRIES {
        let name = format!("/t/{}/{number:03}", number % 7);
        let bytes: Vec<u8> = (0..number * 97)
            .map(|at| u8::try_from(at * number % 251).unwrap())
            .collect();
        let mut write = Write::create(key(&name), bytes);
        if number % 5 == 0 {
            write = write.expiring(Duration::from_hours(number as u64 + 1));
        }
        let created = store.commit(write).await.unwrap();
        if number % 3 == 0 {
            store.update(&name, created, format!("again {number}")).await;
        }
        let deleted = store.create("/t/deleted", "x").await;
        store.delete("/t/deleted", deleted).await;
    }
}

/// An empty store of every kind.
async fn everywhere() -> Vec<Box<dyn TestBackend>> {
    vec![
        Box::new(Memory::fresh().await),
        Box::new(File::fresh().await),
        Box::new(Etcd::fresh().await),
        Box::new(Mysql::fresh().await),
    ]
}

async fn assert_is_copy(source: &Arc<dyn Store>, target: &Arc<dyn Store>, upto: Revision) {
    let from = source.list("").await.entries;
    let into = target.list("").await.entries;
    assert_eq!(from.len(), into.len());
    for (one, other) in from.iter().zip(&into) {
        assert_eq!(one.key, other.key);
        assert!(one.value == other.value, "the value of {} changed", one.key);
        assert_expires_alike(one, other);
    }
    let created = target.create("/t/new", "1").await;
    assert!(
        created > upto,
        "the copy continued at {created}, not above {upto}"
    );
    let newest = into.iter().map(|entry| entry.revision).max().unwrap();
    assert!(created > newest);
}

/// etcd keeps a deadline in whole seconds.
fn assert_expires_alike(one: &Entry, other: &Entry) {
    match (one.expiry, other.expiry) {
        (None, None) => {}
        (Some(one), Some(other)) => assert!(one.deadline_ms.abs_diff(other.deadline_ms) < 2000),
        (one, other) => panic!("it expired {one:?}, and now {other:?}"),
    }
}
