//! The reflector: feeds the watch caches from the store's watch.

use std::{sync::Arc, time::Duration};

use k3_storage::{Prefix, ReadError, Revision, StoreError, WatchError};
use tokio::task::JoinSet;

use super::{WatchCaches, store_snapshot::ROOT};

/// How long to wait before a store that failed is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// The tasks that keep the caches up to date. They end with this handle.
pub(crate) struct StoreReflector {
    _tasks: JoinSet<()>,
}

// --- StoreReflector ---

impl StoreReflector {
    /// Feeds caches that have everything up to a revision.
    pub(super) fn start(caches: Arc<WatchCaches>, revision: Revision) -> Self {
        let mut tasks = JoinSet::new();
        let prover = Arc::clone(&caches);
        tasks.spawn(async move { prover.prove_in_time().await });
        let decrypter = Arc::clone(&caches);
        tasks.spawn(async move { decrypter.decrypt_in_time().await });
        let forgetting = Arc::clone(&caches);
        tasks.spawn(async move { forgetting.trees().forget_in_time().await });
        let shrinking = Arc::clone(&caches);
        tasks.spawn(async move { shrinking.shrink_in_time().await });
        tasks.spawn(async move {
            follow(&caches, revision).await;
            caches.close();
        });
        StoreReflector { _tasks: tasks }
    }
}

/// Applies what the store's watch delivers, until the store is closed.
// upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go ListAndWatch
async fn follow(caches: &WatchCaches, mut revision: Revision) {
    let root = Prefix::try_new(ROOT).expect("the root is a prefix");
    loop {
        let ended = match caches.store().watch(&root, revision).await {
            Ok(mut events) => loop {
                match events.next().await {
                    Ok(batch) => {
                        caches.apply(&batch);
                        revision = batch.revision;
                    }
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        match ended {
            WatchError::Store(StoreError::Closed) => return,
            WatchError::Compacted { oldest, .. } => {
                tracing::warn!(
                    revision = revision.get(),
                    %oldest,
                    "store history compacted before it was read; reloading the watch cache"
                );
                caches.set_follows(false);
                let Some(loaded) = reload(caches).await else {
                    return;
                };
                revision = loaded;
                caches.set_follows(true);
                tracing::info!(revision = revision.get(), "watch cache loaded");
            }
            error => {
                tracing::warn!(%error, "store watch ended; restarting");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Loads the caches, however often it takes. `None`: the store is closed.
async fn reload(caches: &WatchCaches) -> Option<Revision> {
    loop {
        match caches.load().await {
            Ok(revision) => return Some(revision),
            Err(ReadError::Store(StoreError::Closed)) => return None,
            Err(error) => tracing::warn!(%error, "failed to load the watch cache; retrying"),
        }
        tokio::time::sleep(RETRY).await;
    }
}
