//! What the cache promises its readers.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use k3_api::{
    selector::label::Labels,
    strategy::{SelectableField, Tree},
};
use k3_encryption::{EncryptedStore, EncryptionConfiguration, Transformers};
use k3_storage::{Change, DelegatingStore, Key, Revision, Store, StoreError, Write, memory::MemoryStore};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use super::{
    CacheWatcher, CachedObject, StalenessError, TooOldResourceVersion, WatchCache, WatchCaches, WatchFilter,
    WatchStart,
};

const PODS: &str = "/registry/core/pods/";

static BY_NODE: [SelectableField; 1] = [SelectableField::rule("spec.nodeName", |pod| {
    Cow::Borrowed(pod.at("spec").text("nodeName"))
})];

/// A change to one of a few pods: on no node, on one of two, or deleted.
#[derive(Clone, Debug)]
struct Step {
    namespace: u8,
    name: u8,
    node: Option<u8>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..2u8, 0..4u8, prop::option::weighted(0.8, 0..3u8));
    prop::collection::vec(
        step.prop_map(|(namespace, name, node)| Step {
            namespace,
            name,
            node,
        }),
        0..40,
    )
}

fn key(step: &Step) -> Key {
    Key::try_new(format!("{PODS}ns{}/pod{}", step.namespace, step.name)).unwrap()
}

fn stored(node: u8, revision: u64) -> Bytes {
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"at": revision.to_string()}},
        "spec": {"nodeName": format!("node{node}")}});
    k3_api::encode::encode_stored(pod.as_object().unwrap()).into()
}

fn apply(cache: &WatchCache, steps: &[Step], after: Revision) -> Revision {
    let mut revision = after;
    for step in steps {
        revision = revision.next();
        let change = match step.node {
            Some(node) => Change::Updated(stored(node, revision.get())),
            None => Change::Deleted,
        };
        cache.apply(&key(step), &change, revision, Instant::now());
    }
    revision
}

/// The state, by key: revisions identify versions.
type State = BTreeMap<String, Revision>;

fn state<'o>(objects: impl Iterator<Item = &'o Arc<CachedObject>>) -> State {
    objects
        .map(|object| (object.key.to_string(), object.revision))
        .collect()
}

/// Plays what waits for a watcher onto a state, with an interest's own idea of who is in.
fn replay(watcher: &mut CacheWatcher, state: &mut State, is_in: impl Fn(&CachedObject) -> bool) {
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(delivery)) = watcher.poll(&mut context) {
        let event = &delivery.event;
        match event.after.as_ref().filter(|object| is_in(object)) {
            Some(object) => state.insert(object.key.to_string(), object.revision),
            None => state.remove(&*event.object().key),
        };
    }
}

proptest! {
    /// A watch replayed onto a list equals a later list, whatever of it is looked at.
    #[test]
    fn list_plus_watch_equals_later_list(before in steps(), missed in steps(), live in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let cache = WatchCache::new(BY_NODE.to_vec().into(), Revision::ZERO);
        let revision = apply(&cache, &before, Revision::ZERO);
        let listed = cache.snapshot(revision);
        let later = apply(&cache, &missed, revision);
        let on_node = |object: &CachedObject| cache.field(object, 0) == "node1";
        let in_namespace = |object: &CachedObject| object.namespace() == "ns1";
        let watch = |interest: WatchFilter| cache.watch(&interest, WatchStart::Revision(revision), later).unwrap().0;
        let mut all = watch(WatchFilter::Everything);
        let mut node = watch(WatchFilter::Field(0, "node1".to_owned()));
        let mut namespace = watch(WatchFilter::Under(format!("{PODS}ns1/")));
        let now = apply(&cache, &live, later);
        let end = cache.snapshot(now);

        let mut seen = state(listed.objects.values());
        replay(&mut all, &mut seen, |_| true);
        prop_assert_eq!(seen, state(end.objects.values()));
        let mut seen = state(listed.objects.values().filter(|object| on_node(object)));
        replay(&mut node, &mut seen, on_node);
        prop_assert_eq!(seen, state(end.objects.values().filter(|object| on_node(object))));
        let mut seen = state(listed.under(&format!("{PODS}ns1/"), None));
        replay(&mut namespace, &mut seen, in_namespace);
        prop_assert_eq!(seen, state(end.under(&format!("{PODS}ns1/"), None)));
        // What was listed stays as it was, however much has changed.
        prop_assert!(listed.objects.values().all(|object| object.revision <= revision));
    }
}

#[tokio::test]
async fn slow_watcher_is_closed_without_blocking() {
    let cache = WatchCache::new([].into(), Revision::ZERO);
    let (mut slow, _) = cache
        .watch(&WatchFilter::Everything, WatchStart::Now, Revision::ZERO)
        .unwrap();
    let (mut steady, _) = cache
        .watch(&WatchFilter::Everything, WatchStart::Now, Revision::ZERO)
        .unwrap();
    let step = Step {
        namespace: 0,
        name: 0,
        node: Some(0),
    };
    let mut seen = 0;
    let mut revision = Revision::ZERO;
    for _ in 1..20_000 {
        revision = apply(&cache, std::slice::from_ref(&step), revision);
        if let Some(delivery) = poll_fn(|context| steady.poll(context)).await {
            assert_eq!(delivery.event.revision, revision);
            seen += 1;
        }
    }
    assert_eq!(seen, 19_999);
    let mut reported = 0;
    while poll_fn(|context| slow.poll(context)).await.is_some() {
        reported += 1;
    }
    assert!(reported < 19_999, "it is cut off after {reported} events");
}

