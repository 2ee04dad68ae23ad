//! The store has compacted events before a server read them.

use std::sync::Arc;

use futures_util::FutureExt;
use http::Method;
use k3_storage::Store;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    backend::Backend,
    client::{Client, Watch},
    decisions,
    gap_store::GapStore,
    kinds::{StoredResource, define, for_all, version},
    proxy::Proxy,
};

on_every_backend!(server_that_lost_history_serves_only_new_state);

mod cut_off {
    on_backend!(etcd, [partitioned_server_serves_only_new_state]);
    on_backend!(mysql, [partitioned_server_serves_only_new_state]);

    use super::partitioned_server_serves_only_new_state;
}

/// Why a server misses events.
enum GapCause {
    /// Its watch of the store is held up.
    Stalled(Arc<GapStore>),
    /// It cannot reach the store.
    CutOff(Proxy),
}

async fn server_that_lost_history_serves_only_new_state(backend: &Backend) {
    let store = GapStore::new(backend.open().await);
    let gap = GapCause::Stalled(Arc::clone(&store));
    serves_only_new_state(backend, store, &gap).await;
}

async fn partitioned_server_serves_only_new_state(backend: &Backend) {
    let proxy = Proxy::start(backend.address()).await;
    let store = backend.open_through(proxy.address).await;
    serves_only_new_state(backend, store, &GapCause::CutOff(proxy)).await;
}

async fn serves_only_new_state(backend: &Backend, own: Arc<dyn Store>, gap: &GapCause) {
    let store = backend.open().await;
    let store = store.as_ref();
    let behind = Arc::new(Client::start(own).await);
    let current = Client::start(backend.open().await).await;
    define(&current, "widgets", "Widget").await;
    decisions::store_first(&current).await;
    let all = StoredResource::all();
    let owned = StoredResource::with_own_objects();
    for_all(&owned, |resource| async {
        resource.create(store, "stays").await;
        resource.create(store, "changes").await;
        resource.create(store, "deleted").await;
    })
    .await;
    decisions::use_first(&behind).await;
    let old = version(&behind.get("/api/v1/configmaps").await.body);
    let watches = for_all(&all, |resource| begin_watch(&behind, resource, old)).await;

    gap.begin();
    for_all(&owned, |resource| async {
        resource.update(store, "changes").await;
        resource.delete(store, "deleted").await;
        resource.create(store, "added").await;
    })
    .await;
    let address = decisions::change(&current).await;
    let reads = read_meanwhile(&behind, &all);
    gap.end_without_history(store).await;
    reads.join_all().await;

    for (resource, mut watch) in all.iter().zip(watches) {
        expect_expired(&behind, resource, &mut watch, old).await;
    }
    decisions::check_changed(&behind, &address).await;
    for_all(&all, |resource| check_reads(&behind, store, resource, old)).await;

    // What comes is delivered as ever.
    let watches = for_all(&all, |resource| async {
        let listed = resource.check_list(&behind, store, "").await;
        begin_watch(&behind, resource, listed).await
    })
    .await;
    let updated = for_all(&owned, |resource| resource.update(store, "added")).await;
    for (resource, mut watch) in all.iter().zip(watches) {
        let updated = resource.last_of(&owned, &updated);
        let mut last = 0;
        while last < updated {
            let event = watch.next().await.unwrap();
            assert_eq!(event["type"], "MODIFIED", "{}: {event}", resource.path);
            let revision = version(&event["object"]);
            // The status of definitions is written by the servers.
            let is_ours = revision == updated || resource.path.ends_with("definitions");
            assert!(is_ours && revision > last, "{}: {event}", resource.path);
            last = revision;
        }
        assert_eq!(last, updated, "{}", resource.path);
    }
}

// --- GapCause ---

impl GapCause {
    fn begin(&self) {
        match self {
            GapCause::Stalled(store) => store.stall(),
            GapCause::CutOff(proxy) => proxy.cut(),
        }
    }

    /// Ends it, after the store has compacted all that was missed.
    async fn end_without_history(&self, store: &dyn Store) {
        match self {
            GapCause::Stalled(store) => store.lose_history().await,
            GapCause::CutOff(proxy) => {
                let current = store.current_revision().await.unwrap();
                store.compact(current).await.unwrap();
                proxy.restore();
            }
        }
    }
}

async fn begin_watch(client: &Client, resource: &StoredResource, revision: u64) -> Watch {
    let path = format!("{}?watch=true&resourceVersion={revision}", resource.path);
    client.watch(&path).await
}

