//! What the file store does when the disk fails it: power loss, a full disk, damaged bytes.
#![expect(clippy::unwrap_used, reason = "a test fails on what it does not expect")]

mod damage;
mod disk;
mod full;
mod journal;
mod outcomes;
mod power;

use std::{collections::BTreeMap, sync::Arc};

use k3_storage::{
    Key, OpenError, Page, Prefix, Revision, Store, Write,
    file::{Durability, FileOptions, FileStore},
};

/// A key of these tests.
fn key(name: impl std::fmt::Display) -> Key {
    Key::try_new(format!("/items/{name}")).unwrap()
}

/// What the store holds, by key.
async fn contents(store: &dyn Store) -> BTreeMap<String, (Revision, Vec<u8>)> {
    let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
    let entries = range.entries.into_iter();
    entries
        .map(|entry| (entry.key.to_string(), (entry.revision, entry.value.to_vec())))
        .collect()
}

/// A value that differs for every key and round, and is long enough to fill pages.
fn value(name: impl std::fmt::Display, round: u64) -> Vec<u8> {
    format!("{name} in round {round}; ").repeat(40).into_bytes()
}

/// Opens a store on a simulated disk, with a journal from the first commit on.
async fn open_on(disk: &Arc<disk::SimulatedDisk>, durability: Durability) -> Arc<FileStore> {
    open_with(disk, durability, 0).await
}

/// Opens a store on a simulated disk, with a journal after so many groups of commits.
async fn open_with(
    disk: &Arc<disk::SimulatedDisk>,
    durability: Durability,
    journal_after: u64,
) -> Arc<FileStore> {
    let mut options = FileOptions::new("simulated");
    options.durability = durability;
    options.journal_after = journal_after;
    try_open(disk, options).await.unwrap()
}

/// Opens a store on a simulated disk that may fail it.
async fn try_open(
    disk: &Arc<disk::SimulatedDisk>,
    options: FileOptions,
) -> Result<Arc<FileStore>, OpenError> {
    FileStore::open_on(Arc::new(disk::MountedDisk::new(disk)), options).await
}

/// Creates `count` entries, one after the other.
async fn fill(store: &dyn Store, count: u64) {
    for name in 0..count {
        store
            .commit(Write::create(key(name), value(name, 0)))
            .await
            .unwrap();
    }
}
