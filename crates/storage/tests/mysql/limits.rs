//! What a server may refuse, and how many connections it sees.

use std::sync::Arc;

use bytes::Bytes;
use k3_storage::{
    CommitError, Page, Prefix, Revision, Store, StoreError, Write,
    mysql::{MysqlOptions, MysqlStore},
};
use tokio::task::JoinSet;

use crate::server::{TestServer, assert_whole, create, events_upto, eventually, key, number, watch};

#[tokio::test]
async fn statements_stay_below_the_packet_limit_of_the_server() {
    let server = TestServer::start_with(&["--max-allowed-packet=1M"]);
    let store = server.open().await;
    let large = Bytes::from(vec![b'x'; 400_000]);
    let mut writes = JoinSet::new();
    for n in 0..40 {
        let store = Arc::clone(&store);
        let value = large.clone();
        writes.spawn(async move { store.commit(Write::create(key(format!("/{n}")), value)).await });
    }
    for answer in writes.join_all().await {
        answer.unwrap();
    }
    // A value that cannot pass fails alone.
    let huge = store.commit(Write::create(key("/huge"), vec![0; 1_100_000]));
    let (huge, small) = tokio::join!(huge, store.commit(Write::create(key("/small"), "x")));
    assert!(
        matches!(&huge, Err(CommitError::TooLarge { key, .. }) if **key == *"/huge"),
        "{huge:?}"
    );
    let newest = small.unwrap();
    let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
    assert_eq!(range.entries.len(), 41);
    assert_whole(
        &events_upto(&mut watch(&store, Revision::FIRST).await, newest).await,
        Revision::FIRST,
    );
}

/// A real file system of some size, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=260m", "tmpfs"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(
            mounted.success(),
            "this test mounts a small tmpfs, which needs root"
        );
        Self(directory)
    }

    /// Random bytes.
    fn free(&self) -> u64 {
        let acknowledged = rustix::fs::statvfs(self.0.path()).unwrap();
        acknowledged.f_bfree * acknowledged.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_server_refuses_writes_serves_reads_and_takes_writes_again() {
    let disk = SmallDisk::mount();
    let server = TestServer::start_on(disk.0.path());
    let store = server.open().await;
    let first = create(&store, "/first", "x").await;
    // Another process takes almost all there is.
    let ballast = disk.0.path().join("ballast");
    let left = 10_000_000;
    let taken = usize::try_from(disk.free()).unwrap() - left;
    std::fs::write(&ballast, vec![b'x'; taken]).unwrap();
    // Not larger: this server crashes when it finds no space for a value that has pages of its own.
    let value = Bytes::from(vec![b'x'; 4_000]);
    let mut newest = first;
    let full = loop {
        let writes = (0..100).map(|n| Write::create(key(format!("/{newest}/{n}")), value.clone()));
        let mut answers = JoinSet::new();
        for write in writes {
            let store = Arc::clone(&store);
            answers.spawn(async move { store.commit(write).await });
        }
        let mut refused = None;
        for answer in answers.join_all().await {
            match answer {
                Ok(committed) => newest = newest.max(committed),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            break error;
        }
        assert!(newest.get() < 10_000, "the disk is larger than thought");
    };
    assert!(
        matches!(full, CommitError::Store(StoreError::Full { .. })),
        "{full:?}"
    );
    assert_eq!(store.current_revision().await.unwrap(), newest);
    assert_eq!(store.get(&key("/first")).await.unwrap().unwrap().revision, first);
    std::fs::remove_file(ballast).unwrap();
    let second = store.commit(Write::create(key("/second"), value)).await.unwrap();
    assert_eq!(second, newest.next());
    assert_whole(
        &events_upto(&mut watch(&store, Revision::FIRST).await, second).await,
        Revision::FIRST,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_the_number_of_connections() {
    const CONNECTIONS: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist
        WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    let server = TestServer::start();
    let options = MysqlOptions {
        max_open_conns: 5,
        max_idle_conns: 1,
        ..server.options.clone()
    };
    let store = MysqlStore::open(options).await.unwrap();
    create(&store, "/a", "x").await;
    let mut admin = server.admin().await;
    let mut reads = JoinSet::new();
    for _ in 0..200 {
        let store = Arc::clone(&store);
        reads.spawn(async move {
            for _ in 0..20 {
                assert!(store.get(&key("/a")).await.unwrap().is_some());
            }
        });
    }
    let mut max = 0;
    while !reads.is_empty() {
        max = max.max(number(&mut admin, CONNECTIONS).await);
        while let Some(read) = reads.try_join_next() {
            read.unwrap();
        }
    }
    // A connection that was closed may be seen until the server has noticed.
    println!("at most {max} connections");
    assert!((3..=8).contains(&max), "{max}");
    eventually("idle connections are closed", async || {
        number(&mut admin, CONNECTIONS).await <= 3
    })
    .await;
    store.close().await;
    eventually("all connections are closed", async || {
        number(&mut admin, CONNECTIONS).await == 0
    })
    .await;
    assert!(matches!(
        store.commit(Write::create(key("/b"), "x")).await,
        Err(CommitError::Store(StoreError::Closed))
    ));
}
