//! The keys that all servers of a cluster must have in common, where they have a store in common.
//!
//! Promises: what one server signed, another one of the same store believes. The first server that comes puts its keys into the
//! store, under a name that no request reaches; whoever comes later takes them from there. Keys that differ are told, and
//! neither is replaced. Who can read the store can read them: it has all secrets of the cluster anyway.

use std::{error::Error, path::Path, sync::Arc};

use k3_storage::{CommitError, Key, Store, SystemClock, Write};
use serde::{Deserialize, Serialize};

use super::plane::no_certificates;
use crate::{
    certificates::{Certificates, Names},
    failure::Failure,
    secret_file::{self, FileError},
};

/// Where they are in the store: beside the objects, which all begin with `/registry/`.
const KEY: &str = "/k3/keys";
const CERTIFICATE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const SIGNING_KEY: &str = "service-account.key";

/// The keys, in PEM form.
#[derive(Clone, Serialize, Deserialize)]
struct SharedKeys {
    authority: String,
    authority_key: String,
    signing_key: String,
}

/// Makes the keys of a folder those of the store, or the other way round if the store has none yet.
pub(super) async fn agree(store: &Arc<dyn Store>, folder: &Path) -> Result<(), Failure> {
    let key = Key::try_new(KEY).expect("it is a key");
    let kept = SharedKeys::kept(folder)?;
    let is_new = kept.is_none();
    let stored = store.get(&key).await.map_err(no_answer)?;
    let stored = if let Some(entry) = stored {
        read(&entry.value)?
    } else {
        let own = match kept {
            Some(own) => own,
            None => SharedKeys::make(folder)?,
        };
        let value = serde_json::to_vec(&own).expect("texts can be written");
        match store.commit(Write::create(key, value)).await {
            Ok(_) => {
                tracing::info!("the keys of this cluster are in the store now, for further servers");
                return Ok(());
            }
            // Another server was faster.
            Err(CommitError::Conflict(Some(entry))) => read(&entry.value)?,
            Err(error) => return Err(no_answer(error)),
        }
    };
    if is_new {
        tracing::info!("using the keys of this cluster that are in the store");
        return stored.write(folder);
    }
    match SharedKeys::kept(folder)? {
        Some(own) if own.is_same(&stored) => Ok(()),
        _ => Err(Failure::new(
            format!(
                "the keys in {} are not those of the cluster in this store",
                folder.display()
            ),
            "name another folder with --data-dir, or remove this one: those of the store are used then;\n\
             or name another store, if this is to be a cluster of its own",
        )),
    }
}

fn read(bytes: &[u8]) -> Result<SharedKeys, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        let advice = "it is of another version of k3, or damaged: restore the store from a backup";
        Failure::new(format!("cannot read {KEY} in the store"), advice).because(error)
    })
}

fn no_answer(error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
    let advice = "see that the store can be read and written";
    Failure::new("cannot find out the keys of this cluster", advice).because(error)
}

// --- SharedKeys ---

impl SharedKeys {
    /// Those of a folder, if it has them.
    fn kept(folder: &Path) -> Result<Option<Self>, Failure> {
        let read =
            |name: &str| secret_file::read(&folder.join(name)).map_err(|error| no_certificates(error.into()));
        let [authority, authority_key, signing_key] = [CERTIFICATE, AUTHORITY_KEY, SIGNING_KEY].map(read);
        Ok(match (authority?, authority_key?, signing_key?) {
            (Some(authority), Some(authority_key), Some(signing_key)) => Some(SharedKeys {
                authority,
                authority_key,
                signing_key,
            }),
            _ => None,
        })
    }

    /// New ones, in a folder that has none.
    fn make(folder: &Path) -> Result<Self, Failure> {
        // The names are put right when the server knows them.
        Certificates::ensure(folder, &Names::new([]), &SystemClock).map_err(no_certificates)?;
        Self::kept(folder)?.ok_or_else(|| {
            let advice = "see that nobody else changes that folder";
            Failure::new(format!("the keys in {} are gone", folder.display()), advice)
        })
    }

    /// Puts them into a folder.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        let write = || {
            secret_file::make_folder(folder)?;
            let _alone = secret_file::lock(&folder.join(".lock"))?;
            // The certificate last: with it, a key that is missing is taken for lost.
            secret_file::write(&folder.join(SIGNING_KEY), &self.signing_key)?;
            secret_file::write(&folder.join(AUTHORITY_KEY), &self.authority_key)?;
            secret_file::write(&folder.join(CERTIFICATE), &self.authority)
        };
        write().map_err(|error: FileError| no_certificates(error.into()))
    }

    /// Whether what the others signed is good here. The certificate may have been renewed meanwhile.
    fn is_same(&self, other: &Self) -> bool {
        self.authority_key == other.authority_key && self.signing_key == other.signing_key
    }
}

#[cfg(test)]
mod tests {
    use k3_storage::memory::MemoryStore;

    use super::*;

    fn keys(folder: &Path) -> SharedKeys {
        SharedKeys::kept(folder).unwrap().unwrap()
    }

    #[tokio::test]
    async fn servers_of_one_store_have_the_same_keys_whichever_comes_first() {
        let store: Arc<dyn Store> = MemoryStore::new();
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        for folder in &folders {
            agree(&store, &folder.path().join("tls")).await.unwrap();
        }
        let [first, others @ ..] = folders.each_ref().map(|folder| keys(&folder.path().join("tls")));
        assert!(others.iter().all(|other| other.is_same(&first)));
        agree(&store, &folders[0].path().join("tls")).await.unwrap();
    }

    #[tokio::test]
    async fn keys_of_a_folder_are_published_and_those_of_another_cluster_refused() {
        let store: Arc<dyn Store> = MemoryStore::new();
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for folder in [&ours, &theirs] {
            SharedKeys::make(folder.path()).unwrap();
        }
        let before = keys(ours.path());
        agree(&store, ours.path()).await.unwrap();
        assert!(keys(ours.path()).is_same(&before));
        let other = keys(theirs.path());
        let refused = agree(&store, theirs.path()).await.unwrap_err().to_string();
        assert!(refused.contains("not those of the cluster"), "{refused}");
        assert!(keys(theirs.path()).is_same(&other));
    }
}
