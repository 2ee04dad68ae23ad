//! Disks that fail for a while: what was acknowledged before and after is there, whatever became of the commit in between.

use std::{collections::BTreeMap, sync::Arc};

use k3_storage::{
    CommitError, Revision, Store, StoreError, Write,
    file::{Durability, FileOptions, FileStore},
};
use rand::{SeedableRng, rngs::StdRng};

use crate::{
    contents,
    disk::{DiskFailure, SimulatedDisk},
    fill, key, open_on, try_open, value,
};

/// Options of a store that has a journal, and reads everything from the disk.
fn uncached() -> FileOptions {
    let mut options = FileOptions::new("simulated");
    options.journal_after = 0;
    options.cache_bytes = 0;
    options
}

/// Adds entries to a store, and those that it acknowledged to `held`.
async fn commit_more(store: &dyn Store, held: &mut Contents) {
    for number in 0..10 {
        let name = key(format!("more-{number}"));
        let value = value("more", number);
        if let Ok(revision) = store.commit(Write::create(name.clone(), value.clone())).await {
            held.insert(name.to_string(), (revision, value));
        }
    }
}

/// A map of what a store holds.
type Contents = BTreeMap<String, (Revision, Vec<u8>)>;

/// What was held and is not found.
fn losses(held: &Contents, found: &Contents) -> Vec<String> {
    held.iter()
        .filter(|(name, entry)| found.get(*name) != Some(entry))
        .map(|(name, (revision, _))| format!("{name} at {revision}"))
        .collect()
}

/// What a store holds that is opened after the power was lost.
async fn contents_after_power_loss(disk: &Arc<SimulatedDisk>, store: Arc<FileStore>) -> Contents {
    disk.fail_after(0, DiskFailure::PowerLoss);
    drop(store);
    let disk = disk.after_power_loss(&mut StdRng::seed_from_u64(1));
    let store = open_on(&disk, Durability::Synced).await;
    contents(&*store).await
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_hides_no_later_one() {
    let mut resolved = 0;
    for operations in 0..20 {
        let disk = SimulatedDisk::new();
        let store = try_open(&disk, uncached()).await.unwrap();
        fill(&*store, 20).await;
        disk.fail_after(operations, DiskFailure::PowerLoss);
        let write = Write::create(key("unknown"), value("unknown", 0));
        let outcome = store.commit(write).await;
        disk.mend();
        let mut held = contents(&*store).await;
        commit_more(&*store, &mut held).await;
        let found = contents(&*store).await;
        assert_eq!(losses(&held, &found), [""; 0], "after {operations} operations");
        held = found;
        // The journal may have taken the commit when the file did not.
        let is_held = held.contains_key(&*key("unknown"));
        assert!(is_held || outcome.is_err(), "after {operations} operations");
        if is_held && matches!(outcome, Err(CommitError::Uncertain(_))) {
            resolved += 1;
        }
        let found = contents_after_power_loss(&disk, store).await;
        let lost = losses(&held, &found);
        assert!(lost.is_empty(), "after {operations} operations: {lost:?}");
    }
    assert!(resolved > 0, "no commit had an unknown outcome");
}

#[tokio::test]
async fn a_failed_sync_of_a_file_that_is_opened_again_ends_writes() {
    let mut ended = 0;
    for operations in 0..20 {
        let disk = SimulatedDisk::new();
        let store = try_open(&disk, uncached()).await.unwrap();
        fill(&*store, 20).await;
        disk.fail_after(0, DiskFailure::PowerLoss);
        let write = Write::create(key("lost"), value("lost", 0));
        store.commit(write).await.unwrap_err();
        disk.fail_after(operations, DiskFailure::SyncFails);
        let write = Write::create(key("unknown"), value("unknown", 0));
        let _may_fail = store.commit(write).await;
        disk.mend();
        let mut held = contents(&*store).await;
        assert!(held.len() >= 20);
        let before = held.len();
        commit_more(&*store, &mut held).await;
        if held.len() == before {
            ended += 1;
        }
        let found = contents_after_power_loss(&disk, store).await;
        let lost = losses(&held, &found);
        assert!(lost.is_empty(), "after {operations} operations: {lost:?}");
    }
    assert!(ended > 0);
}

#[tokio::test]
async fn a_restart_after_a_failed_checkpoint_loses_nothing() {
    for operations in 0..30 {
        let disk = SimulatedDisk::new();
        let store = open_on(&disk, Durability::Synced).await;
        fill(&*store, 20).await;
        let mut held = contents(&*store).await;
        disk.fail_after(operations, DiskFailure::SyncFails);
        store.close().await;
        disk.mend();
        let store = open_on(&disk, Durability::Synced).await;
        assert_eq!(contents(&*store).await, held, "after {operations} operations");
        commit_more(&*store, &mut held).await;
        assert!(held.contains_key(&*key("more-9")));
        let found = contents_after_power_loss(&disk, store).await;
        assert_eq!(found, held, "after {operations} operations and a power loss");
    }
}

#[tokio::test]
async fn a_restart_after_a_failed_recovery_loses_nothing() {
    for operations in 0..40 {
        let disk = SimulatedDisk::new();
        let store = open_on(&disk, Durability::Synced).await;
        fill(&*store, 20).await;
        let mut held = contents(&*store).await;
        disk.fail_after(0, DiskFailure::PowerLoss);
        drop(store);
        let disk = disk.after_power_loss(&mut StdRng::seed_from_u64(1));
        disk.fail_after(operations, DiskFailure::SyncFails);
        let opened = try_open(&disk, FileOptions::new("simulated")).await;
        drop(opened);
        disk.mend();
        let store = open_on(&disk, Durability::Synced).await;
        assert_eq!(contents(&*store).await, held, "after {operations} operations");
        commit_more(&*store, &mut held).await;
        let found = contents_after_power_loss(&disk, store).await;
        assert_eq!(found, held, "after {operations} operations and a power loss");
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_before_a_checkpoint_loses_nothing() {
    let mut refused = 0;
    for operations in 0..25 {
        let disk = SimulatedDisk::new();
        let store = open_on(&disk, Durability::Synced).await;
        for name in 0..100 {
            // More than is cached below.
            let write = Write::create(key(format!("large-{name}")), vec![7; 20_000]);
            store.commit(write).await.unwrap();
        }
        store.close().await;
        let mut options = uncached();
        options.cache_bytes = 1 << 20;
        let store = try_open(&disk, options).await.unwrap();
        fill(&*store, 100).await;
        let mut held = contents(&*store).await;
        disk.fail_after(operations, DiskFailure::Full);
        // So little that the file gets everything now, which the journal has.
        disk.say_free(Some(32 << 20));
        let outcome = store.commit(Write::create(key("full"), value("full", 0))).await;
        if let Err(error) = &outcome {
            let is_full = matches!(error, CommitError::Store(StoreError::Full { .. }));
            assert!(is_full, "after {operations} operations: {error}");
            refused += 1;
        }
        let during = contents(&*store).await;
        assert_eq!(
            losses(&held, &during),
            [""; 0],
            "reads go on after {operations} operations"
        );
        disk.mend();
        disk.say_free(None);
        let found = contents(&*store).await;
        assert!(
            found.len() == 201 || outcome.is_err(),
            "after {operations} operations"
        );
        held = held.into_iter().chain(found).collect();
        commit_more(&*store, &mut held).await;
        assert!(held.contains_key(&*key("more-9")));
        let found = contents_after_power_loss(&disk, store).await;
        assert_eq!(found, held, "after {operations} operations and a power loss");
    }
    assert!(refused > 0, "the disk was never full");
}
