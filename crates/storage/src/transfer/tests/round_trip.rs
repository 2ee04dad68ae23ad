//! Restored entries equal the backed-up entries.

use std::time::{Duration, UNIX_EPOCH};

use k3_task::Clock;
use proptest::prelude::*;

use super::{
    super::{CompareError, TransferProgress, backup, compare, inspect, restore},
    REVISION, any_entries, backup_of, block_on, entries_of, entry, expiring,
    forgery::ForgedBackup,
    noon, quiet, store_of,
};
use crate::{Entry, MAX_VALUE_BYTES, Revision, Store, Write, memory::MemoryStore};

#[tokio::test]
async fn stream_matches_the_documented_format() {
    let written = backup_of(&[entry("/a", b"one", 7), entry("/b", b"", 9)]).await;
    let by_hand = ForgedBackup::new(REVISION)
        .entry(b"/a", 7, b"one")
        .entry(b"/b", 9, b"")
        .end(2);
    assert_eq!(written, by_hand);

    let mut body = vec![2, 0, b'/', b'c'];
    body.extend(8_u64.to_le_bytes());
    body.push(1);
    body.extend(4_000_000_000_000_u64.to_le_bytes());
    body.extend(3_600_000_u64.to_le_bytes());
    body.extend(b"expires s");
    let by_hand = ForgedBackup::new(REVISION).frame(1, &body).end(1);
    assert_eq!(backup_of(&[expiring("/c", b"expires s", 8)]).await, by_hand);
}

/// The document and the code share nothing but this example, and the example was computed elsewhere.
#[tokio::test]
async fn writes_the_documented_example() {
    let document = include_str!("../../../../../docs/backup-format.md");
    let (_, example) = document.split_once("## Example").unwrap();
    let dump = example.split("```").nth(1).unwrap();
    let bytes: Vec<u8> = dump
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();

    let source = MemoryStore::new();
    let mut import = source.begin_import(Revision::new(9)).await.unwrap();
    import.put(vec![entry("/a", b"hi", 7)]).await.unwrap();
    import.finish().await.unwrap();
    let new_year = UNIX_EPOCH + Duration::from_hours(490_896);
    let mut written = Vec::new();
    backup(&*source, &mut written, new_year, quiet).await.unwrap();
    assert_eq!(written, bytes);
}

#[tokio::test]
async fn compares_a_store_with_its_backup() {
    let bytes = backup_of(&[entry("/a", b"one", 7), entry("/b", b"", 9)]).await;
    let store = MemoryStore::new();
    let stands = restore(&bytes[..], &*store, quiet).await.unwrap().revision;
    let later = store
        .commit(Write::create(entry("/c", b"", 1).key, "x"))
        .await
        .unwrap();
    assert_eq!(
        compare(&bytes[..], &*store, stands, &Clock::system())
            .await
            .unwrap(),
        0
    );
    let different = compare(&bytes[..], &*store, later, &Clock::system()).await;
    assert!(
        matches!(different, Err(CompareError::Different(_))),
        "{different:?}"
    );
}

#[tokio::test]
async fn an_empty_store_is_backed_up_and_restored() {
    let source = MemoryStore::new();
    let mut bytes = Vec::new();
    let summary = backup(&*source, &mut bytes, noon(), quiet).await.unwrap();
    assert_eq!(
        (summary.revision, summary.transferred),
        (Revision::FIRST, TransferProgress::default())
    );
    let target = MemoryStore::new();
    let restored = restore(&bytes[..], &*target, quiet).await.unwrap();
    assert_eq!(restored.revision, Revision::FIRST);
    assert_eq!(entries_of(&*target).await, []);
}

#[tokio::test]
async fn the_largest_key_and_value_go_through() {
    let largest = entry(&"k".repeat(768), &vec![0xff; MAX_VALUE_BYTES], REVISION);
    let long_lived = Entry {
        expiry: expiring("/x", b"", 1).expiry,
        ..largest
    };
    let bytes = backup_of(std::slice::from_ref(&long_lived)).await;
    let target = MemoryStore::new();
    restore(&bytes[..], &*target, quiet).await.unwrap();
    assert_eq!(entries_of(&*target).await, [long_lived]);
}

#[tokio::test]
async fn a_restored_store_continues_above_the_backup() {
    let bytes = backup_of(&[entry("/a", b"1", 5)]).await;
    let target = MemoryStore::new();
    let summary = restore(&bytes[..], &*target, quiet).await.unwrap();
    assert_eq!(summary.revision, Revision::new(REVISION));
    let key = entry("/a", b"", 1).key;
    let next = target
        .commit(Write::update(key, Revision::new(5), "2"))
        .await
        .unwrap();
    assert_eq!(next, Revision::new(REVISION + 1));
}

#[tokio::test]
async fn progress_grows_to_the_whole() {
    let entries: Vec<_> = (0..2000)
        .map(|n| entry(&format!("/{n:04}"), b"value", n + 1))
        .collect();
    let whole = TransferProgress {
        entries: 2000,
        bytes: 2000 * 10,
    };
    let source = store_of(&entries).await;
    let mut bytes = Vec::new();
    let mut reported = Vec::new();
    let summary = backup(&*source, &mut bytes, noon(), |transferred| {
        reported.push(transferred);
    })
    .await
    .unwrap();
    assert_eq!(summary.transferred, whole);
    assert_eq!(*reported.last().unwrap(), whole);
    assert!(
        reported.len() > 2 && reported.is_sorted_by_key(|transferred| transferred.entries),
        "{reported:?}"
    );

    reported.clear();
    let target = MemoryStore::new();
    let restored = restore(&bytes[..], &*target, |transferred| reported.push(transferred))
        .await
        .unwrap();
    assert_eq!(restored.backup, summary);
    assert_eq!(*reported.last().unwrap(), whole);
    assert!(
        reported.len() > 2 && reported.is_sorted_by_key(|transferred| transferred.entries),
        "{reported:?}"
    );
    assert_eq!(inspect(&bytes[..]).await.unwrap(), summary);
}

#[test]
fn the_futures_can_be_moved_between_threads() {
    fn assert_send<T: Send>(_: T) {}
    fn check(store: &dyn Store) {
        assert_send(backup(store, Vec::new(), noon(), quiet));
        assert_send(restore(&[][..], store, quiet));
        assert_send(inspect(&[][..]));
        assert_send(super::super::copy(store, store, &k3_task::Clock::system(), quiet));
    }
    let _: fn(&dyn Store) = check;
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn backups_preserve_arbitrary_entries(entries in any_entries()) {
        block_on(async {
            let bytes = backup_of(&entries).await;
            let target = MemoryStore::new();
            let summary = restore(&bytes[..], &*target, quiet).await.unwrap();
            assert_eq!(entries_of_import(&*target, summary.revision).await, entries);
            assert_eq!(summary.backup, inspect(&bytes[..]).await.unwrap());
            assert_eq!(summary.backup.created_at, noon());
        });
    }
}

/// What an import left, also when some of it has expired since.
async fn entries_of_import(store: &dyn Store, at: Revision) -> Vec<Entry> {
    let page = crate::Page {
        at: Some(at),
        ..crate::Page::all()
    };
    store.range(&crate::Prefix::all(), page).await.unwrap().entries
}
