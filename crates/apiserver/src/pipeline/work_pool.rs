//! The work pool: large requests run on separate threads, so that the threads that serve connections never wait for them.
//!
//! Promises: no more large requests run at once than there are processors, less one; what they work on at once has a bounded number
//! of bytes; those that wait are bounded too, in number and in time, and are refused with 429 beyond that. Users that are exempt from
//! limits never wait for the input of others. A thread is used only while a request computes, not
//! while it waits for the store or a webhook. A request whose client left is not begun.

use std::{
    future::Future,
    num::NonZero,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::available_parallelism,
    time::Duration,
};

use k3_api::status::Status;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use super::inflight::LimitClass;

/// Requests that cost less run where they are: on a thread that serves connections, for some milliseconds at most.
pub(super) const LARGE: usize = 32 * 1024;
/// How many large requests there are at once, with those that wait.
const MAX_REQUESTS: usize = 128;
/// How many of them everybody may have. The rest is for users that are exempt from limits.
const MAX_ORDINARY: usize = 96;
/// How many KiB of input are worked on at once. A tree of values takes up to forty times its text.
const MAX_INPUT: u32 = 24 * 1024;
/// How many KiB more are worked on for users that are exempt from limits.
const EXEMPT_INPUT: u32 = MAX_INPUT / 2;
/// No request counts for more KiB of input: costs are estimates, and one request must not keep all others out.
const MAX_CHARGE: u32 = MAX_INPUT / 4;
/// How long a request waits for its turn, if its own time limit is not shorter.
const PATIENCE: Duration = Duration::from_secs(5);

/// The threads and the queue before them.
pub(super) struct WorkPool {
    /// A permit for each request that is polled.
    threads: Arc<Semaphore>,
    /// A permit for each KiB of input of the requests that have begun.
    input: Arc<Semaphore>,
    /// The same for users that are exempt from limits.
    exempt_input: Arc<Semaphore>,
    /// A permit for each large request.
    requests: Arc<Semaphore>,
}

/// A large request that may begin. Dropping it lets in the next.
pub(super) struct WorkPermit {
    threads: Arc<Semaphore>,
    _input: OwnedSemaphorePermit,
    _request: OwnedSemaphorePermit,
}

/// Work, with the permit it holds for as long as it exists.
struct PermittedWork<F> {
    work: Pin<Box<F>>,
    _permit: WorkPermit,
}

/// Notified when work that waits can go on.
struct NotifyWaker(Notify);

// --- WorkPool ---

impl WorkPool {
    pub(super) fn new() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::with_threads(processors.saturating_sub(1).max(1))
    }

    fn with_threads(threads: usize) -> Self {
        WorkPool {
            threads: Arc::new(Semaphore::new(threads)),
            input: Arc::new(Semaphore::new(MAX_INPUT as usize)),
            exempt_input: Arc::new(Semaphore::new(EXEMPT_INPUT as usize)),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        }
    }

    /// Waits until a request of this cost in bytes may begin.
    ///
    /// # Errors
    /// Too many wait already, or this one has waited too long: 429.
    pub(super) async fn enter(&self, cost: usize, class: LimitClass) -> Result<WorkPermit, Status> {
        let reserved = MAX_REQUESTS - MAX_ORDINARY;
        let is_available = class == LimitClass::Exempt || self.requests.available_permits() > reserved;
        let request = is_available
            .then(|| Arc::clone(&self.requests).try_acquire_owned().ok())
            .flatten()
            .ok_or_else(too_many)?;
        let cost = u32::try_from(cost / 1024).unwrap_or(MAX_CHARGE);
        let input = match class {
            LimitClass::Exempt => &self.exempt_input,
            LimitClass::Ordinary => &self.input,
        };
        let input = Arc::clone(input).acquire_many_owned(cost.clamp(1, MAX_CHARGE));
        let input = timeout(PATIENCE, input)
            .await
            .map_err(|_| too_many())?
            .expect("the semaphore is never closed");
        Ok(WorkPermit {
            threads: Arc::clone(&self.threads),
            _input: input,
            _request: request,
        })
    }
}

fn too_many() -> Status {
    Status::too_many_requests("too many large requests are waiting, please try again later", 1)
}

// --- WorkPermit ---

impl WorkPermit {
    /// Runs work on the threads of the pool. When the future is dropped, computing work continues to its next await and ends
    /// there.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub(super) async fn run<F>(self, work: F) -> Result<F::Output, Status>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let threads = Arc::clone(&self.threads);
        let wakeup = Arc::new(NotifyWaker(Notify::new()));
        let mut job = PermittedWork {
            work: Box::pin(work),
            _permit: self,
        };
        loop {
            let thread = Arc::clone(&threads)
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            let waker = Waker::from(Arc::clone(&wakeup));
            let polled = spawn_blocking(move || {
                let polled = job.work.as_mut().poll(&mut Context::from_waker(&waker));
                drop(thread);
                (job, polled)
            });
            match polled.await {
                Ok((_, Poll::Ready(output))) => return Ok(output),
                Ok((waiting, Poll::Pending)) => job = waiting,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => return Err(Status::service_unavailable("the server is stopping")),
                },
            }
            wakeup.0.notified().await;
        }
    }
}

