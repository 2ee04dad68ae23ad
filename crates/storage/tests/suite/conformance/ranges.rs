//! A range is the state of a subtree at one revision.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use k3_storage::{Page, Range, ReadError, Revision, Store};
use tokio::task::JoinSet;

use crate::{
    backend::TestBackend,
    store_ext::{StoreExt, contents, key, names, prefix},
};

conformance_tests! {
    every: [
        a_prefix_does_not_reach_its_neighbours,
        lists_entries_in_byte_order,
        a_range_of_nothing_still_reports_its_revision,
        pages_bring_each_entry_once_and_say_when_more_follow,
        a_page_may_begin_behind_a_key_that_is_not_there,
        pages_of_one_revision_do_not_see_what_is_written_between_them,
        a_range_is_a_snapshot_while_writers_continue,
        a_long_range_is_one_snapshot,
        every_state_since_the_last_compaction_can_be_read,
        a_state_of_the_future_is_refused,
        a_state_before_everything_is_not_taken_for_the_newest,
    ],
    shared: [
        a_revision_of_another_handle_is_not_in_the_future,
    ],
}

async fn a_prefix_does_not_reach_its_neighbours(backend: &dyn TestBackend) {
    let store = backend.open().await;
    // The neighbours on both sides of "/pods/" by their bytes, and what only looks like it.
    for name in [
        "/pods",
        "/pods.",
        "/pods-x/a",
        "/pods/a",
        "/pods/b/c",
        "/pods0",
        "/podtemplates/a",
        "/Pods/a",
        "/p%ds/a",
        "/p_ds/a",
        "pods/a",
        "/x/pods/a",
    ] {
        store.create(name, "1").await;
    }
    assert_eq!(names(&store.list("/pods/").await), ["/pods/a", "/pods/b/c"]);
    assert_eq!(names(&store.list("/p_ds/").await), ["/p_ds/a"]);
    assert_eq!(names(&store.list("/p%ds/").await), ["/p%ds/a"]);
    assert_eq!(names(&store.list("/pods/b/").await), ["/pods/b/c"]);
    assert_eq!(store.list("/").await.entries.len(), 11);
    assert_eq!(store.list("").await.entries.len(), 12);
    assert_eq!(names(&store.list("/po/").await), [""; 0]);
}

async fn lists_entries_in_byte_order(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut all = [
        "/o/b",
        "/o/a",
        "/o/B",
        "/o/10",
        "/o/9",
        "/o/a/b",
        "/o/a-b",
        "/o/a.b",
        "/o/\u{e9}",
        "/o/z",
        "/o/~",
        "/o/\u{10000}",
        "/o/\u{ffee}",
    ];
    for name in all {
        store.create(name, "1").await;
    }
    all.sort_unstable();
    assert_eq!(names(&store.list("/o/").await), all);
}

async fn a_range_of_nothing_still_reports_its_revision(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let empty = store.list("/a/").await;
    assert_eq!((empty.entries.len(), empty.more), (0, false));
    let created = store.create("/b/x", "1").await;
    let empty = store.list("/a/").await;
    assert!(empty.revision >= created);
    // Which is a backend to watch from.
    let mut watch = store.follow("/a/", empty.revision).await;
    let created = store.create("/a/x", "1").await;
    assert_eq!(watch.event().await.revision, created);
}

async fn pages_bring_each_entry_once_and_say_when_more_follow(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let all: Vec<_> = (0..12).map(|number| format!("/p/{number:02}")).collect();
    for name in &all {
        store.create(name, name.clone()).await;
    }
    store.create("/q/neighbour", "1").await;
    for limit in [1, 5, 6, 11, 12, 13, 100] {
        let pages = read_pages(&store, "/p/", limit).await;
        let expected: Vec<_> = all.chunks(limit).collect();
        assert_eq!(pages.iter().map(names).collect::<Vec<_>>(), expected);
        assert!(pages.iter().rev().skip(1).all(|page| page.more));
        assert!(!pages.last().unwrap().more);
        assert!(pages.iter().all(|page| page.revision == pages[0].revision));
    }
    assert_eq!(names(&store.list("/p/").await), all);
}

