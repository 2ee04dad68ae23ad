//! A full disk: writes fail clearly, reads continue, nothing breaks, and it recovers.

use std::sync::Arc;

use k3_storage::{
    CommitError, Store, StoreError, Write,
    file::{Durability, FileOptions, FileStore},
};

use crate::{
    contents,
    disk::{DiskFailure, SimulatedDisk},
    fill, key, open_on, value,
};

#[tokio::test]
async fn a_nearly_full_disk_refuses_values_and_still_takes_deletes() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    fill(&*store, 10).await;
    let before = contents(&*store).await;
    disk.say_free(Some(200 << 10));
    let error = store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, CommitError::Store(StoreError::Full { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(
        matches!(store.health().await, Err(StoreError::Full { .. })),
        "the store must report that it is unhealthy"
    );
    assert_eq!(contents(&*store).await, before);
    let (revision, _) = before["/items/3"];
    store.commit(Write::delete(key(3), revision)).await.unwrap();
    disk.say_free(None);
    store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_disk_that_fills_up_in_the_middle_of_a_commit_loses_nothing() {
    for operations in 0..25 {
        let disk = SimulatedDisk::new();
        let store = open_on(&disk, Durability::Synced).await;
        fill(&*store, 30).await;
        let mut expected = contents(&*store).await;
        disk.fail_after(operations, DiskFailure::Full);
        let outcome = store.commit(Write::create(key("more"), value("more", 1))).await;
        match outcome {
            Ok(revision) => {
                expected.insert(key("more").to_string(), (revision, value("more", 1)));
            }
            Err(CommitError::Store(StoreError::Full { .. })) => {}
            Err(other) => panic!("after {operations} operations: {other}"),
        }
        assert_eq!(contents(&*store).await, expected, "after {operations} operations");
        disk.mend();
        let revision = store
            .commit(Write::create(key("later"), value("later", 2)))
            .await
            .unwrap();
        expected.insert(key("later").to_string(), (revision, value("later", 2)));
        assert_eq!(contents(&*store).await, expected);
        store.close().await;
        let store = open_on(&disk, Durability::Synced).await;
        assert_eq!(
            contents(&*store).await,
            expected,
            "after {operations} operations and a restart"
        );
    }
}

#[tokio::test]
async fn writes_nothing_after_a_failed_sync() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    fill(&*store, 5).await;
    disk.fail_after(0, DiskFailure::SyncFails);
    let error = store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap_err();
    assert!(matches!(error, CommitError::Uncertain(_)), "{error}");
    disk.mend();
    let error = store
        .commit(Write::create(key("later"), value("later", 0)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, CommitError::Store(StoreError::Unavailable { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("failed to sync"), "{error}");
    assert!(contents(&*store).await.len() >= 5, "reads go on");
    assert!(matches!(
        store.health().await,
        Err(StoreError::Unavailable { .. })
    ));
    drop(store);
    let store = open_on(&disk, Durability::Synced).await;
    store
        .commit(Write::create(key("later"), value("later", 0)))
        .await
        .unwrap();
}

/// A real file system of 6 MiB, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(
            mounted.success(),
            "this test mounts a small tmpfs, which needs root"
        );
        Self(directory)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_full_disk_loses_nothing_and_recovers() {
    let disk = SmallDisk::mount();
    let directory = disk.0.path().join("store");
    let store = FileStore::open(FileOptions::new(&directory)).await.unwrap();
    let ballast = disk.0.path().join("ballast");
    let mut expected = contents(&*store).await;
    for round in 0..3u64 {
        // Another process takes the space while several writers continue: once every one of them has written.
        let started = Arc::new(tokio::sync::Barrier::new(9));
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8u64 {
            let store: Arc<dyn Store> = store.clone();
            let started = Arc::clone(&started);
            writers.spawn(async move {
                let mut written = Vec::new();
                for number in 0.. {
                    let name = format!("{round}-{writer}-{number}");
                    match store.commit(Write::create(key(&name), value(&name, 0))).await {
                        Ok(revision) => written.push((key(&name).to_string(), (revision, value(&name, 0)))),
                        Err(CommitError::Store(StoreError::Full { .. })) => return written,
                        Err(other) => panic!("{other}"),
                    }
                    if number == 0 {
                        started.wait().await;
                    }
                }
                written
            });
        }
        let path = ballast.clone();
        started.wait().await;
        let fill = tokio::task::spawn_blocking(move || {
            // Ends with "no space left", which is what it is for.
            let _ = std::fs::write(path, vec![1; 6 << 20]);
        });
        for written in writers.join_all().await {
            expected.extend(written);
        }
        fill.await.unwrap();
        assert!(expected.len() >= 8, "{expected:?}");
        assert_eq!(contents(&*store).await, expected, "round {round}: reads go on");
        std::fs::remove_file(&ballast).unwrap();
        let current = store.current_revision().await.unwrap();
        for name in expected.keys().cloned().collect::<Vec<_>>() {
            let (revision, _) = expected.remove(&name).unwrap();
            let name = k3_storage::Key::try_new(name).unwrap();
            store.commit(Write::delete(name, revision)).await.unwrap();
        }
        assert!(store.current_revision().await.unwrap() > current);
        let newest = store.current_revision().await.unwrap();
        store.compact(newest).await.unwrap();
    }
    store.close().await;
    let store = FileStore::open(FileOptions::new(&directory)).await.unwrap();
    assert_eq!(contents(&*store).await, expected);
}
