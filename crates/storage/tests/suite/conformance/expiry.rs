//! An entry with a time to live deletes itself when that has passed, and no earlier.

use std::{sync::Arc, time::Duration};

use k3_storage::{Change, Event, Revision, Store, Write};
use k3_task::Clock;
use tokio::time::Instant;

use crate::{
    backend::TestBackend,
    follower::brief,
    store_ext::{StoreExt, key, names},
};

conformance_tests! {
    every: [
        deletes_an_entry_at_its_deadline,
        an_expiring_entry_reports_when,
        a_shorter_time_than_a_second_counts_as_one,
        an_update_without_a_time_makes_an_entry_permanent,
        an_update_with_a_time_prolongs_it,
        an_update_with_a_time_can_shorten_it,
        a_time_does_not_outlive_its_entry,
        only_what_expires_is_deleted,
        an_expired_entry_conflicts_like_a_deleted_one,
    ],
    durable: [
        a_time_to_live_continues_when_the_store_is_opened_again,
        what_expired_while_the_store_was_closed_is_deleted_soon,
        an_entry_made_permanent_stays_so_when_the_store_is_opened_again,
    ],
    shared: [
        two_handles_delete_an_expired_entry_once,
        a_peer_deletes_what_a_closed_handle_left,
    ],
}

const SECOND: Duration = Duration::from_secs(1);

/// Long enough for a few requests of a busy machine, short enough to be waited for.
const BRIEFLY: Duration = Duration::from_secs(3);

/// Clocks of databases count in steps of their own.
const STEP: Duration = Duration::from_millis(50);

async fn deletes_an_entry_at_its_deadline(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let began = Instant::now();
    let created = create_for(&store, "/a", SECOND).await;
    let mut watch = store.follow("/", created).await;
    let event = watch.event().await;
    assert_expired(&event, "/a", created);
    assert!(
        began.elapsed() + STEP >= SECOND,
        "expired after {:?}",
        began.elapsed()
    );
    assert_eq!(store.read("/a").await, None);
    assert_eq!(names(&store.list("/").await), [""; 0]);
    assert!(store.stands().await >= event.revision);
    // The state before is history like any other.
    assert_eq!(names(&store.list_at("/", created).await), ["/a"]);
    store.create("/a", "again").await;
}

async fn an_expiring_entry_reports_when(backend: &dyn TestBackend) {
    let store = backend.open().await;
    create_for(&store, "/a", 100 * SECOND).await;
    for entry in [
        store.read("/a").await.unwrap(),
        store.list("/").await.entries.remove(0),
    ] {
        let expiry = entry.expiry.unwrap();
        assert_eq!(expiry.ttl, 100 * SECOND);
        let left = expiry.left(Clock::system().system_time());
        assert!(left > 60 * SECOND && left <= 100 * SECOND, "{left:?} are left");
    }
}

async fn a_shorter_time_than_a_second_counts_as_one(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let began = Instant::now();
    let created = create_for(&store, "/a", Duration::from_millis(1)).await;
    assert_expired(&store.follow("/", created).await.event().await, "/a", created);
    assert!(
        began.elapsed() + STEP >= SECOND,
        "expired after {:?}",
        began.elapsed()
    );
}

async fn an_update_without_a_time_makes_an_entry_permanent(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", BRIEFLY).await;
    let updated = store.update("/a", created, "for ever").await;
    assert_eq!(store.read("/a").await.unwrap().expiry, None);
    let later = create_for(&store, "/later", BRIEFLY + SECOND).await;
    let mut watch = store.follow("/", later).await;
    assert_expired(&watch.event().await, "/later", later);
    assert_eq!(store.read("/a").await.unwrap().revision, updated);
}

async fn an_update_with_a_time_prolongs_it(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", BRIEFLY).await;
    let began = Instant::now();
    let prolonged = update_for(&store, "/a", created, 3 * BRIEFLY).await;
    let between = create_for(&store, "/between", BRIEFLY).await;
    let mut watch = store.follow("/", between).await;
    assert_expired(&watch.event().await, "/between", between);
    assert_eq!(store.read("/a").await.unwrap().revision, prolonged);
    assert_expired(&watch.event().await, "/a", prolonged);
    assert!(began.elapsed() + STEP >= 3 * BRIEFLY);
}

async fn an_update_with_a_time_can_shorten_it(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", 1000 * SECOND).await;
    let shortened = update_for(&store, "/a", created, BRIEFLY).await;
    let permanent = store.create("/b", "for ever").await;
    let limited = update_for(&store, "/b", permanent, BRIEFLY).await;
    let mut watch = store.follow("/", limited).await;
    let mut events = watch.take(2).await;
    events.sort_by(|one, other| one.key.cmp(&other.key));
    assert_expired(&events[0], "/a", shortened);
    assert_expired(&events[1], "/b", limited);
}