/// Reads while the server finds out what it missed. Whatever is answered must be of one state, and a consistent read of the new
/// one.
fn read_meanwhile(client: &Arc<Client>, all: &[StoredResource]) -> JoinSet<()> {
    let mut reads = JoinSet::new();
    for resource in all {
        for name in ["added", "deleted"] {
            let path = resource.object_path(name);
            let client = Arc::clone(client);
            reads.spawn(async move {
                let reply = client.get(&path).await;
                let expected = if path.ends_with("added") { 200 } else { 404 };
                assert_eq!(reply.code, expected, "{path}: {}", reply.text);
            });
        }
        let path = format!("{}?resourceVersion=0", resource.path);
        let client = Arc::clone(client);
        reads.spawn(async move {
            for _ in 0..20 {
                let reply = client.send(Method::GET, &path, None).await;
                if reply.code == 200 {
                    expect_one_state(&reply.body, &path);
                }
                tokio::task::yield_now().await;
            }
        });
    }
    reads
}

/// A list has the objects of before the gap, or of after it.
fn expect_one_state(list: &Value, path: &str) {
    let items = list["items"].as_array().unwrap();
    let names: Vec<_> = items.iter().map(|item| &item["metadata"]["name"]).collect();
    let has = |name: &str| names.iter().any(|found| *found == name);
    assert!(has("stays") && has("changes"), "{path}: {names:?}");
    assert_ne!(has("added"), has("deleted"), "{path}: {names:?}");
}

/// A watch from before the gap ends, and no other can begin there; the answer names a version where one can.
async fn expect_expired(client: &Client, resource: &StoredResource, watch: &mut Watch, old: u64) {
    let path = &resource.path;
    let mut last = old;
    let mut event = watch.next().await.unwrap_or_default();
    // The status of definitions is written by the servers, perhaps before the gap.
    while path.ends_with("definitions") && event["type"] == "MODIFIED" {
        last = version(&event["object"]);
        event = watch.next().await.unwrap_or_default();
    }
    let oldest = read_expired(&event, path, last);
    assert_eq!(watch.next().await, None, "{path}");
    let mut again = begin_watch(client, resource, old).await;
    let event = again.next().await.unwrap_or_default();
    assert_eq!(read_expired(&event, path, old), oldest, "{path}");
    assert_eq!(again.next().await, None, "{path}");
    let mut accepted = begin_watch(client, resource, oldest).await;
    // A refusal is there at once.
    if let Some(event) = accepted.next().now_or_never().flatten() {
        assert_ne!(event["type"], "ERROR", "{path}: {event}");
    }
}

/// The oldest version that an event names, which must say that a version is too old.
fn read_expired(event: &Value, path: &str, asked: u64) -> u64 {
    assert_eq!(event["type"], "ERROR", "{path}: {event}");
    assert_eq!(event["object"]["code"], 410, "{path}: {event}");
    assert_eq!(event["object"]["reason"], "Expired", "{path}: {event}");
    let message = event["object"]["message"].as_str().unwrap();
    let rest = message.strip_prefix(&format!("too old resource version: {asked} ("));
    let number = rest.and_then(|rest| rest.strip_suffix(')'));
    let number = number.unwrap_or_else(|| panic!("{path}: {message}"));
    number.parse().unwrap()
}

/// Lists and gets in every way of asking.
async fn check_reads(client: &Client, store: &dyn Store, resource: &StoredResource, old: u64) {
    let fresh = resource.check_list(client, store, "").await;
    assert!(fresh > old, "{}", resource.path);
    let cached = resource.check_list(client, store, "resourceVersion=0").await;
    assert!(cached > old, "{}", resource.path);
    let not_older = format!("resourceVersion={fresh}&resourceVersionMatch=NotOlderThan");
    resource.check_list(client, store, &not_older).await;
    let exact = format!("resourceVersion={fresh}&resourceVersionMatch=Exact");
    assert_eq!(resource.check_list(client, store, &exact).await, fresh);
    let path = format!(
        "{}?resourceVersion={old}&resourceVersionMatch=Exact",
        resource.path
    );
    let reply = client.get(&path).await;
    assert_eq!(reply.code, 410, "{path}: {}", reply.text);
    for options in [
        String::new(),
        "?resourceVersion=0".to_owned(),
        format!("?resourceVersion={fresh}"),
    ] {
        for (name, code) in [("stays", 200), ("changes", 200), ("added", 200), ("deleted", 404)] {
            let path = format!("{}{options}", resource.object_path(name));
            let reply = client.get(&path).await;
            assert_eq!(reply.code, code, "{path}: {}", reply.text);
        }
    }
}
