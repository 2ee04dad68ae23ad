//! Cache of the sandboxes and containers of each pod, filled by one list of the runtime for all workers (generic PLEG).
//!
//! Promise: [`PodCache::relist`] returns a state that is no older than the call, and concurrent callers share one list.
// upstream: pkg/kubelet/pleg/generic.go Relist

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;

use super::status::PodSnapshot;
use crate::{
    PodIdentity,
    images::with_timeout,
    runtime::{Runtime, RuntimeError},
};

/// All sandboxes and containers of this node's pods in the runtime, by pod UID.
#[derive(Debug, Default)]
pub(super) struct RuntimeSnapshot {
    pods: HashMap<String, (PodIdentity, Arc<PodSnapshot>)>,
}

/// Lists the runtime, one list at a time.
#[derive(Debug)]
pub(super) struct PodCache {
    /// Timeout of each runtime call.
    limit: Duration,
    /// Number of calls so far.
    calls: AtomicU64,
    /// The last list, and the number of calls before it began. Locked during a list (single flight): callers that wait share the next
    /// list.
    last_relist: Mutex<Option<(u64, Arc<RuntimeSnapshot>)>>,
}

// --- RuntimeSnapshot ---

impl RuntimeSnapshot {
    /// The sandboxes and containers of a pod.
    pub(super) fn pod_snapshot(&self, uid: &str) -> Arc<PodSnapshot> {
        self.pods
            .get(uid)
            .map(|(_, snapshot)| Arc::clone(snapshot))
            .unwrap_or_default()
    }

    /// The pods that have a sandbox or a container.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodIdentity> {
        self.pods.values().map(|(pod, _)| pod)
    }
}

// --- PodCache ---

impl PodCache {
    pub(super) fn new(limit: Duration) -> Self {
        PodCache {
            limit,
            calls: AtomicU64::default(),
            last_relist: Mutex::default(),
        }
    }

    /// Lists the runtime, or shares a list that began after this call.
    pub(super) async fn relist(&self, runtime: &dyn Runtime) -> Result<Arc<RuntimeSnapshot>, RuntimeError> {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last_relist.lock().await;
        if let Some((calls_before, runtime_snapshot)) = &*last
            && *calls_before > calls
        {
            return Ok(Arc::clone(runtime_snapshot));
        }
        let calls_before = self.calls.load(Ordering::SeqCst);
        let sandboxes = with_timeout(self.limit, "ListPodSandbox", runtime.list_pod_sandboxes()).await?;
        let containers = with_timeout(self.limit, "ListContainers", runtime.list_containers()).await?;
        let mut by_pod: HashMap<String, (PodIdentity, Vec<_>, Vec<_>)> = HashMap::new();
        let empty = |pod: &PodIdentity| (pod.clone(), Vec::new(), Vec::new());
        for sandbox in sandboxes {
            let entry = by_pod.entry(sandbox.pod.uid.clone());
            entry.or_insert_with(|| empty(&sandbox.pod)).1.push(sandbox);
        }
        for container in containers {
            let entry = by_pod.entry(container.pod.uid.clone());
            entry.or_insert_with(|| empty(&container.pod)).2.push(container);
        }
        let pods = by_pod.into_iter().map(|(uid, (pod, sandboxes, containers))| {
            (uid, (pod, Arc::new(PodSnapshot::new(sandboxes, containers))))
        });
        let runtime_snapshot = Arc::new(RuntimeSnapshot { pods: pods.collect() });
        *last = Some((calls_before, Arc::clone(&runtime_snapshot)));
        Ok(runtime_snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fake::{self, FakeRuntime};

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_the_next_relist() {
        let runtime = FakeRuntime::new(fake::clock());
        runtime.delay_calls("list_pod_sandboxes", 10, Duration::from_secs(1));
        let pod_cache = PodCache::new(Duration::from_mins(1));
        let relist = || pod_cache.relist(&runtime);
        let first = relist();
        let (one, others) = futures_util::future::join(first, async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            futures_util::future::join_all((0..20).map(|_| relist())).await
        })
        .await;
        assert!(one.is_ok() && others.iter().all(Result::is_ok));
        assert_eq!(runtime.count("list_pod_sandboxes"), 2);
    }
}
