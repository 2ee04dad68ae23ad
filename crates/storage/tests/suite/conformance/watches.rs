//! A watch is ordered, has no gap and no duplicate, and can be resumed where it stopped.

use std::{sync::Arc, time::Duration};

use k3_storage::{Change, Event, EventBatch, Revision, Store, WatchError};
use tokio::task::JoinSet;

use super::writers::write_on;
use crate::{
    backend::TestBackend,
    follower::{Follower, brief, revisions},
    store_ext::{StoreExt, names, prefix, soon},
};

conformance_tests! {
    every: [
        a_watch_from_now_reports_what_follows,
        a_watch_from_the_start_reports_all_that_happened,
        a_watch_from_zero_reports_the_whole_history_or_refuses,
        a_watch_from_a_revision_reports_what_followed_it,
        an_event_reports_what_became_of_its_key,
        a_watch_reports_nothing_outside_its_prefix,
        a_list_and_a_watch_after_it_miss_nothing,
        concurrent_writers_produce_the_same_events_for_all_watchers,
        a_watch_continues_from_the_end_of_any_batch,
        a_bookmark_is_never_ahead_of_the_events,
        a_watcher_that_lags_behind_misses_nothing,
        asking_where_the_store_stands_moves_quiet_watches_on,
        quiet_watch_delivers_events_after_a_bookmark,
        a_watch_of_the_future_is_refused,
        dropping_a_wait_for_events_loses_none,
        dropping_watches_does_not_affect_others,
    ],
    durable: [
        history_is_there_after_the_store_is_opened_again,
    ],
}

async fn a_watch_from_now_reports_what_follows(backend: &dyn TestBackend) {
    let store = backend.open().await;
    store.create("/a", "before").await;
    let now = store.stands().await;
    let mut watch = store.follow("/", now).await;
    let created = store.create("/b", "1").await;
    let event = watch.event().await;
    assert_eq!((event.revision, &*event.key), (created, "/b"));
}

async fn a_watch_from_the_start_reports_all_that_happened(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let history = write_history(&store).await;
    let mut watch = store.follow("", start).await;
    assert_eq!(watch.take(history.len()).await, history);
    // And continues with what happens now.
    let created = store.create("/new", "1").await;
    assert_eq!(watch.event().await.revision, created);
}

async fn a_watch_from_zero_reports_the_whole_history_or_refuses(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let history = write_history(&store).await;
    match store.watch(&prefix(""), Revision::ZERO).await {
        Ok(events) => {
            let mut watch = Follower::new(events, Revision::ZERO);
            assert_eq!(watch.take(history.len()).await, history);
        }
        Err(WatchError::Compacted { after, oldest }) => {
            assert_eq!(after, Revision::ZERO);
            assert!(oldest < history[0].revision);
        }
        Err(error) => panic!("{error:?}"),
    }
}

async fn a_watch_from_a_revision_reports_what_followed_it(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let history = write_history(&store).await;
    for begin in 0..history.len() {
        let mut watch = store.follow("", history[begin].revision).await;
        let follow = &history[begin + 1..];
        assert_eq!(watch.take(follow.len()).await, follow);
    }
}

async fn an_event_reports_what_became_of_its_key(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut live = store.follow("/", start).await;
    let created = store.create("/a", "1").await;
    let updated = store.update("/a", created, "2").await;
    let deleted = store.delete("/a", updated).await;
    let again = store.create("/a", "3").await;
    // Whether they are delivered live or later, from the history.
    let mut late = store.follow("/", start).await;
    for watch in [&mut live, &mut late] {
        let events = watch.take(4).await;
        assert_eq!(
            brief(&events),
            [
                ("/a", '+', &b"1"[..]),
                ("/a", '=', b"2"),
                ("/a", '-', b""),
                ("/a", '+', b"3"),
            ]
        );
        assert_eq!(revisions(&events), [created, updated, deleted, again]);
    }
}

async fn a_watch_reports_nothing_outside_its_prefix(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut live = store.follow("/pods/", start).await;
    for name in [
        "/pods",
        "/pods-x/a",
        "/pods/a",
        "/pods0",
        "/podtemplates/a",
        "/Pods/a",
        "/p_ds/a",
        "/pods/b/c",
    ] {
        store.create(name, "1").await;
    }
    let last = store.stands().await;
    let mut late = store.follow("/pods/", start).await;
    // The late one has nothing to hear after its last event until a bookmark.
    assert_eq!(store.stands().await, store.stands().await.max(last));
    for watch in [&mut live, &mut late] {
        let events = watch.upto(last).await;
        assert_eq!(
            brief(&events),
            [("/pods/a", '+', &b"1"[..]), ("/pods/b/c", '+', b"1")]
        );
    }
}

