//! How soon peers' commits arrive, what that costs the server, and what happens when history is lost.

use std::{cell::Cell, time::Duration};

use k3_storage::{Revision, Store, WatchError, Write, mysql::MysqlStore};
use sqlx::mysql::MySqlConnection;
use tokio::time::{Instant, timeout};

use crate::{
    proxy::{ConnectionState, MysqlProxy},
    server::{
        PATIENCE, TestServer, assert_whole, create, events_upto, eventually, key, number, run, update, watch,
    },
};

/// The statements the server has been sent, without those that only count.
async fn questions(admin: &mut MySqlConnection) -> u64 {
    let (_, all): (String, String) = sqlx::query_as("SHOW GLOBAL STATUS LIKE 'Questions'")
        .fetch_one(&mut *admin)
        .await
        .unwrap();
    all.parse().unwrap()
}

async fn queries_per_second(admin: &mut MySqlConnection) -> f64 {
    let window = Duration::from_secs(8);
    // The first asks in a prepared statement and so counts differently.
    questions(admin).await;
    let before = questions(admin).await;
    let began = Instant::now();
    tokio::time::sleep(window).await;
    let after = questions(admin).await;
    let own = 1; // what requested
    // What takes time are the pauses between them, one fewer; and a busy machine wakes tasks late.
    let pauses = (after - before - own).saturating_sub(1);
    #[expect(clippy::cast_precision_loss, reason = "a handful of queries")]
    let rate = pauses as f64 / began.elapsed().as_secs_f64();
    rate
}

/// Does something, and reports besides how late this machine and the server were meanwhile with a short pause and a question, at
/// worst: where others keep them busy everything is late, and not by the follower.
async fn and_lateness<T>(admin: &mut MySqlConnection, work: impl Future<Output = T>) -> (T, Duration) {
    let pause = Duration::from_millis(10);
    let is_done = Cell::new(false);
    let work = async {
        let result = work.await;
        is_done.set(true);
        result
    };
    let lateness = async {
        let mut worst = Duration::ZERO;
        while !is_done.get() {
            let began = Instant::now();
            tokio::time::sleep(pause).await;
            number(admin, "SELECT 1").await;
            worst = worst.max(began.elapsed().saturating_sub(pause));
        }
        worst
    };
    tokio::join!(work, lateness)
}

#[tokio::test]
async fn an_idle_store_asks_at_most_twice_a_second() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut admin = server.admin().await;
    tokio::time::sleep(Duration::from_secs(2)).await; // connections are made
    let fresh = queries_per_second(&mut admin).await;
    // An entry that expires later must not cost anything meanwhile, nor must a watch.
    let write = Write::create(key("/a"), "x").expiring(Duration::from_hours(1));
    let revision = store.commit(write).await.unwrap();
    let _watch = watch(&store, revision).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let after_a_write = queries_per_second(&mut admin).await;
    println!("idle: {fresh:.2} queries/s, after a write: {after_a_write:.2} queries/s");
    assert!(fresh > 1.0 && fresh <= 2.0, "{fresh}");
    assert!(after_a_write > 1.0 && after_a_write <= 2.0, "{after_a_write}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peers_commits_arrive_within_a_tenth_of_a_second() {
    let server = TestServer::start();
    let [here, there] = [server.open().await, server.open().await];
    let mut admin = server.admin().await;
    let mut events = watch(&there, Revision::FIRST).await;
    let mut latencies = Vec::new();
    for n in 0..400 {
        let committed = create(&here, &format!("/{n}"), "x").await;
        let answered = Instant::now();
        let arrival = async {
            events_upto(&mut events, committed).await;
            answered.elapsed()
        };
        let (arrived, late) = and_lateness(&mut admin, arrival).await;
        latencies.push(arrived.saturating_sub(late));
        // Not in step with the follower.
        tokio::time::sleep(Duration::from_millis(n * 7 % 30)).await;
    }
    latencies.remove(0); // the first after idleness has a promise of its own
    latencies.sort();
    let at = |share: usize| latencies[latencies.len() * share / 100];
    println!(
        "peer events: p50 {:?}, p99 {:?}, max {:?}",
        at(50),
        at(99),
        at(100 - 1)
    );
    assert!(at(99) < Duration::from_millis(100), "p99 is {:?}", at(99));
}

#[tokio::test]
async fn the_first_commit_after_idleness_arrives_within_600_ms() {
    let server = TestServer::start();
    let [here, there] = [server.open().await, server.open().await];
    let mut admin = server.admin().await;
    let mut events = watch(&there, Revision::FIRST).await;
    // Longer than anybody is taken to be busy, and not in step with the follower.
    for pause in [0, 10_730] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let committed = create(&here, &format!("/{pause}"), "x").await;
        let answered = Instant::now();
        let arrival = async {
            events_upto(&mut events, committed).await;
            answered.elapsed()
        };
        let (arrived, late) = and_lateness(&mut admin, arrival).await;
        println!("after idleness: {arrived:?}, of which the machine was late {late:?}");
        assert!(
            arrived.saturating_sub(late) < Duration::from_millis(600),
            "{arrived:?}, late {late:?}"
        );
    }
}

