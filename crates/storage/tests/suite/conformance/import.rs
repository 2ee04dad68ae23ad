//! A store can be filled with the entries of another, all of them or none that anyone sees.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use k3_storage::{
    Change, CommitError, Entry, Expiry, ImportError, Page, ReadError, Revision, Store, StoreError,
    WatchError, Write,
};
use k3_task::Clock;

use crate::{
    backend::TestBackend,
    store_ext::{StoreExt, key, names, prefix},
};

conformance_tests! {
    every: [
        imported_entries_are_read_back,
        an_imported_entry_keeps_its_revision_or_gets_one_above_the_source,
        a_store_continues_above_the_source,
        an_import_of_nothing_still_moves_the_store,
        there_is_no_history_before_an_import,
        an_import_into_a_store_that_was_used_is_a_new_state,
        rejects_an_import_into_a_store_with_entries,
        a_store_that_gave_up_its_entries_takes_an_import_above_its_past,
        a_store_with_an_unfinished_import_refuses_everything_else,
        an_import_begun_again_starts_from_nothing,
        an_import_that_was_begun_again_cannot_be_finished_twice,
        imported_entries_expire,
        a_watch_across_an_import_is_ended,
    ],
    durable: [
        an_import_is_there_after_the_store_is_opened_again,
        an_unfinished_import_is_unfinished_after_the_store_is_opened_again,
        revisions_continue_when_an_import_is_interrupted,
    ],
    shared: [
        an_import_is_seen_by_a_peer,
    ],
}

/// The newest revision of the store that the entries are from.
const SOURCE: Revision = Revision::new(5000);

async fn imported_entries_are_read_back(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let entries = sample();
    let stands = import(&store, SOURCE, &entries).await;
    assert!(stands >= SOURCE);
    assert!(store.stands().await >= stands);
    let range = store.list("").await;
    assert_eq!(range.entries.len(), entries.len());
    for (entry, original) in range.entries.iter().zip(&entries) {
        assert_eq!((&entry.key, entry.expiry), (&original.key, original.expiry));
        assert!(entry.value == original.value);
        assert_eq!(store.read(&entry.key).await.as_ref(), Some(entry));
    }
}

async fn an_imported_entry_keeps_its_revision_or_gets_one_above_the_source(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let entries = sample();
    let stands = import(&store, SOURCE, &entries).await;
    let range = store.list("").await;
    let mut revisions: Vec<_> = range.entries.iter().map(|entry| entry.revision).collect();
    let kept = range
        .entries
        .iter()
        .zip(&entries)
        .all(|(entry, original)| entry.revision == original.revision);
    assert!(
        kept || revisions.iter().all(|revision| *revision > SOURCE),
        "{revisions:?}"
    );
    assert!(revisions.iter().all(|revision| *revision <= stands));
    revisions.sort_unstable();
    assert!(
        revisions.is_sorted_by(|one, next| one < next),
        "a revision was used twice"
    );
}

async fn a_store_continues_above_the_source(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let stands = import(&store, SOURCE, &sample()).await;
    let mut watch = store.follow("", stands).await;
    let entry = store.read("/i/a").await.unwrap();
    let updated = store.update("/i/a", entry.revision, "new").await;
    let created = store.create("/i/new", "1").await;
    assert!(stands < updated && updated < created);
    let events = watch.take(2).await;
    // Not a creation: the entry was there.
    assert_eq!(events[0].change, Change::Updated("new".into()));
    assert_eq!((events[0].revision, events[1].revision), (updated, created));
    // And states from there on can be read.
    assert_eq!(
        store.list_at("/i/", stands).await.entries[0].revision,
        entry.revision
    );
    assert_eq!(store.list_at("/i/", updated).await.entries[0].value, "new");
}

async fn an_import_of_nothing_still_moves_the_store(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let stands = import(&store, SOURCE, &[]).await;
    assert!(stands >= SOURCE);
    assert!(store.create("/a", "1").await > stands);
}

async fn there_is_no_history_before_an_import(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let before = store.stands().await;
    let stands = import(&store, SOURCE, &sample()).await;
    for old in [before, Revision::FIRST, Revision::new(SOURCE.get() - 1)] {
        match store.watch_error("/", old).await {
            WatchError::Compacted { oldest, .. } => assert!(oldest > old && oldest <= stands),
            other => panic!("must be compacted, but: {other:?}"),
        }
        assert_state_is_compacted(&store, old).await;
    }
}

