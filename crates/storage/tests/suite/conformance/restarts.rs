//! Compactors remember across restarts: history stays bounded however short each process lives.

use std::{sync::Arc, time::Duration};

use k3_storage::{
    CompactionSchedule, HistoryMark, Revision, Store, WatchError,
    file::{FileOptions, FileStore},
};
use k3_task::{Clock, Timestamp};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{
    backend::{self, TestBackend},
    store_ext::{StoreExt, prefix},
};

conformance_tests! {
    every: [
        only_the_mark_that_is_expected_is_replaced,
        marks_are_not_shown_to_watches_and_change_no_entry,
    ],
    durable: [
        a_mark_is_there_after_the_store_is_opened_again,
        four_hundred_quick_restarts_leave_the_history_of_two_periods,
        what_is_old_is_compacted_at_the_start,
    ],
    shared: [
        processes_share_one_mark,
        a_process_whose_clock_is_ahead_does_not_compact_what_another_needs,
    ],
}

const PERIOD: Duration = Duration::from_mins(5);

/// A clock that a test sets.
#[derive(Clone, Debug)]
struct SetClock(Arc<Mutex<Timestamp>>);

// --- SetClock ---

impl SetClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Clock::system().now())))
    }

    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Clock::new(move || *time.lock())
    }

    fn advance(&self, by: Duration) {
        *self.0.lock() += by;
    }

    /// The schedule of a process that starts now.
    fn schedule(&self) -> CompactionSchedule {
        CompactionSchedule::new(PERIOD, self.clock())
    }
}

fn mark(revision: u64, time_ms: u64) -> HistoryMark {
    HistoryMark {
        revision: Revision::new(revision),
        time_ms,
    }
}