async fn a_list_and_a_watch_after_it_miss_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut writers = write_on(&[Arc::clone(&store)], 4, 40);
    let mut readers = JoinSet::new();
    for pause in 0..4 {
        let store = Arc::clone(&store);
        readers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(pause * 7)).await;
            let range = store.list("/w/").await;
            let mut known: Vec<String> = names(&range).into_iter().map(str::to_owned).collect();
            let mut watch = store.follow("/w/", range.revision).await;
            while known.len() < 4 * 40 {
                let event = watch.event().await;
                assert!(event.revision > range.revision);
                known.push(event.key.to_string());
            }
            known.sort();
            known
        });
    }
    while writers.join_next().await.transpose().unwrap().is_some() {}
    let all = store.list("/w/").await;
    for known in soon("the watchers", readers.join_all()).await {
        assert_eq!(known, names(&all));
    }
}

async fn concurrent_writers_produce_the_same_events_for_all_watchers(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watchers = JoinSet::new();
    for (number, name) in ["", "/", "/w/", "/w/0/", "/w/1/", "/w/"].into_iter().enumerate() {
        let store = Arc::clone(&store);
        watchers.spawn(async move {
            // Half of them listen before anything happens, half begin in the middle of it.
            tokio::time::sleep(Duration::from_millis(if number < 3 { 0 } else { 20 })).await;
            let mut watch = store.follow(name, start).await;
            let expected = if name.len() > 3 { 50 } else { 4 * 50 };
            (name, watch.take(expected).await)
        });
    }
    let committed = write_on(&[Arc::clone(&store)], 4, 50).join_all().await.concat();
    let mut committed: Vec<Event> = committed;
    committed.sort_by_key(|event| event.revision);
    for (name, received) in soon("the watchers", watchers.join_all()).await {
        let expected: Vec<_> = committed
            .iter()
            .filter(|event| event.key.starts_with(name))
            .cloned()
            .collect();
        assert_eq!(received, expected, "under {name:?}");
    }
}

async fn a_watch_continues_from_the_end_of_any_batch(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watch = store.follow("/w/0/", start).await;
    let mut writers = write_on(&[Arc::clone(&store)], 3, 40);
    let mut batches = Vec::new();
    let mut count = 0;
    while count < 40 {
        let batch = watch.batch().await;
        count += batch.events.len();
        batches.push(batch);
    }
    while writers.join_next().await.transpose().unwrap().is_some() {}
    let received: Vec<Event> = batches
        .iter()
        .flat_map(|batch| batch.events.iter().cloned())
        .collect();
    let mut taken = 0;
    for batch in &batches {
        taken += batch.events.len();
        let mut again = store.follow("/w/0/", batch.revision).await;
        assert_eq!(again.take(received.len() - taken).await, received[taken..]);
    }
}

