//! What the tests share.

use std::{future::Future, sync::Arc, time::Duration};

use k3_storage::{
    Change, EventBatch, Key, Prefix, Revision, Store, WatchStream, Write,
    etcd::{EtcdOptions, EtcdStore},
};

/// Waits for something that must arrive, with patience for a busy machine.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Tries again until something holds.
pub(crate) async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    soon(what, async {
        loop {
            if let Some(found) = attempt().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
}

/// Options that give up soon, and not while a busy machine has yet to answer.
pub(crate) fn impatient(endpoints: impl IntoIterator<Item = String>) -> EtcdOptions {
    EtcdOptions {
        dial_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        ..EtcdOptions::at(endpoints)
    }
}

pub(crate) async fn open(endpoint: &str) -> Arc<EtcdStore> {
    EtcdStore::open(EtcdOptions::at([endpoint])).await.unwrap()
}

pub(crate) async fn open_under(endpoint: &str, prefix: &str) -> Arc<EtcdStore> {
    EtcdStore::open(EtcdOptions {
        prefix: prefix.to_owned(),
        ..EtcdOptions::at([endpoint])
    })
    .await
    .unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::try_new(text).unwrap()
}

pub(crate) fn prefix(text: &str) -> Prefix {
    Prefix::try_new(text).unwrap()
}

/// Creates an entry.
pub(crate) async fn create(store: &EtcdStore, name: &str, value: &str) -> Revision {
    store
        .commit(Write::create(key(name), value.to_owned()))
        .await
        .unwrap()
}

/// A watch, checked for order, gaps in its bookmarks and repetition.
pub(crate) struct TestWatcher {
    events: WatchStream,
    /// The bookmark of the newest batch.
    pub(crate) reached: Revision,
    /// What has arrived: revision, key, and value (`None` for a deletion).
    pub(crate) seen: Vec<(Revision, String, Option<String>)>,
}

// --- TestWatcher ---

impl TestWatcher {
    pub(crate) async fn start(store: &EtcdStore, under: &str, after: Revision) -> Self {
        Self {
            events: store.watch(&prefix(under), after).await.unwrap(),
            reached: after,
            seen: Vec::new(),
        }
    }

    pub(crate) async fn batch(&mut self) -> EventBatch {
        let batch = soon("a batch", self.events.next()).await.unwrap();
        let mut last = self.reached;
        for event in batch.events.iter() {
            assert!(event.revision > last, "{event:?} arrived after {last}");
            last = event.revision;
            let value = match &event.change {
                Change::Created(value) | Change::Updated(value) => {
                    Some(String::from_utf8_lossy(value).into_owned())
                }
                Change::Deleted => None,
            };
            self.seen.push((event.revision, event.key.to_string(), value));
        }
        assert!(batch.revision >= last);
        self.reached = batch.revision;
        batch
    }

    /// Waits until everything up to a revision has arrived.
    pub(crate) async fn reach(&mut self, revision: Revision) {
        while self.reached < revision {
            self.batch().await;
        }
    }

    pub(crate) fn revisions(&self) -> Vec<Revision> {
        self.seen.iter().map(|(revision, ..)| *revision).collect()
    }
}
