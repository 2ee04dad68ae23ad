//! One sequence without gaps, with any writers and failures.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use k3_storage::{CommitError, Key, Revision, Store, Write, mysql::MysqlStore};
use tokio::{task::JoinSet, time::timeout};

use crate::server::{
    PATIENCE, TestServer, assert_whole, create, events_upto, eventually, key, number, run, value, watch,
};

/// So few acknowledged writes would show nothing.
const FEW: usize = 20;

/// State shared by the writers.
#[derive(Default)]
struct RevisionHistory {
    stop: AtomicBool,
    /// How many writes were acknowledged so far.
    acknowledged: AtomicUsize,
}

/// Creates keys with this prefix until stopped, and returns what was acknowledged.
async fn writer(
    store: Arc<MysqlStore>,
    name: String,
    history: Arc<RevisionHistory>,
) -> BTreeMap<Key, Revision> {
    let mut acknowledged = BTreeMap::new();
    for n in 0.. {
        if history.stop.load(Ordering::SeqCst) {
            break;
        }
        let key = key(format!("{name}/{n}"));
        match store.commit(Write::create(key.clone(), key.to_string())).await {
            Ok(revision) => {
                acknowledged.insert(key, revision);
                history.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Err(CommitError::Store(_) | CommitError::Uncertain(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    acknowledged
}

// --- Course ---

impl RevisionHistory {
    /// Waits until writers are in the middle of their work, however slow that is.
    async fn continue_history(&self) {
        let before = self.acknowledged.load(Ordering::SeqCst);
        eventually("writes are acknowledged", async || {
            self.acknowledged.load(Ordering::SeqCst) > before + FEW
        })
        .await;
    }
}

/// Asserts that the whole history is there and holds all that was acknowledged.
async fn assert_history(stores: &[Arc<MysqlStore>], acknowledged: &BTreeMap<Key, Revision>) {
    assert!(
        acknowledged.len() > FEW,
        "{} writes are too few to show anything",
        acknowledged.len()
    );
    let newest = stores[0].current_revision().await.unwrap();
    for store in stores {
        let events = events_upto(&mut watch(store, Revision::FIRST).await, newest).await;
        assert_whole(&events, Revision::FIRST);
        let observed: BTreeMap<_, _> = events
            .iter()
            .map(|event| (event.key.clone(), event.revision))
            .collect();
        assert_eq!(observed.len(), events.len(), "each key was created once");
        for event in &events {
            assert_eq!(value(event), Some(event.key.as_bytes()));
        }
        for (key, revision) in acknowledged {
            assert_eq!(observed.get(key), Some(revision), "{key}");
        }
    }
}

fn start_writers(
    stores: &[Arc<MysqlStore>],
    history: &Arc<RevisionHistory>,
) -> JoinSet<BTreeMap<Key, Revision>> {
    let mut writers = JoinSet::new();
    for (s, store) in stores.iter().enumerate() {
        for w in 0..8 {
            writers.spawn(writer(
                Arc::clone(store),
                format!("/{s}/{w}"),
                Arc::clone(history),
            ));
        }
    }
    writers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_one_sequence_while_their_connections_are_killed() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let mut live = watch(&stores[1], Revision::FIRST).await;
    let history = Arc::new(RevisionHistory::default());
    let writers = start_writers(&stores, &history);
    let mut admin = server.admin().await;
    let mut kills = 0;
    while kills < 60 || history.acknowledged.load(Ordering::SeqCst) <= FEW {
        let ids: Vec<i64> = sqlx::query_scalar(
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
             WHERE db = DATABASE() AND id <> CONNECTION_ID() ORDER BY RAND() LIMIT 2",
        )
        .fetch_all(&mut admin)
        .await
        .unwrap();
        for id in ids {
            // It may have ended by itself.
            let kill = sqlx::AssertSqlSafe(format!("KILL {id}"));
            kills += usize::from(sqlx::raw_sql(kill).execute(&mut admin).await.is_ok());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    history.stop.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeMap::new();
    for part in writers.join_all().await {
        acknowledged.extend(part);
    }
    println!(
        "{} writes acknowledged, {kills} connections killed",
        acknowledged.len()
    );
    let newest = stores[0].current_revision().await.unwrap();
    let events = events_upto(&mut live, newest).await;
    assert_whole(&events, Revision::FIRST);
    assert_history(&stores, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9_of_the_server() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let mut live = watch(&stores[0], Revision::FIRST).await;
    let history = Arc::new(RevisionHistory::default());
    let writers = start_writers(&stores, &history);
    for _ in 0..3 {
        history.continue_history().await;
        tokio::task::block_in_place(|| {
            server.process.kill().unwrap();
            server.process.restart().unwrap();
        });
    }
    history.continue_history().await;
    history.stop.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeMap::new();
    for part in timeout(PATIENCE, writers.join_all()).await.unwrap() {
        acknowledged.extend(part);
    }
    println!("{} writes acknowledged", acknowledged.len());
    let newest = stores[0].current_revision().await.unwrap();
    for (key, revision) in &acknowledged {
        let entry = stores[1].get(key).await.unwrap();
        assert_eq!(entry.map(|entry| entry.revision), Some(*revision), "{key}");
    }
    // A server that shows commits before they are durable may return without some of them. Then
    // watches end rather than continue in another history; else they have seen it all.
    let mut seen = Vec::new();
    while seen
        .last()
        .is_none_or(|last: &k3_storage::Event| last.revision < newest)
    {
        match timeout(PATIENCE, live.next()).await.unwrap() {
            Ok(batch) => seen.extend(batch.events.iter().cloned()),
            Err(k3_storage::WatchError::Compacted { .. }) => return,
            Err(other) => panic!("{other}"),
        }
    }
    assert_whole(&seen, Revision::FIRST);
    assert_history(&stores, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_state_changes_have_one_winner() {
    let server = TestServer::start();
    let stores = [server.open().await, server.open().await];
    let mut revision = create(&stores[0], "/a", "0").await;
    for _ in 0..50 {
        let write = || Write::update(key("/a"), revision, "x");
        let (one, two) = tokio::join!(stores[0].commit(write()), stores[1].commit(write()));
        revision = match (one, two) {
            (Ok(won), Err(CommitError::Conflict(Some(there))))
            | (Err(CommitError::Conflict(Some(there))), Ok(won)) => {
                assert_eq!(there.revision, won);
                won
            }
            other => panic!("{other:?}"),
        };
    }
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_gap() {
    let server = TestServer::start();
    let store = server.open().await;
    let first = create(&store, "/a", "1").await;
    let mut admin = server.admin().await;
    // A stranger takes the counter's lock and a number, and gives up.
    run(
        &mut admin,
        "START TRANSACTION; UPDATE k3_store SET revision = revision + 1",
    )
    .await;
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { create(&store, "/b", "2").await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "the counter is locked");
    drop(admin);
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), first.next());
    let mut admin = server.admin().await;
    assert_eq!(number(&mut admin, "SELECT COUNT(*) FROM k3_log").await, 2);
}