async fn a_page_may_begin_behind_a_key_that_is_not_there(backend: &dyn TestBackend) {
    let store = backend.open().await;
    for name in ["/m/b", "/m/d", "/m/f", "/n/x"] {
        store.create(name, "1").await;
    }
    for (after, expected) in [
        ("/m/a", &["/m/b", "/m/d", "/m/f"][..]),
        ("/m/b", &["/m/d", "/m/f"]),
        ("/m/b/c", &["/m/d", "/m/f"]),
        ("/m/c", &["/m/d", "/m/f"]),
        ("/m/f", &[]),
        ("/m/z", &[]),
        // Outside the prefix: before all of it, or behind.
        ("/a", &["/m/b", "/m/d", "/m/f"]),
        ("/m", &["/m/b", "/m/d", "/m/f"]),
        ("/n/a", &[]),
        ("/z", &[]),
    ] {
        let page = Page {
            after: Some(key(after)),
            ..Page::all()
        };
        let range = store.range(&prefix("/m/"), page).await.unwrap();
        assert_eq!(names(&range), expected, "behind {after}");
        assert!(!range.more);
    }
}

async fn pages_of_one_revision_do_not_see_what_is_written_between_them(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut written = Vec::new();
    for number in 0..9 {
        let name = format!("/p/{number}");
        let revision = store.create(&name, "old").await;
        written.push((name, revision));
    }
    let snapshot = store.list("/p/").await;
    let mut page = store.range(&prefix("/p/"), Page::first(2)).await.unwrap();
    // Not that of the list before: a store may take a revision for itself, as the heartbeat in etcd does.
    let first = page.revision;
    let mut entries = page.entries.clone();
    let mut round = 0;
    while let Some(next) = page.next(2) {
        // One is changed, one is deleted, one arrives, ahead of the reader and behind it.
        let (changed, revision) = &written[8 - round];
        store.update(changed, *revision, "new").await;
        let (deleted, revision) = &written[4 - round];
        store.delete(deleted, *revision).await;
        store.create(&format!("/p/{round}-new"), "new").await;
        round += 1;
        page = store.range(&prefix("/p/"), next).await.unwrap();
        assert_eq!(page.revision, first);
        entries.extend(page.entries.iter().cloned());
    }
    assert_eq!(round, 4);
    assert_eq!(entries, snapshot.entries);
    assert_ne!(store.list("/p/").await.entries, snapshot.entries);
}

async fn a_range_is_a_snapshot_while_writers_continue(backend: &dyn TestBackend) {
    // Each writer writes a round number to its first key and then to its last: a caller that sees a round
    // in the last must see at least that round in the first, and at most one more.
    const WRITERS: usize = 4;
    let store = backend.open().await;
    for writer in 0..WRITERS {
        store.create(&format!("/s/a/{writer}"), "0").await;
        store.create(&format!("/s/z/{writer}"), "0").await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        let done = Arc::clone(&done);
        let rounds = Arc::clone(&rounds);
        writers.spawn(async move {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                store.put(&format!("/s/a/{writer}"), round.to_string()).await;
                store.put(&format!("/s/z/{writer}"), round.to_string()).await;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut last = Revision::ZERO;
    let mut reads = 0;
    while reads < 60 || rounds.load(Ordering::Relaxed) < 60 {
        let range = store.list("/s/").await;
        assert!(range.revision >= last, "reads go back in time");
        last = range.revision;
        reads += 1;
        assert!(range.entries.iter().all(|entry| entry.revision <= range.revision));
        let seen: Vec<u64> = range
            .entries
            .iter()
            .map(|entry| str::from_utf8(&entry.value).unwrap().parse().unwrap())
            .collect();
        let (first, second) = seen.split_at(WRITERS);
        for (first, second) in first.iter().zip(second) {
            assert!(first == second || *first == second + 1, "{:?}", contents(&range));
        }
        // Asking for that revision again must give the same.
        assert_eq!(store.list_at("/s/", range.revision).await, range);
    }
    done.store(true, Ordering::Relaxed);
    writers.join_all().await;
}

async fn a_long_range_is_one_snapshot(backend: &dyn TestBackend) {
    // More entries than any backend reads at a time, and a writer that moves a mark from the first
    // to the last and back by writing the new backend before it clears the old one.
    const ENTRIES: usize = 2500;
    let store = backend.open().await;
    let mut writers = JoinSet::new();
    for part in 0..10 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for number in (part..ENTRIES).step_by(10) {
                store.create(&format!("/l/{number:05}"), "").await;
            }
        });
    }
    writers.join_all().await;
    let done = Arc::new(AtomicBool::new(false));
    let mover = {
        let store = Arc::clone(&store);
        let done = Arc::clone(&done);
        async move {
            let mut moves = 0;
            while !done.load(Ordering::Relaxed) {
                store.put(&format!("/l/{:05}", ENTRIES - 1), "mark").await;
                store.put("/l/00000", "").await;
                store.put("/l/00000", "mark").await;
                store.put(&format!("/l/{:05}", ENTRIES - 1), "").await;
                moves += 1;
            }
            moves
        }
    };
    store.put("/l/00000", "mark").await;
    let mut mover = {
        let mut set = JoinSet::new();
        set.spawn(mover);
        set
    };
    for _ in 0..20 {
        let range = store.list("/l/").await;
        assert_eq!(range.entries.len(), ENTRIES);
        assert!(!range.more);
        let marks = range.entries.iter().filter(|entry| entry.value == "mark").count();
        assert!(marks > 0, "the mark is always somewhere");
    }
    done.store(true, Ordering::Relaxed);
    assert!(mover.join_next().await.unwrap().unwrap() > 0);
}