async fn an_import_into_a_store_that_was_used_is_a_new_state(backend: &dyn TestBackend) {
    let store = backend.open().await;
    // It stands above the source, so the source's number would be one of its own past.
    let mut last = store.stands().await;
    for round in 0..8_u8 {
        let created = store.create("/old", vec![round]).await;
        last = store.delete("/old", created).await;
    }
    let empty = store.list("").await;
    let source = Revision::new(4);
    let entry = Entry {
        key: key("/new"),
        value: "1".into(),
        revision: Revision::new(3),
        expiry: None,
    };
    let stands = import(&store, source, &[entry]).await;
    // A caller that listed nothing at a revision must not find something at the same one.
    assert!(stands > last && stands > empty.revision);
    assert_state_is_compacted(&store, empty.revision).await;
    match store.watch_error("/", last).await {
        WatchError::Compacted { .. } => {}
        other => panic!("must be compacted, but: {other:?}"),
    }
}

async fn rejects_an_import_into_a_store_with_entries(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/mine", "1").await;
    match store.begin_import(SOURCE).await {
        Err(ImportError::NotEmpty) => {}
        other => panic!("must be refused, but: {:?}", other.map(|_| "begun")),
    }
    // And is as it was.
    assert_eq!(names(&store.list("").await), ["/mine"]);
    let deleted = store.delete("/mine", created).await;
    assert!(deleted < SOURCE);
    import(&store, SOURCE, &sample()).await;
}

async fn a_store_that_gave_up_its_entries_takes_an_import_above_its_past(backend: &dyn TestBackend) {
    let store = backend.open().await;
    store.create("/mine", "1").await;
    let last = store.create("/i/a", "mine too").await;
    store.discard().await.unwrap();
    assert_blocked(&store).await;
    let stands = import(&store, Revision::new(2), &sample()[1..2]).await;
    assert!(stands > last);
    assert_eq!(names(&store.list("").await), ["/i/b"]);
    assert_state_is_compacted(&store, last).await;
    assert!(store.create("/i/a", "new").await > stands);
}

async fn a_store_with_an_unfinished_import_refuses_everything_else(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut import = store.begin_import(SOURCE).await.unwrap();
    assert_blocked(&store).await;
    import.put(sample()).await.unwrap();
    assert_blocked(&store).await;
    drop(import);
    assert_blocked(&store).await;
}

async fn an_import_begun_again_starts_from_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut first = store.begin_import(SOURCE).await.unwrap();
    first.put(sample()).await.unwrap();
    drop(first);
    let entry = Entry {
        key: key("/second"),
        value: "1".into(),
        revision: Revision::new(7),
        expiry: None,
    };
    import(&store, Revision::new(900), std::slice::from_ref(&entry)).await;
    assert_eq!(names(&store.list("").await), ["/second"]);
    assert!(store.stands().await >= Revision::new(900));
}

async fn an_import_that_was_begun_again_cannot_be_finished_twice(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut first = store.begin_import(SOURCE).await.unwrap();
    first.put(sample()).await.unwrap();
    let second = store.begin_import(SOURCE).await.unwrap();
    // Refused here or when it is finished; seen never.
    let late = Entry {
        key: key("/i/late"),
        revision: Revision::new(SOURCE.get() - 1),
        ..sample().remove(0)
    };
    let _refused_or_kept_apart = first.put(vec![late]).await;
    let stands = second.finish().await.unwrap();
    assert!(first.finish().await.is_err());
    // The store serves what the one that counts has brought.
    assert_eq!(names(&store.list("").await), [""; 0]);
    assert!(store.create("/a", "1").await > stands);
}

async fn imported_entries_expire(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut entries = sample();
    entries[1].expiry = Some(Expiry::after(
        Clock::system().system_time(),
        Duration::from_secs(2),
    ));
    let expiring = entries[1].key.clone();
    let stands = import(&store, SOURCE, &entries).await;
    let event = store.follow("", stands).await.event().await;
    assert_eq!((event.key, event.change), (expiring.clone(), Change::Deleted));
    assert_eq!(store.read(&expiring).await, None);
    assert_eq!(store.list("").await.entries.len(), entries.len() - 1);
}

async fn a_watch_across_an_import_is_ended(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let before = store.stands().await;
    let mut watch = store.follow("", before).await;
    import(&store, SOURCE, &sample()).await;
    // What arrived by the import is not an event: only a new list shows it.
    match watch.end().await {
        WatchError::Compacted { .. } | WatchError::Store(StoreError::UnfinishedImport) => {}
        other => panic!("{other:?}"),
    }
}

