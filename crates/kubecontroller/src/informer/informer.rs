//! A handle of an informer.

use std::{any::Any, fmt, future::pending, sync::Arc};

use tokio::sync::{mpsc, watch};

use super::{
    delta::Delta,
    health::{Counts, InformerHealth, InformerStats, Progress},
    options::InformerOptions,
    subscribers::{Command, DeltaStream, EventHandlerRegistration, Subscriber},
};
use crate::{metrics::InformerMetrics, object::Object, store::Store};

/// The objects of a kind and scope, kept up to date. Clones are the same informer.
///
/// It stops when its last handle and its last [`EventHandlerRegistration`] are dropped; a [`Store`] does not keep it going. A handler that
/// needs the store takes a clone of that: one that holds a handle keeps its informer going for ever.
pub struct Informer<T> {
    pub(super) core: Arc<Core<T>>,
    /// The task ends when the last sender is gone.
    pub(super) commands: mpsc::UnboundedSender<Command<T>>,
    pub(super) keep_alive: KeepAlive,
}

/// Who has the tasks. They end when the last one who holds this is gone.
pub(super) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// What an informer's handles and its task share.
pub(super) struct Core<T> {
    pub(super) name: String,
    pub(super) store: Store<T>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) counts: Counts,
    pub(super) metrics: InformerMetrics,
    pub(super) options: InformerOptions<T>,
}

/// How an informer is, whatever its objects are.
pub(super) struct Vitals<'c> {
    pub(super) name: &'c str,
    pub(super) progress: &'c watch::Sender<Progress>,
    pub(super) counts: &'c Counts,
    pub(super) metrics: &'c InformerMetrics,
}

// --- Informer ---

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Informer {
            core: Arc::clone(&self.core),
            commands: self.commands.clone(),
            keep_alive: Arc::clone(&self.keep_alive),
        }
    }
}

impl<T> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("name", &self.core.name)
            .field("progress", &*self.core.progress.borrow())
            .finish_non_exhaustive()
    }
}

impl<T: Object> Informer<T> {
    /// What it is about: the path of its list and its selectors.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The objects. Until the informer is synced some are missing.
    pub fn store(&self) -> &Store<T> {
        &self.core.store
    }

    /// Calls a handler for each change, in order. It runs in the informer's task and must not block: it should put a key into
    /// a queue. First it is told of what is there, as [`Delta::Added`] with `initial`. If it panics, that is logged, and it is
    /// called again for the next change.
    pub fn add_event_handler(
        &self,
        handler: impl FnMut(&Delta<T>) + Send + 'static,
    ) -> EventHandlerRegistration {
        let (subscriber, subscription) =
            Subscriber::new(handler, self.commands.clone(), Arc::clone(&self.keep_alive));
        // If the task has stopped the subscription never tells anything.
        let _ = self.commands.send(Command::Add(subscriber));
        subscription
    }

    /// The same as a stream, for readers that wait.
    pub fn delta_stream(&self) -> DeltaStream<T> {
        let (sender, told) = mpsc::unbounded_channel();
        let subscription = self.add_event_handler(move |delta| {
            // The reader drops the subscription with the receiver.
            let _ = sender.send(delta.clone());
        });
        DeltaStream::new(told, subscription)
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.core.progress.borrow().is_synced
    }

    /// Waits until the first list is complete. Never ends if the informer stops before that.
    pub async fn wait_for_sync(&self) {
        self.wait(|progress| progress.is_synced).await;
    }

    /// The newest version that was seen, of an object or of a bookmark.
    pub fn version(&self) -> Option<u64> {
        self.core.progress.borrow().version
    }

    /// Waits until everything up to a version is in the store; handlers are told of it right after. Of a change outside the
    /// informer's scope it hears only with the next bookmark.
    pub async fn wait_for_version(&self, version: u64) {
        self.wait(|progress| progress.version.is_some_and(|seen| seen >= version))
            .await;
    }

    /// How it is.
    pub fn health(&self) -> InformerHealth {
        self.core.progress.borrow().health.clone()
    }

    /// What it has done so far.
    pub fn stats(&self) -> InformerStats {
        self.core.figures()
    }

    async fn wait(&self, condition: impl FnMut(&Progress) -> bool) {
        let mut progress = self.core.progress.subscribe();
        if progress.wait_for(condition).await.is_err() {
            pending::<()>().await;
        }
    }
}

// --- Core ---

impl<T> Core<T> {
    pub(super) fn new(name: String, options: InformerOptions<T>, metrics: InformerMetrics) -> Self {
        Core {
            name,
            metrics,
            store: Store::default(),
            progress: watch::Sender::default(),
            counts: Counts::default(),
            options,
        }
    }

    pub(super) fn figures(&self) -> InformerStats {
        self.counts.figures(&self.name, self.store.len())
    }
}
