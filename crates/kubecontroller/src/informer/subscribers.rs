//! Who is told.

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

use super::{delta::Delta, informer::KeepAlive};

/// A handler that is told of changes. Dropping this ends it; a call that is under way in another thread goes on to its end.
pub struct EventHandlerRegistration {
    is_over: Arc<AtomicBool>,
    is_synced: watch::Receiver<bool>,
    /// Keeps the informer going, and tells it of the end.
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

/// DeltaStream as a stream, with a buffer of its own: a reader that is slow keeps nobody waiting, and what it has not read yet is
/// kept as pointers to objects. It ends when the informer stops.
pub struct DeltaStream<T> {
    pub(super) told: mpsc::UnboundedReceiver<Delta<T>>,
    subscription: EventHandlerRegistration,
}

/// The informer's side of a subscription.
pub(super) struct Subscriber<T> {
    handler: Handler<T>,
    is_over: Arc<AtomicBool>,
    is_synced: watch::Sender<bool>,
}

type Handler<T> = Box<dyn FnMut(&Delta<T>) + Send>;

/// What the informer's task is asked to do.
pub(super) enum Command<T> {
    Add(Subscriber<T>),
    /// Some subscriptions are over.
    Sweep,
}

// --- Subscriber ---

impl<T: 'static> Subscriber<T> {
    /// The two sides of a subscription.
    pub(super) fn new(
        handler: impl FnMut(&Delta<T>) + Send + 'static,
        commands: mpsc::UnboundedSender<Command<T>>,
        keep_alive: KeepAlive,
    ) -> (Self, EventHandlerRegistration)
    where
        T: Send + Sync,
    {
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = watch::channel(false);
        let subscription = EventHandlerRegistration {
            is_over: Arc::clone(&is_over),
            is_synced: receiver,
            end: Some(Box::new(move || {
                // An informer that has stopped has forgotten the handler already.
                let _ = commands.send(Command::Sweep);
                drop(keep_alive);
            })),
        };
        let subscriber = Subscriber {
            handler: Box::new(handler),
            is_over,
            is_synced: sender,
        };
        (subscriber, subscription)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Tells of a change; false if the handler panicked. It is told of the next one all the same.
    pub(super) fn tell(&mut self, delta: &Delta<T>) -> bool {
        self.is_over() || catch_unwind(AssertUnwindSafe(|| (self.handler)(delta))).is_ok()
    }

    /// Everything that was there has been told.
    pub(super) fn synced(&self) {
        self.is_synced.send_replace(true);
    }
}

// --- EventHandlerRegistration ---

impl EventHandlerRegistration {
    /// Waits until the handler has been told of everything that is there: of the first list, or of what came before it. Never
    /// ends if the informer stops before that.
    pub async fn wait_for_sync(&self) {
        let mut is_synced = self.is_synced.clone();
        if is_synced.wait_for(|is_synced| *is_synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the handler has been told of everything that is there.
    pub fn is_synced(&self) -> bool {
        *self.is_synced.borrow()
    }
}

impl Drop for EventHandlerRegistration {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(end) = self.end.take() {
            end();
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
        told: mpsc::UnboundedReceiver<Delta<T>>,
        subscription: EventHandlerRegistration,
    ) -> Self {
        DeltaStream { told, subscription }
    }

    /// The next change; `None` when the informer has stopped.
    pub async fn next(&mut self) -> Option<Delta<T>> {
        self.told.recv().await
    }

    /// Waits until everything that is there is in the buffer; see [`EventHandlerRegistration::synced`].
    pub async fn wait_for_sync(&self) {
        self.subscription.wait_for_sync().await;
    }
}

impl<T> Stream for DeltaStream<T> {
    type Item = Delta<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Delta<T>>> {
        self.told.poll_recv(context)
    }
}

impl<T> fmt::Debug for DeltaStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaStream")
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}
