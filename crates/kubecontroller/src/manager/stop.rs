//! A stop signal with a deadline.
//!
//! Guarantees:
//! - Triggering a [`Stop`] triggers its children, and nothing else. It cannot be undone.
//! - The caller of `stop` sets how long draining may take. Deadlines only move earlier, and the deadline of a child is never
//!   later than that of its parents.
//! - Dropping a `Stop` triggers nothing.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, select_all};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// Signals a task to stop, and by when: a cancellation token with a deadline. Clones share the signal.
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
    node: Arc<StopNode>,
}

struct StopNode {
    /// When draining must be complete; none until this very node was stopped.
    deadline: watch::Sender<Option<Instant>>,
    parent: Option<Arc<StopNode>>,
}

// --- Stop ---

impl Stop {
    /// Creates a stop without a parent.
    pub fn new() -> Self {
        Stop {
            token: CancellationToken::new(),
            node: Arc::new(StopNode::under(None)),
        }
    }

    /// Creates a stop that is also triggered when this one is.
    #[must_use]
    pub fn child(&self) -> Self {
        Stop {
            token: self.token.child_token(),
            node: Arc::new(StopNode::under(Some(Arc::clone(&self.node)))),
        }
    }

    /// Triggers the stop, with `grace` as the time for draining. Further calls can only shorten the time.
    pub fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.node.deadline.send_if_modified(|current| {
            let is_nearer = current.is_none_or(|current| deadline < current);
            if is_nearer {
                *current = Some(deadline);
            }
            is_nearer
        });
        // The deadline is set before the token is cancelled, because tasks read it as soon as they wake up.
        self.token.cancel();
    }

    /// Whether the stop was triggered.
    pub fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the stop is triggered. Then accept no new work, and finish by the deadline what has begun.
    pub async fn stopped(&self) {
        self.token.cancelled().await;
    }

    /// When draining must be complete. None until the stop is triggered.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.node.chain().filter_map(|node| *node.deadline.borrow());
        deadlines.min()
    }

    /// The remaining time for draining: zero after the deadline, `Duration::MAX` before the stop is triggered.
    pub fn remaining(&self) -> Duration {
        self.deadline().map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }

    /// Waits for the deadline. Drop whatever still runs then.
    pub async fn expired(&self) {
        let mut updates: Vec<_> = self.node.chain().map(|node| node.deadline.subscribe()).collect();
        loop {
            let deadline = self.deadline();
            let over = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            // The senders live as long as `self`, so `changed` cannot fail.
            let nearer = select_all(
                updates
                    .iter_mut()
                    .map(|update| -> BoxFuture<'_, _> { update.changed().boxed() }),
            );
            tokio::select! {
                () = over => return,
                _ = nearer => {}
            }
        }
    }

    /// Runs a future until it completes or the stop is triggered. Returns none if the future was dropped.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.token.run_until_cancelled(work).await
    }

    /// Runs a future until it completes or the deadline passes. Returns none if the future was dropped.
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

// --- StopNode ---

impl StopNode {
    fn under(parent: Option<Arc<StopNode>>) -> Self {
        StopNode {
            deadline: watch::Sender::new(None),
            parent,
        }
    }

    /// This node and its ancestors.
    fn chain(&self) -> impl Iterator<Item = &StopNode> {
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
    async fn stop_triggers_children_only() {
        let root = Stop::new();
        let first = root.child();
        let second = root.child();
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
    async fn deadline_only_moves_earlier() {
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
    async fn futures_end_with_the_stop_or_its_deadline() {
        let stop = Stop::new();
        assert_eq!(stop.unless_stopped(async { 1 }).await, Some(1));
        assert!(timeout(SECOND, stop.expired()).await.is_err());
        stop.stop(SECOND);
        let forever = std::future::pending::<()>;
        assert_eq!(stop.unless_stopped(forever()).await, None);
        assert_eq!(stop.until_expired(async { 2 }).await, Some(2));
        assert_eq!(stop.until_expired(forever()).await, None);
    }
}
