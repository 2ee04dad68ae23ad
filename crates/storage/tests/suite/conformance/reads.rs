//! What was written is read, exactly.

use bytes::Bytes;
use k3_storage::{CommitError, Entry, MAX_VALUE_BYTES, Write};

use crate::{
    backend::TestBackend,
    store_ext::{StoreExt, contents, key, names},
};

conformance_tests! {
    every: [
        an_absent_key_reads_as_nothing,
        an_entry_is_read_with_its_value_and_its_revision,
        values_return_byte_for_byte,
        an_empty_value_is_not_an_absent_key,
        the_largest_value_is_taken_and_one_byte_more_is_refused,
        keys_that_a_collation_would_confuse_stay_apart,
        the_longest_key_is_a_key_like_any_other,
        a_healthy_store_reports_where_it_stands,
    ],
    durable: [
        everything_is_there_after_the_store_is_opened_again,
    ],
    shared: [
        a_write_is_read_at_once_through_another_handle,
    ],
}

async fn an_absent_key_reads_as_nothing(backend: &dyn TestBackend) {
    let store = backend.open().await;
    assert_eq!(store.read("/nothing").await, None);
    let revision = store.create("/something", "1").await;
    store.delete("/something", revision).await;
    assert_eq!(store.read("/something").await, None);
}

async fn an_entry_is_read_with_its_value_and_its_revision(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let created = store.create("/a", "one").await;
    let entry = |revision, value: &str| Entry {
        key: key("/a"),
        value: Bytes::from(value.to_owned()),
        revision,
        expiry: None,
    };
    assert_eq!(store.read("/a").await, Some(entry(created, "one")));
    assert_eq!(store.list("/").await.entries, [entry(created, "one")]);
    let updated = store.update("/a", created, "two").await;
    assert_eq!(store.read("/a").await, Some(entry(updated, "two")));
    // Writes of other keys leave the revision of this one alone.
    store.create("/b", "other").await;
    assert_eq!(store.read("/a").await, Some(entry(updated, "two")));
}

async fn values_return_byte_for_byte(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let before = store.stands().await;
    let mut watch = store.follow("/", before).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let values = [
        every_byte,
        vec![0; 3],
        vec![0xff; 5],
        b"\xc3\x28 not UTF-8 \xe2\x82".to_vec(),
        b"it's \"quoted\" \\ \\0 %_ `tick` ;--".to_vec(),
        b"trailing spaces   \r\n".to_vec(),
    ];
    for (number, value) in values.iter().enumerate() {
        let name = format!("/{number}");
        store.create(&name, value.clone()).await;
        assert_eq!(store.read(&name).await.unwrap().value, *value);
        let event = watch.event().await;
        assert_eq!(event.change, k3_storage::Change::Created(value.clone().into()));
    }
    let listed = store.list("/").await;
    assert!(listed.entries.iter().map(|entry| &*entry.value).eq(&values));
}

async fn an_empty_value_is_not_an_absent_key(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let revision = store.create("/empty", "").await;
    let entry = store.read("/empty").await.unwrap();
    assert_eq!(entry.value, Bytes::new());
    assert_eq!(
        store.conflict(Write::create(key("/empty"), "x")).await,
        Some(entry)
    );
    assert_eq!(contents(&store.list("/").await), [("/empty", &b""[..])]);
    let revision = store.update("/empty", revision, "full").await;
    let revision = store.update("/empty", revision, "").await;
    assert_eq!(store.read("/empty").await.unwrap().revision, revision);
}

