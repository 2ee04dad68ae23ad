//! Power loss: what was acknowledged is there when the power returns.

use std::{collections::BTreeMap, sync::Arc};

use k3_storage::{Operation, Precondition, Revision, Store, Write, file::Durability};
use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use crate::{
    contents,
    disk::{DiskFailure, SimulatedDisk},
    fill, key, open_on, open_with, value,
};

const WRITERS: u64 = 4;

/// What was acknowledged to writers, by key: the newest acknowledged value (or deletion), and the one that was
/// sent and not answered.
#[derive(Default)]
struct AcknowledgedWrites {
    known: BTreeMap<u64, (Option<Vec<u8>>, Revision)>,
    sent: BTreeMap<u64, Option<Vec<u8>>>,
    newest: Revision,
}

/// Writers that continue until the disk fails them.
async fn write_until_dark(store: Arc<dyn Store>, acknowledged: Arc<Mutex<AcknowledgedWrites>>, seed: u64) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        let acknowledged = Arc::clone(&acknowledged);
        let mut rng = StdRng::seed_from_u64(seed ^ writer);
        writers.spawn(async move {
            for round in 0.. {
                let name = writer * 1000 + rng.random_range(0..20);
                let at = acknowledged.lock().known.get(&name).cloned();
                let (precondition, exists) = match at {
                    Some((Some(_), revision)) => (Precondition::At(revision), true),
                    _ => (Precondition::Absent, false),
                };
                let put = (!exists || rng.random_range(0..4) > 0).then(|| value(name, seed ^ round));
                let operation = match &put {
                    Some(value) => Operation::Put {
                        value: value.clone().into(),
                        ttl: None,
                    },
                    None => Operation::Delete,
                };
                acknowledged.lock().sent.insert(name, put.clone());
                let Ok(revision) = store
                    .commit(Write {
                        key: key(name),
                        precondition,
                        operation,
                    })
                    .await
                else {
                    return;
                };
                let mut acknowledged = acknowledged.lock();
                acknowledged.sent.remove(&name);
                acknowledged.known.insert(name, (put, revision));
                acknowledged.newest = acknowledged.newest.max(revision);
            }
        });
    }
    writers.join_all().await;
}

/// What is missing or wrong in the store, given what was acknowledged.
async fn losses(store: &dyn Store, acknowledged: &mut AcknowledgedWrites) -> Vec<String> {
    let found = contents(store).await;
    let mut losses = Vec::new();
    for (name, (expected, revision)) in &mut acknowledged.known {
        let found = found.get(&*key(name));
        let found_value = found.map(|(_, value)| value.clone());
        let unanswered = acknowledged.sent.get(name);
        if found_value != *expected && Some(&found_value) != unanswered {
            losses.push(format!("{name} was acknowledged at {revision}"));
        }
        // From here on, what is there is what is known.
        *expected = found_value;
        if let Some((at, _)) = found {
            *revision = *at;
        }
    }
    for (name, value) in std::mem::take(&mut acknowledged.sent) {
        let Some((revision, stored)) = found.get(&*key(name)) else {
            continue;
        };
        if acknowledged.known.contains_key(&name) {
            continue;
        }
        if Some(stored) != value.as_ref() {
            losses.push(format!("{name} contains a value that was never written"));
        }
        acknowledged.known.insert(name, (Some(stored.clone()), *revision));
    }
    let current = store.current_revision().await.unwrap();
    if current < acknowledged.newest {
        losses.push(format!(
            "the store regressed from revision {} to {current}",
            acknowledged.newest
        ));
    }
    losses
}

/// Cuts the power periodically at random instants, and reports what got lost.
async fn cycles(count: u64, durability: Durability, seed: u64, journal_after: u64) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut disk = SimulatedDisk::new();
    let acknowledged = Arc::new(Mutex::new(AcknowledgedWrites::default()));
    let mut lost = Vec::new();
    for cycle in 0..count {
        let store = open_with(&disk, durability, journal_after).await;
        let mut known = std::mem::take(&mut *acknowledged.lock());
        lost.extend(losses(&*store, &mut known).await);
        *acknowledged.lock() = known;
        if !lost.is_empty() {
            return lost;
        }
        if cycle % 3 == 2 {
            // Compaction and shrinking are cut short too.
            let newest = store.current_revision().await.unwrap();
            let compacting = Arc::clone(&store);
            let compaction = async move { compacting.compact(newest).await };
            disk.fail_after(rng.random_range(1..400), DiskFailure::PowerLoss);
            let (_cut_short, ()) = tokio::join!(
                compaction,
                write_until_dark(store, Arc::clone(&acknowledged), rng.next_u64())
            );
        } else {
            disk.fail_after(rng.random_range(1..400), DiskFailure::PowerLoss);
            write_until_dark(store, Arc::clone(&acknowledged), rng.next_u64()).await;
        }
        disk = disk.after_power_loss(&mut rng);
    }
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_power_loss() {
    for seed in 0..9 {
        // With a journal, without one, and with one that is made while writes continue.
        let journal_after = match seed % 3 {
            0 => 0,
            1 => u64::MAX,
            _ => 20,
        };
        let lost = cycles(12, Durability::Synced, seed, journal_after).await;
        assert!(lost.is_empty(), "seed {seed}: {lost:?}");
    }
}

