//! The journal: what is only there survives, damage is noticed, and a program that does not know it refuses the store.

use std::{collections::BTreeMap, sync::Arc};

use k3_storage::{
    OpenError, Store, StoreError, Write,
    file::{Durability, FileOptions, FileStore},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    contents,
    disk::{DiskFailure, MountedDisk, SimulatedDisk},
    fill, key, open_on, open_with, value,
};

const JOURNAL: &str = "store.redb.journal";
const MARK: &str = "mark";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_around_checkpoints_loses_nothing() {
    // About sixty of these fill the journal.
    let large = |round: u64| value("large", round).repeat(100);
    for seed in 0..8 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut disk = SimulatedDisk::new();
        let mut acknowledged = BTreeMap::new();
        for cycle in 0..4u64 {
            let store = open_on(&disk, Durability::Synced).await;
            let found = contents(&*store).await;
            for (name, expected) in &acknowledged {
                assert_eq!(found.get(name), Some(expected), "seed {seed}, cycle {cycle}");
            }
            acknowledged = found;
            disk.fail_after(rng.random_range(50..600), DiskFailure::PowerLoss);
            for number in 0.. {
                let name = key(format!("{cycle}-{number}"));
                let value = large(number);
                let Ok(revision) = store.commit(Write::create(name.clone(), value.clone())).await else {
                    break;
                };
                acknowledged.insert(name.to_string(), (revision, value));
            }
            drop(store);
            disk = disk.after_power_loss(&mut rng);
        }
        assert!(
            acknowledged.len() > 64,
            "seed {seed}: {} writes",
            acknowledged.len()
        );
    }
}

/// A disk whose journal has entries that the file has not, and what the store holds.
async fn disk_with_journal(
    count: u64,
) -> (
    Arc<SimulatedDisk>,
    BTreeMap<String, (k3_storage::Revision, Vec<u8>)>,
) {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    fill(&*store, count).await;
    let held = contents(&*store).await;
    disk.fail_after(0, DiskFailure::PowerLoss);
    drop(store);
    (disk.after_power_loss(&mut StdRng::seed_from_u64(1)), held)
}

#[tokio::test]
async fn a_flipped_byte_in_the_journal_is_noticed() {
    let count: u32 = 40;
    let mut refused = 0;
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..100 {
        let (disk, held) = disk_with_journal(count.into()).await;
        // Each entry has a block of its own.
        let at = rng.random_range(0..count * 4096);
        disk.flip(JOURNAL, at as usize, 1 << rng.random_range(0..8));
        let opened =
            FileStore::open_on(Arc::new(MountedDisk::new(&disk)), FileOptions::new("simulated")).await;
        match opened {
            Ok(store) => {
                let found = contents(&*store).await;
                // A last group that is not whole looks as if the power was lost while it was written.
                let missing = held.len() - found.len();
                assert!(
                    missing == 0 || missing == 1 && at / 4096 == count - 1,
                    "byte {at}: {missing} are lost"
                );
                assert!(
                    found.iter().all(|(name, entry)| held.get(name) == Some(entry)),
                    "byte {at}"
                );
            }
            Err(OpenError::Store(StoreError::Corrupt(message))) => {
                assert!(message.contains("is damaged"), "{message}");
                refused += 1;
            }
            Err(other) => panic!("not a clear refusal: {other}"),
        }
    }
    assert!(refused > 10, "only {refused} of 100 flips were noticed");
}

#[tokio::test]
async fn a_closed_store_needs_no_journal() {
    let (disk, mut held) = disk_with_journal(10).await;
    assert!(disk.text(MARK).starts_with("k3 journal "), "{}", disk.text(MARK));
    let store = open_on(&disk, Durability::Synced).await;
    let revision = store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap();
    held.insert(key("more").to_string(), (revision, value("more", 0)));
    store.close().await;
    assert!(
        disk.text(MARK).starts_with("k3 store, closed"),
        "{}",
        disk.text(MARK)
    );
    disk.lose(JOURNAL);
    let store = open_on(&disk, Durability::Synced).await;
    assert_eq!(contents(&*store).await, held);
}

#[tokio::test]
async fn a_lost_journal_is_noticed() {
    let (disk, _) = disk_with_journal(10).await;
    disk.lose(JOURNAL);
    let opened = FileStore::open_on(Arc::new(MountedDisk::new(&disk)), FileOptions::new("simulated")).await;
    assert!(matches!(opened, Err(OpenError::Store(StoreError::Corrupt(_)))));
}

