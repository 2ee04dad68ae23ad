//! Event handlers and their registrations.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::Stream;
use tokio::sync::{mpsc, watch};

use super::{delta::Delta, shared_informer::KeepAlive};

/// The registration of an event handler. Dropping it removes the handler; a call that is running in another thread completes.
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct EventHandlerRegistration {
    is_closed: Arc<AtomicBool>,
    is_synced: watch::Receiver<bool>,
    /// Keeps the informer running, and makes it remove the handler when this is dropped.
    on_drop: Option<Box<dyn FnOnce() + Send + Sync>>,
}

/// The deltas of an informer as a stream with an unbounded buffer: a slow reader delays neither the informer nor other handlers,
/// and what it has not read is kept as pointers to objects. The stream ends when the informer stops.
pub struct DeltaStream<T> {
    pub(super) deltas: mpsc::UnboundedReceiver<Delta<T>>,
    registration: EventHandlerRegistration,
}

/// An event handler, as the task of the informer holds it.
// upstream: staging/src/k8s.io/client-go/tools/cache/shared_informer.go processorListener
pub(super) struct EventHandler<T> {
    callback: EventHandlerFn<T>,
    is_closed: Arc<AtomicBool>,
    is_synced: watch::Sender<bool>,
}

type EventHandlerFn<T> = Box<dyn FnMut(&Delta<T>) + Send>;

/// A command to the task of an informer.
pub(super) enum InformerCommand<T> {
    AddHandler(EventHandler<T>),
    RemoveClosedHandlers,
}

// --- EventHandler ---

impl<T: 'static> EventHandler<T> {
    /// A handler and its registration.
    pub(super) fn new(
        callback: impl FnMut(&Delta<T>) + Send + 'static,
        commands: mpsc::UnboundedSender<InformerCommand<T>>,
        keep_alive: KeepAlive,
    ) -> (Self, EventHandlerRegistration)
    where
        T: Send + Sync,
    {
        let is_closed = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = watch::channel(false);
        let registration = EventHandlerRegistration {
            is_closed: Arc::clone(&is_closed),
            is_synced: receiver,
            on_drop: Some(Box::new(move || {
                // Sending fails if the informer has stopped. It has dropped the handler already.
                let _ = commands.send(InformerCommand::RemoveClosedHandlers);
                drop(keep_alive);
            })),
        };
        let handler = EventHandler {
            callback: Box::new(callback),
            is_closed,
            is_synced: sender,
        };
        (handler, registration)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Calls the handler. Returns false if it panicked; it is called again for the next change.
    pub(super) fn call(&mut self, delta: &Delta<T>) -> bool {
        self.is_closed() || catch_unwind(AssertUnwindSafe(|| (self.callback)(delta))).is_ok()
    }

    /// Marks that the handler has received the initial objects.
    pub(super) fn mark_synced(&self) {
        self.is_synced.send_replace(true);
    }
}

// --- EventHandlerRegistration ---

impl EventHandlerRegistration {
    /// Waits until the handler has received all initial objects: those of the first list, or those that were in the store when
    /// it was added. Never returns if the informer stops before that.
    pub async fn wait_for_sync(&self) {
        let mut is_synced = self.is_synced.clone();
        if is_synced.wait_for(|is_synced| *is_synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the handler has received all initial objects.
    #[doc(alias = "HasSynced")]
    pub fn is_synced(&self) -> bool {
        *self.is_synced.borrow()
    }
}

impl Drop for EventHandlerRegistration {
    fn drop(&mut self) {
        // The flag takes effect at once; the command only frees the memory of the handler.
        self.is_closed.store(true, Ordering::Release);
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
    }
}

impl fmt::Debug for EventHandlerRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandlerRegistration")
            .field("is_synced", &self.is_synced())
            .finish_non_exhaustive()
    }
}

// --- DeltaStream ---

impl<T> DeltaStream<T> {
    pub(super) fn new(
        deltas: mpsc::UnboundedReceiver<Delta<T>>,
        registration: EventHandlerRegistration,
    ) -> Self {
        DeltaStream { deltas, registration }
    }

    /// The next delta; `None` when the informer has stopped.
    pub async fn next(&mut self) -> Option<Delta<T>> {
        self.deltas.recv().await
    }

    /// Waits until all initial objects are in the buffer; see [`EventHandlerRegistration::wait_for_sync`].
    pub async fn wait_for_sync(&self) {
        self.registration.wait_for_sync().await;
    }
}

impl<T> Stream for DeltaStream<T> {
    type Item = Delta<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Delta<T>>> {
        self.deltas.poll_recv(context)
    }
}

impl<T> fmt::Debug for DeltaStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaStream")
            .field("registration", &self.registration)
            .finish_non_exhaustive()
    }
}
