//! What is there of each pod, listed once for all who want to know.
//!
//! Promise: what [`Looker::look`] tells is as new as the call, and however many ask at once, the runtime is asked for as many
//! lists as one after the other can answer them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;

use super::status::Seen;
use crate::{
    PodIdentity,
    images::limited,
    runtime::{Runtime, RuntimeError},
};

/// Everything of ours that a runtime has, by the uid of the pod.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pods: HashMap<String, (PodIdentity, Arc<Seen>)>,
}

/// Lists, one at a time.
#[derive(Debug, Default)]
pub(super) struct Looker {
    /// Counts who asked.
    asked: AtomicU64,
    /// The last list, and how many had asked before it began.
    last: Mutex<Option<(u64, Arc<Picture>)>>,
}

// --- Picture ---

impl Picture {
    /// What is there of a pod.
    pub(super) fn of(&self, uid: &str) -> Arc<Seen> {
        self.pods
            .get(uid)
            .map(|(_, seen)| Arc::clone(seen))
            .unwrap_or_default()
    }

    /// The pods of which anything is there.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodIdentity> {
        self.pods.values().map(|(pod, _)| pod)
    }
}

// --- Looker ---

impl Looker {
    /// What is there now.
    pub(super) async fn look(
        &self,
        runtime: &dyn Runtime,
        limit: Duration,
    ) -> Result<Arc<Picture>, RuntimeError> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((before, picture)) = &*last
            && *before > asked
        {
            return Ok(Arc::clone(picture));
        }
        let before = self.asked.load(Ordering::SeqCst);
        let sandboxes = limited(limit, "ListPodSandbox", runtime.sandboxes()).await?;
        let containers = limited(limit, "ListContainers", runtime.containers()).await?;
        let mut parts: HashMap<String, (PodIdentity, Vec<_>, Vec<_>)> = HashMap::new();
        let empty = |pod: &PodIdentity| (pod.clone(), Vec::new(), Vec::new());
        for sandbox in sandboxes {
            let entry = parts.entry(sandbox.pod.uid.clone());
            entry.or_insert_with(|| empty(&sandbox.pod)).1.push(sandbox);
        }
        for container in containers {
            let entry = parts.entry(container.pod.uid.clone());
            entry.or_insert_with(|| empty(&container.pod)).2.push(container);
        }
        let pods = parts.into_iter().map(|(uid, (pod, sandboxes, containers))| {
            (uid, (pod, Arc::new(Seen::new(sandboxes, containers))))
        });
        let picture = Arc::new(Picture { pods: pods.collect() });
        *last = Some((before, Arc::clone(&picture)));
        Ok(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fake::{self, FakeRuntime};

    #[tokio::test(start_paused = true)]
    async fn who_asks_while_a_list_is_made_shares_the_next_one() {
        let runtime = FakeRuntime::new(fake::clock());
        runtime.slow("sandboxes", 10, Duration::from_secs(1));
        let looker = Looker::default();
        let look = || looker.look(&runtime, Duration::from_mins(1));
        let first = look();
        let (one, others) = futures_util::future::join(first, async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            futures_util::future::join_all((0..20).map(|_| look())).await
        })
        .await;
        assert!(one.is_ok() && others.iter().all(Result::is_ok));
        assert_eq!(runtime.count("sandboxes"), 2);
    }
}
