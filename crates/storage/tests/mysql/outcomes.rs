//! A commit whose answer is lost is answered truthfully all the same.

use std::time::Duration;

use k3_storage::{
    CommitError, Revision, Store, StoreError, Write,
    mysql::{MysqlOptions, MysqlStore},
};
use tokio::time::{Instant, timeout};

use crate::{
    proxy::{ConnectionState, MysqlProxy},
    server::{PATIENCE, TestServer, assert_whole, create, events_upto, key, number, watch},
};

/// Shorter than tests wait, and long enough for a busy server to find out what became of a commit.
const TIMEOUT: Duration = Duration::from_secs(5);

async fn through(server: &TestServer, proxy: &MysqlProxy) -> std::sync::Arc<MysqlStore> {
    let options = MysqlOptions {
        port: proxy.port,
        request_timeout: TIMEOUT,
        ..server.options.clone()
    };
    MysqlStore::open(options).await.unwrap()
}

#[tokio::test]
async fn finds_a_commit_whose_response_was_lost() {
    let server = TestServer::start();
    let proxy = MysqlProxy::start(server.options.port).await;
    let store = through(&server, &proxy).await;
    let first = create(&store, "/a", "1").await;
    proxy.set(ConnectionState::LoseAnswer);
    let second = create(&store, "/b", "2").await;
    assert_eq!(proxy.line(), ConnectionState::Good, "the answer was lost");
    assert_eq!(second, first.next());
    assert_eq!(store.get(&key("/b")).await.unwrap().unwrap().revision, second);
    let mut admin = server.admin().await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 2);
    let events = events_upto(&mut watch(&store, Revision::FIRST).await, second).await;
    assert_whole(&events, Revision::FIRST);
}

#[tokio::test]
async fn retries_a_commit_that_was_not_received() {
    let server = TestServer::start();
    let proxy = MysqlProxy::start(server.options.port).await;
    let store = through(&server, &proxy).await;
    let first = create(&store, "/a", "1").await;
    proxy.set(ConnectionState::LoseCommit);
    let second = create(&store, "/b", "2").await;
    assert_eq!(proxy.line(), ConnectionState::Good, "the commit was lost");
    assert_eq!(second, first.next());
    assert_eq!(proxy.commits(), 3);
    let mut admin = server.admin().await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 2);
}

#[tokio::test]
async fn reports_an_unknown_outcome_as_uncertain() {
    let server = TestServer::start();
    for (line, happened) in [
        (ConnectionState::LoseAnswerAndBreak, true),
        (ConnectionState::LoseCommitAndBreak, false),
    ] {
        let proxy = MysqlProxy::start(server.options.port).await;
        let store = through(&server, &proxy).await;
        let name = format!("/{line:?}");
        proxy.set(line);
        let requested = Instant::now();
        let answer = store.commit(Write::create(key(&name), "x")).await;
        assert!(
            matches!(
                answer,
                Err(CommitError::Uncertain(StoreError::Unavailable { .. }))
            ),
            "{answer:?}"
        );
        assert!(requested.elapsed() < TIMEOUT * 3, "{:?}", requested.elapsed());
        proxy.set(ConnectionState::Good);
        let entry = store.get(&key(&name)).await.unwrap();
        assert_eq!(entry.is_some(), happened);
        // The log continues without a gap, and watches see what happened.
        let last = create(&store, &format!("{name}/next"), "y").await;
        let events = events_upto(&mut watch(&store, Revision::FIRST).await, last).await;
        assert_whole(&events, Revision::FIRST);
        assert_eq!(events.iter().any(|event| *event.key == *name), happened);
    }
}

#[tokio::test]
async fn a_write_rejected_during_an_outage_was_not_applied() {
    let server = TestServer::start();
    let proxy = MysqlProxy::start(server.options.port).await;
    let store = through(&server, &proxy).await;
    let before = create(&store, "/a", "1").await;
    proxy.set(ConnectionState::Broken);
    let requested = Instant::now();
    let answer = store.commit(Write::create(key("/b"), "2")).await;
    assert!(
        matches!(answer, Err(CommitError::Store(StoreError::Unavailable { .. }))),
        "{answer:?}"
    );
    assert!(requested.elapsed() < TIMEOUT * 3, "{:?}", requested.elapsed());
    proxy.set(ConnectionState::Good);
    assert_eq!(store.get(&key("/b")).await.unwrap(), None);
    assert_eq!(create(&store, "/b", "3").await, before.next());
}

#[tokio::test]
async fn many_writes_during_an_outage_do_not_wait_for_each_other() {
    let server = TestServer::start();
    let proxy = MysqlProxy::start(server.options.port).await;
    let store = through(&server, &proxy).await;
    proxy.set(ConnectionState::Broken);
    let requested = Instant::now();
    let mut writes = tokio::task::JoinSet::new();
    for n in 0..2000 {
        let store = std::sync::Arc::clone(&store);
        writes.spawn(async move { store.commit(Write::create(key(format!("/{n}")), "x")).await });
    }
    let answers = timeout(PATIENCE, writes.join_all()).await.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(CommitError::Store(_))))
    );
    assert!(requested.elapsed() < TIMEOUT * 4, "{:?}", requested.elapsed());
}
