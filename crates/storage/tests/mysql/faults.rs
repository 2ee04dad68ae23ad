//! A server that freezes or restarts.

use std::time::Duration;

use k3_storage::{
    CommitError, ReadError, Revision, Store, StoreError, Write,
    mysql::{MysqlOptions, MysqlStore},
};
use tokio::time::{Instant, timeout};

use crate::{
    proxy::{ConnectionState, MysqlProxy},
    server::{
        PATIENCE, TestServer, assert_whole, create, delete, events_upto, eventually, key, number, run, watch,
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_causes_timeouts_and_recovers() {
    // Requests before and after the frost must be answered in this time, too, however busy the machine is.
    let limit = Duration::from_secs(4);
    let server = TestServer::start();
    let options = MysqlOptions {
        connect_timeout: limit,
        request_timeout: limit,
        ..server.options.clone()
    };
    let store = MysqlStore::open(options).await.unwrap();
    let before = create(&store, "/a", "x").await;
    let mut events = watch(&store, Revision::FIRST).await;
    tokio::task::block_in_place(|| server.process.pause().unwrap());
    let requested = Instant::now();
    let a = key("/a");
    let (read, write, health, current) = tokio::join!(
        store.get(&a),
        store.commit(Write::create(key("/b"), "y")),
        store.health(),
        store.current_revision(),
    );
    assert!(requested.elapsed() < limit * 3, "{:?}", requested.elapsed());
    assert!(
        matches!(read, Err(ReadError::Store(StoreError::Unavailable { .. }))),
        "{read:?}"
    );
    assert!(
        matches!(write, Err(CommitError::Store(StoreError::Unavailable { .. }))),
        "{write:?}"
    );
    assert!(
        matches!(health, Err(StoreError::Unavailable { .. })),
        "{health:?}"
    );
    assert!(
        matches!(current, Err(StoreError::Unavailable { .. })),
        "{current:?}"
    );
    tokio::task::block_in_place(|| server.process.resume().unwrap());
    // What was answered with "it did not happen" did not, also not late.
    let next = timeout(PATIENCE, async {
        loop {
            match store.commit(Write::create(key("/c"), "z")).await {
                Ok(revision) => return revision,
                Err(CommitError::Store(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
    let next = next.await.unwrap();
    assert_eq!(next, before.next());
    assert_eq!(store.get(&key("/b")).await.unwrap(), None);
    assert_whole(&events_upto(&mut events, next).await, Revision::FIRST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_bridge_a_restart_of_the_server() {
    let server = TestServer::start();
    let options = MysqlOptions {
        request_timeout: PATIENCE,
        ..server.options.clone()
    };
    let store = MysqlStore::open(options).await.unwrap();
    let mut newest = create(&store, "/a", "x").await;
    let mut events = watch(&store, Revision::FIRST).await;
    for n in 0..2 {
        tokio::task::block_in_place(|| server.process.kill().unwrap());
        let name = format!("/{n}");
        let a = key("/a");
        let restart = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            tokio::task::block_in_place(|| server.process.restart().unwrap());
        };
        let (read, write, ()) = tokio::join!(store.get(&a), create(&store, &name, "y"), restart);
        assert!(read.unwrap().is_some());
        assert_eq!(write, newest.next());
        newest = write;
    }
    assert_whole(&events_upto(&mut events, newest).await, Revision::FIRST);
}

/// How long a write may wait for locks that a process holds which has stopped.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_stalled_writer_does_not_block_other_processes() {
    let server = TestServer::start();
    let proxy = MysqlProxy::start(server.options.port).await;
    let options = MysqlOptions {
        port: proxy.port,
        ..server.options.clone()
    };
    let stuck = MysqlStore::open(options).await.unwrap();
    let store = server.open().await;
    let before = create(&stuck, "/a", "x").await;
    create(&store, "/warm", "x").await;
    proxy.set(ConnectionState::HoldCommit);
    let held = tokio::spawn(async move { stuck.commit(Write::create(key("/b"), "y")).await });
    eventually("the commit is held", async || {
        proxy.line() == ConnectionState::Good
    })
    .await;
    // The server still has the other's transaction, and its lock.
    let requested = Instant::now();
    let written = create(&store, "/c", "z").await;
    let waited = requested.elapsed();
    assert!(waited <= LONGEST_WAIT, "waited {waited:?}");
    assert!(written > before);
    // The server has given up the connection: the writer finds that out, and writes again.
    let late = timeout(PATIENCE, held).await.unwrap().unwrap().unwrap();
    assert!(late > written);
}

/// The same with each lock that a process takes besides: a row of a key, and the row that compactors lock.
#[tokio::test]
async fn a_stalled_maintenance_session_does_not_block_other_processes() {
    let server = TestServer::start();
    let proxy = MysqlProxy::start(server.options.port).await;
    let options = MysqlOptions {
        port: proxy.port,
        ..server.options.clone()
    };
    let stuck = MysqlStore::open(options).await.unwrap();
    let store = server.open().await;
    let created = create(&store, "/a", "x").await;
    delete(&store, "/a", created).await;
    let upto = create(&store, "/b", "x").await;
    stuck.get(&key("/b")).await.unwrap();
    // The compaction deletes the name, and is stopped before it commits.
    proxy.set(ConnectionState::HoldCommit);
    let held = tokio::spawn(async move { stuck.compact(upto).await });
    eventually("the commit is held", async || {
        proxy.line() == ConnectionState::Good
    })
    .await;
    let requested = Instant::now();
    create(&store, "/a", "again").await;
    let waited = requested.elapsed();
    assert!(waited <= LONGEST_WAIT, "waited {waited:?}");
    timeout(PATIENCE, store.compact(upto)).await.unwrap().unwrap();
    timeout(PATIENCE, held).await.unwrap().unwrap().unwrap();
}

/// The short limit holds only while a session may hold locks.
#[tokio::test]
async fn an_idle_writer_is_not_cut_off() {
    let server = TestServer::start();
    let store = server.open().await;
    let first = create(&store, "/a", "x").await;
    let mut admin = server.admin().await;
    let connections = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'k3'";
    let mut longest_silence = 0;
    // Longer than the server waits for a session that may hold locks.
    while longest_silence < 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        longest_silence = number(
            &mut admin,
            "SELECT COALESCE(MAX(time), 0) FROM information_schema.processlist WHERE db = 'k3' AND command = 'Sleep'",
        )
        .await;
    }
    let before = number(&mut admin, connections).await;
    create(&store, "/b", "y").await;
    assert_eq!(number(&mut admin, connections).await, before);
    assert!(store.current_revision().await.unwrap() > first);
}

#[tokio::test]
async fn a_read_only_server_is_unhealthy() {
    let server = TestServer::start();
    let store = server.open().await;
    let before = create(&store, "/a", "x").await;
    let mut admin = server.admin().await;
    // Also an account that may not make tables can use those that are there.
    run(
        &mut admin,
        "CREATE USER plain@'%' IDENTIFIED BY 'secret'; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON k3.* TO plain@'%'",
    )
    .await;
    let options = MysqlOptions {
        user: "plain".to_owned(),
        password: "secret".to_owned(),
        ..server.options.clone()
    };
    let store = MysqlStore::open(options).await.unwrap();
    assert_eq!(store.health().await.unwrap().revision, before);
    run(&mut admin, "SET GLOBAL read_only = 1").await;
    assert!(matches!(
        store.health().await,
        Err(StoreError::Unavailable { .. })
    ));
    let refused = store.commit(Write::create(key("/b"), "y")).await;
    assert!(
        matches!(refused, Err(CommitError::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
    assert!(store.get(&key("/a")).await.unwrap().is_some());
    run(&mut admin, "SET GLOBAL read_only = 0").await;
    assert_eq!(create(&store, "/b", "y").await, before.next());
}

#[tokio::test]
async fn closing_answers_every_write_and_ends_every_watch() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut events = watch(&store, Revision::FIRST).await;
    let writes: Vec<_> = (0..3000)
        .map(|n| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move { store.commit(Write::create(key(format!("/{n}")), "x")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let mut done = 0;
    for write in writes {
        match timeout(PATIENCE, write).await.unwrap().unwrap() {
            Ok(_) => done += 1,
            Err(CommitError::Store(StoreError::Closed)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let mut seen = 0;
    let end = loop {
        match timeout(PATIENCE, events.next()).await.unwrap() {
            Ok(batch) => seen += batch.events.len(),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(end, k3_storage::WatchError::Store(StoreError::Closed)),
        "{end}"
    );
    assert_eq!(seen, done);
    let again = server.open().await;
    let newest = again.current_revision().await.unwrap();
    assert_eq!(newest.get(), Revision::FIRST.get() + done as u64);
}
