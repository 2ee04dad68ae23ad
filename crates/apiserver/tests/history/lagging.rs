//! Two servers on one store, of which one lags.

use std::sync::Arc;

use k3_storage::Store;

use crate::{
    backend::Backend,
    client::{Client, Watch},
    gap_store::GapStore,
    kinds::{StoredResource, define, for_all, version},
};

on_every_backend!(lagging_server_does_not_serve_older_state);

async fn lagging_server_does_not_serve_older_state(backend: &Backend) {
    let store = backend.open().await;
    let store = store.as_ref();
    let gap = GapStore::new(backend.open().await);
    let behind = Client::start(Arc::clone(&gap) as Arc<dyn Store>).await;
    let current = Client::start(backend.open().await).await;
    define(&current, "widgets", "Widget").await;
    let all = StoredResource::all();
    let owned = StoredResource::with_own_objects();
    // A consistent read: what was stored until now is known, the definition too.
    behind.get("/api/v1/configmaps").await;

    gap.stall();
    for_all(&owned, |resource| resource.create(store, "one")).await;
    for_all(&owned, |resource| resource.update(store, "one")).await;
    let newest = version(&current.get("/api/v1/configmaps").await.body);
    // Watches and reads of what the server does not have yet begin before it catches up.
    let watches = for_all(&all, |resource| async {
        let path = format!("{}?watch=true&resourceVersion={newest}", resource.path);
        behind.watch(&path).await
    });
    let initial = for_all(&all, |resource| async {
        let path = format!(
            "{}?watch=true&resourceVersion={newest}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            resource.path
        );
        let mut watch = behind.watch(&path).await;
        expect_initial(&mut watch, &path).await;
    });
    let reads = for_all(&all, |resource| async {
        let path = format!("{}?resourceVersion={newest}", resource.object_path("one"));
        assert_eq!(behind.get(&path).await.code, 200, "{path}");
        let path = format!("{}?resourceVersion={newest}", resource.path);
        let listed = behind.get(&path).await;
        assert!(version(&listed.body) >= newest, "{path}: {}", listed.text);
    });
    let catch_up = async {
        // Everything has been asked for when this is polled for the first time.
        tokio::task::yield_now().await;
        gap.resume();
    };
    let (watches, _, _, ()) = tokio::join!(watches, initial, reads, catch_up);

    for_all(&owned, |resource| resource.update(store, "one")).await;
    let updated = for_all(&owned, |resource| resource.update(store, "one")).await;
    for (resource, mut watch) in all.iter().zip(watches) {
        let updated = resource.last_of(&owned, &updated);
        let mut last = newest;
        while last < updated {
            let event = watch.next().await.unwrap();
            assert_eq!(event["type"], "MODIFIED", "{}: {event}", resource.path);
            let revision = version(&event["object"]);
            assert!(revision > last, "{}: {event} after {last}", resource.path);
            last = revision;
        }
        assert_eq!(last, updated, "{}", resource.path);
    }
}

/// The initial events have what was stored before the version that was asked for.
async fn expect_initial(watch: &mut Watch, path: &str) {
    loop {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "ADDED", "{path}: {event}");
        let metadata = &event["object"]["metadata"];
        if metadata["name"] == "one" {
            assert_ne!(metadata["labels"]["state"], "new", "{path}: {event}");
            return;
        }
    }
}
