//! Repairs allocation records so that they agree with the stored services.
//!
//! A server that is killed between writing the record and the service leaves an orphaned record. A user may also delete a
//! record. Repair handles both. It removes a record only if no stored service uses the item and this server has seen it
//! orphaned for a minute: until then the service may still be written, here or by another server. Clocks of servers differ, so
//! the minute is not counted from a timestamp in the record.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k3_api::time::Time;
use k3_storage::{CommitError, Key, Revision, StoreError, Write};
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};

use super::{
    ServiceAllocator,
    record::{AllocatedItem, AllocationRecords, RecordOwner, held_by},
};

/// How often records and services are compared.
const PERIOD: Duration = Duration::from_secs(30);
/// How long a record may be orphaned.
const GRACE: Duration = Duration::from_mins(1);
/// How many objects are read before others get their turn.
const BATCH: usize = 64;

/// Orphaned records by key and revision, and when they were first seen.
pub(super) type OrphanRecords = HashMap<(Key, Revision), Instant>;

/// The task that repairs from time to time. Ends with this handle.
pub(crate) struct RepairTask(JoinHandle<()>);

// --- ServiceAllocator ---

impl ServiceAllocator {
    /// Repairs once, before anything is given, and then from time to time.
    pub(crate) async fn start_repair(self: &Arc<Self>) -> Result<RepairTask, StoreError> {
        let mut orphans = OrphanRecords::new();
        self.repair(&mut orphans).await?;
        let allocation = Arc::clone(self);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval_at(Instant::now() + PERIOD, PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if let Err(error) = allocation.repair(&mut orphans).await {
                    tracing::warn!(%error, "failed to repair service allocations; retrying");
                }
            }
        });
        Ok(RepairTask(task))
    }

    /// Creates missing records, and removes records that were orphaned for too long.
    // upstream: pkg/registry/core/service/ipallocator/controller/repairip.go RepairIPAddress
    pub(super) async fn repair(&self, orphans: &mut OrphanRecords) -> Result<(), StoreError> {
        self.caches.read_index().await?;
        let records = AllocationRecords::of(&self.caches);
        // First the records, then the services: a service comes after its records, so each of these has its service in sight
        // if that is stored.
        let all = records.all(self.caches.applied());
        if self.caches.may_have_undecrypted()
            && let Some(object) = records.undecrypted()
        {
            tracing::warn!(
                key = %object.key,
                "cannot repair service allocations: an object is not decrypted; nothing is released until it is"
            );
            orphans.clear();
            return Ok(());
        }
        let Some(holders) = self.holders(&records).await else {
            orphans.clear();
            return Ok(());
        };
        for (item, owners) in &holders {
            self.record(&records, *item, owners).await?;
        }
        let now = Instant::now();
        let before = std::mem::take(orphans);
        let mut old = Vec::new();
        for (item, record) in all.iter().filter(|(item, _)| !holders.contains_key(item)) {
            let seen = (record.key.clone(), record.revision);
            let since = before.get(&seen).copied().unwrap_or(now);
            if now.duration_since(since) >= GRACE {
                tracing::info!(?item, "releasing orphaned service allocation");
                old.push(seen);
            } else {
                orphans.insert(seen, since);
            }
        }
        self.remove(old).await;
        Ok(())
    }

    /// What stored services have, and which ones have it; `None` if what one has is not known, because it is not decrypted.
    async fn holders(&self, records: &AllocationRecords) -> Option<HashMap<AllocatedItem, Vec<RecordOwner>>> {
        let snapshot = records.services.cache.snapshot(self.caches.applied());
        let mut holders: HashMap<AllocatedItem, Vec<RecordOwner>> = HashMap::new();
        for (count, service) in snapshot.objects.values().enumerate() {
            if count % BATCH == BATCH - 1 {
                tokio::task::yield_now().await;
            }
            if service.undecrypted().is_some() {
                return None;
            }
            let mut tree = service.tree();
            k3_api::kinds::service::default_on_read(&mut tree, self.families);
            for item in held_by(&tree) {
                holders.entry(item).or_default().push(RecordOwner::of(&tree));
            }
        }
        Some(holders)
    }

    /// Makes the record of what a stored service has, if it is missing or names one that has not.
    async fn record(
        &self,
        records: &AllocationRecords,
        item: AllocatedItem,
        owners: &[RecordOwner],
    ) -> Result<(), StoreError> {
        let Some(owner) = owners.first() else {
            return Ok(());
        };
        if let [owner, other, ..] = owners {
            tracing::error!(
                ?item,
                ?owner,
                ?other,
                "two services use the same address or port; delete one of them"
            );
        }
        let bytes = || records.write(item, owner, self.now());
        let write = match records.find(item) {
            None => Write::create(records.key(item), bytes()),
            Some(record) if owners.contains(&RecordOwner::in_record(&record)) => return Ok(()),
            Some(record) => Write::update(record.key.clone(), record.revision, bytes()),
        };
        tracing::warn!(
            ?item,
            ?owner,
            "repaired missing or wrong service allocation record"
        );
        match self.writer.commit(write).await {
            Ok(revision) => {
                self.caches.wait_until_applied(revision).await;
                Ok(())
            }
            // Something happened meanwhile: the next repair will see what.
            Err(CommitError::Conflict(_) | CommitError::TooLarge { .. }) => Ok(()),
            Err(CommitError::Uncertain(error) | CommitError::Store(error)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, ?item, "failed to write a service allocation record");
                Ok(())
            }
        }
    }

    fn now(&self) -> Time {
        Time::from(self.clock.system_time())
    }
}

// --- RepairTask ---

impl Drop for RepairTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