#[tokio::test]
async fn old_watch_is_rejected_with_oldest_revision() {
    let cache = WatchCache::new([].into(), Revision::new(10));
    let refused = cache
        .watch(
            &WatchFilter::Everything,
            WatchStart::Revision(Revision::new(9)),
            Revision::new(20),
        )
        .err();
    assert_eq!(
        refused,
        Some(TooOldResourceVersion {
            oldest: Revision::new(10)
        })
    );
    assert!(
        cache
            .watch(
                &WatchFilter::Everything,
                WatchStart::Revision(Revision::new(10)),
                Revision::new(20)
            )
            .is_ok()
    );
}

#[tokio::test]
async fn caches_see_writes_of_other_servers() {
    let store = MemoryStore::new();
    let fill = || WatchCaches::fill(store.clone(), |_| [].into());
    let ((one, _feed), (other, _other_feed)) = (fill().await.unwrap(), fill().await.unwrap());
    for number in 0..50u8 {
        let step = Step {
            namespace: 0,
            name: number,
            node: Some(0),
        };
        let revision = store
            .commit(Write::create(key(&step), stored(0, 1)))
            .await
            .unwrap();
        for caches in [&one, &other] {
            assert!(caches.read_index().await.unwrap() >= revision);
            let pod = caches.resource(PODS).get(&key(&step)).unwrap();
            assert_eq!(pod.labels().get("at"), Some("1"));
        }
    }
}

/// The events that wait for a watcher, by revision; and whether the watch has ended.
fn drain(watcher: &mut CacheWatcher) -> (Vec<u64>, bool) {
    let mut context = Context::from_waker(Waker::noop());
    let mut revisions = Vec::new();
    loop {
        match watcher.poll(&mut context) {
            Poll::Ready(Some(delivery)) => revisions.push(delivery.event.revision.get()),
            Poll::Ready(None) => return (revisions, true),
            Poll::Pending => return (revisions, false),
        }
    }
}

#[tokio::test]
async fn watch_from_future_revision_skips_earlier_events() {
    let cache = WatchCache::new([].into(), Revision::ZERO);
    let step = Step {
        namespace: 0,
        name: 0,
        node: Some(0),
    };
    let steps = vec![step; 10];
    let revision = apply(&cache, &steps[..2], Revision::ZERO);
    let (mut ahead, _) = cache
        .watch(
            &WatchFilter::Everything,
            WatchStart::Revision(Revision::new(5)),
            revision,
        )
        .unwrap();
    apply(&cache, &steps[2..], revision);
    assert_eq!(drain(&mut ahead), ((6..=10).collect(), false));
}

#[tokio::test]
async fn replacement_ends_watches_and_moves_horizon() {
    let cache = WatchCache::new([].into(), Revision::ZERO);
    let step = |name| Step {
        namespace: 0,
        name,
        node: Some(0),
    };
    let revision = apply(&cache, &[step(0), step(1)], Revision::ZERO);
    let before = cache.snapshot(revision);
    let (mut watcher, _) = cache
        .watch(
            &WatchFilter::Everything,
            WatchStart::Revision(Revision::new(1)),
            revision,
        )
        .unwrap();
    let object = CachedObject::new(key(&step(2)), stored(0, 30), Revision::new(30));
    let objects = [(object.key.clone(), Arc::new(object))].into_iter().collect();
    cache
        .begin_replacement()
        .put(objects, [].into(), Revision::new(40));

    // What had happened is still delivered, then the watch learns that events are missing.
    assert_eq!(drain(&mut watcher), (vec![2], true));
    assert_eq!(watcher.lost_history(), Some(Revision::new(40)));
    let after = cache.snapshot(Revision::ZERO);
    assert_eq!(after.revision, Revision::new(40));
    assert_ne!(after.version, before.version);
    assert_eq!(
        state(after.objects.values()),
        State::from([(key(&step(2)).to_string(), Revision::new(30))])
    );
    assert!(cache.at(revision, Revision::new(40)).is_none());
    let refused = cache
        .watch(
            &WatchFilter::Everything,
            WatchStart::Revision(Revision::new(39)),
            Revision::new(40),
        )
        .err();
    assert_eq!(
        refused,
        Some(TooOldResourceVersion {
            oldest: Revision::new(40)
        })
    );
    // Events from before the replacement are not applied again.
    apply(&cache, &[step(3)], Revision::new(38));
    assert_eq!(cache.snapshot(Revision::ZERO).version, after.version);
}

