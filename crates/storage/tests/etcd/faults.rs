//! etcd processes that are killed, paused, filled up.

use std::{sync::Arc, time::Duration};

use k3_storage::{
    CommitError, OpenError, Page, Precondition, ReadError, Revision, Store, StoreError, WatchError, Write,
    etcd::{EtcdOptions, EtcdStore},
};
use k3_test_services::{Etcd, EtcdCluster, EtcdOptions as Service, free_port};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    proxy::EtcdProxy,
    support::{TestWatcher, create, impatient, key, open, prefix, soon, until},
};

/// Creates entries until `count` were acknowledged, and returns their revisions.
async fn persist(store: &EtcdStore, name: &str, count: usize) -> Vec<Revision> {
    let mut written = Vec::new();
    let mut index = 0;
    while written.len() < count {
        index += 1;
        let write = Write::create(key(&format!("{name}{index}")), "1");
        match soon("a commit to be answered", store.commit(write)).await {
            Ok(revision) => written.push(revision),
            Err(CommitError::Uncertain(_) | CommitError::Store(StoreError::Unavailable { .. })) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_survives_the_death_and_return_of_etcd() {
    let etcd = Etcd::start().unwrap();
    let store = EtcdStore::open(impatient([etcd.endpoint()])).await.unwrap();
    let peer = EtcdStore::open(impatient([etcd.endpoint()])).await.unwrap();
    let start = store.current_revision().await.unwrap();
    let mut watcher = TestWatcher::start(&store, "/a/", start).await;
    let mut written = Vec::new();
    for round in 0..5 {
        written.extend(persist(&peer, &format!("/a/{round}-"), 10).await);
        let mut busy = JoinSet::new();
        busy.spawn({
            let peer = Arc::clone(&peer);
            async move { persist(&peer, &format!("/a/{round}+"), 100).await }
        });
        etcd.kill().unwrap();
        // Nothing reaches the dead. (Until the death is noticed, a write is sent and its fate unknown.)
        until("a refusal", async || {
            match store.commit(Write::create(key("/b"), "1")).await {
                Err(CommitError::Store(StoreError::Unavailable { .. })) => Some(()),
                Err(CommitError::Uncertain(_)) => None,
                outcome => panic!("{outcome:?}"),
            }
        })
        .await;
        etcd.restart().unwrap();
        written.extend(busy.join_next().await.unwrap().unwrap());
    }
    let current = until("etcd to answer", async || store.current_revision().await.ok()).await;
    watcher.reach(current).await;
    // Every acknowledged write, and besides only ones whose answer got lost.
    let seen = watcher.revisions();
    for revision in &written {
        assert!(seen.contains(revision), "{revision} was not delivered");
    }
    let range = peer.range(&prefix("/a/"), Page::all()).await.unwrap();
    let mut held: Vec<_> = range.entries.iter().map(|entry| entry.revision).collect();
    held.sort();
    assert_eq!(seen, held);
}

#[tokio::test]
async fn disconnected_watch_reports_compaction() {
    let etcd = Etcd::start().unwrap();
    let proxy = EtcdProxy::start(&etcd.endpoint()).await;
    let behind = EtcdStore::open(impatient([proxy.endpoint()])).await.unwrap();
    let writer = open(&etcd.endpoint()).await;
    let start = create(&writer, "/a/x", "1").await;
    let mut watcher = TestWatcher::start(&behind, "/a/", start).await;
    watcher.reach(start).await;
    let mut events = behind.watch(&prefix("/a/"), start).await.unwrap();

    proxy.cut();
    // Exactly the case that etcd lets pass: all that the watch lacks is a deletion, at the very
    // revision of the compaction.
    let deleted = writer.commit(Write::delete(key("/a/x"), start)).await.unwrap();
    writer.compact(deleted).await.unwrap();
    proxy.mend();

    let ended = soon("the watch to end", async {
        loop {
            match events.next().await {
                Ok(batch) => assert!(batch.revision < deleted, "{batch:?} lacks the deletion"),
                Err(error) => return error,
            }
        }
    })
    .await;
    assert!(matches!(ended, WatchError::Compacted { .. }), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_etcd_causes_a_timeout() {
    let etcd = Etcd::start().unwrap();
    let options = impatient([etcd.endpoint()]);
    let patience = options.request_timeout * 2;
    let store = EtcdStore::open(options.clone()).await.unwrap();
    let known = create(&store, "/a/x", "1").await;
    let mut watcher = TestWatcher::start(&store, "/a/", known).await;

    etcd.pause().unwrap();
    let began = Instant::now();
    let read = store.get(&key("/a/x")).await;
    assert!(
        matches!(read, Err(ReadError::Store(StoreError::Unavailable { .. }))),
        "{read:?}"
    );
    assert!(began.elapsed() < patience, "{:?}", began.elapsed());
    let began = Instant::now();
    let written = store.commit(Write::update(key("/a/x"), known, "2")).await;
    assert!(matches!(written, Err(CommitError::Uncertain(_))), "{written:?}");
    assert!(began.elapsed() < patience, "{:?}", began.elapsed());
    let began = Instant::now();
    assert!(store.health().await.is_err());
    assert!(EtcdStore::open(options).await.is_err());
    assert!(began.elapsed() < 2 * patience, "{:?}", began.elapsed());
    etcd.resume().unwrap();

    // The uncertain write may still happen, even after the first answer.
    let (before, next) = until("a write to succeed", async || {
        let entry = store.get(&key("/a/x")).await.ok()??;
        let write = Write::update(key("/a/x"), entry.revision, "3");
        Some((entry.revision, store.commit(write).await.ok()?))
    })
    .await;
    watcher.reach(next).await;
    // The uncertain one is delivered if it happened, and only then.
    let expected = if before == known {
        vec![next]
    } else {
        vec![before, next]
    };
    assert_eq!(watcher.revisions(), expected);
}

#[tokio::test]
async fn opening_an_unreachable_etcd_fails() {
    let closed_endpoint = format!("http://127.0.0.1:{}", free_port().unwrap());
    let refused = EtcdStore::open(impatient([closed_endpoint])).await.map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn tolerates_a_dead_member() {
    let etcd = Etcd::start().unwrap();
    let closed_endpoint = format!("http://127.0.0.1:{}", free_port().unwrap());
    let store = EtcdStore::open(EtcdOptions::at([closed_endpoint, etcd.endpoint()]))
        .await
        .unwrap();
    let written = create(&store, "/x", "1").await;
    assert_eq!(store.get(&key("/x")).await.unwrap().unwrap().revision, written);
}

/// Harms each member in turn, the one in use first, and checks that clients are not interrupted for long.
async fn outlives(cluster: &EtcdCluster, harm: impl Fn(&Etcd), heal: impl Fn(&Etcd)) {
    let options = EtcdOptions {
        request_timeout: Duration::from_secs(3),
        ..impatient(cluster.endpoints())
    };
    let store = EtcdStore::open(options).await.unwrap();
    let start = store.current_revision().await.unwrap();
    let mut watcher = TestWatcher::start(&store, "/a/", start).await;
    let mut written = Vec::new();
    for (index, member) in cluster.members().iter().enumerate() {
        written.extend(persist(&store, &format!("/a/well{index}-"), 5).await);
        harm(member);
        written.extend(persist(&store, &format!("/a/harmed{index}-"), 20).await);
        let began = Instant::now();
        watcher.reach(*written.last().unwrap()).await;
        // Before the pings of the watch itself could report that its member is frozen.
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        heal(member);
    }
    let seen = watcher.revisions();
    for revision in &written {
        assert!(seen.contains(revision), "{revision} was not delivered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_members_die_one_by_one_serves_on() {
    let cluster = EtcdCluster::start(3).unwrap();
    let kill = |member: &Etcd| member.kill().unwrap();
    let restart = |member: &Etcd| member.restart().unwrap();
    outlives(&cluster, kill, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_members_freeze_one_by_one_serves_on() {
    let cluster = EtcdCluster::start(3).unwrap();
    let pause = |member: &Etcd| member.pause().unwrap();
    let resume = |member: &Etcd| member.resume().unwrap();
    outlives(&cluster, pause, resume).await;
}

#[tokio::test]
async fn a_full_etcd_rejects_writes_and_serves_reads() {
    let etcd = Etcd::start_with(&Service {
        args: vec!["--quota-backend-bytes=8000000".to_owned()],
        ..Service::default()
    })
    .unwrap();
    let store = open(&etcd.endpoint()).await;
    let value = "v".repeat(1_000_000);
    let mut last = Revision::ZERO;
    let refused = until("etcd to be full", async || {
        let write = Write {
            precondition: match last {
                Revision::ZERO => Precondition::Absent,
                last => Precondition::At(last),
            },
            ..Write::create(key("/x"), value.clone())
        };
        match store.commit(write).await {
            Ok(revision) => {
                last = revision;
                None
            }
            Err(error) => Some(error),
        }
    })
    .await;
    // An etcd that finds out only while it writes that there is no space keeps the one write that it refuses.
    let kept = store.get(&key("/x")).await.unwrap().unwrap().revision;
    match refused {
        CommitError::Store(StoreError::Full { .. }) => assert_eq!(kept, last),
        CommitError::Uncertain(StoreError::Full { .. }) => assert_eq!(kept, last.next()),
        other => panic!("{other:?}"),
    }
    let again = store.commit(Write::create(key("/y"), value)).await;
    assert!(
        matches!(again, Err(CommitError::Store(StoreError::Full { .. }))),
        "{again:?}"
    );
    assert_eq!(store.get(&key("/y")).await.unwrap(), None);
    let well = store.health().await;
    assert!(matches!(well, Err(StoreError::Full { .. })), "{well:?}");
    store.commit(Write::delete(key("/x"), kept)).await.unwrap();
}