async fn an_import_is_there_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let stands = import(&store, SOURCE, &sample()).await;
    let before = store.list("").await;
    store.close().await;
    drop(store);

    let store = backend.open().await;
    assert!(store.stands().await >= stands);
    assert!(store.list("").await.entries == before.entries);
    assert!(store.create("/new", "1").await > stands);
}

async fn an_unfinished_import_is_unfinished_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/before", "1").await;
    store.delete("/before", created).await;
    let mut half = store.begin_import(SOURCE).await.unwrap();
    half.put(sample()).await.unwrap();
    drop(half);
    store.close().await;
    drop(store);

    let store = backend.open().await;
    assert_blocked(&store).await;
    let stands = import(&store, SOURCE, &sample()).await;
    assert_eq!(store.list("").await.entries.len(), sample().len());
    // Not out of reach either: all that follows must fit.
    assert!(stands >= SOURCE && stands < Revision::new(SOURCE.get() + 1_000_000));
}

async fn revisions_continue_when_an_import_is_interrupted(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut last = store.stands().await;
    for round in 0..8_u8 {
        let created = store.create("/old", vec![round]).await;
        last = store.delete("/old", created).await;
    }
    let half = store.begin_import(Revision::new(2)).await.unwrap();
    drop(half);
    store.close().await;
    drop(store);

    // All entries that held the newest revisions were removed.
    let store = backend.open().await;
    let stands = import(&store, Revision::new(2), &[]).await;
    assert!(stands >= last);
    assert!(store.create("/new", "1").await > stands);
}

async fn an_import_is_seen_by_a_peer(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let mut half = one.begin_import(SOURCE).await.unwrap();
    half.put(sample()).await.unwrap();
    assert!(matches!(
        other.commit(Write::create(key("/a"), "1")).await,
        Err(CommitError::Store(StoreError::UnfinishedImport))
    ));
    let stands = half.finish().await.unwrap();
    assert_eq!(other.list("").await.entries, one.list("").await.entries);
    let mut watch = other.follow("", stands).await;
    let created = one.create("/new", "1").await;
    assert!(created > stands);
    assert_eq!(watch.event().await.revision, created);
}

/// Entries of another store: with gaps between their revisions, in another order than their keys.
fn sample() -> Vec<Entry> {
    let entry = |name: &str, value: Bytes, revision| Entry {
        key: key(name),
        value,
        revision: Revision::new(revision),
        expiry: None,
    };
    vec![
        entry("/i/a", "1".into(), 40),
        entry("/i/b", Bytes::new(), 3),
        entry("/i/c", (0..=255).collect(), 4999),
        entry("/i/d", vec![9; 1_000_000].into(), 17),
        entry("/j/e", "5".into(), 41),
    ]
}

async fn import(store: &Arc<dyn Store>, source: Revision, entries: &[Entry]) -> Revision {
    let mut import = store.begin_import(source).await.unwrap();
    for part in entries.chunks(2) {
        import.put(part.to_vec()).await.unwrap();
    }
    import.finish().await.unwrap()
}

async fn assert_state_is_compacted(store: &Arc<dyn Store>, old: Revision) {
    let page = Page {
        at: Some(old),
        ..Page::all()
    };
    match store.range(&prefix(""), page).await {
        Err(ReadError::Compacted { requested, .. }) => assert_eq!(requested, old),
        other => panic!("the state at {old} must be compacted, but: {other:?}"),
    }
}

/// Checks that the store refuses reads, writes and watches for the reason that its import is unfinished.
async fn assert_blocked(store: &Arc<dyn Store>) {
    let blocked = |error: &StoreError| matches!(error, StoreError::UnfinishedImport);
    let name = key("/i/a");
    assert!(matches!(store.get(&name).await, Err(ReadError::Store(error)) if blocked(&error)));
    let range = store.range(&prefix(""), Page::all()).await;
    assert!(matches!(range, Err(ReadError::Store(error)) if blocked(&error)));
    let commit = store.commit(Write::create(name, "mine")).await;
    assert!(matches!(commit, Err(CommitError::Store(error)) if blocked(&error)));
    let watch_error = store.watch_error("", Revision::FIRST).await;
    assert!(matches!(watch_error, WatchError::Store(error) if blocked(&error)));
    assert!(matches!(store.compact(SOURCE).await, Err(error) if blocked(&error)));
    assert!(matches!(store.current_revision().await, Err(error) if blocked(&error)));
    assert!(matches!(store.health().await, Err(error) if blocked(&error)));
}