#[tokio::test]
async fn own_commits_are_published_before_the_response() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut events = watch(&store, Revision::FIRST).await;
    let committed = create(&store, "/a", "x").await;
    let batch = timeout(Duration::from_millis(5), events.next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(batch.revision, committed);
}

#[tokio::test]
async fn current_revision_brings_peers_commits_to_quiet_watches() {
    let server = TestServer::start();
    let [here, there] = [server.open().await, server.open().await];
    let quiet = k3_storage::Prefix::try_new("/quiet/").unwrap();
    let mut events = there.watch(&quiet, Revision::FIRST).await.unwrap();
    let committed = create(&here, "/busy/a", "x").await;
    assert_eq!(there.current_revision().await.unwrap(), committed);
    let batch = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert!(batch.events.is_empty());
    assert_eq!(batch.revision, committed);
}

#[tokio::test]
async fn a_follower_that_missed_compacted_history_ends_its_watches() {
    let server = TestServer::start();
    let here = server.open().await;
    let proxy = MysqlProxy::start(server.options.port).await;
    let options = k3_storage::mysql::MysqlOptions {
        port: proxy.port,
        request_timeout: Duration::from_secs(5),
        ..server.options.clone()
    };
    let there = MysqlStore::open(options).await.unwrap();
    let mut revision = create(&here, "/a", "0").await;
    let mut events = watch(&there, Revision::FIRST).await;
    assert_whole(&events_upto(&mut events, revision).await, Revision::FIRST);
    proxy.set(ConnectionState::Broken);
    for _ in 0..10 {
        revision = update(&here, "/a", revision, "x").await;
    }
    here.compact(revision).await.unwrap();
    let newest = create(&here, "/b", "y").await;
    proxy.set(ConnectionState::Good);
    let end = timeout(PATIENCE, events.next()).await.unwrap();
    assert!(
        matches!(end, Err(WatchError::Compacted { oldest, .. }) if oldest == revision),
        "{end:?}"
    );
    // Those who begin again miss nothing.
    let events = events_upto(&mut watch(&there, revision).await, newest).await;
    assert_whole(&events, revision);
}

#[tokio::test]
async fn a_follower_that_missed_history_catches_up_without_gap() {
    let server = TestServer::start();
    let here = server.open().await;
    let proxy = MysqlProxy::start(server.options.port).await;
    let options = k3_storage::mysql::MysqlOptions {
        port: proxy.port,
        request_timeout: Duration::from_secs(5),
        ..server.options.clone()
    };
    let there = MysqlStore::open(options).await.unwrap();
    let mut events = watch(&there, Revision::FIRST).await;
    proxy.set(ConnectionState::Broken);
    let mut newest = Revision::FIRST;
    for n in 0..700 {
        newest = create(&here, &format!("/{n}"), "x").await;
    }
    proxy.set(ConnectionState::Good);
    assert_whole(&events_upto(&mut events, newest).await, Revision::FIRST);
}

#[tokio::test]
async fn revisions_of_lost_commits_are_not_reused() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let mut admin = server.admin().await;
    for lost in [
        // The last commit was removed, as after a crash of a server that does not sync.
        "DELETE FROM k3_log WHERE revision = {newest}; \
         DELETE FROM k3_names WHERE revision = {newest}; \
         UPDATE k3_store SET revision = revision - 1",
        // It was removed, and another process has written another with its number.
        "UPDATE k3_log SET nonce = nonce + 1 WHERE revision = {newest}",
    ] {
        let before = stores[0].current_revision().await.unwrap();
        let newest = create(&stores[0], &format!("/{before}"), "x").await;
        let mut watches = [watch(&stores[0], newest).await, watch(&stores[1], newest).await];
        for store in &stores {
            assert_eq!(store.current_revision().await.unwrap(), newest);
        }
        for events in &mut watches {
            // Bookmarks that were on their way.
            while let Ok(batch) = timeout(Duration::from_millis(1), events.next()).await {
                batch.unwrap();
            }
        }
        run(&mut admin, lost.replace("{newest}", &newest.to_string())).await;
        for events in &mut watches {
            let end = timeout(PATIENCE, events.next()).await.unwrap();
            assert!(matches!(end, Err(WatchError::Compacted { .. })), "{end:?}");
        }
        for store in &stores {
            eventually("the store moves above what was seen", async || {
                store.current_revision().await.unwrap() > newest
            })
            .await;
        }
        let next = create(&stores[1], &format!("/{newest}/next"), "y").await;
        assert!(next > newest);
    }
}
