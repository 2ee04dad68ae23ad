//! The runtime of this node: looked for until there is one, and watched from then on.
//!
//! Promises: once a runtime was found it is the node's until the agent ends, also while it is away: pods of one runtime are
//! not to be begun again on another. Whether it can run pods is known within seconds.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use kubecontroller::manager::Stop;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::runtime::{Runtime, Version};

/// How often it is looked for a runtime while there is none.
const SEARCH: Duration = Duration::from_secs(3);
/// How often it is asked how it is.
const PERIOD: Duration = Duration::from_secs(5);
/// How long it may take to answer that.
const LIMIT: Duration = Duration::from_secs(10);
/// A runtime that did not answer for so long is down.
const PATIENCE: Duration = Duration::from_secs(30);

/// The runtime, if there is one.
pub(crate) type RuntimeWatch = watch::Receiver<Option<Arc<dyn Runtime>>>;

/// Looks for a runtime: gives it, or tells why there is none.
pub(super) type Detect = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Runtime>, String>> + Send + Sync>;

/// How the runtime is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuntimeState {
    pub(super) version: Option<Version>,
    /// Why it cannot run pods; empty if it can.
    pub(super) problems: Vec<String>,
}

/// Looks for the runtime, and watches it.
pub(super) struct Link {
    detect: Detect,
    runtime: watch::Sender<Option<Arc<dyn Runtime>>>,
    state: watch::Sender<RuntimeState>,
}

// --- RuntimeState ---

impl RuntimeState {
    /// Whether it was looked at all.
    pub(super) fn is_known(&self) -> bool {
        self.version.is_some() || self.problems.iter().any(|problem| problem != UNKNOWN)
    }
}

const UNKNOWN: &str = "container runtime status check may not have completed yet";
const DOWN: &str = "container runtime is down";

// --- Link ---

impl Link {
    pub(super) fn new(detect: Detect) -> Self {
        Link {
            detect,
            runtime: watch::Sender::new(None),
            state: watch::Sender::new(RuntimeState {
                version: None,
                problems: vec![UNKNOWN.to_owned()],
            }),
        }
    }

    pub(super) fn runtime(&self) -> RuntimeWatch {
        self.runtime.subscribe()
    }

    pub(super) fn state(&self) -> watch::Receiver<RuntimeState> {
        self.state.subscribe()
    }

    pub(super) async fn run(self, stop: Stop) {
        let watch = async {
            let runtime = self.search().await;
            self.runtime.send_replace(Some(Arc::clone(&runtime)));
            self.watch(&*runtime).await;
        };
        stop.unless_stopped(watch).await;
    }

    async fn search(&self) -> Arc<dyn Runtime> {
        loop {
            match (self.detect)().await {
                Ok(runtime) => return runtime,
                Err(problem) => {
                    let is_new = self.tell(RuntimeState {
                        version: None,
                        problems: vec![problem.clone()],
                    });
                    if is_new {
                        tracing::debug!(
                            problem,
                            "no container runtime found; searching again periodically"
                        );
                    }
                }
            }
            sleep(SEARCH).await;
        }
    }

    async fn watch(&self, runtime: &dyn Runtime) {
        let mut heard = Instant::now();
        loop {
            match ask(runtime).await {
                Ok(state) => {
                    heard = Instant::now();
                    let version = state.version.as_ref().map(ToString::to_string);
                    if self.tell(state.clone()) {
                        tracing::info!(runtime = version, problems = ?state.problems, "the container runtime answered");
                    }
                }
                Err(error) if heard.elapsed() >= PATIENCE => {
                    let version = self.state.borrow().version.clone();
                    let problems = vec![DOWN.to_owned()];
                    if self.tell(RuntimeState { version, problems }) {
                        tracing::warn!(%error, "the container runtime is down");
                    }
                }
                Err(error) => tracing::debug!(%error, "the container runtime did not answer"),
            }
            sleep(PERIOD).await;
        }
    }

    /// Whether it is news.
    fn tell(&self, state: RuntimeState) -> bool {
        self.state.send_if_modified(|known| {
            let is_new = *known != state;
            *known = state;
            is_new
        })
    }
}

async fn ask(runtime: &dyn Runtime) -> Result<RuntimeState, String> {
    let question = async {
        let version = runtime.version().await?;
        let readiness = runtime.readiness().await?;
        Ok::<_, crate::runtime::RuntimeError>(RuntimeState {
            version: Some(version),
            problems: readiness.problems,
        })
    };
    match timeout(LIMIT, question).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::runtime::fake::{FakeRuntime, clock};

    #[tokio::test(start_paused = true)]
    async fn a_runtime_is_found_later_and_watched_from_then_on() {
        let runtime = Arc::new(FakeRuntime::new(clock()));
        let is_there = Arc::new(AtomicBool::new(false));
        let found = Arc::clone(&runtime);
        let there = Arc::clone(&is_there);
        let link = Link::new(Box::new(move || {
            let found = Arc::clone(&found);
            let is_there = there.load(Ordering::Relaxed);
            Box::pin(async move {
                if is_there {
                    Ok(found as Arc<dyn Runtime>)
                } else {
                    Err("there is none".to_owned())
                }
            })
        }));
        let known = link.runtime();
        let mut state = link.state();
        assert!(!state.borrow().is_known());
        let mut tasks = JoinSet::new();
        tasks.spawn(link.run(Stop::new()));
        let told = state.wait_for(RuntimeState::is_known).await.unwrap().clone();
        assert_eq!(told.problems, ["there is none"]);
        assert!(known.borrow().is_none());

        is_there.store(true, Ordering::Relaxed);
        state
            .wait_for(|state| state.version.is_some() && state.problems.is_empty())
            .await
            .unwrap();
        assert!(known.borrow().is_some());
        runtime.problems(&["network not ready"]);
        let told = state
            .wait_for(|state| !state.problems.is_empty())
            .await
            .unwrap()
            .clone();
        assert_eq!(told.problems, ["network not ready"]);
        runtime.problems(&[]);
        state.wait_for(|state| state.problems.is_empty()).await.unwrap();

        // It goes away, is still the node's, and comes back.
        runtime.refuse("version", 8, "away");
        let told = state
            .wait_for(|state| !state.problems.is_empty())
            .await
            .unwrap()
            .clone();
        assert_eq!(told.problems, [DOWN]);
        assert!(told.version.is_some() && known.borrow().is_some());
        state.wait_for(|state| state.problems.is_empty()).await.unwrap();
    }
}
