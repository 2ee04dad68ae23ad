//! The handle of a shared informer.

use std::{any::Any, fmt, future::pending, sync::Arc};

use tokio::sync::{mpsc, watch};

use super::{
    delta::Delta,
    event_handlers::{DeltaStream, EventHandler, EventHandlerRegistration, InformerCommand},
    health::{InformerCounters, InformerHealth, InformerProgress, InformerStats},
    options::InformerOptions,
};
use crate::{metrics::InformerMetrics, object::Object, store::Store};

/// A shared informer: the objects of a kind and scope, kept up to date in a [`Store`]. Clones are handles of the same informer.
///
/// The informer runs while a handle or an [`EventHandlerRegistration`] exists; a [`Store`] does not keep it running. A handler
/// that reads the store should own a clone of the store, not of the informer: an informer whose own handler holds a handle
/// never stops.
#[doc(alias = "SharedInformer")]
#[doc(alias = "SharedIndexInformer")]
pub struct Informer<T> {
    pub(super) core: Arc<InformerCore<T>>,
    /// The task ends when the last sender is dropped.
    pub(super) commands: mpsc::UnboundedSender<InformerCommand<T>>,
    pub(super) keep_alive: KeepAlive,
}

/// A reference to the [`JoinSet`](tokio::task::JoinSet) of the factory, which aborts the tasks when it is dropped: informers
/// continue after their factory is dropped.
pub(super) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// The state that the handles of an informer share with its task.
pub(super) struct InformerCore<T> {
    pub(super) name: String,
    pub(super) store: Store<T>,
    pub(super) progress: watch::Sender<InformerProgress>,
    pub(super) counters: InformerCounters,
    pub(super) metrics: InformerMetrics,
    pub(super) options: InformerOptions<T>,
}

/// The part of an [`InformerCore`] that does not depend on the type of the objects.
pub(super) struct UntypedInformerCore<'c> {
    pub(super) name: &'c str,
    pub(super) progress: &'c watch::Sender<InformerProgress>,
    pub(super) counters: &'c InformerCounters,
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
    /// The name of the informer: the path of its list and its selectors.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The store of the informer. It is incomplete until the informer is synced.
    pub fn store(&self) -> &Store<T> {
        &self.core.store
    }

    /// Adds an event handler, which is called for each change, in order.
    ///
    /// The handler runs in the task of the informer and must not block: typically it adds a key to a work queue. It is first
    /// called for each object in the store, with [`Delta::Added`] and `initial`. If it panics, the panic is logged and counted,
    /// and the handler is called again for the next change.
    pub fn add_event_handler(
        &self,
        handler: impl FnMut(&Delta<T>) + Send + 'static,
    ) -> EventHandlerRegistration {
        let (handler, registration) =
            EventHandler::new(handler, self.commands.clone(), Arc::clone(&self.keep_alive));
        // Sending fails if the task has stopped. Then the handler is never called.
        let _ = self.commands.send(InformerCommand::AddHandler(handler));
        registration
    }

    /// Adds an event handler that buffers the changes as a stream, for readers that are async or may block.
    pub fn delta_stream(&self) -> DeltaStream<T> {
        let (sender, deltas) = mpsc::unbounded_channel();
        let registration = self.add_event_handler(move |delta| {
            // The receiver is dropped together with the registration of this handler.
            let _ = sender.send(delta.clone());
        });
        DeltaStream::new(deltas, registration)
    }

    /// Whether the initial list is complete (client-go's `HasSynced`).
    #[doc(alias = "HasSynced")]
    pub fn is_synced(&self) -> bool {
        self.core.progress.borrow().is_synced
    }

    /// Waits until the initial list is complete. Never returns if the informer stops before that.
    #[doc(alias = "WaitForCacheSync")]
    pub async fn wait_for_sync(&self) {
        self.wait_for_progress(|progress| progress.is_synced).await;
    }

    /// The newest resource version seen, in an object or in a bookmark.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn version(&self) -> Option<u64> {
        self.core.progress.borrow().version
    }

    /// Waits until all changes up to a resource version are in the store; handlers are called right after.
    ///
    /// The version of an object outside the scope of the informer is seen only with the next bookmark, about a minute later.
    pub async fn wait_for_version(&self, version: u64) {
        self.wait_for_progress(|progress| progress.version.is_some_and(|seen| seen >= version))
            .await;
    }

    /// Whether the informer is up to date.
    pub fn health(&self) -> InformerHealth {
        self.core.progress.borrow().health.clone()
    }

    /// What the informer has done so far.
    pub fn stats(&self) -> InformerStats {
        self.core.stats()
    }

    async fn wait_for_progress(&self, condition: impl FnMut(&InformerProgress) -> bool) {
        let mut progress = self.core.progress.subscribe();
        if progress.wait_for(condition).await.is_err() {
            pending::<()>().await;
        }
    }
}

// --- InformerCore ---

impl<T> InformerCore<T> {
    pub(super) fn new(name: String, options: InformerOptions<T>, metrics: InformerMetrics) -> Self {
        InformerCore {
            name,
            metrics,
            store: Store::default(),
            progress: watch::Sender::default(),
            counters: InformerCounters::default(),
            options,
        }
    }

    pub(super) fn stats(&self) -> InformerStats {
        self.counters.stats(&self.name, self.store.len())
    }
}