// --- NotifyWaker ---

impl Wake for NotifyWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn computation_runs_off_connection_threads() {
        let pool = WorkPool::with_threads(1);
        let permit = pool.enter(1, LimitClass::Ordinary).await.unwrap();
        let (release, released) = mpsc::channel::<()>();
        let work = permit.run(async move { released.recv().is_ok() });
        let other = async {
            // This runs on the only thread of the runtime while the work blocks a thread of its own.
            tokio::task::yield_now().await;
            release.send(()).unwrap();
        };
        let (ended, ()) = tokio::join!(work, other);
        assert!(ended.unwrap());
    }

    #[tokio::test]
    async fn waiting_work_releases_thread() {
        let pool = WorkPool::with_threads(1);
        let (release, released) = oneshot::channel::<u8>();
        let first = pool.enter(1, LimitClass::Ordinary).await.unwrap();
        let first = first.run(async move { released.await.unwrap() });
        let second = pool.enter(1, LimitClass::Ordinary).await.unwrap();
        let second = second.run(async move { release.send(7) });
        let (first, second) = tokio::join!(first, second);
        assert_eq!(first.unwrap(), 7);
        assert!(second.unwrap().is_ok());
    }

    #[tokio::test]
    async fn full_queue_rejects_with_429() {
        let pool = WorkPool::with_threads(1);
        let mut permits = Vec::new();
        for _ in 0..MAX_ORDINARY {
            permits.push(pool.enter(1, LimitClass::Ordinary).await.unwrap());
        }
        let refused = pool.enter(1, LimitClass::Ordinary).await.err().unwrap();
        assert_eq!(refused.code, 429);
        assert_eq!(refused.details.unwrap().retry_after_seconds, 1);
        for _ in MAX_ORDINARY..MAX_REQUESTS {
            permits.push(pool.enter(1, LimitClass::Exempt).await.unwrap());
        }
        assert!(pool.enter(1, LimitClass::Exempt).await.is_err());
        permits.pop();
        assert!(pool.enter(1, LimitClass::Exempt).await.is_ok());
    }

    #[tokio::test]
    async fn concurrent_input_is_bounded() {
        let pool = WorkPool::with_threads(8);
        let all = fill(&pool).await;
        assert!(pool.enter(1, LimitClass::Ordinary).now_or_never().is_none());
        drop(all);
        // However large one is, it leaves room for others.
        let large = pool.enter(usize::MAX, LimitClass::Ordinary).now_or_never();
        assert!(large.is_some_and(|large| large.is_ok()));
        let beside = pool.enter(1, LimitClass::Ordinary).now_or_never();
        assert!(beside.is_some_and(|beside| beside.is_ok()));
    }

    /// Takes all input of ordinary users.
    async fn fill(pool: &WorkPool) -> Vec<WorkPermit> {
        let mut permits = Vec::new();
        for _ in 0..MAX_INPUT / MAX_CHARGE {
            permits.push(pool.enter(usize::MAX, LimitClass::Ordinary).await.unwrap());
        }
        permits
    }

    #[tokio::test(start_paused = true)]
    async fn queue_timeout_is_429_and_exempt_users_do_not_wait() {
        let pool = WorkPool::with_threads(1);
        let _all = fill(&pool).await;
        let exempt = pool.enter(usize::MAX, LimitClass::Exempt).now_or_never();
        assert!(exempt.is_some_and(|exempt| exempt.is_ok()));
        let began = tokio::time::Instant::now();
        let refused = pool.enter(LARGE, LimitClass::Ordinary).await.err().unwrap();
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
        assert_eq!(refused.code, 429);
        assert_eq!(refused.details.unwrap().retry_after_seconds, 1);
    }

    #[tokio::test]
    async fn dropped_request_stops_at_next_await() {
        let pool = WorkPool::with_threads(1);
        let mut permits = fill(&pool).await;
        let permit = permits.pop().unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let computing = Arc::clone(&barrier);
        let mut work = Box::pin(permit.run(async move {
            computing.wait();
            std::future::pending::<()>().await;
        }));
        assert!(work.as_mut().now_or_never().is_none());
        drop(work);
        // It computes still, so its input is still counted.
        assert!(pool.enter(1, LimitClass::Ordinary).now_or_never().is_none());
        barrier.wait();
        let next = tokio::time::timeout(Duration::from_mins(1), pool.enter(1, LimitClass::Ordinary));
        assert!(next.await.unwrap().is_ok());
    }

    #[tokio::test]
    #[should_panic(expected = "as it should")]
    async fn panic_propagates() {
        let pool = WorkPool::with_threads(1);
        let permit = pool.enter(1, LimitClass::Ordinary).await.unwrap();
        let _ = permit.run(async { panic!("as it should") }).await;
    }
}