async fn the_largest_value_is_taken_and_one_byte_more_is_refused(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let largest: Bytes = (0..MAX_VALUE_BYTES)
        .map(|at| u8::try_from(at * 31 % 251).unwrap())
        .collect();
    store.create("/large", largest.clone()).await;
    assert!(store.read("/large").await.unwrap().value == largest);
    assert!(store.list("/").await.entries[0].value == largest);

    let before = store.stands().await;
    let answer = store
        .commit(Write::create(key("/larger"), vec![0; MAX_VALUE_BYTES + 1]))
        .await;
    match answer {
        Err(CommitError::TooLarge { key, bytes }) => {
            assert_eq!((&*key, bytes), ("/larger", MAX_VALUE_BYTES + 1));
        }
        other => panic!("must be too large, but: {other:?}"),
    }
    assert_eq!(store.read("/larger").await, None);
    // The store continues as if nothing had been requested.
    assert!(store.create("/after", "1").await > before);
}

async fn keys_that_a_collation_would_confuse_stay_apart(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let mut alike = [
        "/k/a",
        "/k/A",
        "/k/a ",
        "/k/a%",
        "/k/a_",
        "/k/a'",
        "/k/a\"",
        "/k/a\\",
        "/k/\u{e4}",
        "/k/a\u{308}",
        "/k/\u{df}",
        "/k/ss",
        "/k/\u{1f600}",
        "/k/\u{ffff}",
        "k/a",
        "/k//a",
    ];
    for name in alike {
        store.create(name, name.to_owned()).await;
    }
    for name in alike {
        assert_eq!(store.read(name).await.unwrap().value, name);
    }
    alike.sort_unstable();
    assert_eq!(names(&store.list("").await), alike);
}

async fn the_longest_key_is_a_key_like_any_other(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let before = store.stands().await;
    let mut watch = store.follow("/", before).await;
    // Two of them that differ in the last byte only, one with as many bytes in fewer characters.
    let stem = format!("/{}", "x".repeat(766));
    let wide = format!("/wide/{}", "\u{20ac}".repeat(254));
    for name in [format!("{stem}a"), format!("{stem}b"), wide] {
        assert_eq!(name.len(), 768);
        let created = store.create(&name, "1").await;
        let updated = store.update(&name, created, "2").await;
        assert_eq!(store.read(&name).await.unwrap().value, "2");
        let events = watch.take(2).await;
        assert!(events.iter().all(|event| *event.key == *name));
        assert_eq!(events[1].revision, updated);
    }
    assert_eq!(store.list("/").await.entries.len(), 3);
}

async fn a_healthy_store_reports_where_it_stands(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let before = store.health().await.unwrap();
    assert!(!before.backend.is_empty());
    let revision = store.create("/a", "1").await;
    let after = store.health().await.unwrap();
    assert_eq!(after.backend, before.backend);
    assert!(before.revision < revision && revision <= after.revision);
}

async fn everything_is_there_after_the_store_is_opened_again(backend: &dyn TestBackend) {
    let store = backend.open().await;
    let deleted = store.create("/deleted", "0").await;
    let created = store.create("/kept", vec![0, 159, 146, 150]).await;
    let updated = store.create("/updated", "1").await;
    let updated = store.update("/updated", updated, "2").await;
    store.create("/large", vec![7; MAX_VALUE_BYTES]).await;
    let last = store.delete("/deleted", deleted).await;
    let before = store.list("").await;
    store.close().await;
    drop(store);

    let store = backend.open().await;
    assert!(store.stands().await >= last);
    let after = store.list("").await;
    assert!(after.entries == before.entries);
    assert_eq!(store.read("/kept").await.unwrap().revision, created);
    assert_eq!(store.read("/deleted").await, None);
    // What was expected before is still what is expected.
    store.update("/updated", updated, "3").await;
}

async fn a_write_is_read_at_once_through_another_handle(backend: &dyn TestBackend) {
    let one = backend.open().await;
    let other = backend.open().await;
    let mut revision = one.create("/a", "0").await;
    for round in 1..=30_u8 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        assert_eq!(reader.read("/a").await.unwrap().revision, revision);
        revision = writer.update("/a", revision, vec![round]).await;
        assert!(reader.stands().await >= revision);
        let listed = reader.list("/").await;
        assert!(listed.revision >= revision);
        assert_eq!(listed.entries[0].value, vec![round]);
    }
}
