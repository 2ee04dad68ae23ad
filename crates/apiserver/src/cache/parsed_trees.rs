//! The trees of objects that were written a moment ago: most objects that are written are written again soon, and a tree costs
//! several times as much to read as to keep that long.
//!
//! Promises: a tree belongs to exactly the revision and the bytes that it is asked for by. Memory is bounded, and given back
//! soon after writes end or turn to other objects.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use k3_storage::{Key, Revision};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::{sync::Notify, time::Instant};

use super::CachedObject;

/// How long a tree is kept: an object that is created is scheduled, and its status written, within it.
const KEPT: Duration = Duration::from_secs(5);
/// How many bytes all trees may take.
const MAX_BYTES: usize = 4 << 20;
/// How many bytes a tree takes for each byte of its text: maps have capacity for eleven entries each.
const BYTES_PER_TEXT: usize = 10;
/// Larger objects are seldom written twice within a moment, and would displace many others.
const MAX_TEXT: usize = MAX_BYTES / BYTES_PER_TEXT / 8;

/// At most so many writes are remembered; most of them are small.
const MAX_WRITES: usize = 1024;

/// When so many trees in a row were kept in vain, objects are written once each: then one tree of a few is kept, until one is of
/// use. To free a tree that was kept costs more than to free one at once.
const IN_VAIN: u32 = 64;
const SAMPLE: u64 = 16;

/// The trees of recent writes.
#[derive(Default)]
pub(crate) struct ParsedTrees {
    /// Trees are made and freed outside of the lock; nothing under it can panic half way.
    cache: Mutex<TreeCache>,
    /// Notified when there is a tree again.
    filled: Notify,
}

#[derive(Default)]
struct TreeCache {
    trees: HashMap<Key, ParsedTree>,
    /// The keys in the order in which their trees were put in. A key whose tree was replaced is there again.
    order: VecDeque<(Instant, Revision, Key)>,
    /// Bytes of text of all trees.
    text: usize,
    /// How many trees were forgotten since one was of use.
    in_vain: u32,
}

struct ParsedTree {
    revision: Revision,
    bytes: Bytes,
    tree: Arc<Value>,
}

// --- ParsedTrees ---

impl ParsedTrees {
    /// Keeps the tree of an object that was committed, as its clients see it.
    pub(crate) fn put(&self, key: &Key, revision: Revision, bytes: &Bytes, tree: &Arc<Value>) {
        if bytes.len() > MAX_TEXT {
            return;
        }
        let now = Instant::now();
        let parsed = ParsedTree {
            revision,
            bytes: bytes.clone(),
            tree: Arc::clone(tree),
        };
        let mut forgotten = Vec::new();
        {
            let mut cache = self.lock();
            if cache.in_vain > IN_VAIN && !revision.get().is_multiple_of(SAMPLE) {
                return;
            }
            if cache.trees.is_empty() {
                self.filled.notify_one();
            }
            cache.text += bytes.len();
            if let Some(replaced) = cache.trees.insert(key.clone(), parsed) {
                cache.text -= replaced.bytes.len();
                forgotten.push(replaced);
            }
            cache.order.push_back((now, revision, key.clone()));
            cache.forget_old(now, &mut forgotten);
        }
        // Outside of the lock: to free a tree takes longer than all else here.
        drop(forgotten);
    }

    /// The tree of an object, if it is kept.
    pub(crate) fn get(&self, object: &CachedObject) -> Option<Arc<Value>> {
        let mut cache = self.lock();
        let parsed = cache.trees.get(&object.key)?;
        if parsed.revision != object.revision || parsed.bytes != object.stored() {
            return None;
        }
        let tree = Arc::clone(&parsed.tree);
        cache.in_vain = 0;
        Some(tree)
    }