/// Whether a watch may begin after a revision.
async fn is_kept(store: &dyn Store, revision: Revision) -> bool {
    match store.watch(&prefix("/"), revision).await {
        Ok(_) => true,
        Err(WatchError::Compacted { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Writes some keys again, at the same time.
async fn churn(store: &Arc<dyn Store>, value: &[u8]) -> Revision {
    let mut writes = JoinSet::new();
    for number in 0..5 {
        let store = Arc::clone(store);
        let value = value.to_vec();
        writes.spawn(async move { store.put(&format!("/{number}"), value).await });
    }
    let revisions = writes.join_all().await;
    revisions.into_iter().max().unwrap()
}

async fn only_the_mark_that_is_expected_is_replaced(backend: &dyn TestBackend) {
    let store = backend.open().await;
    assert_eq!(store.history_mark().await.unwrap(), None);
    let first = mark(7, 1000);
    assert!(!store.replace_history_mark(Some(first), first).await.unwrap());
    assert!(store.replace_history_mark(None, first).await.unwrap());
    let second = mark(u64::from(u32::MAX) + 9, 1_763_470_000_123);
    assert!(!store.replace_history_mark(None, second).await.unwrap());
    assert_eq!(store.history_mark().await.unwrap(), Some(first));
    assert!(store.replace_history_mark(Some(first), second).await.unwrap());
    assert_eq!(store.history_mark().await.unwrap(), Some(second));
}

async fn marks_are_not_shown_to_watches_and_change_no_entry(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/a", "1").await;
    let mut watch = store.follow("/", created).await;
    let before = store.list("/").await;
    store.replace_history_mark(None, mark(1, 1)).await.unwrap();
    assert_eq!(store.list("/").await.entries, before.entries);
    let updated = store.update("/a", created, "2").await;
    assert_eq!(watch.event().await.revision, updated);
}

async fn a_mark_is_there_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    store.replace_history_mark(None, mark(3, 4)).await.unwrap();
    store.close().await;
    let store = backend.open().await;
    assert_eq!(store.history_mark().await.unwrap(), Some(mark(3, 4)));
}

async fn four_hundred_quick_restarts_leave_the_history_of_two_periods(backend: &dyn TestBackend) {
    const LIFE: Duration = Duration::from_secs(40);
    let clock = SetClock::new();
    let mut written = Vec::new();
    for opened in 0..20 {
        let store = backend.open().await;
        // A process knows nothing of the one before, whether or not the test opens the store again for it.
        for _ in 0..20 {
            clock.schedule().run(store.as_ref()).await.unwrap();
            written.push((clock.clock().system_time(), churn(&store, b"x").await));
            clock.advance(LIFE);
        }
        for (time, revision) in written.iter().rev() {
            let age = clock.clock().system_time().duration_since(*time).unwrap();
            if age < PERIOD {
                assert!(
                    is_kept(store.as_ref(), *revision).await,
                    "{age:?}, opened {opened}"
                );
            }
            if age > 2 * (PERIOD + LIFE) {
                assert!(
                    !is_kept(store.as_ref(), *revision).await,
                    "{age:?}, opened {opened}"
                );
                break;
            }
        }
        store.close().await;
    }
}

async fn what_is_old_is_compacted_at_the_start(backend: &dyn TestBackend) {
    let clock = SetClock::new();
    let store = backend.open().await;
    let old = churn(&store, b"x").await;
    let newer = churn(&store, b"y").await;
    clock.schedule().run(store.as_ref()).await.unwrap();
    let after_mark = churn(&store, b"z").await;
    store.close().await;
    clock.advance(PERIOD * 100);
    let store = backend.open().await;
    assert!(is_kept(store.as_ref(), old).await);
    let next = clock.schedule().run(store.as_ref()).await.unwrap();
    assert_eq!(next, PERIOD);
    assert!(!is_kept(store.as_ref(), old).await);
    assert!(is_kept(store.as_ref(), newer).await);
    assert!(is_kept(store.as_ref(), after_mark).await);
}

async fn processes_share_one_mark(backend: &dyn TestBackend) {
    let clock = SetClock::new();
    let one = backend.open().await;
    let two = backend.open().await;
    let mut first = clock.schedule();
    first.run(one.as_ref()).await.unwrap();
    let written = one.history_mark().await.unwrap();
    let old = churn(&one, b"x").await;
    clock.advance(PERIOD / 2);
    // The second one neither compacts nor writes a mark before its time.
    let wait = clock.schedule().run(two.as_ref()).await.unwrap();
    assert_eq!(two.history_mark().await.unwrap(), written);
    assert!(wait <= PERIOD / 2, "{wait:?}");
    clock.advance(PERIOD / 2);
    clock.schedule().run(two.as_ref()).await.unwrap();
    let replaced = one.history_mark().await.unwrap();
    assert_ne!(replaced, written);
    assert!(is_kept(one.as_ref(), old).await);
    // The first one sees that it has been done.
    first.run(one.as_ref()).await.unwrap();
    assert_eq!(one.history_mark().await.unwrap(), replaced);
}

async fn a_process_whose_clock_is_ahead_does_not_compact_what_another_needs(backend: &dyn TestBackend) {
    let ahead = SetClock::new();
    let right = ahead.clone();
    let store = backend.open().await;
    let other = backend.open().await;
    let mut first = right.schedule();
    first.run(store.as_ref()).await.unwrap();
    // Another process replaces the mark with one of a clock that is an hour ahead, and the first one sees it while
    // it runs: it knows that the mark is new whatever its time reports.
    let old = churn(&store, b"x").await;
    let found = other.history_mark().await.unwrap();
    let stands = other.stands().await;
    let past = HistoryMark::new(stands, right.clock().system_time() - Duration::from_hours(1));
    assert!(other.replace_history_mark(found, past).await.unwrap());
    churn(&store, b"y").await;
    first.run(store.as_ref()).await.unwrap();
    assert!(is_kept(store.as_ref(), old).await);
    assert_eq!(store.history_mark().await.unwrap(), Some(past));
}

#[test]
fn the_file_stays_small_in_quick_restarts() {
    backend::run(async {
        let directory = tempfile::tempdir().unwrap();
        let clock = SetClock::new();
        let mut largest = 0;
        for _ in 0..60 {
            let options = FileOptions::new(directory.path());
            let store: Arc<dyn Store> = FileStore::open(options).await.unwrap();
            clock.schedule().run(store.as_ref()).await.unwrap();
            for _ in 0..4 {
                churn(&store, &vec![7; 20_000]).await;
            }
            clock.advance(Duration::from_mins(1));
            store.close().await;
            let len = std::fs::metadata(directory.path().join("store.redb"))
                .unwrap()
                .len();
            largest = largest.max(len);
        }
        // Each start writes 400 kB, and the history of ten of them is kept: 24 MB are written in all.
        assert!(largest < 12 << 20, "the file has grown to {largest} bytes");
    });
}

/// The rate of writes does not decide how large a store is, nor how long it takes to open one. There is no compactor here.
#[test]
fn churn_within_one_period_is_compacted_by_its_size() {
    backend::run(async {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = FileStore::open(FileOptions::new(directory.path())).await.unwrap();
        let start = store.stands().await;
        for _ in 0..35 {
            churn(&store, &vec![7; 400_000]).await;
        }
        let large = store.stands().await;
        // What is young stays for some seconds.
        while is_kept(store.as_ref(), start).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
            store.put("/small", "x").await;
        }
        assert!(is_kept(store.as_ref(), large).await, "half of the budget is kept");
    });
}
