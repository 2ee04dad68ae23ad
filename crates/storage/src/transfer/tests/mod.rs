//! Tests of moving entries, between stores in memory.

mod copies;
mod forgery;
mod hostile;
mod live;
mod round_trip;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use proptest::prelude::*;

use super::{TransferProgress, backup};
use crate::{Entry, Expiry, Key, Page, Prefix, Revision, Store, memory::MemoryStore};

/// The revision of the stores that hold sample entries: above all of theirs.
const REVISION: u64 = 1_000_000;

/// An entry that stays.
pub(super) fn entry(key: &str, value: &[u8], revision: u64) -> Entry {
    Entry {
        key: Key::try_new(key).unwrap(),
        value: Bytes::copy_from_slice(value),
        revision: Revision::new(revision),
        expiry: None,
    }
}

/// An entry that expires, at a deadline no clock of a test reaches unless it wants to.
fn expiring(key: &str, value: &[u8], revision: u64) -> Entry {
    Entry {
        expiry: Some(Expiry {
            deadline_ms: 4_000_000_000_000,
            ttl: Duration::from_hours(1),
        }),
        ..entry(key, value, revision)
    }
}

/// A store in memory that holds these entries and stands at [`REVISION`].
async fn store_of(entries: &[Entry]) -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    let mut import = store.begin_import(Revision::new(REVISION)).await.unwrap();
    import.put(entries.to_vec()).await.unwrap();
    import.finish().await.unwrap();
    store
}

/// All entries of a store.
async fn entries_of(store: &dyn Store) -> Vec<Entry> {
    store.range(&Prefix::all(), Page::all()).await.unwrap().entries
}

/// The backup of a store that holds these entries.
async fn backup_of(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    backup(&*store_of(entries).await, &mut bytes, noon(), quiet)
        .await
        .unwrap();
    bytes
}

fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_hours(500_000)
}

fn quiet(_: TransferProgress) {}

/// Entries with all sorts of keys, values and expiries, in the order of their keys.
fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = "/[a-z0-9/.:~ \u{e9}\u{4e16}]{0,40}[a-z0-9\u{1f980}]";
    let value = prop::collection::vec(any::<u8>(), 0..200);
    let expiry = prop::option::of((any::<u64>(), 0..10_000_000_000_u64));
    let held = (value, 1..=REVISION, expiry);
    prop::collection::btree_map(key, held, 0..30).prop_map(|map: BTreeMap<_, _>| {
        map.into_iter()
            .map(|(key, (value, revision, expiry))| Entry {
                expiry: expiry.map(|(deadline_ms, ttl)| Expiry {
                    deadline_ms,
                    ttl: Duration::from_millis(ttl),
                }),
                ..entry(&key, &value, revision)
            })
            .collect()
    })
}

/// Runs a test of async code over random input.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}
