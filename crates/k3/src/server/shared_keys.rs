//! The keys that servers with a shared store share.
//!
//! Promises: what one server signed, another one of the same store believes. The first server that comes puts its keys into the
//! store, under a name that no request reaches; whoever comes later takes them from there. Keys that were rotated in the directory of
//! one server go into the store, and from there to the others. Keys of another cluster are told, and nothing is replaced. Who can
//! read the store can read them: it has all secrets of the cluster anyway.

use std::{error::Error, path::Path};

use k3_storage::{CommitError, Key, Revision, Store, SystemClock, Write};

use super::control_plane::certificate_error;
use crate::{
    certificates::{LastSync, SharedKeys, StoredKeys},
    failure::Failure,
    file_format::FileFormat,
};

/// Where they are in the store: beside the objects, which all begin with `/registry/`.
const KEY: &str = "/k3/keys";

/// What a directory and a store have in common.
pub(super) struct SyncedKeys {
    /// The commit that put it into the store.
    pub(super) revision: Revision,
    pub(super) outcome: SyncOutcome,
}

/// Direction of the synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    Unchanged,
    /// The keys of the directory were written to the store.
    Published,
    /// The keys of the store were written to the directory.
    Adopted,
}

/// What happens when directory and store differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConflictPolicy {
    /// It may be another cluster: fail.
    Reject,
    /// The store wins: keys that were rotated here at the same time were never used.
    StoreWins,
}

