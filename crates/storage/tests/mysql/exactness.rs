//! Bytes return unchanged, and keys keep the order of their bytes.

use bytes::Bytes;
use k3_storage::{Key, MAX_VALUE_BYTES, Page, Prefix, Revision, Store, Write};

use crate::server::{TestServer, events_upto, key, value, watch};

#[tokio::test]
async fn returns_every_byte_of_a_value() {
    let server = TestServer::start();
    let store = server.open().await;
    let all_bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let values = [
        Bytes::new(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b" trailing space "),
        Bytes::from_static(b"'quotes\" \\ ; -- %"),
        Bytes::from_static(&[0xff, 0xfe, 0x80, 0xc0]),
        all_bytes.into(),
        vec![0xa5; MAX_VALUE_BYTES].into(),
    ];
    let mut newest = Revision::FIRST;
    for (n, value) in values.iter().enumerate() {
        let write = Write::create(key(format!("/{n}")), value.clone());
        newest = store.commit(write).await.unwrap();
    }
    for (n, value) in values.iter().enumerate() {
        let entry = store.get(&key(format!("/{n}"))).await.unwrap().unwrap();
        assert!(entry.value == *value, "value {n}");
    }
    let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
    assert!(range.entries.iter().map(|entry| &entry.value).eq(&values));
    // From the history, and not only as it was published.
    let events = events_upto(&mut watch(&store, Revision::FIRST).await, newest).await;
    assert!(
        events
            .iter()
            .map(|event| value(event).unwrap())
            .eq(values.iter().map(|v| &v[..]))
    );
}

#[tokio::test]
async fn keys_that_differ_by_a_space_or_case_are_different_and_ordered_by_bytes() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut keys: Vec<Key> = [
        "/a",
        "/a ",
        "/a  ",
        "/a b",
        "/a/b",
        "/a/",
        "/A",
        "/aa",
        "/\u{e4}",
        "/a\u{308}",
        "/\u{10ffff}",
        "/\u{ff5e}",
        "/\u{1f980}",
        "/\u{e000}",
        "/ss",
        "/\u{df}",
        "/%",
        "/_",
        "/a%",
        "/a0",
        "/~",
    ]
    .iter()
    .filter_map(|text| Key::try_new(text).ok())
    .collect();
    keys.push(key("/".to_owned() + &"x".repeat(767)));
    assert_eq!(keys.len(), 21, "all but the prefix");
    for key in &keys {
        store
            .commit(Write::create(key.clone(), key.to_string()))
            .await
            .unwrap();
    }
    for key in &keys {
        let entry = store.get(key).await.unwrap().unwrap();
        assert_eq!((&entry.key, &entry.value[..]), (key, key.as_bytes()));
    }
    keys.sort();
    for limit in [0, 1, 2, 5] {
        let mut range = store.range(&Prefix::all(), Page::first(limit)).await.unwrap();
        let mut found: Vec<Key> = Vec::new();
        loop {
            found.extend(range.entries.iter().map(|entry| entry.key.clone()));
            let Some(next) = range.next(limit) else { break };
            range = store.range(&Prefix::all(), next).await.unwrap();
        }
        assert_eq!(found, keys, "in pages of {limit}");
    }
    let under = store
        .range(&Prefix::try_new("/a/").unwrap(), Page::all())
        .await
        .unwrap();
    assert_eq!(under.entries.len(), 1);
}

#[tokio::test]
async fn pages_of_an_old_revision_are_unchanged() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut revisions = Vec::new();
    for n in 0..30 {
        revisions.push(
            store
                .commit(Write::create(key(format!("/k/{n:02}")), "old"))
                .await
                .unwrap(),
        );
    }
    let then = *revisions.last().unwrap();
    for n in (0..30).step_by(3) {
        let name = key(format!("/k/{n:02}"));
        let updated = store
            .commit(Write::update(name.clone(), revisions[n], "new"))
            .await
            .unwrap();
        if n % 2 == 0 {
            store.commit(Write::delete(name, updated)).await.unwrap();
        }
        store
            .commit(Write::create(key(format!("/k/{n:02}-late")), "late"))
            .await
            .unwrap();
    }
    let prefix = Prefix::try_new("/k/").unwrap();
    for limit in [0, 1, 7] {
        let first = Page {
            at: Some(then),
            after: None,
            limit,
        };
        let mut range = store.range(&prefix, first).await.unwrap();
        let mut found = Vec::new();
        loop {
            assert_eq!(range.revision, then);
            found.append(&mut range.entries);
            range.entries.extend(found.last().cloned());
            let Some(next) = range.next(limit) else { break };
            range = store.range(&prefix, next).await.unwrap();
        }
        assert_eq!(found.len(), 30);
        for (n, entry) in found.iter().enumerate() {
            assert_eq!(*entry.key, *format!("/k/{n:02}"));
            assert_eq!(&entry.value[..], b"old");
            assert_eq!(entry.revision, revisions[n]);
        }
    }
    let now = store.range(&prefix, Page::all()).await.unwrap();
    assert_eq!(now.entries.len(), 30 - 5 + 10);
}

#[tokio::test]
async fn a_range_longer_than_any_chunk_is_whole() {
    let server = TestServer::start();
    let store = server.open().await;
    let mut writes = tokio::task::JoinSet::new();
    for n in 0..1203 {
        let store = std::sync::Arc::clone(&store);
        writes.spawn(async move {
            store
                .commit(Write::create(key(format!("/{n:04}")), "x"))
                .await
                .unwrap()
        });
    }
    writes.join_all().await;
    let range = store.range(&Prefix::all(), Page::all()).await.unwrap();
    assert_eq!(range.entries.len(), 1203);
    assert!(!range.more);
    assert!(range.entries.is_sorted_by_key(|entry| entry.key.clone()));
    let page = store.range(&Prefix::all(), Page::first(1202)).await.unwrap();
    assert_eq!((page.entries.len(), page.more), (1202, true));
    let page = store.range(&Prefix::all(), Page::first(1203)).await.unwrap();
    assert_eq!((page.entries.len(), page.more), (1203, false));
}