async fn a_time_does_not_outlive_its_entry(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", BRIEFLY).await;
    store.delete("/a", created).await;
    let again = store.create("/a", "another").await;
    let later = create_for(&store, "/later", BRIEFLY + SECOND).await;
    let mut watch = store.follow("/", again).await;
    // The creation of the later one, and its end; between them nothing happens to the other.
    assert_eq!(brief(&watch.take(1).await), [("/later", '+', &b"expiring"[..])]);
    assert_expired(&watch.event().await, "/later", later);
    assert_eq!(store.read("/a").await.unwrap().revision, again);
}

async fn only_what_expires_is_deleted(backend: &dyn TestBackend) {
    const COUNT: usize = 20;
    let store = backend.open().await;
    for number in 0..COUNT {
        create_for(&store, &format!("/brief/{number:02}"), SECOND).await;
        create_for(&store, &format!("/long/{number:02}"), 1000 * SECOND).await;
        store.create(&format!("/permanent/{number:02}"), "1").await;
    }
    let expected: Vec<_> = (0..COUNT).map(|number| format!("/brief/{number:02}")).collect();
    // Each of them once, and nothing else. Some may be removed already: the history has them.
    let list = store.list("/").await;
    let mut watch = store.follow("/", list.revision).await;
    let left: Vec<_> = names(&list)
        .into_iter()
        .filter(|name| name.starts_with("/brief/"))
        .collect();
    let events = watch.take(left.len()).await;
    let mut deleted: Vec<_> = events.iter().map(|event| &*event.key).collect();
    deleted.sort_unstable();
    assert_eq!(deleted, left);
    assert!(events.iter().all(|event| event.change == Change::Deleted));
    assert!(
        deleted
            .iter()
            .all(|name| expected.iter().any(|known| known == name))
    );
    let rest = store.list("/").await;
    assert_eq!(rest.entries.len(), 2 * COUNT);
    let last = store.create("/last", "1").await;
    assert_eq!(watch.event().await.revision, last);
}

async fn an_expired_entry_conflicts_like_a_deleted_one(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", SECOND).await;
    store.follow("/", created).await.event().await;
    assert_eq!(
        store.conflict(Write::update(key("/a"), created, "late")).await,
        None
    );
    assert_eq!(store.conflict(Write::delete(key("/a"), created)).await, None);
}

async fn a_time_to_live_continues_when_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let began = Instant::now();
    let created = create_for(&store, "/a", 2 * BRIEFLY).await;
    store.create("/b", "for ever").await;
    store.close().await;
    drop(store);

    let store = backend.open().await;
    let entry = store.read("/a").await.expect("it has not expired");
    assert_eq!(
        (entry.revision, entry.expiry.unwrap().ttl),
        (created, 2 * BRIEFLY)
    );
    let mut watch = store.follow("/", created).await;
    watch.event().await; // the other entry's
    assert_expired(&watch.event().await, "/a", created);
    assert!(began.elapsed() + STEP >= 2 * BRIEFLY);
    assert_eq!(names(&store.list("/").await), ["/b"]);
}

async fn what_expired_while_the_store_was_closed_is_deleted_soon(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", SECOND).await;
    store.close().await;
    drop(store);
    // Nothing reports that this time has passed but the time itself.
    tokio::time::sleep(2 * SECOND).await;

    let store = backend.open().await;
    let event = store.follow("/", created).await.event().await;
    assert_expired(&event, "/a", created);
    assert_eq!(store.read("/a").await, None);
}

async fn an_entry_made_permanent_stays_so_when_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = create_for(&store, "/a", BRIEFLY).await;
    let updated = store.update("/a", created, "for ever").await;
    store.close().await;
    drop(store);

    let store = backend.open().await;
    let later = create_for(&store, "/later", BRIEFLY).await;
    assert_expired(&store.follow("/", later).await.event().await, "/later", later);
    let entry = store.read("/a").await.unwrap();
    assert_eq!((entry.revision, entry.expiry), (updated, None));
}

async fn two_handles_delete_an_expired_entry_once(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let created = create_for(&one, "/a", SECOND).await;
    let mut watches = [one.follow("/", created).await, other.follow("/", created).await];
    for watch in &mut watches {
        assert_expired(&watch.event().await, "/a", created);
    }
    let last = other.create("/last", "1").await;
    for watch in &mut watches {
        assert_eq!(watch.event().await.revision, last);
    }
}

async fn a_peer_deletes_what_a_closed_handle_left(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let created = create_for(&one, "/a", 2 * SECOND).await;
    let mut watch = other.follow("/", created).await;
    one.close().await;
    drop(one);
    assert_expired(&watch.event().await, "/a", created);
    assert_eq!(other.read("/a").await, None);
}

async fn create_for(store: &Arc<dyn Store>, name: &str, ttl: Duration) -> Revision {
    let write = Write::create(key(name), "expiring").expiring(ttl);
    store.commit(write).await.unwrap()
}

async fn update_for(store: &Arc<dyn Store>, name: &str, revision: Revision, ttl: Duration) -> Revision {
    let write = Write::update(key(name), revision, "expiring").expiring(ttl);
    store.commit(write).await.unwrap()
}

fn assert_expired(event: &Event, name: &str, written: Revision) {
    assert_eq!((&*event.key, &event.change), (name, &Change::Deleted));
    assert!(event.revision > written);
}
