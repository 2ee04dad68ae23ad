//! The end of a task, announced.
//!
//! Promises:
//! - Stopping a [`Stop`] stops all its children, and no one else. It cannot be taken back.
//! - Whoever stops says how long draining may take. A deadline only ever moves nearer, and a child's is never later than
//!   that of its parents.
//! - Nobody is stopped because a `Stop` was dropped.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, select_all};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// Tells a task to end, and by when. Clones are the same stop.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// use kubecontroller::manager::Stop;
///
/// let stop = Stop::new();
/// let child = stop.child();
/// stop.stop(Duration::from_secs(30));
/// child.stopped().await;
/// assert!(child.remaining() <= Duration::from_secs(30));
/// # }
/// ```
#[derive(Clone)]
pub struct Stop {
    token: CancellationToken,
    node: Arc<Node>,
}

struct Node {
    /// When draining has to be over; none until this very stop was stopped.
    deadline: watch::Sender<Option<Instant>>,
    parent: Option<Arc<Node>>,
}

// --- Stop ---

impl Stop {
    /// A stop of its own, that nobody but its holders can stop.
    pub fn new() -> Self {
        Stop {
            token: CancellationToken::new(),
            node: Arc::new(Node::under(None)),
        }
    }

    /// A stop that is also stopped with this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Stop {
            token: self.token.child_token(),
            node: Arc::new(Node::under(Some(Arc::clone(&self.node)))),
        }
    }

    /// Tells everyone who holds this or a child of it to end, within `grace`. Doing so again can only shorten the time.
    pub fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.node.deadline.send_if_modified(|known| {
            let is_nearer = known.is_none_or(|known| deadline < known);
            if is_nearer {
                *known = Some(deadline);
            }
            is_nearer
        });
        // Only now: whoever wakes up may ask for the deadline.
        self.token.cancel();
    }

    /// Whether it is time to end.
    pub fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it is time to end. Take no more work then, and finish what was begun before the deadline.
    pub async fn stopped(&self) {
        self.token.cancelled().await;
    }

    /// When draining has to be over. None until it is time to end.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.node.chain().filter_map(|node| *node.deadline.borrow());
        deadlines.min()
    }

    /// How long draining may still take: nothing after the deadline, and no end of time while nothing was stopped.
    pub fn remaining(&self) -> Duration {
        self.deadline().map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }

    /// Waits until draining has to be over: what still runs then is to be dropped.
    pub async fn expired(&self) {
        let mut news: Vec<_> = self.node.chain().map(|node| node.deadline.subscribe()).collect();
        loop {
            let deadline = self.deadline();
            let over = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            // The senders live as long as `self`, so that an error means nothing but the end of the world.
            let nearer = select_all(
                news.iter_mut()
                    .map(|news| -> BoxFuture<'_, _> { news.changed().boxed() }),
            );
            tokio::select! {
                () = over => return,
                _ = nearer => {}
            }
        }
    }

    /// Does something unless, or until, it is time to end. None if it was dropped half done.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.token.run_until_cancelled(work).await
    }

    /// Does something that may go on while others drain, until the deadline. None if it was dropped half done.
    pub async fn until_expired<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.expired() => None,
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Stop::new()
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Stop");
        out.field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}

// --- Node ---

impl Node {
    fn under(parent: Option<Arc<Node>>) -> Self {
        Node {
            deadline: watch::Sender::new(None),
            parent,
        }
    }

    /// This one and all above it.
    fn chain(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(self), |node| node.parent.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::Stop;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_stop_reaches_children_and_nobody_else() {
        let root = Stop::new();
        let (first, second) = (root.child(), root.child());
        let grandchild = first.child();
        first.stop(SECOND);
        grandchild.stopped().await;
        assert!(first.is_stopped() && !second.is_stopped() && !root.is_stopped());
        root.stop(SECOND);
        second.stopped().await;
        drop(root);
        assert!(!Stop::new().child().is_stopped());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_only_moves_nearer() {
        let root = Stop::new();
        let child = root.child();
        assert_eq!((child.deadline(), child.remaining()), (None, Duration::MAX));
        child.stop(10 * SECOND);
        child.stop(20 * SECOND);
        assert_eq!(child.remaining(), 10 * SECOND);
        assert_eq!(root.deadline(), None);
        let begin = Instant::now();
        let nearer = async {
            tokio::time::sleep(2 * SECOND).await;
            root.stop(3 * SECOND);
        };
        tokio::join!(child.expired(), nearer);
        assert_eq!(begin.elapsed(), 5 * SECOND);
        assert_eq!(child.remaining(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_with_the_stop_or_with_its_deadline() {
        let stop = Stop::new();
        assert_eq!(stop.unless_stopped(async { 1 }).await, Some(1));
        assert!(timeout(SECOND, stop.expired()).await.is_err());
        stop.stop(SECOND);
        let for_ever = std::future::pending::<()>;
        assert_eq!(stop.unless_stopped(for_ever()).await, None);
        assert_eq!(stop.until_expired(async { 2 }).await, Some(2));
        assert_eq!(stop.until_expired(for_ever()).await, None);
    }
}