async fn a_bookmark_is_never_ahead_of_the_events(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watch = store.follow("/w/0/", start).await;
    let mut writers = write_on(&[Arc::clone(&store)], 3, 40);
    // Bookmarks arrive most when another process keeps asking.
    let mut asker = JoinSet::new();
    asker.spawn({
        let store = Arc::clone(&store);
        async move {
            loop {
                store.stands().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let mut reached = start;
    let mut count = 0;
    while count < 40 {
        let batch = watch.batch().await;
        assert_follows(&batch, reached);
        reached = batch.revision;
        count += batch.events.len();
    }
    while writers.join_next().await.transpose().unwrap().is_some() {}
    assert!(reached <= store.stands().await);
}

async fn a_watcher_that_lags_behind_misses_nothing(backend: &dyn TestBackend) {
    // Thousands of commits pass before it is requested the first time, or again. Those of one writer
    // cannot share a batch: they are more batches than any queue on the way holds.
    const WRITERS: usize = 8;
    const ROUNDS: usize = 320;
    let store = backend.open().await;
    let start = store.stands().await;
    let mut never = store.follow("/", start).await;
    let mut once = store.follow("/", start).await;
    store.create("/first", "1").await;
    once.event().await;
    let mut committed = write_on(&[Arc::clone(&store)], WRITERS, ROUNDS)
        .join_all()
        .await
        .concat();
    committed.sort_by_key(|event| event.revision);
    assert_eq!(never.event().await.change, Change::Created("1".into()));
    assert!(never.take(WRITERS * ROUNDS).await == committed);
    assert!(once.take(WRITERS * ROUNDS).await == committed);
    let last = store.create("/last", "1").await;
    assert_eq!(revisions(&never.take(1).await), [last]);
    assert_eq!(revisions(&once.take(1).await), [last]);
}

async fn asking_where_the_store_stands_moves_quiet_watches_on(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut quiet = store.follow("/quiet/", start).await;
    for round in 0..5 {
        let committed = store.create(&format!("/busy/{round}"), "1").await;
        let stands = store.stands().await;
        assert!(stands >= committed);
        assert_eq!(quiet.upto(stands).await, []);
    }
}

async fn quiet_watch_delivers_events_after_a_bookmark(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut watch = store.follow("/quiet/", start).await;
    store.create("/busy/a", "1").await;
    let stands = store.stands().await;
    watch.upto(stands).await;
    let created = store.create("/quiet/a", "1").await;
    assert_eq!(watch.event().await.revision, created);
}

async fn a_watch_of_the_future_is_refused(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let stands = store.create("/a", "1").await;
    let requested = Revision::new(stands.get() + 1_000_000);
    match store.watch_error("/", requested).await {
        WatchError::Future { after, current } => {
            assert_eq!(after, requested);
            assert!(current >= stands && current < requested);
        }
        other => panic!("must be in the future, but: {other:?}"),
    }
}

async fn dropping_a_wait_for_events_loses_none(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut events = store.watch(&prefix("/w/"), start).await.unwrap();
    let mut writers = write_on(&[Arc::clone(&store)], 4, 40);
    let mut received = Vec::new();
    let mut dropped = 0_u32;
    soon("the events", async {
        while received.len() < 4 * 40 {
            // Gives up at once, after one turn of the scheduler, or after a moment.
            let next = tokio::select! {
                biased;
                batch = events.next() => Some(batch.unwrap()),
                () = tokio::task::yield_now(), if dropped.is_multiple_of(3) => None,
                () = std::future::ready(()), if dropped % 3 == 1 => None,
                () = tokio::time::sleep(Duration::from_micros(200)) => None,
            };
            if let Some(batch) = next {
                received.extend(batch.events.iter().cloned());
            } else {
                dropped += 1;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    assert!(dropped > 0, "some waits must have been dropped");
    let mut committed = Vec::new();
    while let Some(written) = writers.join_next().await {
        committed.extend(written.unwrap());
    }
    committed.sort_by_key(|event| event.revision);
    assert!(received == committed);
}

async fn dropping_watches_does_not_affect_others(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let mut kept = store.follow("/w/", start).await;
    let mut writers = write_on(&[Arc::clone(&store)], 2, 40);
    for round in 0..100 {
        let mut brief = store
            .follow(if round % 2 == 0 { "/w/" } else { "/quiet/" }, start)
            .await;
        if round % 4 == 0 {
            brief.event().await;
        }
    }
    let received = kept.take(2 * 40).await;
    let mut committed = Vec::new();
    while let Some(written) = writers.join_next().await {
        committed.extend(written.unwrap());
    }
    committed.sort_by_key(|event| event.revision);
    assert_eq!(received, committed);
}

async fn history_is_there_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let start = store.stands().await;
    let history = write_history(&store).await;
    store.close().await;
    drop(store);

    let store = backend.open().await;
    let mut whole = store.follow("", start).await;
    assert_eq!(whole.take(history.len()).await, history);
    for begin in 0..history.len() {
        let mut part = store.follow("", history[begin].revision).await;
        assert_eq!(part.take(history.len() - begin - 1).await, history[begin + 1..]);
    }
    // The line between before and after is not one that a watcher sees.
    let created = store.create("/new", "1").await;
    assert_eq!(revisions(&whole.take(1).await), [created]);
    // Old states are there too.
    let old = store.list_at("", history[2].revision).await;
    assert!(
        old.entries
            .iter()
            .all(|entry| entry.revision <= history[2].revision)
    );
    assert!(!old.entries.is_empty());
}

/// Commits of every kind, one after the other, and the events they must be reported as.
async fn write_history(store: &Arc<dyn Store>) -> Vec<Event> {
    let created = store.create("/s/a", "1").await;
    let updated = store.update("/s/a", created, "2").await;
    let second = store.create("/s/b", "x").await;
    let other = store.create("/t/c", vec![0, 255]).await;
    let deleted = store.delete("/s/a", updated).await;
    let again = store.create("/s/a", "3").await;
    let last = store.delete("/s/b", second).await;
    [
        (created, "/s/a", Change::Created("1".into())),
        (updated, "/s/a", Change::Updated("2".into())),
        (second, "/s/b", Change::Created("x".into())),
        (other, "/t/c", Change::Created(vec![0, 255].into())),
        (deleted, "/s/a", Change::Deleted),
        (again, "/s/a", Change::Created("3".into())),
        (last, "/s/b", Change::Deleted),
    ]
    .map(|(revision, name, change)| Event {
        revision,
        key: crate::store_ext::key(name),
        change,
    })
    .into()
}

/// Checks a batch against the bookmark before it.
fn assert_follows(batch: &EventBatch, reached: Revision) {
    assert!(batch.revision >= reached, "a bookmark regressed");
    let mut last = reached;
    for event in batch.events.iter() {
        assert!(event.revision > last, "an event is late or duplicated");
        last = event.revision;
    }
    assert!(batch.revision >= last);
}
