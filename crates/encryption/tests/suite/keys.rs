//! Providers with keys of the configuration, over every backend.

use std::sync::Arc;

use k3_encryption::{EncryptedStore, EncryptionConfiguration, Transformers, undecrypted};
use k3_storage::{Change, CommitError, Key, Page, Prefix, Revision, Store, Write, memory::MemoryStore};

use crate::backend;

const VALUE: &[u8] = br#"{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}"#;
const OTHER: &[u8] = br#"{"kind":"Secret","data":{"password":"b3RoZXI="}}"#;

fn secret(name: &str) -> Key {
    Key::try_new(format!("/registry/core/secrets/default/{name}")).unwrap()
}

pub(crate) fn configuration(resources: &str, providers: &str) -> EncryptionConfiguration {
    let text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: \
         {resources}\n  providers: [{providers}]\n"
    );
    EncryptionConfiguration::parse(text.as_bytes()).unwrap()
}

/// A key of a provider: its name, of which its bytes are made.
fn key(name: &str) -> String {
    let secret = match name {
        "one" => "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        _ => "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=",
    };
    format!("{{name: {name}, secret: '{secret}'}}")
}

pub(crate) async fn over(
    store: &Arc<dyn Store>,
    configuration: &EncryptionConfiguration,
) -> Arc<EncryptedStore> {
    EncryptedStore::new(Arc::clone(store), Transformers::new(configuration).await)
}

#[tokio::test]
async fn values_are_encrypted_in_every_backend_and_keys_can_be_replaced() {
    for backend in backend::all("keys").await {
        let raw = &backend.store;
        for provider in ["secretbox", "aesgcm", "aescbc"] {
            let name = backend.name;
            let old = configuration(
                "[secrets]",
                &format!("{{{provider}: {{keys: [{}]}}}}", key("one")),
            );
            let store = over(raw, &old).await;
            let a = secret(provider);
            let first = store.commit(Write::create(a.clone(), VALUE)).await.unwrap();
            assert_eq!(store.get(&a).await.unwrap().unwrap().value, VALUE);
            let stored = raw.get(&a).await.unwrap().unwrap().value;
            assert!(
                stored.starts_with(format!("k8s:enc:{provider}:v1:one:").as_bytes()),
                "{name}"
            );
            assert!(
                !stored.windows(12).any(|window| window == b"aHVudGVyMg=="),
                "{name}"
            );
            assert!(!store.is_stale(&a).await.unwrap());

            // A conflict shows what is there, decrypted.
            let conflict = store.commit(Write::create(a.clone(), OTHER)).await.unwrap_err();
            assert!(
                matches!(&conflict, CommitError::Conflict(Some(entry)) if entry.value == VALUE),
                "{conflict:?}"
            );

            // A new key is added first: the old value is read, and written again with the new key.
            let new = configuration(
                "[secrets]",
                &format!("{{{provider}: {{keys: [{}, {}]}}}}", key("two"), key("one")),
            );
            let rotated = over(raw, &new).await;
            assert_eq!(rotated.get(&a).await.unwrap().unwrap().value, VALUE);
            assert!(rotated.is_stale(&a).await.unwrap());
            rotated
                .commit(Write::update(a.clone(), first, VALUE))
                .await
                .unwrap();
            assert!(!rotated.is_stale(&a).await.unwrap());
            let stored = raw.get(&a).await.unwrap().unwrap().value;
            assert!(
                stored.starts_with(format!("k8s:enc:{provider}:v1:two:").as_bytes()),
                "{name}"
            );

            // The server that has only the old key cannot read it, and says why.
            let entry = store.get(&a).await.unwrap().unwrap();
            let reason = undecrypted(&entry.value).unwrap();
            assert!(reason.contains(provider) && reason.contains("two"), "{reason}");
        }
        raw.close().await;
    }
}