#[tokio::test]
async fn a_new_store_does_not_read_the_journal_of_another() {
    let (disk, _) = disk_with_journal(10).await;
    disk.lose("store.redb");
    disk.lose(MARK);
    let store = open_on(&disk, Durability::Synced).await;
    fill(&*store, 2).await;
    let held = contents(&*store).await;
    disk.fail_after(0, DiskFailure::PowerLoss);
    drop(store);
    let disk = disk.after_power_loss(&mut StdRng::seed_from_u64(2));
    let store = open_on(&disk, Durability::Synced).await;
    assert_eq!(contents(&*store).await, held);
}

#[tokio::test]
async fn a_restored_file_is_not_confused_by_the_journal_of_what_it_replaces() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    fill(&*store, 10).await;
    store.close().await;
    let backup = disk.after_power_loss(&mut StdRng::seed_from_u64(3));
    let store = open_on(&disk, Durability::Synced).await;
    let large = value("large", 0).repeat(10);
    for name in 0..20 {
        let name = key(format!("not in the backup {name}"));
        store.commit(Write::create(name, large.clone())).await.unwrap();
    }
    store.close().await;
    for name in ["store.redb", MARK] {
        disk.restore(name, &backup);
    }
    let store = open_on(&disk, Durability::Synced).await;
    let revision = store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap();
    let held = contents(&*store).await;
    assert_eq!(held.len(), 11);
    assert_eq!(held[&*key("more")].0, revision);
    disk.fail_after(0, DiskFailure::PowerLoss);
    drop(store);
    let disk = disk.after_power_loss(&mut StdRng::seed_from_u64(3));
    let store = open_on(&disk, Durability::Synced).await;
    assert_eq!(contents(&*store).await, held);
}

#[tokio::test]
async fn power_loss_while_the_journal_is_taken_over_loses_nothing() {
    for operations in 0..40 {
        let (disk, held) = disk_with_journal(10).await;
        disk.fail_after(operations, DiskFailure::PowerLoss);
        let mounted = Arc::new(MountedDisk::new(&disk));
        let mut options = FileOptions::new("simulated");
        options.journal_after = 0;
        if let Ok(store) = FileStore::open_on(mounted, options).await {
            let write = Write::create(key("more"), value("more", 0));
            let _may_fail = store.commit(write).await;
        }
        for seed in 0..4 {
            let disk = disk.after_power_loss(&mut StdRng::seed_from_u64(seed));
            let store = open_on(&disk, Durability::Synced).await;
            let mut found = contents(&*store).await;
            found.remove(&*key("more"));
            assert_eq!(found, held, "after {operations} operations");
        }
    }
}

#[tokio::test]
async fn the_journal_of_another_store_is_noticed() {
    let (disk, _) = disk_with_journal(10).await;
    let (other, _) = disk_with_journal(10).await;
    disk.restore(JOURNAL, &other);
    let opened = FileStore::open_on(Arc::new(MountedDisk::new(&disk)), FileOptions::new("simulated")).await;
    assert!(matches!(opened, Err(OpenError::Store(StoreError::Corrupt(_)))));
}

#[tokio::test]
async fn a_lost_mark_is_noticed() {
    let (disk, _) = disk_with_journal(10).await;
    disk.lose(MARK);
    let opened = FileStore::open_on(Arc::new(MountedDisk::new(&disk)), FileOptions::new("simulated")).await;
    assert!(matches!(opened, Err(OpenError::Store(StoreError::Corrupt(_)))));
}

#[tokio::test]
async fn little_space_needs_no_journal() {
    let disk = SimulatedDisk::new();
    disk.say_free(Some(10 << 20));
    let store = open_on(&disk, Durability::Synced).await;
    fill(&*store, 10).await;
    assert_eq!(disk.len(JOURNAL), 0);
    assert!(
        disk.text(MARK).starts_with("k3 store, closed"),
        "{}",
        disk.text(MARK)
    );
    disk.say_free(None);
    store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap();
    assert!(disk.len(JOURNAL) > 0);
}

#[tokio::test]
async fn a_store_with_few_writes_has_no_journal() {
    let disk = SimulatedDisk::new();
    let store = open_with(&disk, Durability::Synced, 20).await;
    fill(&*store, 20).await;
    assert_eq!(disk.len(JOURNAL), 0);
    store
        .commit(Write::create(key("more"), value("more", 0)))
        .await
        .unwrap();
    assert!(disk.len(JOURNAL) > 0);
}