async fn every_state_since_the_last_compaction_can_be_read(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/h/a", "1").await;
    let updated = store.update("/h/a", created, "2").await;
    let second = store.create("/h/b", "x").await;
    let deleted = store.delete("/h/a", updated).await;
    let again = store.create("/h/a", "3").await;
    for (at, expected) in [
        (created, &[("/h/a", &b"1"[..])][..]),
        (updated, &[("/h/a", b"2")]),
        (second, &[("/h/a", b"2"), ("/h/b", b"x")]),
        (deleted, &[("/h/b", b"x")]),
        (again, &[("/h/a", b"3"), ("/h/b", b"x")]),
    ] {
        let range = store.list_at("/h/", at).await;
        assert_eq!(contents(&range), expected, "at {at}");
        assert_eq!(range.revision, at);
    }
    let old = store.list_at("/h/", second).await;
    assert_eq!(old.entries[0].revision, updated);
}

async fn a_state_of_the_future_is_refused(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let stands = store.create("/a", "1").await;
    let requested = Revision::new(stands.get() + 1_000_000);
    let page = Page {
        at: Some(requested),
        ..Page::all()
    };
    match store.range(&prefix("/"), page).await {
        Err(ReadError::Future {
            requested: received,
            current,
        }) => {
            assert_eq!(received, requested);
            assert!(current >= stands && current < requested);
        }
        other => panic!("must be in the future, but: {other:?}"),
    }
}

async fn a_state_before_everything_is_not_taken_for_the_newest(backend: &dyn TestBackend) {
    let store = backend.open().await;
    store.create("/a", "1").await;
    let page = Page {
        at: Some(Revision::ZERO),
        ..Page::all()
    };
    match store.range(&prefix("/"), page).await {
        Err(ReadError::Compacted { requested, .. }) => assert_eq!(requested, Revision::ZERO),
        Ok(range) => assert_eq!((names(&range), range.revision), (vec![], Revision::ZERO)),
        other => panic!("{other:?}"),
    }
}

async fn a_revision_of_another_handle_is_not_in_the_future(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    for round in 0..20_u8 {
        let revision = one.put("/a", vec![round]).await;
        let range = other.list_at("/", revision).await;
        assert_eq!(range.entries[0].value, vec![round]);
        assert_eq!(range.revision, revision);
    }
}

async fn read_pages(store: &Arc<dyn Store>, name: &str, limit: usize) -> Vec<Range> {
    let mut pages = vec![store.range(&prefix(name), Page::first(limit)).await.unwrap()];
    while let Some(next) = pages.last().unwrap().next(limit) {
        pages.push(store.range(&prefix(name), next).await.unwrap());
    }
    pages
}
