//! Supervision of runnables.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tracing::{debug, error, warn};

use super::{
    Runnable, Stop,
    start_condition::StartCondition,
    status::{RunnableState, StatusBoard},
};
use crate::{Backoff, metrics::Metrics, panic_message};

/// The restart backoff. It resets after a run that lasted as long as the maximal delay.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_mins(1));

/// A runnable and the conditions for its start.
#[derive(Clone)]
pub(super) struct SupervisedRunnable {
    pub(super) runnable: Arc<dyn Runnable>,
    pub(super) conditions: Vec<StartCondition>,
}

/// What the supervised tasks share.
#[derive(Clone)]
pub(super) struct Supervisor {
    pub(super) board: StatusBoard,
    pub(super) metrics: Metrics,
}

// --- Supervisor ---

impl Supervisor {
    /// Runs all runnables until they are stopped, and joins them. What has not ended by the deadline is dropped.
    pub(super) async fn run(&self, runnables: Vec<SupervisedRunnable>, stop: Stop, tasks: &mut JoinSet<()>) {
        for supervised in runnables {
            let supervisor = self.clone();
            let stop = stop.clone();
            tasks.spawn(async move { supervisor.supervise(supervised, stop).await });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Runs one runnable until it is stopped or has completed, and restarts it after failures.
    async fn supervise(&self, supervised: SupervisedRunnable, stop: Stop) {
        let name = supervised.runnable.name();
        for condition in &supervised.conditions {
            if stop
                .unless_stopped(condition.wait(name, &self.board))
                .await
                .is_none()
            {
                return;
            }
        }
        let mut failures = 0;
        loop {
            self.board.set(name, RunnableState::Running);
            debug!(controller = name, "started controller");
            let began = Instant::now();
            let run = AssertUnwindSafe(async { supervised.runnable.run(stop.clone()).await }).catch_unwind();
            let why = match stop.until_expired(run).await {
                None => {
                    warn!(
                        controller = name,
                        "dropped controller that did not stop by the deadline"
                    );
                    return self.board.set(name, RunnableState::Idle);
                }
                Some(Ok(Ok(()))) => {
                    debug!(controller = name, "controller ended");
                    let state = if stop.is_stopped() {
                        RunnableState::Idle
                    } else {
                        RunnableState::Done
                    };
                    return self.board.set(name, state);
                }
                Some(Ok(Err(error))) => error.to_string(),
                Some(Err(panic)) => format!("panic: {}", panic_message(&*panic)),
            };
            if stop.is_stopped() {
                warn!(controller = name, error = why, "controller failed while stopping");
                return self.board.set(name, RunnableState::Idle);
            }
            failures = if began.elapsed() >= BACKOFF.max {
                1
            } else {
                failures + 1
            };
            let pause = BACKOFF.after(failures);
            self.metrics.record_restart(name);
            error!(
                controller = name,
                error = why,
                ?pause,
                "controller failed; restarting after backoff"
            );
            self.board.set(name, RunnableState::Failed);
            if stop.unless_stopped(sleep(pause)).await.is_none() {
                return self.board.set(name, RunnableState::Idle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use parking_lot::Mutex;
    use tokio::{
        net::TcpListener,
        task::JoinSet,
        time::{Instant, sleep},
    };

    use super::{SupervisedRunnable, Supervisor};
    use crate::{
        manager::{Runnable, Stop, start_condition::StartCondition, status::StatusBoard, task},
        metrics::Metrics,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs the given runnables under a supervisor.
    fn supervised(runnables: Vec<(Arc<dyn Runnable>, Vec<StartCondition>)>) -> (Stop, JoinSet<()>, Metrics) {
        let metrics = Metrics::default();
        let board = StatusBoard::default();
        for (runnable, _) in &runnables {
            assert!(board.insert(Arc::clone(runnable)));
        }
        let runnables = runnables
            .into_iter()
            .map(|(runnable, conditions)| SupervisedRunnable { runnable, conditions })
            .collect();
        let supervisor = Supervisor {
            board,
            metrics: metrics.clone(),
        };
        let stop = Stop::new();
        let stopped = stop.clone();
        let mut all = JoinSet::new();
        all.spawn(async move { supervisor.run(runnables, stopped, &mut JoinSet::new()).await });
        (stop, all, metrics)
    }

    #[tokio::test(start_paused = true)]
    async fn restarts_failed_runnables_with_backoff_while_others_continue() {
        let begin = Instant::now();
        let starts = Arc::new(Mutex::new(Vec::new()));
        let ticks = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&starts);
        let counter = Arc::clone(&ticks);
        let failing = task("failing", move |_| {
            let mut seen = seen.lock();
            seen.push(begin.elapsed().as_secs());
            let is_odd = seen.len() % 2 == 1;
            async move {
                assert!(!is_odd, "odd");
                Err("even".into())
            }
        });
        let steady = task("steady", move |stop| {
            let counter = Arc::clone(&counter);
            async move {
                while stop.unless_stopped(sleep(SECOND)).await.is_some() {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                Ok(())
            }
        });
        let (stop, mut all, _) = supervised(vec![(Arc::new(failing), vec![]), (Arc::new(steady), vec![])]);
        sleep(Duration::from_secs(200)).await;
        assert_eq!(*starts.lock(), [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        assert!(ticks.load(Ordering::SeqCst) >= 199);
        stop.stop(SECOND);
        all.join_next().await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn long_run_resets_backoff() {
        let begin = Instant::now();
        let starts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&starts);
        let failing = task("failing", move |_| {
            seen.lock().push(begin.elapsed().as_secs());
            async {
                sleep(Duration::from_secs(100)).await;
                Err("failed".into())
            }
        });
        let (_stop, _all, _) = supervised(vec![(Arc::new(failing), vec![])]);
        sleep(Duration::from_secs(350)).await;
        assert_eq!(*starts.lock(), [0, 101, 202, 303]);
    }

    #[tokio::test(start_paused = true)]
    async fn drops_at_deadline_and_does_not_restart_completed_runnables() {
        let stubborn = task("stubborn", |_| std::future::pending());
        let runs = Arc::new(AtomicU32::new(0));
        let ran = Arc::clone(&runs);
        let brief = task("brief", move |_| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        });
        let (stop, mut all, _) = supervised(vec![(Arc::new(stubborn), vec![]), (Arc::new(brief), vec![])]);
        sleep(100 * SECOND).await;
        stop.stop(7 * SECOND);
        let begin = Instant::now();
        all.join_next().await.unwrap().unwrap();
        assert_eq!((begin.elapsed(), runs.load(Ordering::SeqCst)), (7 * SECOND, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn controller_waits_for_its_dependency() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str, pause: Duration| {
            let order = Arc::clone(&order);
            task(name, move |stop: Stop| {
                let order = Arc::clone(&order);
                async move {
                    order.lock().push(name);
                    sleep(pause).await;
                    stop.stopped().await;
                    Ok(())
                }
            })
        };
        let second = vec![StartCondition::Controller("first".to_owned())];
        let never = vec![StartCondition::Controller("missing".to_owned())];
        let (stop, mut all, _) = supervised(vec![
            (Arc::new(note("second", SECOND)), second),
            (Arc::new(note("never", SECOND)), never),
            (Arc::new(note("first", SECOND)), vec![]),
        ]);
        sleep(20 * SECOND).await;
        assert_eq!(*order.lock(), ["first", "second"]);
        stop.stop(SECOND);
        all.join_next().await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn controller_waits_for_a_port() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let began = Arc::new(tokio::sync::Notify::new());
        let begins = Arc::clone(&began);
        let waiter = task("waiter", move |_| {
            begins.notify_one();
            async { Ok(()) }
        });
        let condition = StartCondition::parse(&format!("tcp://{address}")).unwrap();
        let closed = StartCondition::Port("127.0.0.1:1".to_owned());
        assert!(!matches!(
            tokio::time::timeout(SECOND, closed.wait("x", &StatusBoard::default())).await,
            Ok(())
        ));
        let (_stop, _all, _) = supervised(vec![(Arc::new(waiter), vec![condition])]);
        tokio::time::timeout(60 * SECOND, began.notified()).await.unwrap();
    }
}
