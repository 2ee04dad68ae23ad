//! One watcher: which events concern it, and the queue they wait in.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::mpsc;

use super::{Delivery, Object};

/// How many events may wait for a watcher. A client that is this far behind is better served by a new list.
const QUEUE: usize = 8192;

/// Which part of a resource a watcher looks at: what the cache sorts events by. What else a watcher selects by, it
/// looks at itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interest {
    /// All of it.
    Everything,
    /// What has a key with this beginning: a namespace.
    Under(String),
    /// The object with this key.
    Key(String),
    /// Objects with this value in the field at this position.
    Field(usize, String),
}

/// The receiving end. Dropping it ends the watch.
pub(crate) struct Watcher {
    queue: mpsc::Receiver<Arc<Delivery>>,
    /// Events that happened before the watch began, and are to be told first.
    backlog: std::vec::IntoIter<Arc<Delivery>>,
}

/// The sending end.
pub(super) struct Outlet(mpsc::Sender<Arc<Delivery>>);

/// A queue, with what is to be told first.
pub(super) fn queue(backlog: Vec<Arc<Delivery>>) -> (Outlet, Watcher) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let backlog = backlog.into_iter();
    (Outlet(sender), Watcher { queue, backlog })
}

// --- Interest ---

impl Interest {
    /// Whether an object is within it. Fields are read by `field`.
    pub(super) fn concerns<'o>(
        &self,
        object: &'o Object,
        field: impl Fn(&'o Object, usize) -> &'o str,
    ) -> bool {
        match self {
            Interest::Everything => true,
            Interest::Under(prefix) => object.key.starts_with(prefix.as_str()),
            Interest::Key(key) => *object.key == **key,
            Interest::Field(position, value) => field(object, *position) == value,
        }
    }
}

// --- Watcher ---

impl Watcher {
    /// The next event. `None`: the watcher was too slow, or the server ends.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<Delivery>>> {
        match self.backlog.next() {
            Some(delivery) => Poll::Ready(Some(delivery)),
            None => self.queue.poll_recv(context),
        }
    }
}

// --- Outlet ---

impl Outlet {
    /// Puts an event into the queue. `false`: the watcher is gone, or too slow and will be told so by the end of its queue.
    pub(super) fn send(&self, delivery: &Arc<Delivery>) -> bool {
        self.0.try_send(Arc::clone(delivery)).is_ok()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}