/// A disk with a closed store that shrinks when it is compacted, and what the store holds.
async fn disk_worth_shrinking() -> (Arc<SimulatedDisk>, BTreeMap<String, (Revision, Vec<u8>)>) {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    for round in 0..12 {
        let mut writers = tokio::task::JoinSet::new();
        for name in 0..150 {
            let store = Arc::clone(&store);
            writers.spawn(async move {
                let known = store.get(&key(name)).await.unwrap();
                let precondition =
                    known.map_or(Precondition::Absent, |entry| Precondition::At(entry.revision));
                let value = [value(name, round), vec![0; 2000]].concat();
                let operation = Operation::Put {
                    value: value.into(),
                    ttl: None,
                };
                store
                    .commit(Write {
                        key: key(name),
                        precondition,
                        operation,
                    })
                    .await
                    .unwrap();
            });
        }
        writers.join_all().await;
    }
    let held = contents(&*store).await;
    store.close().await;
    (disk, held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_at_any_instant_of_a_shrink_loses_nothing() {
    const PLENTY: u64 = 1 << 40;
    let mut rng = StdRng::seed_from_u64(3);
    let (disk, held) = disk_worth_shrinking().await;
    let long = disk.len("store.redb");
    let mut cut = PLENTY;
    let mut operations = 0;
    for round in 0..40 {
        // Nothing on the disk waits for a sync, so that this is a plain copy of it.
        let disk = disk.after_power_loss(&mut rng);
        let store = open_on(&disk, Durability::Synced).await;
        let newest = store.current_revision().await.unwrap();
        disk.fail_after(cut, DiskFailure::PowerLoss);
        let outcome = store.compact(newest).await;
        if round == 0 {
            outcome.unwrap();
            operations = disk.operations_of(PLENTY);
            assert!(
                disk.len("store.redb") * 2 < long,
                "the file did not shrink from {long} bytes"
            );
        }
        drop(store);
        let disk = disk.after_power_loss(&mut rng);
        let store = open_on(&disk, Durability::Synced).await;
        assert_eq!(
            contents(&*store).await,
            held,
            "power lost after {cut} of {operations} operations"
        );
        assert_eq!(store.current_revision().await.unwrap(), newest);
        // The last operations are the switch from one file to the other.
        cut = if round % 2 == 0 {
            rng.random_range(0..operations)
        } else {
            operations - rng.random_range(1..12)
        };
    }
}

/// The tests above could pass on a disk that forgets nothing: this one shows that it forgets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_syncs_the_simulated_disk_does_lose_writes() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Relaxed).await;
    fill(&*store, 50).await;
    disk.fail_after(0, DiskFailure::PowerLoss);
    drop(store);
    let mut rng = StdRng::seed_from_u64(1);
    let disk = disk.after_power_loss(&mut rng);
    let mut options = k3_storage::file::FileOptions::new("simulated");
    options.durability = Durability::Relaxed;
    let found =
        match k3_storage::file::FileStore::open_on(Arc::new(crate::disk::MountedDisk::new(&disk)), options)
            .await
        {
            Ok(store) => contents(&*store).await.len(),
            Err(_) => 0,
        };
    assert!(found < 50, "all {found} writes survived without a sync");
}

#[tokio::test]
async fn every_acknowledgement_follows_a_sync() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    for name in 0..100 {
        let before = disk.syncs();
        store
            .commit(Write::create(key(name), value(name, 0)))
            .await
            .unwrap();
        assert!(
            disk.syncs() > before,
            "write {name} was acknowledged without a sync"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_wait_together_share_a_sync() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Synced).await;
    let before = disk.syncs();
    let mut writers = tokio::task::JoinSet::new();
    for name in 0..512 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            store
                .commit(Write::create(key(name), value(name, 0)))
                .await
                .unwrap()
        });
    }
    writers.join_all().await;
    let syncs = disk.syncs() - before;
    assert!(syncs < 256, "512 concurrent writes took {syncs} syncs");
}

#[tokio::test]
async fn relaxed_durability_does_not_sync() {
    let disk = SimulatedDisk::new();
    let store = open_on(&disk, Durability::Relaxed).await;
    let before = disk.syncs();
    fill(&*store, 20).await;
    assert_eq!(disk.syncs(), before);
}