#[tokio::test]
async fn new_cache_knows_it_missed_no_events() {
    let store = MemoryStore::new();
    let (caches, _feed) = WatchCaches::fill(store.clone(), |_| [].into()).await.unwrap();
    let began = caches.applied();
    let step = Step {
        namespace: 0,
        name: 0,
        node: Some(0),
    };
    store
        .commit(Write::create(key(&step), stored(0, 1)))
        .await
        .unwrap();
    let now = caches.read_index().await.unwrap();
    let nodes = caches.resource("/registry/core/nodes/");
    assert!(
        nodes
            .watch(&WatchFilter::Everything, WatchStart::Revision(began), now)
            .is_ok()
    );
}

#[tokio::test]
async fn watch_after_close_ends_immediately() {
    let store = MemoryStore::new();
    let (caches, _feed) = WatchCaches::fill(store, |_| [].into()).await.unwrap();
    let pods = caches.resource(PODS);
    let watch = |cache: &WatchCache| {
        cache
            .watch(&WatchFilter::Everything, WatchStart::Now, Revision::ZERO)
            .unwrap()
            .0
    };
    let mut before = watch(&pods);
    assert_eq!(drain(&mut before), (vec![], false));
    caches.close();
    assert_eq!(drain(&mut before), (vec![], true));
    assert_eq!(drain(&mut watch(&pods)), (vec![], true));
    // A cache that is created later is closed too.
    let mut other = watch(&caches.resource("/registry/core/nodes/"));
    assert_eq!(drain(&mut other), (vec![], true));
    assert_eq!(other.lost_history(), None);
}

/// A store that does not say how far it is.
struct SilentStore {
    inner: Arc<dyn Store>,
    /// How often it was asked.
    asked: AtomicUsize,
}

#[async_trait]
impl DelegatingStore for SilentStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn requests_share_pending_store_read() {
    let store = Arc::new(SilentStore {
        inner: MemoryStore::new(),
        asked: AtomicUsize::new(0),
    });
    let (caches, _feed) = WatchCaches::fill(Arc::clone(&store) as Arc<dyn Store>, |_| [].into())
        .await
        .unwrap();
    let outcomes = join_all((0..50).map(|_| caches.ensure_recent())).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Err(StalenessError::Late)))
    );
    // One is asked by the first, and one by the next, who arrived after that.
    assert!(store.asked.load(Ordering::Relaxed) <= 2);
}

#[tokio::test(start_paused = true)]
async fn undecrypted_objects_are_retried_in_background() {
    let rules = |keys: &[&str]| {
        let key = |name: &&str| {
            let letter = if *name == "one" { "A" } else { "B" };
            format!("{{name: {name}, secret: '{}A='}}", letter.repeat(42))
        };
        let keys: Vec<_> = keys.iter().map(key).collect();
        let text = format!(
            "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [pods]\n  \
             providers: [{{secretbox: {{keys: [{}]}}}}]\n",
            keys.join(", ")
        );
        EncryptionConfiguration::parse(text.as_bytes()).unwrap()
    };
    let raw: Arc<dyn Store> = MemoryStore::new();
    let transformers = Transformers::new(&rules(&["one"])).await;
    let writer: Arc<dyn Store> = EncryptedStore::new(Arc::clone(&raw), transformers);
    let step = Step {
        namespace: 0,
        name: 0,
        node: Some(0),
    };
    let key = key(&step);
    let write = Write::create(key.clone(), stored(0, 1));
    writer.commit(write).await.unwrap();

    let transformers = Transformers::new(&rules(&["two"])).await;
    let store = EncryptedStore::new(raw, Arc::clone(&transformers));
    let (caches, _feed) = WatchCaches::fill(store, |_| [].into()).await.unwrap();
    let pods = caches.resource(PODS);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(caches.may_have_undecrypted());
    assert!(pods.get(&key).unwrap().undecrypted().is_some());
    let versions = (pods.version(), caches.version());

    transformers.replace(&rules(&["two", "one"])).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!caches.may_have_undecrypted());
    assert_eq!(
        pods.get(&key).unwrap().tree().at("spec").text("nodeName"),
        "node0"
    );
    assert_ne!(pods.version(), versions.0);
    assert_ne!(caches.version(), versions.1);
}

#[test]
fn fields_of_a_commit_are_those_that_its_writer_has_read() {
    let cache = WatchCache::new(BY_NODE.to_vec().into(), Revision::ZERO);
    let key = Key::try_new(format!("{PODS}a/b")).unwrap();
    let node = |bytes: &Bytes, revision| {
        let change = Change::Updated(bytes.clone());
        cache.apply(&key, &change, Revision::new(revision), Instant::now());
        let object = cache.get(&key).unwrap();
        cache.field(&object, 0).to_owned()
    };
    // So that it is known where the value was read.
    let tree = json!({"spec": {"nodeName": "node of the tree"}});
    let expected = cache.expect(&key, &stored(1, 1), &tree);
    assert_eq!(node(&stored(1, 1), 1), "node of the tree");
    drop(expected);
    // Another server wrote first.
    let expected = cache.expect(&key, &stored(1, 2), &tree);
    assert_eq!(node(&stored(2, 2), 2), "node2");
    drop(expected);
    // The write did not succeed, and another one wrote the same.
    assert_eq!(node(&stored(1, 2), 3), "node1");
}
