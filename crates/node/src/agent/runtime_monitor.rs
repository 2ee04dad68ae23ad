//! Detects the container runtime and monitors its readiness.
//!
//! Promises: the agent uses the first detected runtime until it ends, even while that is down: otherwise its pods would be started
//! again on another runtime. Changes of readiness are reported within seconds.
// upstream: pkg/kubelet/runtime.go runtimeState

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use kubecontroller::manager::Stop;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::runtime_detection::DetectRuntimeError;
use crate::runtime::{Runtime, RuntimeError, RuntimeVersion};

/// Period of detection while no runtime is found.
const DETECTION_PERIOD: Duration = Duration::from_secs(3);
/// Period of status checks.
const STATUS_PERIOD: Duration = Duration::from_secs(5);
/// Timeout of a status check.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);
/// A runtime without a successful status check for this long is down.
const DOWN_AFTER: Duration = Duration::from_secs(30);

/// The runtime, once detected.
pub(crate) type RuntimeReceiver = watch::Receiver<Option<Arc<dyn Runtime>>>;

/// Detects a runtime; the error is the message of the Ready condition.
pub(super) type DetectRuntime =
    Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Runtime>, DetectRuntimeError>> + Send + Sync>;

/// Version and readiness of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuntimeState {
    pub(super) version: Option<RuntimeVersion>,
    /// Why the runtime cannot run pods; empty if it can.
    pub(super) problems: Vec<String>,
}

/// Detects the runtime and monitors its readiness.
pub(super) struct RuntimeMonitor {
    detect: DetectRuntime,
    runtime: watch::Sender<Option<Arc<dyn Runtime>>>,
    state: watch::Sender<RuntimeState>,
}

// --- RuntimeState ---

impl RuntimeState {
    /// Whether the first detection has completed.
    pub(super) fn is_known(&self) -> bool {
        self.version.is_some() || self.problems.iter().any(|problem| problem != NOT_CHECKED)
    }
}

const NOT_CHECKED: &str = "container runtime status check may not have completed yet";
const DOWN: &str = "container runtime is down";

// --- RuntimeMonitor ---

impl RuntimeMonitor {
    pub(super) fn new(detect: DetectRuntime) -> Self {
        RuntimeMonitor {
            detect,
            runtime: watch::Sender::new(None),
            state: watch::Sender::new(RuntimeState {
                version: None,
                problems: vec![NOT_CHECKED.to_owned()],
            }),
        }
    }

    pub(super) fn runtime(&self) -> RuntimeReceiver {
        self.runtime.subscribe()
    }

    pub(super) fn state(&self) -> watch::Receiver<RuntimeState> {
        self.state.subscribe()
    }

    pub(super) async fn run(self, stop: Stop) {
        let watch = async {
            let runtime = self.detect_until_found().await;
            self.runtime.send_replace(Some(Arc::clone(&runtime)));
            self.monitor(&*runtime).await;
        };
        stop.unless_stopped(watch).await;
    }

    async fn detect_until_found(&self) -> Arc<dyn Runtime> {
        loop {
            match (self.detect)().await {
                Ok(runtime) => return runtime,
                Err(error) => {
                    let problem = error.to_string();
                    let is_new = self.publish(RuntimeState {
                        version: None,
                        problems: vec![problem.clone()],
                    });
                    if is_new {
                        tracing::debug!(problem, "no container runtime found; retrying");
                    }
                }
            }
            sleep(DETECTION_PERIOD).await;
        }
    }

    // upstream: pkg/kubelet/kubelet.go updateRuntimeUp
    async fn monitor(&self, runtime: &dyn Runtime) {
        let mut last_success = Instant::now();
        loop {
            match check_status(runtime).await {
                Ok(state) => {
                    last_success = Instant::now();
                    let version = state.version.as_ref().map(ToString::to_string);
                    if self.publish(state.clone()) {
                        tracing::info!(runtime = version, problems = ?state.problems, "container runtime status changed");
                    }
                }
                Err(error) if last_success.elapsed() >= DOWN_AFTER => {
                    let version = self.state.borrow().version.clone();
                    let problems = vec![DOWN.to_owned()];
                    if self.publish(RuntimeState { version, problems }) {
                        tracing::warn!(%error, "container runtime is down");
                    }
                }
                Err(error) => tracing::debug!(%error, "container runtime status check failed"),
            }
            sleep(STATUS_PERIOD).await;
        }
    }

    /// Publishes a state. Returns whether it differs from the previous one.
    fn publish(&self, state: RuntimeState) -> bool {
        self.state.send_if_modified(|current| {
            let is_new = *current != state;
            *current = state;
            is_new
        })
    }
}

/// Why the status of the runtime is unknown.
#[derive(Debug, thiserror::Error)]
enum CheckStatusError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("no response within {} s", STATUS_TIMEOUT.as_secs())]
    Timeout,
}

async fn check_status(runtime: &dyn Runtime) -> Result<RuntimeState, CheckStatusError> {
    let status = async {
        let version = runtime.version().await?;
        let readiness = runtime.status().await?;
        Ok::<_, RuntimeError>(RuntimeState {
            version: Some(version),
            problems: readiness.problems,
        })
    };
    match timeout(STATUS_TIMEOUT, status).await {
        Ok(status) => Ok(status?),
        Err(_) => Err(CheckStatusError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::runtime::{
        detect::DetectError,
        fake::{FakeRuntime, clock},
    };

    #[tokio::test(start_paused = true)]
    async fn detects_runtime_later_and_monitors_its_readiness() {
        let runtime = Arc::new(FakeRuntime::new(clock()));
        let is_running = Arc::new(AtomicBool::new(false));
        let found = Arc::clone(&runtime);
        let running = Arc::clone(&is_running);
        let monitor = RuntimeMonitor::new(Box::new(move || {
            let found = Arc::clone(&found);
            let is_running = running.load(Ordering::Relaxed);
            Box::pin(async move {
                if is_running {
                    Ok(found as Arc<dyn Runtime>)
                } else {
                    Err(DetectError::Disabled.into())
                }
            })
        }));
        let detected = monitor.runtime();
        let mut state = monitor.state();
        assert!(!state.borrow().is_known());
        let mut tasks = JoinSet::new();
        tasks.spawn(monitor.run(Stop::new()));
        let reported = state.wait_for(RuntimeState::is_known).await.unwrap().clone();
        assert_eq!(
            reported.problems,
            ["the container runtime is disabled (--runtime none)"]
        );
        assert!(detected.borrow().is_none());

        is_running.store(true, Ordering::Relaxed);
        state
            .wait_for(|state| state.version.is_some() && state.problems.is_empty())
            .await
            .unwrap();
        assert!(detected.borrow().is_some());
        runtime.set_problems(&["network not ready"]);
        let reported = state
            .wait_for(|state| !state.problems.is_empty())
            .await
            .unwrap()
            .clone();
        assert_eq!(reported.problems, ["network not ready"]);
        runtime.set_problems(&[]);
        state.wait_for(|state| state.problems.is_empty()).await.unwrap();

        // A runtime that is down stays the runtime of the node.
        runtime.fail_calls("version", 8, "unavailable");
        let reported = state
            .wait_for(|state| !state.problems.is_empty())
            .await
            .unwrap()
            .clone();
        assert_eq!(reported.problems, [DOWN]);
        assert!(reported.version.is_some() && detected.borrow().is_some());
        state.wait_for(|state| state.problems.is_empty()).await.unwrap();
    }
}