#[tokio::test]
async fn ranges_and_watches_decrypt_and_one_bad_value_spoils_nothing_else() {
    for backend in backend::all("watches").await {
        let raw = &backend.store;
        let one = format!("{{secretbox: {{keys: [{}]}}}}", key("one"));
        let store = over(
            raw,
            &configuration("[secrets]", &format!("{one}, {{identity: {{}}}}")),
        )
        .await;
        let prefix = Prefix::try_new("/registry/").unwrap();
        let mut events = store
            .watch(&prefix, raw.current_revision().await.unwrap())
            .await
            .unwrap();

        let plain = Key::try_new("/registry/core/configmaps/default/plain").unwrap();
        raw.commit(Write::create(plain.clone(), VALUE)).await.unwrap();
        raw.commit(Write::create(secret("old-plain"), VALUE))
            .await
            .unwrap();
        store.commit(Write::create(secret("good"), VALUE)).await.unwrap();
        let two = configuration("[secrets]", &format!("{{secretbox: {{keys: [{}]}}}}", key("two")));
        let other = over(raw, &two).await;
        other.commit(Write::create(secret("bad"), VALUE)).await.unwrap();
        let good = store.get(&secret("good")).await.unwrap().unwrap();
        store
            .commit(Write::update(secret("good"), good.revision, OTHER))
            .await
            .unwrap();

        let range = store.range(&prefix, Page::all()).await.unwrap();
        let values: Vec<_> = range
            .entries
            .iter()
            .map(|entry| {
                (
                    entry.key.rsplit('/').next().unwrap(),
                    undecrypted(&entry.value).is_none(),
                )
            })
            .collect();
        assert_eq!(
            values,
            [
                ("plain", true),
                ("bad", false),
                ("good", true),
                ("old-plain", true)
            ],
            "{}",
            backend.name
        );

        let mut seen = Vec::new();
        while seen.len() < 5 {
            let batch = events.next().await.unwrap();
            for event in batch.events.iter() {
                let (Change::Created(value) | Change::Updated(value)) = &event.change else {
                    panic!("{event:?}");
                };
                seen.push((event.key.to_string(), value.clone()));
            }
        }
        let [plain, old, created, bad, updated] = seen.as_slice() else {
            panic!("{seen:?}");
        };
        assert_eq!(plain.1, VALUE);
        assert_eq!(old.1, VALUE);
        assert_eq!(created.1, VALUE);
        assert!(undecrypted(&bad.1).unwrap().contains("two"), "{bad:?}");
        assert_eq!(updated.1, OTHER);
        assert!(store.is_stale(&secret("old-plain")).await.unwrap());

        let status = store.status().await.unwrap();
        let [secrets] = status.resources.as_slice() else {
            panic!("{status:?}");
        };
        assert_eq!(secrets.current, "secretbox:one");
        assert_eq!(secrets.stale, 2);
        let counts: Vec<_> = secrets
            .counts
            .iter()
            .map(|(label, count)| (label.as_str(), *count))
            .collect();
        assert_eq!(
            counts,
            [("identity", 1), ("secretbox:one", 1), ("secretbox:two", 1)]
        );
        raw.close().await;
    }
}

#[tokio::test]
async fn rules_choose_resources_as_upstream_does() {
    let store: Arc<dyn Store> = MemoryStore::new();
    let text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n\
         - resources: [events]\n  providers: [{{identity: {{}}}}]\n\
         - resources: ['*.apps']\n  providers: [{{aesgcm: {{keys: [{}]}}}}]\n\
         - resources: ['*.*']\n  providers: [{{secretbox: {{keys: [{}]}}}}]\n",
        key("one"),
        key("two")
    );
    let configuration = EncryptionConfiguration::parse(text.as_bytes()).unwrap();
    let encrypted = over(&store, &configuration).await;
    let cases = [
        ("/registry/core/events/default/a", "{"),
        ("/registry/apps/deployments/default/a", "k8s:enc:aesgcm:v1:one:"),
        ("/registry/core/secrets/default/a", "k8s:enc:secretbox:v1:two:"),
        (
            "/registry/example.com/widgets/default/a",
            "k8s:enc:secretbox:v1:two:",
        ),
        ("/registry/-/nodeports/30000", "{"),
        ("/k3/keys", "{"),
    ];
    for (path, beginning) in cases {
        let key = Key::try_new(path).unwrap();
        encrypted.commit(Write::create(key.clone(), VALUE)).await.unwrap();
        let stored = store.get(&key).await.unwrap().unwrap().value;
        assert!(stored.starts_with(beginning.as_bytes()), "{path}");
        assert_eq!(encrypted.get(&key).await.unwrap().unwrap().value, VALUE);
    }
    // What is not encrypted is refused where no identity provider is configured.
    let key = Key::try_new("/registry/core/secrets/default/injected").unwrap();
    store.commit(Write::create(key.clone(), VALUE)).await.unwrap();
    let entry = encrypted.get(&key).await.unwrap().unwrap();
    assert!(
        undecrypted(&entry.value)
            .unwrap()
            .contains("no matching prefix found")
    );
    assert_eq!(entry.revision, Revision::new(entry.revision.get()));
}

#[tokio::test]
async fn a_value_that_was_moved_to_another_object_does_not_decrypt() {
    let store: Arc<dyn Store> = MemoryStore::new();
    let rules = configuration("[secrets]", &format!("{{aesgcm: {{keys: [{}]}}}}", key("one")));
    let encrypted = over(&store, &rules).await;
    encrypted.commit(Write::create(secret("a"), VALUE)).await.unwrap();
    let stolen = store.get(&secret("a")).await.unwrap().unwrap().value;
    store.commit(Write::create(secret("b"), stolen)).await.unwrap();
    let entry = encrypted.get(&secret("b")).await.unwrap().unwrap();
    assert!(undecrypted(&entry.value).is_some());
}
