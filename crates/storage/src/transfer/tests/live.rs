//! Backups of stores that are in use.

use std::{sync::Arc, time::Duration};

use tokio::{io::AsyncReadExt, task::JoinSet};

use super::{
    super::{BackupError, backup, inspect, restore},
    backup_of, entry, noon, quiet, store_of,
};
use crate::{Entry, Key, Operation, Page, Precondition, Prefix, Revision, Store, Write, memory::MemoryStore};

const OBJECTS: usize = 3000;
const WRITERS: usize = 8;

/// Changes entries for ever: each writer its own, so that no write conflicts.
async fn keep_writing(store: Arc<MemoryStore>, writer: usize, mut entries: Vec<Entry>) {
    loop {
        for (n, entry) in entries
            .iter_mut()
            .enumerate()
            .filter(|(n, _)| n % WRITERS == writer)
        {
            let precondition = match entry.revision {
                Revision::ZERO => Precondition::Absent,
                revision => Precondition::At(revision),
            };
            // Now and then a key is deleted and created again.
            let delete = n % 7 == 0 && precondition != Precondition::Absent;
            let operation = if delete {
                Operation::Delete
            } else {
                Operation::Put {
                    value: format!("of writer {writer}").into(),
                    ttl: None,
                }
            };
            let key = entry.key.clone();
            let done = store
                .commit(Write {
                    key,
                    precondition,
                    operation,
                })
                .await
                .unwrap();
            entry.revision = if delete { Revision::ZERO } else { done };
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_snapshot_while_writers_write() {
    let entries: Vec<_> = (0..OBJECTS)
        .map(|n| entry(&format!("/o/{n:05}"), b"start", n as u64 + 2))
        .collect();
    let store = store_of(&entries).await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(keep_writing(Arc::clone(&store), writer, entries.clone()));
    }

    // A narrow pipe: the backup stands still in its middle until the writers have changed much.
    let (near, mut far) = tokio::io::duplex(4096);
    let (summary, bytes) = tokio::join!(
        async { backup(&*store, near, noon(), quiet).await.unwrap() },
        async {
            let mut bytes = vec![0; 4096];
            far.read_exact(&mut bytes).await.unwrap();
            let begun = store.current_revision().await.unwrap().get();
            while store.current_revision().await.unwrap().get() < begun + 200 {
                tokio::task::yield_now().await;
            }
            far.read_to_end(&mut bytes).await.unwrap();
            bytes
        }
    );
    let commits = store.current_revision().await.unwrap().get() - summary.revision.get();
    writers.shutdown().await;
    assert!(commits >= 200, "the writers wrote during the backup: {commits}");

    let target = MemoryStore::new();
    restore(&bytes[..], &*target, quiet).await.unwrap();
    let then = Page {
        at: Some(summary.revision),
        ..Page::all()
    };
    let truth = store.range(&Prefix::all(), then).await.unwrap();
    let restored = target.range(&Prefix::all(), Page::all()).await.unwrap();
    assert_eq!(restored.revision, summary.revision);
    assert_eq!(restored.entries, truth.entries);
}

#[tokio::test]
async fn backup_overtaken_by_compaction_fails_and_cannot_be_restored() {
    let entries: Vec<_> = (0..OBJECTS)
        .map(|n| entry(&format!("/{n:05}"), &[0; 500], 2))
        .collect();
    let store = store_of(&entries).await;
    let (near, mut far) = tokio::io::duplex(64);
    let (outcome, bytes) = tokio::join!(async { backup(&*store, near, noon(), quiet).await }, async {
        // The backup is under way once its first bytes are here, and stuck until more are taken.
        let mut bytes = vec![0; 32];
        far.read_exact(&mut bytes).await.unwrap();
        let key = Key::try_new("/new").unwrap();
        let revision = store.commit(Write::create(key, "x")).await.unwrap();
        store.compact(revision).await.unwrap();
        far.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    let error = outcome.unwrap_err();
    let BackupError::Compacted { revision, entries } = error else {
        panic!("{error}");
    };
    assert_eq!(revision, Revision::new(super::REVISION));
    assert!(entries > 0 && entries < OBJECTS as u64, "{entries}");
    assert!(inspect(&bytes[..]).await.is_err());
}

#[tokio::test]
async fn a_backup_whose_reader_disconnects_fails() {
    let store = store_of(&[entry("/a", &[1; 10_000], 2)]).await;
    let (near, far) = tokio::io::duplex(64);
    drop(far);
    let error = backup(&*store, near, noon(), quiet).await.unwrap_err();
    assert!(matches!(error, BackupError::Write(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_is_dropped_leaves_the_target_closed() {
    let bytes = backup_of(&[entry("/a", b"", 2)]).await;
    let target = MemoryStore::new();
    // All but the last byte: the restore waits for it.
    let (mut near, far) = tokio::io::duplex(4096);
    tokio::io::AsyncWriteExt::write_all(&mut near, &bytes[..bytes.len() - 1])
        .await
        .unwrap();
    let waiting = restore(far, &*target, quiet);
    tokio::time::timeout(Duration::from_millis(50), waiting)
        .await
        .expect_err("the last byte is missing");
    assert!(target.current_revision().await.is_err());
}