    /// Forgets the trees that were kept long enough, also when nothing is written. Never ends.
    pub(super) async fn forget_in_time(&self) {
        loop {
            self.filled.notified().await;
            while !self.lock().trees.is_empty() {
                tokio::time::sleep(KEPT).await;
                let mut forgotten = Vec::new();
                self.lock().forget_old(Instant::now(), &mut forgotten);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, TreeCache> {
        self.cache.lock()
    }
}

// --- TreeCache ---

impl TreeCache {
    /// Takes out what is too old or too much.
    fn forget_old(&mut self, now: Instant, forgotten: &mut Vec<ParsedTree>) {
        while let Some((time, revision, key)) = self.order.front() {
            let is_current = self
                .trees
                .get(key)
                .is_some_and(|parsed| parsed.revision == *revision);
            let is_kept = now.duration_since(*time) < KEPT
                && self.text * BYTES_PER_TEXT <= MAX_BYTES
                && self.order.len() <= MAX_WRITES;
            if is_current && is_kept {
                break;
            }
            if is_current && let Some(parsed) = self.trees.remove(key) {
                self.text -= parsed.bytes.len();
                self.in_vain = self.in_vain.saturating_add(1);
                forgotten.push(parsed);
            }
            self.order.pop_front();
        }
        if self.trees.is_empty() {
            // An idle server keeps nothing.
            *self = TreeCache::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(number: usize) -> Key {
        Key::try_new(format!("/registry/core/pods/a/{number}")).unwrap()
    }

    fn object(number: usize, revision: u64, text: &'static [u8]) -> CachedObject {
        CachedObject::new(key(number), Bytes::from_static(text), Revision::new(revision))
    }

    #[tokio::test(start_paused = true)]
    async fn a_tree_is_found_by_its_revision_and_bytes_until_it_is_old() {
        let trees = Arc::new(ParsedTrees::default());
        let forgetting = Arc::clone(&trees);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { forgetting.forget_in_time().await });
        let tree = Arc::new(json!({"a": 1}));
        trees.put(
            &key(0),
            Revision::new(7),
            &Bytes::from_static(b"{\"a\":1}"),
            &tree,
        );
        assert!(trees.get(&object(0, 7, b"{\"a\":1}")).is_some());
        assert!(trees.get(&object(0, 8, b"{\"a\":1}")).is_none());
        assert!(trees.get(&object(0, 7, b"{\"a\":2}")).is_none());
        assert!(trees.get(&object(1, 7, b"{\"a\":1}")).is_none());
        tokio::time::sleep(KEPT * 2).await;
        assert!(trees.get(&object(0, 7, b"{\"a\":1}")).is_none());
        assert_eq!(trees.lock().order.capacity(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let trees = ParsedTrees::default();
        let tree = Arc::new(json!({}));
        let bytes = Bytes::from(vec![b' '; MAX_TEXT]);
        for number in 0..50 {
            // Each is written twice: the first state is forgotten.
            for revision in 0..2 {
                trees.put(&key(number), Revision::new(revision), &bytes, &tree);
            }
        }
        trees.put(
            &key(200),
            Revision::new(1),
            &Bytes::from(vec![b' '; MAX_TEXT + 1]),
            &tree,
        );
        let cache = trees.lock();
        assert_eq!(cache.trees.len(), 8);
        assert_eq!(cache.text, 8 * MAX_TEXT);
        assert!(cache.order.len() <= 16, "{}", cache.order.len());
        assert!(cache.trees.contains_key(&key(49)));
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_are_written_once_are_not_kept_for_long() {
        let trees = ParsedTrees::default();
        let tree = Arc::new(json!({}));
        let bytes = Bytes::from(vec![b' '; MAX_TEXT]);
        let number = |key: u64| usize::try_from(key).unwrap();
        for revision in 1..1000 {
            trees.put(&key(number(revision)), Revision::new(revision), &bytes, &tree);
        }
        assert!(trees.lock().in_vain > IN_VAIN);
        let is_kept = |revision: u64| {
            let object = CachedObject::new(key(number(revision)), bytes.clone(), Revision::new(revision));
            trees.get(&object).is_some()
        };
        assert!(!is_kept(999));
        // One of them was written again.
        assert!(is_kept(992));
        trees.put(&key(1001), Revision::new(1001), &bytes, &tree);
        assert!(is_kept(1001));
    }
}
