//! Units of work that a manager runs.

use std::{future::Future, sync::Arc};

use futures_util::future::BoxFuture;

use super::Stop;
use crate::controller::ControllerHandle;

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Something that runs until it is stopped, such as a controller or a server.
///
/// A manager supervises its runnables. If [`run`](Runnable::run) returns an error or panics, the manager calls it again after a
/// backoff; if it returns `Ok` before it was stopped, the runnable has completed. Create the state of a run inside `run`, so
/// that a restart begins with fresh state; [`task`] calls its closure once per run.
pub trait Runnable: Send + Sync + 'static {
    /// The name in the log, in metrics and in the configuration, unique within the process.
    fn name(&self) -> &str;

    /// Whether the runnable runs only on the leader. Default: true. Has no effect without leader election.
    fn leader_only(&self) -> bool {
        true
    }

    /// Whether controllers that depend on this runnable may start. Called only while it runs.
    fn is_ready(&self) -> bool {
        true
    }

    /// The handle of the controller, if the runnable is one.
    fn handle(&self) -> Option<ControllerHandle> {
        None
    }

    /// Runs until the work is complete or `stop` is triggered; then it accepts no new work, finishes what it has begun, and
    /// returns. A run that has not returned by the deadline of `stop` is dropped.
    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>>;
}

impl Runnable for Box<dyn Runnable> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn leader_only(&self) -> bool {
        (**self).leader_only()
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }

    fn handle(&self) -> Option<ControllerHandle> {
        (**self).handle()
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        (**self).run(stop)
    }
}

/// A [`Runnable`] that calls a closure. Created by [`task`].
pub struct TaskRunnable<F> {
    name: String,
    leader_only: bool,
    run: F,
}

/// Creates a runnable from a closure, which is called once per run. It is leader-only, unless
/// [`without_leader_election`](TaskRunnable::without_leader_election) is called.
///
/// ```
/// use kubecontroller::manager::{Stop, task};
///
/// let task = task("greeter", |stop: Stop| async move {
///     println!("good morning");
///     stop.stopped().await;
///     println!("good night");
///     Ok(())
/// });
/// ```
pub fn task<F, Fut>(name: &str, run: F) -> TaskRunnable<F>
where
    F: Fn(Stop) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    TaskRunnable {
        name: name.to_owned(),
        leader_only: true,
        run,
    }
}

// --- TaskRunnable ---

impl<F> TaskRunnable<F> {
    /// Runs the task also on processes that are not the leader.
    #[must_use]
    pub fn without_leader_election(mut self) -> Self {
        self.leader_only = false;
        self
    }
}

impl<F, Fut> Runnable for TaskRunnable<F>
where
    F: Fn(Stop) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn leader_only(&self) -> bool {
        self.leader_only
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin((self.run)(stop))
    }
}

// --- shared runnables ---

impl<R: Runnable + ?Sized> Runnable for Arc<R> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn leader_only(&self) -> bool {
        (**self).leader_only()
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }

    fn handle(&self) -> Option<ControllerHandle> {
        (**self).handle()
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        (**self).run(stop)
    }
}
