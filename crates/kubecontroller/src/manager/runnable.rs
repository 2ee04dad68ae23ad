//! What a manager runs.

use std::{future::Future, sync::Arc};

use futures_util::future::BoxFuture;

use super::Stop;
use crate::controller::ControllerHandle;

/// What went wrong, in someone else's words.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Something that runs until it is stopped: a controller, a server, anything.
///
/// It is supervised. Returning an error, or a panic, means that [`run`](Runnable::run) is called again after a while;
/// returning `Ok` before it was told to stop means that there is nothing left to do. So whatever a run needs afresh is made
/// within `run`: see [`task`], whose closure is called once per run.
pub trait Runnable: Send + Sync + 'static {
    /// What it is called in the log, in figures and in the configuration. One of a manager's runnables has it.
    fn name(&self) -> &str;

    /// Whether only the leader may run it. True unless said otherwise; it matters only where leaders are elected.
    fn leader_only(&self) -> bool {
        true
    }

    /// Whether others who depend on it may begin. CommandLine while it runs.
    fn is_ready(&self) -> bool {
        true
    }

    /// What can be looked at while it runs, if it is a controller.
    fn handle(&self) -> Option<ControllerHandle> {
        None
    }

    /// Runs until there is nothing left to do, or until `stop`: then takes no more work, finishes what was begun, and
    /// returns. What has not returned by the deadline of `stop` is dropped; it is some time before the process has to end.
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

/// A [`Runnable`] from a closure, which is called for each run.
pub struct TaskRunnable<F> {
    name: String,
    leader_only: bool,
    run: F,
}

/// A runnable from a closure, which is called again for each run. Only the leader runs it, unless [`TaskRunnable::everywhere`].
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
    /// It runs whether this process leads or not.
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
