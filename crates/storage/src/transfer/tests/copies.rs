//! Straight from a store into another.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k3_task::{Clock, Timestamp};
use proptest::prelude::*;

use super::{
    super::{CopyError, CopySummary, copy},
    REVISION, any_entries, block_on, entries_of, entry, expiring, quiet, store_of,
};
use crate::{
    DelegatingStore, Entry, Expiry, Import, ImportError, Page, Prefix, Revision, Store, Write,
    memory::MemoryStore,
};

/// A store that changes what it is given, as a faulty disk or a wrong setting of a database does.
struct FailingStore {
    inner: Arc<MemoryStore>,
    spoil: fn(&mut Vec<Entry>),
}

struct FaultyImport {
    inner: Box<dyn Import>,
    spoil: fn(&mut Vec<Entry>),
}

// --- FailingStore ---

#[async_trait]
impl DelegatingStore for FailingStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        let inner = self.inner.begin_import(source).await?;
        Ok(Box::new(FaultyImport {
            inner,
            spoil: self.spoil,
        }))
    }
}

#[async_trait]
impl Import for FaultyImport {
    async fn put(&mut self, mut entries: Vec<Entry>) -> Result<(), ImportError> {
        (self.spoil)(&mut entries);
        self.inner.put(entries).await
    }
    async fn finish(self: Box<Self>) -> Result<Revision, ImportError> {
        self.inner.finish().await
    }
}

fn fixed_clock(since_epoch: Duration) -> Clock {
    Clock::new(move || Timestamp::UNIX_EPOCH + since_epoch)
}

fn samples() -> Vec<Entry> {
    vec![
        entry("/a", b"1", 2),
        expiring("/b", b"2", 3),
        entry("/c", b"3", 4),
    ]
}

async fn copy_to_faulty(spoil: fn(&mut Vec<Entry>)) -> Result<CopySummary, CopyError> {
    let target = FailingStore {
        inner: MemoryStore::new(),
        spoil,
    };
    copy(&*store_of(&samples()).await, &target, &Clock::system(), quiet).await
}

#[tokio::test]
async fn detects_a_copy_that_differs() {
    copy_to_faulty(|_| {})
        .await
        .expect("a store that changes nothing passes");
    for (spoil, reason) in [
        (
            (|entries| drop(entries.pop())) as fn(&mut Vec<Entry>),
            "1 permanent entries of 2",
        ),
        (
            |entries| entries[0].value = "x".into(),
            "not those that were copied",
        ),
        (
            |entries| entries[0].key = entry("/A", b"", 1).key,
            "not those that were copied",
        ),
        (
            |entries| entries[1].value = "x".into(),
            "the value of /b is not the one copied",
        ),
        (|entries| drop(entries.remove(1)), "/b is missing before its time"),
        (
            |entries| entries[1].key = entry("/bb", b"", 1).key,
            "holds /bb, which was not copied",
        ),
        (
            |entries| entries.push(entry("/d", b"", 2)),
            "3 permanent entries of 2",
        ),
        (|entries| entries[1].expiry = None, "3 permanent entries of 2"),
    ] {
        let error = copy_to_faulty(spoil).await.unwrap_err();
        assert!(matches!(error, CopyError::Different(_)), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn accepts_missing_expired_entries() {
    let expiry = expiring("/b", b"", 1).expiry.unwrap();
    let forgetful = FailingStore {
        inner: MemoryStore::new(),
        spoil: |entries| drop(entries.remove(1)),
    };
    let source = store_of(&samples()).await;
    let later = fixed_clock(Duration::from_millis(expiry.deadline_ms));
    let summary = copy(&*source, &forgetful, &later, quiet).await.unwrap();
    assert_eq!((summary.transferred.entries, summary.expired), (3, 1));
}

#[tokio::test]
async fn an_entry_that_expires_in_the_target_at_once_is_no_difference() {
    let past = Entry {
        expiry: Some(Expiry {
            deadline_ms: 1,
            ttl: Duration::from_secs(1),
        }),
        ..entry("/a", b"", 2)
    };
    let source = MemoryStore::with_clock(fixed_clock(Duration::ZERO));
    let mut import = source.begin_import(Revision::new(REVISION)).await.unwrap();
    import.put(vec![past]).await.unwrap();
    import.finish().await.unwrap();
    copy(&*source, &*MemoryStore::new(), &Clock::system(), quiet)
        .await
        .unwrap();
}

#[tokio::test]
async fn commits_that_arrived_too_late_are_counted() {
    let source = store_of(&samples()).await;
    let target = MemoryStore::new();
    let summary = copy(&*source, &*target, &Clock::system(), quiet).await.unwrap();
    assert_eq!(summary.missed_commits, 0);

    let entries: Vec<_> = (0..2000)
        .map(|n| entry(&format!("/{n:04}"), &[0; 2000], 2))
        .collect();
    let source = store_of(&entries).await;
    let (entry_copied, mut copied) = tokio::sync::mpsc::unbounded_channel();
    let target = MemoryStore::new();
    let clock = Clock::system();
    let copying = copy(&*source, &*target, &clock, move |_| {
        entry_copied.send(()).unwrap();
    });
    let writing = async {
        copied.recv().await.unwrap();
        source
            .commit(Write::create(entry("/late", b"", 1).key, "x"))
            .await
            .unwrap();
    };
    let (summary, ()) = tokio::join!(copying, writing);
    assert_eq!(summary.unwrap().missed_commits, 1);
    assert_eq!(entries_of(&*target).await, entries);
}

#[tokio::test]
async fn a_non_empty_target_is_not_changed() {
    let target = store_of(&[entry("/mine", b"kept", 2)]).await;
    let error = copy(&*store_of(&samples()).await, &*target, &Clock::system(), quiet)
        .await
        .unwrap_err();
    assert!(
        matches!(error, CopyError::Target(ImportError::NotEmpty)),
        "{error}"
    );
    assert_eq!(entries_of(&*target).await, [entry("/mine", b"kept", 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copies_preserve_arbitrary_entries(entries in any_entries()) {
        block_on(async {
            // A clock that stands at the beginning: nothing has expired yet.
            let source = store_of(&entries).await;
            let target = MemoryStore::with_clock(fixed_clock(Duration::ZERO));
            let summary = copy(&*source, &*target, &Clock::system(), quiet).await.unwrap();
            assert_eq!(summary.target, Revision::new(REVISION));
            let page = Page { at: Some(summary.target), ..Page::all() };
            assert_eq!(target.range(&Prefix::all(), page).await.unwrap().entries, entries);
        });
    }
}