/// Whether the entry under a key of the store holds private keys of the cluster. Snapshots leave such entries out.
pub(crate) fn holds_private_keys(key: &Key) -> bool {
    key.strip_prefix(KEY)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether there are private keys of a cluster in a store.
pub(crate) async fn has_private_keys(store: &dyn Store) -> Result<bool, Failure> {
    Ok(revision(store).await?.is_some())
}

/// The revision of the keys in the store, if there are any.
pub(super) async fn revision(store: &dyn Store) -> Result<Option<Revision>, Failure> {
    let entry = store.get(&store_key()).await.map_err(store_error)?;
    Ok(entry.map(|entry| entry.revision))
}

/// Synchronizes the keys of a directory with those of the store, in either direction.
pub(super) async fn sync_keys(
    store: &dyn Store,
    directory: &Path,
    policy: ConflictPolicy,
) -> Result<SyncedKeys, Failure> {
    // Keys that were generated here and did not reach the store were never used.
    let mut is_unused = false;
    loop {
        let StoredKeys { keys, last_sync } = SharedKeys::read(directory).map_err(certificate_error)?;
        let Some(entry) = store.get(&store_key()).await.map_err(store_error)? else {
            let own = if let Some(own) = keys {
                own
            } else {
                is_unused = true;
                SharedKeys::create(directory, &SystemClock).map_err(certificate_error)?
            };
            let create = Write::create(store_key(), bytes(&own));
            let Some(revision) = publish(store, create, &own, directory).await? else {
                continue;
            };
            tracing::info!("published the keys of this cluster in the store");
            return Ok(SyncedKeys {
                revision,
                outcome: SyncOutcome::Published,
            });
        };
        let stored = read(&entry.value)?;
        let was_last_synced = |keys: &SharedKeys| last_sync == LastSync::Value(keys.name());
        let revision = entry.revision;
        match keys {
            Some(own) if own == stored => {
                if !was_last_synced(&stored) {
                    stored.record_sync(directory).map_err(certificate_error)?;
                }
                return Ok(SyncedKeys {
                    revision,
                    outcome: SyncOutcome::Unchanged,
                });
            }
            // Unchanged in the store since the last sync: they were rotated here.
            Some(own) if was_last_synced(&stored) => {
                let update = Write::update(store_key(), revision, bytes(&own));
                if let Some(revision) = publish(store, update, &own, directory).await? {
                    tracing::info!("published rotated keys in the store");
                    return Ok(SyncedKeys {
                        revision,
                        outcome: SyncOutcome::Published,
                    });
                }
            }
            Some(own)
                if last_sync != LastSync::Partial
                    && !is_unused
                    && !was_last_synced(&own)
                    && !own.has_keys_of(&stored)
                    && policy == ConflictPolicy::Reject =>
            {
                return Err(Failure::new(
                    format!(
                        "the keys in {} are not those of the cluster in this store",
                        directory.display()
                    ),
                    "name another directory with --data-dir, or remove this one: those of the store are used then;\n\
                     or name another store, if this is to be a cluster of its own",
                ));
            }
            own => {
                if own
                    .is_some_and(|own| !is_unused && last_sync != LastSync::Partial && !was_last_synced(&own))
                {
                    tracing::warn!("replacing local keys with those of another server");
                }
                tracing::info!("using the keys of this cluster from the store");
                stored.write(directory).map_err(certificate_error)?;
                return Ok(SyncedKeys {
                    revision,
                    outcome: SyncOutcome::Adopted,
                });
            }
        }
    }
}

/// Writes to the store, and was_last_synced it; nothing if another server was faster.
async fn publish(
    store: &dyn Store,
    write: Write,
    own: &SharedKeys,
    directory: &Path,
) -> Result<Option<Revision>, Failure> {
    match store.commit(write).await {
        Ok(revision) => {
            own.record_sync(directory).map_err(certificate_error)?;
            Ok(Some(revision))
        }
        Err(CommitError::Conflict(_)) => Ok(None),
        Err(error) => Err(store_error(error)),
    }
}

fn store_key() -> Key {
    Key::try_new(KEY).expect("it is a key")
}

fn bytes(keys: &SharedKeys) -> Vec<u8> {
    serde_json::to_vec(keys).expect("texts can be written")
}

/// The format of what is stored. It carries none, and must not before all versions ignore one: what is stored is compared
/// with what is in the directory.
const FORMAT: u32 = 1;

fn read(bytes: &[u8]) -> Result<SharedKeys, Failure> {
    FileFormat::of_json(bytes).check(&format!("{KEY} in the store"), FORMAT)?;
    serde_json::from_slice(bytes).map_err(|error| {
        let advice = "it is of another version of k3, or damaged: restore the store from a backup";
        Failure::new(format!("cannot read {KEY} in the store"), advice).caused_by(error)
    })
}

fn store_error(error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
    let advice = "see that the store can be read and written";
    Failure::new("cannot find out the keys of this cluster", advice).caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, sync::Arc};

    use k3_storage::memory::MemoryStore;

    use super::*;
    use crate::certificates::{Certificates, Names, RotationTarget, finish, rotate};

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Machine(tempfile::tempdir().unwrap())
        }

        fn directory(&self) -> PathBuf {
            self.0.path().join("tls")
        }

        fn keys(&self) -> SharedKeys {
            SharedKeys::read(&self.directory()).unwrap().keys.unwrap()
        }

        async fn starts(&self, store: &Arc<MemoryStore>) -> SyncOutcome {
            let store: &dyn Store = store.as_ref();
            let synced = sync_keys(store, &self.directory(), ConflictPolicy::Reject).await;
            Certificates::ensure(&self.directory(), &Names::new([]), &SystemClock).unwrap();
            synced.unwrap().outcome
        }

        fn rotates(&self) {
            rotate(
                &self.directory(),
                &[RotationTarget::Ca, RotationTarget::ServiceAccount],
                &SystemClock,
            )
            .unwrap();
        }
    }

    #[tokio::test]
    async fn servers_of_one_store_share_keys() {
        let store = MemoryStore::new();
        let machines = [(); 3].map(|()| Machine::new());
        assert_eq!(machines[0].starts(&store).await, SyncOutcome::Published);
        assert_eq!(machines[1].starts(&store).await, SyncOutcome::Adopted);
        assert_eq!(machines[2].starts(&store).await, SyncOutcome::Adopted);
        let [first, others @ ..] = machines.each_ref().map(Machine::keys);
        assert!(others.iter().all(|other| *other == first));
        assert_eq!(machines[0].starts(&store).await, SyncOutcome::Unchanged);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn servers_that_start_at_once_on_an_empty_store_agree() {
        let store = MemoryStore::new();
        let machines = Arc::new([(); 8].map(|()| Machine::new()));
        let mut starts = tokio::task::JoinSet::new();
        for index in 0..machines.len() {
            let (machines, store) = (Arc::clone(&machines), Arc::clone(&store));
            starts.spawn(async move { machines[index].starts(&store).await });
        }
        let outcomes = starts.join_all().await;
        let published = outcomes
            .iter()
            .filter(|outcome| **outcome == SyncOutcome::Published);
        assert_eq!(published.count(), 1);
        let first = machines[0].keys();
        assert!(machines.iter().all(|machine| machine.keys() == first));
    }

    #[tokio::test]
    async fn keys_of_a_directory_are_published_and_those_of_another_cluster_refused() {
        let store = MemoryStore::new();
        let [ours, theirs] = [(); 2].map(|()| Machine::new());
        for machine in [&ours, &theirs] {
            SharedKeys::create(&machine.directory(), &SystemClock).unwrap();
        }
        let before = ours.keys();
        ours.starts(&store).await;
        assert_eq!(ours.keys(), before);
        let other = theirs.keys();
        let refused = sync_keys(store.as_ref(), &theirs.directory(), ConflictPolicy::Reject).await;
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.contains("not those of the cluster"), "{refused}");
        assert_eq!(theirs.keys(), other);
    }

    #[tokio::test]
    async fn both_steps_of_a_rotation_reach_the_others_also_those_that_were_off() {
        let store = MemoryStore::new();
        let [here, there, off] = [(); 3].map(|()| Machine::new());
        for machine in [&here, &there, &off] {
            machine.starts(&store).await;
        }
        let old = here.keys();
        here.rotates();
        assert_eq!(here.starts(&store).await, SyncOutcome::Published);
        assert_eq!(there.starts(&store).await, SyncOutcome::Adopted);
        assert_eq!(there.keys(), here.keys());
        assert!(there.keys() != old);
        finish(&there.directory(), &SystemClock).unwrap();
        assert_eq!(there.starts(&store).await, SyncOutcome::Published);
        for machine in [&here, &off] {
            assert_eq!(machine.starts(&store).await, SyncOutcome::Adopted);
            assert_eq!(machine.keys(), there.keys());
        }
    }

    #[tokio::test]
    async fn of_two_rotations_at_once_that_in_the_store_counts_for_who_runs() {
        let store = MemoryStore::new();
        let [here, there] = [(); 2].map(|()| Machine::new());
        for machine in [&here, &there] {
            machine.starts(&store).await;
            machine.rotates();
        }
        here.starts(&store).await;
        assert!(
            sync_keys(store.as_ref(), &there.directory(), ConflictPolicy::Reject)
                .await
                .is_err()
        );
        let synced = sync_keys(store.as_ref(), &there.directory(), ConflictPolicy::StoreWins).await;
        assert_eq!(synced.unwrap().outcome, SyncOutcome::Adopted);
        assert_eq!(there.keys(), here.keys());
    }

    #[tokio::test]
    async fn a_directory_that_was_half_written_gets_the_rest_from_the_store() {
        let store = MemoryStore::new();
        let [here, there] = [(); 2].map(|()| Machine::new());
        for machine in [&here, &there] {
            machine.starts(&store).await;
        }
        let other = Machine::new();
        SharedKeys::create(&other.directory(), &SystemClock).unwrap();
        fs::copy(other.directory().join("ca.key"), there.directory().join("ca.key")).unwrap();
        fs::write(there.directory().join("agreed"), "half written").unwrap();
        assert_eq!(there.starts(&store).await, SyncOutcome::Adopted);
        assert_eq!(there.keys(), here.keys());
    }
}
