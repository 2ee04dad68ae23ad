//! The keys that servers with a shared store share.
//!
//! Each server accepts what another server of the same store signed. The first server writes its keys to the store under a key that
//! no request reaches, and later servers read them. Keys that were rotated in the directory of one server are written to the
//! store and read by the others. A directory with keys of another cluster is an error, and nothing is replaced. A reader of
//! the store can read the keys; the store contains all secrets of the cluster anyway.

use std::{error::Error, path::Path};

use k3_storage::{CommitError, Key, Revision, Store, Write};
use kubecontroller::Clock;

use super::control_plane::certificate_error;
use crate::{
    certificates::{LastSync, SharedKeys, StoredKeys},
    command_error::CommandError,
    file_format::FileFormat,
};

/// The store key. Objects are below `/registry/`, so that it cannot collide with them.
const KEY: &str = "/k3/keys";

/// The last value that a directory and the store had in common.
pub(super) struct SyncedKeys {
    /// The revision of the shared keys in the store.
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

/// The reaction to different keys in directory and store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConflictPolicy {
    /// Fail, because the store may belong to another cluster.
    Reject,
    /// Use the keys of the store: a concurrent rotation here was never used.
    StoreWins,
}

/// Whether a store key holds private keys of the cluster. Snapshots exclude it.
pub(crate) fn holds_private_keys(key: &Key) -> bool {
    key.strip_prefix(KEY)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a store contains private keys of a cluster.
pub(crate) async fn has_private_keys(store: &dyn Store) -> Result<bool, CommandError> {
    Ok(revision(store).await?.is_some())
}

/// The revision of the keys in the store; `None` without keys.
pub(super) async fn revision(store: &dyn Store) -> Result<Option<Revision>, CommandError> {
    let entry = store.get(&store_key()).await.map_err(store_error)?;
    Ok(entry.map(|entry| entry.revision))
}

/// Synchronizes the keys of a directory with those of the store, in either direction.
pub(super) async fn sync_keys(
    store: &dyn Store,
    directory: &Path,
    policy: ConflictPolicy,
) -> Result<SyncedKeys, CommandError> {
    // Keys that were generated here and did not reach the store were never used, so they may be replaced.
    let mut is_unused = false;
    loop {
        let StoredKeys { keys, last_sync } = SharedKeys::read(directory).map_err(certificate_error)?;
        let Some(entry) = store.get(&store_key()).await.map_err(store_error)? else {
            let own = if let Some(own) = keys {
                own
            } else {
                is_unused = true;
                SharedKeys::create(directory, &Clock::system()).map_err(certificate_error)?
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
            // The store is unchanged since the last synchronization, so the keys were rotated here.
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
                return Err(CommandError::new(
                    format!(
                        "the keys in {} differ from the keys of the cluster in this store",
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

/// Writes the keys to the store and records them. Returns `None` if another server wrote first.
async fn publish(
    store: &dyn Store,
    write: Write,
    own: &SharedKeys,
    directory: &Path,
) -> Result<Option<Revision>, CommandError> {
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
    Key::try_new(KEY).expect("the key is valid")
}

fn bytes(keys: &SharedKeys) -> Vec<u8> {
    serde_json::to_vec(keys).expect("strings serialize")
}

/// The format version of the stored value, which is not part of it: values are compared with the directory byte by byte. It may be
/// added when all supported versions ignore it.
const FORMAT: u32 = 1;

fn read(bytes: &[u8]) -> Result<SharedKeys, CommandError> {
    FileFormat::of_json(bytes).check(&format!("{KEY} in the store"), FORMAT)?;
    serde_json::from_slice(bytes).map_err(|error| {
        let advice = "another version of k3 wrote it, or it is damaged: restore the store from a backup";
        CommandError::new(format!("cannot read {KEY} in the store"), advice).caused_by(error)
    })
}

fn store_error(error: impl Into<Box<dyn Error + Send + Sync>>) -> CommandError {
    let advice = "check that the store can be read and written";
    CommandError::new("cannot synchronize the keys of this cluster", advice).caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, sync::Arc};

    use k3_storage::memory::MemoryStore;

    use super::*;
    use crate::certificates::{RotationTarget, ServerCertificates, SubjectAltNames, finish, rotate};

    struct TestServer(tempfile::TempDir);

    impl TestServer {
        fn new() -> Self {
            TestServer(tempfile::tempdir().unwrap())
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
            ServerCertificates::ensure(&self.directory(), &SubjectAltNames::new([]), &Clock::system())
                .unwrap();
            synced.unwrap().outcome
        }

        fn rotates(&self) {
            rotate(
                &self.directory(),
                &[RotationTarget::Ca, RotationTarget::ServiceAccount],
                &Clock::system(),
            )
            .unwrap();
        }
    }

    #[tokio::test]
    async fn servers_of_one_store_share_keys() {
        let store = MemoryStore::new();
        let servers = [(); 3].map(|()| TestServer::new());
        assert_eq!(servers[0].starts(&store).await, SyncOutcome::Published);
        assert_eq!(servers[1].starts(&store).await, SyncOutcome::Adopted);
        assert_eq!(servers[2].starts(&store).await, SyncOutcome::Adopted);
        let [first, others @ ..] = servers.each_ref().map(TestServer::keys);
        assert!(others.iter().all(|other| *other == first));
        assert_eq!(servers[0].starts(&store).await, SyncOutcome::Unchanged);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn servers_that_start_at_once_on_an_empty_store_agree() {
        let store = MemoryStore::new();
        let servers = Arc::new([(); 8].map(|()| TestServer::new()));
        let mut starts = tokio::task::JoinSet::new();
        for index in 0..servers.len() {
            let servers = Arc::clone(&servers);
            let store = Arc::clone(&store);
            starts.spawn(async move { servers[index].starts(&store).await });
        }
        let outcomes = starts.join_all().await;
        let published = outcomes
            .iter()
            .filter(|outcome| **outcome == SyncOutcome::Published);
        assert_eq!(published.count(), 1);
        let first = servers[0].keys();
        assert!(servers.iter().all(|server| server.keys() == first));
    }

    #[tokio::test]
    async fn keys_of_a_directory_are_published_and_those_of_another_cluster_refused() {
        let store = MemoryStore::new();
        let [ours, theirs] = [(); 2].map(|()| TestServer::new());
        for server in [&ours, &theirs] {
            SharedKeys::create(&server.directory(), &Clock::system()).unwrap();
        }
        let before = ours.keys();
        ours.starts(&store).await;
        assert_eq!(ours.keys(), before);
        let other = theirs.keys();
        let refused = sync_keys(store.as_ref(), &theirs.directory(), ConflictPolicy::Reject).await;
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(
            refused.contains("differ from the keys of the cluster"),
            "{refused}"
        );
        assert_eq!(theirs.keys(), other);
    }

    #[tokio::test]
    async fn both_steps_of_a_rotation_reach_the_others_also_those_that_were_off() {
        let store = MemoryStore::new();
        let [here, there, off] = [(); 3].map(|()| TestServer::new());
        for server in [&here, &there, &off] {
            server.starts(&store).await;
        }
        let old = here.keys();
        here.rotates();
        assert_eq!(here.starts(&store).await, SyncOutcome::Published);
        assert_eq!(there.starts(&store).await, SyncOutcome::Adopted);
        assert_eq!(there.keys(), here.keys());
        assert!(there.keys() != old);
        finish(&there.directory(), &Clock::system()).unwrap();
        assert_eq!(there.starts(&store).await, SyncOutcome::Published);
        for server in [&here, &off] {
            assert_eq!(server.starts(&store).await, SyncOutcome::Adopted);
            assert_eq!(server.keys(), there.keys());
        }
    }

    #[tokio::test]
    async fn of_two_rotations_at_once_that_in_the_store_counts_for_who_runs() {
        let store = MemoryStore::new();
        let [here, there] = [(); 2].map(|()| TestServer::new());
        for server in [&here, &there] {
            server.starts(&store).await;
            server.rotates();
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
        let [here, there] = [(); 2].map(|()| TestServer::new());
        for server in [&here, &there] {
            server.starts(&store).await;
        }
        let other = TestServer::new();
        SharedKeys::create(&other.directory(), &Clock::system()).unwrap();
        fs::copy(other.directory().join("ca.key"), there.directory().join("ca.key")).unwrap();
        fs::write(there.directory().join("agreed"), "half written").unwrap();
        assert_eq!(there.starts(&store).await, SyncOutcome::Adopted);
        assert_eq!(there.keys(), here.keys());
    }
}
