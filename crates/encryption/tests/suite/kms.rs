//! A KMS v2 plugin, over every backend.

use std::sync::Arc;

use k3_encryption::undecrypted;
use k3_storage::{
    Change, CommitError, Key, Prefix, ReadError, Store, StoreError, Write, memory::MemoryStore,
};

use crate::{
    backend,
    keys::{configuration, over},
    plugin::{self, Plugin},
};

const VALUE: &[u8] = br#"{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}"#;

fn secret(name: &str) -> Key {
    Key::try_new(format!("/registry/core/secrets/default/{name}")).unwrap()
}

#[tokio::test]
async fn a_plugin_encrypts_keys_and_not_values_in_every_backend() {
    for backend in backend::all("kms").await {
        let raw = &backend.store;
        let directory = tempfile::tempdir().unwrap();
        let plugin = Plugin::start(directory.path(), plugin::state("key-1"));
        let rules = configuration("[secrets]", &plugin.configuration());
        let store = over(raw, &rules).await;
        for name in ["a", "b", "c"] {
            store.commit(Write::create(secret(name), VALUE)).await.unwrap();
            assert_eq!(store.get(&secret(name)).await.unwrap().unwrap().value, VALUE);
        }
        let stored = raw.get(&secret("a")).await.unwrap().unwrap().value;
        assert!(stored.starts_with(b"k8s:enc:kms:v2:plugin:"), "{}", backend.name);
        assert!(!stored.windows(12).any(|window| window == b"aHVudGVyMg=="));
        assert_eq!(plugin.state.lock().encryptions, 1, "one key for all values");
        assert_eq!(plugin.state.lock().decryptions, 0, "it is remembered");

        // Another server has the plugin decrypt the key, once; a new key of the plugin makes what is stored stale.
        plugin.state.lock().key_id = "key-2".to_owned();
        let other = over(raw, &rules).await;
        for name in ["a", "b", "c"] {
            assert_eq!(other.get(&secret(name)).await.unwrap().unwrap().value, VALUE);
            assert!(other.is_stale(&secret(name)).await.unwrap());
        }
        assert_eq!(plugin.state.lock().decryptions, 1);
        let entry = other.get(&secret("a")).await.unwrap().unwrap();
        other
            .commit(Write::update(secret("a"), entry.revision, VALUE))
            .await
            .unwrap();
        assert!(!other.is_stale(&secret("a")).await.unwrap());

        // What was moved to another object does not decrypt.
        let stolen = raw.get(&secret("a")).await.unwrap().unwrap().value;
        raw.commit(Write::create(secret("stolen"), stolen)).await.unwrap();
        let entry = other.get(&secret("stolen")).await.unwrap().unwrap();
        assert!(undecrypted(&entry.value).unwrap().contains("plugin"));
        raw.close().await;
    }
}

#[tokio::test]
async fn a_plugin_that_is_away_is_an_error_until_it_is_back() {
    let raw: Arc<dyn Store> = MemoryStore::new();
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(directory.path(), plugin::state("key-1"));
    let rules = configuration("[secrets]", &plugin.configuration());
    let store = over(&raw, &rules).await;
    store.commit(Write::create(secret("a"), VALUE)).await.unwrap();
    let state = Arc::clone(&plugin.state);
    drop(plugin);

    // Who has the key goes on.
    assert_eq!(store.get(&secret("a")).await.unwrap().unwrap().value, VALUE);
    store.commit(Write::create(secret("b"), VALUE)).await.unwrap();

    // Who has not cannot read or write, and the message names the plugin.
    std::fs::remove_file(directory.path().join("kms.sock")).unwrap();
    let late = over(&raw, &rules).await;
    let unread = late.get(&secret("a")).await.unwrap_err();
    assert!(
        matches!(&unread, ReadError::Store(StoreError::Unavailable { message, .. }) if message.contains("plugin")),
        "{unread:?}"
    );
    let unwritten = late.commit(Write::create(secret("c"), VALUE)).await.unwrap_err();
    assert!(
        matches!(unwritten, CommitError::Store(StoreError::Unavailable { .. })),
        "{unwritten:?}"
    );

    let _plugin = Plugin::start(directory.path(), state);
    assert_eq!(late.get(&secret("a")).await.unwrap().unwrap().value, VALUE);
    late.commit(Write::create(secret("c"), VALUE)).await.unwrap();
}

#[tokio::test]
async fn a_key_that_the_plugin_does_not_have_is_an_error_of_the_object() {
    let raw: Arc<dyn Store> = MemoryStore::new();
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(directory.path(), plugin::state("key-1"));
    let rules = configuration("[secrets]", &plugin.configuration());
    over(&raw, &rules)
        .await
        .commit(Write::create(secret("a"), VALUE))
        .await
        .unwrap();
    drop(plugin);
    let _forgetful = Plugin::start(directory.path(), plugin::state("key-2"));
    let entry = over(&raw, &rules).await.get(&secret("a")).await.unwrap().unwrap();
    let reason = undecrypted(&entry.value).unwrap();
    assert!(
        reason.contains("plugin") && reason.contains("failed to decrypt DEK"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_watch_waits_for_a_plugin_once_a_batch() {
    let raw: Arc<dyn Store> = MemoryStore::new();
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(directory.path(), plugin::state("key-1"));
    let rules = configuration("[secrets]", &plugin.configuration());
    let store = over(&raw, &rules).await;
    let began = raw.current_revision().await.unwrap();
    for name in ["a", "b", "c", "d"] {
        store.commit(Write::create(secret(name), VALUE)).await.unwrap();
    }
    drop(plugin);
    std::fs::remove_file(directory.path().join("kms.sock")).unwrap();
    let late = over(&raw, &rules).await;

    tokio::time::pause();
    let before = tokio::time::Instant::now();
    let root = Prefix::try_new("/registry/").unwrap();
    let mut events = late.watch(&root, began).await.unwrap();
    let batch = events.next().await.unwrap();
    assert_eq!(batch.events.len(), 4);
    for event in batch.events.iter() {
        let Change::Created(value) = &event.change else {
            panic!("{event:?}");
        };
        assert!(undecrypted(value).is_some_and(|why| why.contains("plugin")));
    }
    // Not four times as long.
    assert!(
        before.elapsed() < std::time::Duration::from_secs(6),
        "{:?}",
        before.elapsed()
    );
}
